"""``sapwood model``: profiles are listed, added, tried, agreed to and switched, and every refusal says what to do."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from agent.actions.home import open_home
from agent.actions.sources import add
from agent.config import load_intent
from agent.paths import Paths
from agent.queue.holds import HoldRow, put_hold_tx, read_hold
from agent.queue.types import NewJob
from agent.states import Hold
from tests.cli.conftest import Sapwood, widths
from tests.models.pipeline.asking import own_address
from tests.scripted import serving
from tests.scripted.thread import Serving


@pytest.fixture
def near() -> Iterator[Serving]:
    with serving() as server:
        yield server


@pytest.fixture
def far() -> Iterator[Serving]:
    host = own_address()
    if host is None:
        pytest.skip("this machine has no address but loopback, and that is no cloud: connect it to a network")
    with serving(host=host) as server:
        yield server


def add_near(sapwood: Sapwood, server: Serving, *more: str) -> None:
    url = server.base_url("openai")
    ran = sapwood("model", "add", "near", "--provider", "openai", "--model", "scripted-chat", "--url", url, *more)
    assert ran.code == 0, ran.err


def write_far(paths: Paths, server: Serving, **more: str) -> None:
    """Name the cloud by hand: the command refuses one that is not encrypted, as this one is."""
    lines = ["[[profiles]]", 'name = "far"', 'provider = "openai"', 'chat_model = "scripted-chat"']
    lines += [
        f'base_url = "{server.base_url("openai")}"',
        "allow_http = true",
        *(f'{key} = "{value}"' for key, value in more.items()),
    ]
    held = paths.config_file.read_text("utf-8") if paths.config_file.exists() else ""
    paths.config_file.write_text(held + "\n" + "\n".join(lines) + "\n", "utf-8")


def test_without_profiles_the_built_in_one_is_listed_and_active(sapwood: Sapwood) -> None:
    ran = sapwood("model")
    assert "* builtin" in " ".join(ran.out.split())
    found = sapwood("model", "--json").document
    assert found["active"] == "builtin"
    assert [each["name"] for each in found["profiles"]] == ["builtin"]


def test_a_profile_is_added_tried_and_used_and_the_owners_comments_stay(
    sapwood: Sapwood, near: Serving, paths: Paths
) -> None:
    paths.config_file.write_text("# mine\n[pool]\nmax_workers = 2 # enough\n", "utf-8")
    add_near(sapwood, near, "--daily-tokens", "5000")
    text = paths.config_file.read_text("utf-8")
    assert "# mine" in text
    assert "# enough" in text
    assert tomllib.loads(text)["profiles"][0]["daily_tokens"] == 5000

    tried = sapwood("model", "test", "near")
    assert tried.code == 0, tried.err
    assert "near works" in tried.out
    assert "structured answers" in tried.out
    assert max(widths(tried.out)) <= 80
    assert len(near.calls("chat")) == 1

    used = sapwood("model", "use", "near")
    assert used.code == 0
    assert "from the next job on" in used.out
    assert load_intent(paths).intent.models.active == "near"
    spent = sapwood("usage", "--json").document["rows"][0]
    assert (spent["kind"], spent["invalid"]) == ("test", 0)
    assert sapwood("model", "use", "builtin").code == 0
    assert load_intent(paths).intent.models.active == "builtin"


def test_trying_finds_the_size_of_the_vectors_and_writes_it(sapwood: Sapwood, near: Serving, paths: Paths) -> None:
    add_near(sapwood, near, "--embedding-model", "scripted-embed")
    assert sapwood("model", "test", "near", "--json").document["embedding_dimensions"] == 64
    profile = load_intent(paths).intent.profile("near")
    assert profile is not None
    assert profile.embedding_dimensions == 64


@pytest.mark.parametrize(
    ("behaviour", "said", "remedy"),
    [("no_model", "scripted-chat", ""), ("unauthorised", "wants a key", "sapwood key set"), ("reset", "127.0.0.1", "")],
)
def test_a_trial_that_fails_says_what_and_what_to_do(
    behaviour: str, said: str, remedy: str, sapwood: Sapwood, near: Serving
) -> None:
    add_near(sapwood, near)
    near.use(behaviour)
    ran = sapwood("model", "test", "near")
    assert ran.code == 1
    words = " ".join(ran.err.split())
    assert said in words
    assert remedy in words
    assert "Traceback" not in ran.err


def test_a_server_that_is_not_there_is_told_and_the_profile_is_added_all_the_same(sapwood: Sapwood) -> None:
    ran = sapwood("model", "add", "gone", "--provider", "ollama", "--model", "m", "--url", "http://127.0.0.1:9")
    assert ran.code == 0
    assert "127.0.0.1:9" in " ".join(ran.err.split())
    assert "gone" in sapwood("model").out


def test_a_model_that_the_server_has_not_is_named_with_those_it_has(sapwood: Sapwood, near: Serving) -> None:
    url = near.base_url("ollama")
    ran = sapwood("model", "add", "near", "--provider", "ollama", "--model", "other", "--url", url)
    assert "scripted-chat" in " ".join(ran.err.split())


def test_a_cloud_is_sent_nothing_before_its_owner_agrees(sapwood: Sapwood, far: Serving, paths: Paths) -> None:
    write_far(paths, far, key="far")
    refused = sapwood("model", "use", "far")
    assert refused.code == 2
    assert "before you agree" in refused.err
    assert load_intent(paths).intent.models.active == "builtin"
    tried = sapwood("model", "test", "far")
    assert tried.code == 1
    assert "you have not agreed" in " ".join(tried.err.split())
    assert far.calls() == []

    assert sapwood("model", "use", "far", "--yes").code == 0
    profile = load_intent(paths).intent.active_profile
    assert profile is not None
    assert profile.consent == far.host
    assert sapwood("model", "consent", "far", "--withdraw").code == 0
    profile = load_intent(paths).intent.active_profile
    assert profile is not None
    assert not profile.has_consent()
    assert far.calls() == []


def test_the_question_says_what_is_sent_from_where_and_about_how_much(
    sapwood: Sapwood, far: Serving, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("diary", "notes"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "one.md").write_text("# One\n\nThe greenhouse door is closed at seven.\n", "utf-8")
    with open_home(paths) as home:
        add(home, [str(tmp_path / "notes")])
        add(home, [str(tmp_path / "diary")], private=True)
    write_far(paths, far)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked: list[str] = []

    def no(words: str, **_: object) -> bool:
        asked.append(words)
        return False

    monkeypatch.setattr(click, "confirm", no)
    ran = sapwood("model", "use", "far")
    words = " ".join(ran.err.split())
    assert asked == [f"Send this to {far.host}?"]
    assert "from: notes" in words
    assert "never from: diary" in words
    assert "masked" in words
    assert max(widths(ran.err)) <= 80
    assert load_intent(paths).intent.models.active == "builtin", "the answer was no"


def test_a_switch_brings_back_what_the_profile_before_could_not_do(
    sapwood: Sapwood, near: Serving, paths: Paths, enqueue_failed: Callable[..., int]
) -> None:
    add_near(sapwood, near)
    assert sapwood("model", "use", "near").code == 0
    ours, others = enqueue_failed("near"), enqueue_failed(None)
    ran = sapwood("model", "use", "builtin", "--json")
    assert ran.document["requeued"] == 1
    with open_home(paths) as home:
        status: dict[int, str] = dict(home.connection.all("SELECT id, status FROM mem_tree_jobs"))
        assert read_hold(home.connection, "near") is None
    assert (status[ours], status[others]) == ("ready", "failed")


@pytest.fixture
def enqueue_failed(paths: Paths) -> Callable[..., int]:
    """Return a function that leaves a job failed for a profile's sake, with the profile's hold."""

    def put(scope: str | None) -> int:
        with open_home(paths) as home:
            home.enqueue(NewJob("seal", "{}", f"seal:{scope}:0"))
            job_id = home.connection.value("SELECT max(id) FROM mem_tree_jobs")
            with home.connection.write():
                home.connection.run(
                    """
                    UPDATE mem_tree_jobs
                       SET status = 'failed', failure_class = 'unrecoverable', failure_reason = 'auth_failed',
                           failure_scope = ?, completed_at_ms = 1
                     WHERE id = ?
                    """,
                    (scope, job_id),
                )
                if scope:
                    hold = HoldRow(scope, Hold.AUTH_FAILED, "refused", 9_999_999_999_999, 1, 1)
                    put_hold_tx(home.connection, hold, 1)
            return int(job_id)

    return put


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("model use nobody", "there are: builtin"),
        ("model use", "say which profile"),
        ("model add Box --provider ollama --model m", "small letters"),
        ("model add box --provider ollama", "say the model"),
        ("model add builtin --provider ollama --model m", "exists"),
        ("model add x --provider openai --model m --url ftp://here", "http://127.0.0.1:8080/v1"),
        ("model add x --provider openai --model m --url http://box.lan/v1", "models.local_hosts"),
        ("model add x --provider anthropic --model m --embedding-model e", "no embedding models"),
        ("model use builtin --model m", "goes with `add`"),
        ("model test builtin --yes", "--yes goes with"),
        ("model remove builtin", "stays"),
    ],
)
def test_what_cannot_be_is_refused_in_words(words: str, said: str, sapwood: Sapwood, paths: Paths) -> None:
    before = paths.config_file.read_bytes() if paths.config_file.exists() else b""
    ran = sapwood(*words.split())
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert (paths.config_file.read_bytes() if paths.config_file.exists() else b"") == before


def test_removing_the_active_profile_leads_back_to_the_built_in_one(
    sapwood: Sapwood, near: Serving, paths: Paths
) -> None:
    add_near(sapwood, near)
    sapwood("model", "use", "near")
    assert sapwood("model", "remove", "near", "--json").document == {"removed": "near", "active": "builtin"}
    intent = load_intent(paths).intent
    assert (intent.models.active, intent.profiles) == ("builtin", ())


def test_agreeing_beforehand_tells_what_is_sent_all_the_same(sapwood: Sapwood, paths: Paths) -> None:
    add = "model add far --provider openai --model m --embedding-model e --price-in 1 --price-out 2"
    assert sapwood(*add.split()).code == 0
    ran = sapwood("model", "use", "far", "--yes")
    assert ran.code == 0
    words = " ".join(ran.err.split())
    assert "api.openai.com is sent:" in words
    assert "what you type into a search" in words
    assert "vectors of e are: `sapwood model test far` finds that out" in words, "nothing works before that"
    assert "sapwood key set openai" in words
    assert max(widths(ran.err)) <= 80
    again = sapwood("model", "use", "far")
    assert "is sent:" not in again.err, "agreed is agreed"


def test_a_profile_that_cannot_be_used_is_told_where_profiles_are_listed(sapwood: Sapwood, paths: Paths) -> None:
    paths.config_file.write_text('[models]\nactive = "far"\n[[profiles]]\nname = "far"\nprovider = "nobody"\n')
    for words in (("model",), ("status",), ("doctor",)):
        ran = sapwood(*words)
        assert "far" in ran.out + ran.err
        assert "Traceback" not in ran.err
    assert "sapwood config edit" in sapwood("model").err
    refused = sapwood("model", "use", "far")
    assert refused.code == 2
    assert "nobody" in refused.err
    assert sapwood("model", "use", "builtin").code == 0
    found = sapwood("model", "--json").document
    assert (found["active"], found["wrong"][0]["name"]) == ("builtin", "far")
    assert sapwood("model", "remove", "far").code == 0
    assert "profiles" not in paths.config_file.read_text()
