"""Every value of a model profile can be looked at and changed as a setting, within what a profile can be."""

from __future__ import annotations

import tomllib

import pytest

from agent.actions.settings import change, keys, nearest, reset, settings
from agent.config import load_intent
from agent.errors import UsageFault
from agent.paths import Paths
from agent.profile_intent import ProfileIntent

WRITTEN = """\
# mine
[models]
local_hosts = ["box.example"]

[[profiles]]
name = "far.v2"
provider = "openai"
chat_model = "small"  # good enough
base_url = "https://models.example/v1"
consent = "models.example"
daily_tokens = 1000

[[profiles]]
name = "near"
provider = "anthropic"
chat_model = "tiny"
"""


@pytest.fixture
def written(paths: Paths) -> str:
    paths.config_file.write_text(WRITTEN)
    return WRITTEN


def profile(paths: Paths, name: str = "far.v2") -> ProfileIntent:
    found = load_intent(paths).intent.profile(name)
    assert found is not None
    return found


def test_every_value_of_a_profile_says_where_it_comes_from(paths: Paths, written: str) -> None:
    found = {each.key: (each.value, each.origin) for each in settings(paths, {}).values}
    assert found["profiles.far.v2.daily_tokens"] == (1000, "file")
    assert found["profiles.far.v2.keep_alive"] == ("5m", "default")
    assert found["profiles.near.chat_model"] == ("tiny", "file")
    assert "profiles.near.name" not in found


def test_a_profile_and_all_of_them_can_be_got(paths: Paths, written: str) -> None:
    found = settings(paths, {})
    assert found.value("profiles.far.v2")["chat_model"] == "small"
    assert found.value("profiles.far.v2.chat_model") == "small"
    assert [each["name"] for each in found.value("profiles")] == ["far.v2", "near"]


def test_a_change_keeps_the_comments_and_every_other_profile(paths: Paths, written: str) -> None:
    assert change(paths, "profiles.far.v2.chat_model", ["large"], {}).value == "large"
    change(paths, "profiles.far.v2.price_in", ["0.15"], {})
    change(paths, "profiles.far.v2.context_tokens", ["8192"], {})
    change(paths, "profiles.far.v2.json_schema", ["no"], {})
    change(paths, "profiles.far.v2.base_url", ["http://box.example:8080/v1"], {})
    found = profile(paths)
    assert (found.chat_model, found.price_in, found.context_tokens, found.json_schema) == ("large", 0.15, 8192, False)
    assert found.base_url == "http://box.example:8080/v1"
    assert 'chat_model = "large"  # good enough' in paths.config_file.read_text()
    assert profile(paths, "near") == ProfileIntent("near", "anthropic", "tiny")


def test_a_value_that_is_reset_leaves_the_file(paths: Paths, written: str) -> None:
    assert reset(paths, "profiles.far.v2.daily_tokens", {}).origin == "default"
    assert "daily_tokens" not in paths.config_file.read_text()
    assert profile(paths).daily_tokens is None
    with pytest.raises(UsageFault, match="no default"):
        reset(paths, "profiles.far.v2.chat_model", {})


@pytest.mark.parametrize(
    ("key", "word", "said"),
    [
        ("far.v2.base_url", "127.0.0.1:8080", "write it as http://127.0.0.1:8080/v1"),
        ("far.v2.base_url", "ftp://127.0.0.1", "write it as http://127.0.0.1:8080/v1"),
        ("far.v2.base_url", "http://", "write it as http://127.0.0.1:8080/v1"),
        ("far.v2.base_url", "http://models.example/v1", "models.local_hosts models.example"),
        ("far.v2.base_url", "http://models.example/v1", "write https"),
        ("far.v2.price_in", "cheap", "a number, 0"),
        ("far.v2.price_out", "-1", "a number, 0"),
        ("far.v2.context_tokens", "0", "a whole number, 1 or more"),
        ("far.v2.daily_tokens", "1.5", "a whole number, 1 or more"),
        ("far.v2.total_seconds", "0", "a number above 0"),
        ("far.v2.json_schema", "perhaps", "true or false"),
        ("far.v2.chat_model", " ", "chat_model is empty"),
        ("far.v2.name", "other", "add it anew"),
        ("far.v2.provider", "ollama", "add it anew"),
        ("far.v2.consent", "models.example", "sapwood model use far.v2"),
        ("near.embedding_model", "any", "no embedding models"),
        ("far.chat_model", "x", "profiles.far.v2.chat_model"),
        ("far.v2.chat_modle", "x", "profiles.far.v2.chat_model"),
        ("far.v2", "x", "there is no setting"),
    ],
)
def test_a_value_is_checked_before_it_is_written(paths: Paths, written: str, key: str, word: str, said: str) -> None:
    with pytest.raises(UsageFault) as caught:
        change(paths, f"profiles.{key}", [word], {})
    fault = caught.value
    assert said in f"{fault.title} {fault.detail} {fault.hint}"
    assert fault.hint
    assert paths.config_file.read_text() == written


def test_a_key_in_the_place_of_its_name_is_neither_written_nor_repeated(paths: Paths, written: str) -> None:
    secret = "sk-" + "proj-" + "Ab3" * 14
    with pytest.raises(UsageFault) as caught:
        change(paths, "profiles.far.v2.key", [secret], {})
    assert secret not in f"{caught.value.title} {caught.value.detail} {caught.value.hint}"
    assert paths.config_file.read_text() == written


def test_consent_can_be_seen_but_not_taken_back_as_a_setting(paths: Paths, written: str) -> None:
    assert settings(paths, {}).value("profiles.far.v2.consent") == "models.example"
    with pytest.raises(UsageFault, match="consent is not a setting"):
        reset(paths, "profiles.far.v2.consent", {})


def test_a_profile_with_two_slips_is_mended_one_by_one(paths: Paths) -> None:
    paths.config_file.write_text(
        '[[profiles]]\nname = "far"\nprovider = "openai"\nchat_model = ""\nbase_url = "nowhere"\n'
    )
    with pytest.raises(UsageFault, match="'far' cannot be used"):
        settings(paths, {}).value("profiles.far.base_url")
    assert (
        change(paths, "profiles.far.base_url", ["https://models.example/v1"], {}).value == "https://models.example/v1"
    )
    assert load_intent(paths).intent.profiles == ()
    change(paths, "profiles.far.chat_model", ["small"], {})
    assert profile(paths, "far").base_url == "https://models.example/v1"


def test_plain_http_cannot_be_left_behind_without_the_word_that_allows_it(paths: Paths, written: str) -> None:
    change(paths, "profiles.far.v2.allow_http", ["yes"], {})
    change(paths, "profiles.far.v2.base_url", ["http://models.example/v1"], {})
    with pytest.raises(UsageFault, match="unencrypted"):
        reset(paths, "profiles.far.v2.allow_http", {})
    assert tomllib.loads(paths.config_file.read_text())["profiles"][0]["allow_http"] is True


def test_wrong_and_unknown_keys_of_a_profile_are_named(paths: Paths, written: str) -> None:
    paths.config_file.write_text(written.replace("daily_tokens", "daily_token"))
    found = settings(paths, {})
    assert found.unknown == ("profiles.far.v2.daily_token",)
    assert nearest(found.unknown[0], found.intent)[0] == "profiles.far.v2.daily_tokens"
    assert "profiles.far.v2.daily_tokens" in keys(found.intent)
