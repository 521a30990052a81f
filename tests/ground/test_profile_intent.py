"""What the words of a profile mean, without asking anybody."""

from __future__ import annotations

import pytest

from agent.config import Intent, parse_intent
from agent.profile_intent import ProfileIntent


def profile(**said: object) -> ProfileIntent:
    return ProfileIntent(**{"name": "some", "provider": "openai", "chat_model": "m", **said})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("address", "is_local"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://localhost:1234", True),
        ("http://[::1]:8080", True),
        ("http://127.8.9.10", True),
        ("http://LOCALHOST", True),
        ("https://api.openai.com/v1", False),
        ("http://192.168.1.20:8000", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("http://127.0.0.1@example.com", False),
        ("http://0.0.0.0:11434", False),
    ],
)
def test_only_this_machine_is_local_by_itself(address: str, is_local: bool) -> None:
    assert profile(base_url=address).is_local(()) is is_local


def test_a_host_that_the_owner_named_is_local_too_and_no_other_of_its_name() -> None:
    assert profile(base_url="http://Box.lan:8000").is_local(("box.LAN",))
    assert not profile(base_url="http://box.lan.example.com").is_local(("box.lan",))


def test_consent_is_for_one_host_and_ends_with_it() -> None:
    agreed = profile(consent="api.openai.com")
    assert agreed.has_consent()
    assert not profile(consent="api.openai.com", base_url="https://elsewhere.example.com/v1").has_consent()
    assert not profile(consent="").has_consent()
    assert not profile(base_url="not an address", consent="").has_consent()


def test_all_local_profiles_share_one_resource_and_each_account_has_its_own() -> None:
    assert profile(base_url="http://127.0.0.1:1").resource(()) == "local"
    assert profile(base_url="http://box.lan:1").resource(("box.lan",)) == "local"
    assert profile().resource(()) == "cloud-api.openai.com-openai"
    assert profile(key="work").resource(()) == "cloud-api.openai.com-work"


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({}, "openai"),
        ({"provider": "anthropic"}, "anthropic"),
        ({"base_url": "https://openrouter.ai/api/v1"}, "openrouter.ai"),
        ({"base_url": "http://127.0.0.1:8080/v1"}, ""),
        ({"base_url": "http://127.0.0.1:8080/v1", "key": "mine"}, "mine"),
        ({"provider": "ollama"}, ""),
    ],
)
def test_a_key_is_kept_under_the_account_that_it_is_for(said: dict[str, object], name: str) -> None:
    assert profile(**said).key_name == name


def test_a_profile_is_read_from_the_intent_and_the_active_one_is_found() -> None:
    text = """
    [models]
    active = "box"
    [[profiles]]
    name = "box"
    provider = "ollama"
    chat_model = "small:1b"
    """
    intent = parse_intent(text, {})
    assert intent.active_profile is not None
    assert intent.active_profile.address == "http://127.0.0.1:11434"
    assert Intent().active_profile is None


def test_a_provider_that_nobody_speaks_is_named_and_costs_its_profile_alone() -> None:
    text = """
    [pool]
    max_workers = 3
    [[profiles]]
    name = "x"
    provider = "oracle"
    chat_model = "m"
    """
    intent = parse_intent(text, {})
    assert (intent.pool.max_workers, intent.profiles) == (3, ())
    assert "provider" in intent.wrong_profiles[0].problem


def test_a_cloud_without_encryption_is_refused_unless_its_owner_allows_it() -> None:
    table = '[[profiles]]\nname = "x"\nprovider = "openai"\nchat_model = "m"\nbase_url = "http://box.lan/v1"\n'
    assert "unencrypted" in parse_intent(table, {}).wrong_profiles[0].problem
    assert parse_intent(table + "allow_http = true\n", {}).profiles[0].name == "x"
    assert parse_intent(f'{table}[models]\nlocal_hosts = ["box.lan"]\n', {}).profiles[0].name == "x"
