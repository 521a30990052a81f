"""What the tray and the page's head are told: the same as ``status`` says, cheaply."""

from __future__ import annotations

import pytest

from agent.actions import glance as room
from agent.actions.glance import GlanceProfile, glance
from agent.actions.home import Home, open_home
from agent.actions.pausing import pause, resume
from agent.actions.status import status
from agent.clock import FakeClock
from agent.config import SourceIntent
from agent.config_edit import add_source, edit_intent
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.holds import HoldRow, put_hold_tx
from agent.queue.types import NewJob
from agent.states import AgentState, Hold, Lifecycle
from tests.worker.memory import add_chunk, add_item


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.actions.home.is_running", lambda _: True)
    monkeypatch.setattr(room, "ask_the_agent", lambda _: {})
    monkeypatch.setattr("agent.actions.status.ask_the_agent", lambda _: {})


def put(home: Home, number: int, available_at_ms: int | None = None) -> int:
    job = NewJob.extract_chunk(f"chunk {number}")
    found = enqueue(
        home.connection, NewJob(job.kind, job.payload_json, job.dedupe_key, None, available_at_ms), home.clock.now_ms()
    )
    assert found is not None
    return found


def add_profiles(paths: Paths) -> None:
    def change(document: object) -> None:
        document["models"] = {"active": "house"}  # type: ignore[index]
        document["profiles"] = [  # type: ignore[index]
            {"name": "house", "provider": "ollama", "chat_model": "m"},
            {"name": "sky", "provider": "openai", "chat_model": "m"},
        ]

    edit_intent(paths, change)


def test_agent_that_does_not_run_is_stopped(home: Home) -> None:
    found = glance(home)
    assert (found.state, found.reason, found.running) == (AgentState.STOPPED, status(home).reason, False)
    assert found.share is None


@pytest.mark.usefixtures("running")
def test_it_says_what_status_says(home: Home, paths: Paths, clock: FakeClock) -> None:
    add_source(paths, SourceIntent("s", "folder", "s", ("/s",)))
    with open_home(paths, clock=clock) as home:
        for change in (
            lambda: None,
            lambda: put(home, 1, clock.now_ms() + 60_000),
            lambda: put(home, 2),
            lambda: pause(home, "1h"),
            lambda: resume(home),
            lambda: home.connection.run("UPDATE mem_tree_jobs SET status = 'failed', completed_at_ms = 0"),
        ):
            change()
            found, whole = glance(home), status(home)
            assert (found.state, found.reason) == (whole.state, whole.reason)
            assert found.paused_until_ms == whole.paused_until_ms


@pytest.mark.usefixtures("running")
def test_growing_says_how_far_in_a_few_words_and_as_a_share(home: Home) -> None:
    item = add_item(home.connection)
    for number in range(10):
        lifecycle = Lifecycle.SEALED if number < 4 else Lifecycle.PENDING_EXTRACTION
        add_chunk(home.connection, item, f"line {number}", order=number, lifecycle=lifecycle)
    put(home, 1)
    found = glance(home)
    assert found.state is AgentState.GROWING
    assert found.words == "4 of 10"
    assert found.share == pytest.approx(0.4)


@pytest.mark.usefixtures("running")
def test_a_server_that_cannot_be_reached_is_offline_and_a_refused_key_wants_its_owner(
    paths: Paths, clock: FakeClock
) -> None:
    add_profiles(paths)
    with open_home(paths, clock=clock) as home:
        put(home, 1)
        assert not glance(home).is_offline
        for code, offline, needs in ((Hold.UNREACHABLE, True, ()), (Hold.AUTH_FAILED, False, ("house: no",))):
            with home.connection.write():
                put_hold_tx(
                    home.connection, HoldRow("house", code, "no", clock.now_ms() + 60_000, 1, 1), clock.now_ms()
                )
            found = glance(home)
            assert (found.is_offline, found.needs) == (offline, needs)


@pytest.mark.usefixtures("running")
def test_why_all_that_is_left_waits_is_said_from_the_first_call_that_failed(paths: Paths, clock: FakeClock) -> None:
    add_profiles(paths)
    add_source(paths, SourceIntent("s", "folder", "s", ("/s",)))
    with open_home(paths, clock=clock) as home:
        put(home, 1, clock.now_ms() + 60_000)
        assert glance(home).reason == "1 job is due later"
        with home.connection.write():
            failed = HoldRow("house", Hold.UNREACHABLE, "it does not answer", clock.now_ms(), 1, 0)
            put_hold_tx(home.connection, failed, clock.now_ms())
        found = glance(home)
        assert (found.state, found.is_offline) == (AgentState.IDLE, True)
        assert found.reason == status(home).reason == "house: it does not answer; it is tried again by itself"
        put(home, 2)
        assert (glance(home).state, glance(home).is_offline) == (AgentState.GROWING, False)


def test_profiles_say_where_they_are_and_what_must_be_asked_first(paths: Paths) -> None:
    add_profiles(paths)
    with open_home(paths) as home:
        found = glance(home)
    assert found.profile == "house"
    assert found.profiles == (
        GlanceProfile("builtin", "here", True),
        GlanceProfile("house", "local", True),
        GlanceProfile("sky", "cloud", False),
    )


@pytest.mark.usefixtures("running")
def test_what_the_agent_said_of_itself_is_not_asked_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> None:
        raise AssertionError("it was asked")

    monkeypatch.setattr(room, "ask_the_agent", fail)
    found = glance(home, {"state": "error", "reason": "the memory cannot be opened"})
    assert (found.state, found.reason) == (AgentState.ERROR, "the memory cannot be opened")
