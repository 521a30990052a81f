"""A slip in one profile costs that profile and nothing else: everything else of the settings holds, no job fails."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from agent.actions.home import Home, open_home
from agent.actions.status import status
from agent.clock import FakeClock
from agent.config import Intent, load_intent, parse_intent
from agent.config_edit import edit_intent
from agent.errors import ConfigBroken, JobFailure
from agent.models.profiles import open_profile
from agent.paths import Paths
from agent.profile_intent import ProfileIntent, profile_problem
from agent.queue.enqueue import enqueue
from agent.queue.registry import Registry
from agent.queue.types import NewJob
from agent.states import AgentState
from agent.supervisor.held import claimable_kinds
from agent.worker.kinds import KIND_NAMES

SOUND = ProfileIntent("box", "openai", "small", base_url="http://127.0.0.1:8080/v1")
BOX = '[[profiles]]\nname = "box"\nprovider = "openai"\nchat_model = "small"\nbase_url = "http://127.0.0.1:8080/v1"\n'


@pytest.mark.parametrize(
    ("change", "said", "helps"),
    [
        ({"base_url": "ftp://127.0.0.1"}, "no address", "config set profiles.box.base_url"),
        ({"base_url": "127.0.0.1:8080"}, "no address", "http://127.0.0.1:8080/v1"),
        ({"base_url": "http://"}, "no address", "base_url"),
        ({"base_url": "http://127.0.0.1:99999"}, "no address", "base_url"),
        ({"base_url": "http://me:word@127.0.0.1"}, "a user or a password", "key set"),
        ({"base_url": "http://127.0.0.1/v1?a=b"}, "behind its path", "base_url"),
        ({"base_url": "http://models.example/v1"}, "unencrypted", "models.local_hosts models.example"),
        ({"chat_model": " "}, "chat_model is empty", "profiles.box.chat_model"),
        ({"name": "builtin"}, "part of Sapwood", "another name"),
        ({"key": "my key"}, "no name of a key", "key set"),
        ({"provider": "anthropic", "base_url": "", "embedding_model": "e"}, "no embedding models", "--default"),
    ],
)
def test_what_no_profile_can_be_is_said_with_what_helps(change: dict[str, str], said: str, helps: str) -> None:
    made: ProfileIntent = msgspec.convert({**msgspec.to_builtins(SOUND), **change}, ProfileIntent)
    problem, hint = profile_problem(made, ()) or ("", "")
    assert said in problem
    assert helps in hint
    assert "word" not in problem.replace("password", "") + hint


@pytest.mark.parametrize(
    "address", ["", "https://models.example/v1", "http://[::1]:80/v1", "http://localhost/", "http://10.0.0.9:8080"]
)
def test_what_a_profile_can_be_has_no_problem(address: str) -> None:
    assert profile_problem(replace(SOUND, base_url=address), ("10.0.0.9",)) is None


def test_a_key_in_the_place_of_its_name_is_not_repeated() -> None:
    found = profile_problem(replace(SOUND, key="pw-one two"), ())
    assert found is not None
    assert "pw-one" not in " ".join(found)


def test_a_key_that_stands_in_the_settings_is_told_of_and_never_shown(sapwood_key: str) -> None:
    found = parse_intent(f'[models]\nactive = "box"\n{BOX}key = "{sapwood_key}"\n', {})
    assert found.profiles == ()
    assert found.active_problem is not None
    assert "a key stands in config.toml" in found.active_problem[0]
    assert sapwood_key not in repr(found)


@pytest.fixture
def sapwood_key() -> str:
    """A key by its shape alone."""
    return "sk-" + "proj-" + "Ab3" * 14


@pytest.mark.parametrize(
    ("table", "name", "said"),
    [
        ('name = "far"\nprovider = "openai"\nchat_model = "m"\nmax_concurrent = 0\n', "far", ">= 1"),
        ('name = "far"\nprovider = "nobody"\nchat_model = "m"\n', "far", "nobody"),
        ('name = "far"\nprovider = "openai"\n', "far", "chat_model"),
        ('provider = "openai"\nchat_model = "m"\n', "number 1", "name"),
        ('name = "box"\nprovider = "ollama"\nchat_model = "m"\n', "box", "another profile has this name"),
    ],
)
def test_a_wrong_table_stops_no_other(table: str, name: str, said: str) -> None:
    order = [BOX, f"[[profiles]]\n{table}"] if name == "box" else [f"[[profiles]]\n{table}", BOX]
    found = parse_intent("[pool]\nmax_workers = 3\n" + "".join(order), {})
    assert [each.chat_model for each in found.profiles] == ["small"]
    assert found.pool.max_workers == 3
    assert [each.name for each in found.wrong_profiles] == [name]
    assert said in found.wrong_profiles[0].problem
    assert found.wrong_profiles[0].hint


@pytest.mark.parametrize("text", ["profiles = 3\n", 'profiles = ["a"]\n', '[profiles]\nname = "box"\n'])
def test_profiles_that_are_no_tables_are_a_broken_file(text: str) -> None:
    with pytest.raises(ConfigBroken, match="profiles"):
        parse_intent(text, {})


def test_nobody_can_say_in_the_file_which_profiles_are_wrong() -> None:
    assert parse_intent("wrong_profiles = [1, 2]\n", {}).wrong_profiles == ()


def test_other_settings_can_be_changed_beside_a_wrong_profile(paths: Paths) -> None:
    paths.config_file.write_text('# mine\n[[profiles]]\nname = "far"\nprovider = "openai"\n')
    edit_intent(paths, lambda document: document.update(pool={"max_workers": 2}))
    assert load_intent(paths).problem is None
    assert load_intent(paths).intent.pool.max_workers == 2
    assert paths.config_file.read_text().startswith("# mine\n")


WRONG = [
    ('[models]\nactive = "far"\n', "there is no model profile 'far'"),
    (
        '[models]\nactive = "far"\n[[profiles]]\nname = "far"\nprovider = "openai"\nchat_model = "m"\n'
        'base_url = "http://models.example"\n',
        "unencrypted",
    ),
    (
        '[models]\nactive = "far"\n[[profiles]]\nname = "far"\nprovider = "ollama"\nchat_model = "m"\n'
        'embedding_model = "e"\n',
        "vectors of e",
    ),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_while_the_active_profile_cannot_be_used_no_row_that_needs_a_model_is_claimed(
    text: str, said: str, home: Home
) -> None:
    intent = parse_intent(text, {})
    assert intent.active_problem is not None
    assert said in intent.active_problem[0]
    registry = Registry.load(KIND_NAMES)
    allowed = claimable_kinds(home.connection, registry, intent, 0)
    assert allowed is not None
    assert {str(spec.kind) for spec in registry if not allowed(str(spec.kind))} == {
        *("extract_chunk", "seal", "seal_document", "reembed_backfill")
    }
    with pytest.raises(JobFailure, match=said):
        open_profile(intent, {})


def test_a_profile_that_says_enough_and_the_built_in_one_have_no_problem() -> None:
    assert Intent().active_problem is None
    assert parse_intent('[models]\nactive = "box"\n' + BOX, {}).active_problem is None


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_status_says_why_a_profile_cannot_be_used_and_what_helps(
    text: str, said: str, paths: Paths, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Home, "running", True)
    paths.config_file.write_text(text)
    with open_home(paths, clock=clock) as home:
        assert status(home).state is AgentState.IDLE, "nothing waits for it"
        enqueue(home.connection, NewJob.seal("a tree", 0), clock.now_ms())
        found = status(home)
    assert found.state is AgentState.ATTENTION
    assert said in found.reason
    assert "`sapwood " in found.reason


@pytest.mark.parametrize(
    ("text", "place", "models"),
    [
        ("", "here", ""),
        ('[models]\nactive = "box"\n' + BOX, "local, 127.0.0.1", ""),
        ('[models]\nactive = "box"\n' + BOX.replace("http://127.0.0.1:8080", "https://far.example"), "cloud, far", ""),
        (WRONG[0][0], "here", "there is no model profile 'far'"),
    ],
)
def test_status_says_where_the_models_are_and_why_they_cannot_be_had_even_while_nothing_runs(
    text: str, place: str, models: str, paths: Paths, clock: FakeClock
) -> None:
    paths.config_file.write_text(text)
    with open_home(paths, clock=clock) as home:
        found = status(home)
    assert found.place.startswith(place)
    assert found.models.startswith(models)
    assert bool(found.models) == bool(models)
