"""The owner's word and the power policy's: two states, and the owner's comes first."""

from __future__ import annotations

import pytest

from agent.actions import status as room
from agent.actions.home import Home
from agent.actions.pausing import pause, resume
from agent.actions.status import Power, status
from agent.db.power_row import ALL_THERE_IS, PowerRow, put_power_tx, read_override
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
from agent.states import AgentState, PowerCause, PowerMode

LOW = PowerRow(PowerMode.PAUSED, PowerCause.BATTERY_LOW, "on battery, 63 % (below 80 %)")
THROTTLED = PowerRow(PowerMode.THROTTLED, PowerCause.CPU, "other programs keep the processor busy (83 %)")


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.actions.home.is_running", lambda _: True)
    monkeypatch.setattr(room, "ask_the_agent", lambda _: {})


def restrict(home: Home, row: PowerRow) -> None:
    with home.connection.write():
        put_power_tx(home.connection, row)


def put(home: Home) -> None:
    enqueue(home.connection, NewJob.extract_chunk("chunk"), home.clock.now_ms())


@pytest.mark.usefixtures("running")
def test_resume_works_on_in_spite_of_what_holds_the_work(home: Home) -> None:
    restrict(home, LOW)
    found = resume(home)
    assert (found.paused_until_ms, found.in_spite_of) == (None, LOW.reason)
    assert read_override(home.connection) == ALL_THERE_IS


@pytest.mark.usefixtures("running")
def test_resume_without_a_restriction_overrides_nothing(home: Home) -> None:
    pause(home)
    assert resume(home).in_spite_of == ""
    assert read_override(home.connection) is None


def test_resume_is_not_said_to_an_agent_that_does_not_run(home: Home) -> None:
    restrict(home, LOW)  # left by one that was killed
    assert resume(home).in_spite_of == ""
    assert read_override(home.connection) is None


@pytest.mark.usefixtures("running")
def test_pause_is_the_later_word(home: Home) -> None:
    restrict(home, LOW)
    resume(home)
    pause(home, "1h")
    assert read_override(home.connection) is None


@pytest.mark.usefixtures("running")
def test_status_says_why_it_waits_and_what_to_do(home: Home) -> None:
    restrict(home, LOW)
    assert status(home).state is AgentState.IDLE, "nothing waits"
    put(home)
    found = status(home)
    assert found.state is AgentState.PAUSED
    assert found.reason == "on battery, 63 % (below 80 %); `sapwood resume` works on all the same"
    assert (found.eta_seconds, found.paused_until_ms) == (None, None)
    pause(home, "1h")
    assert "paused by its owner" in status(home).reason


@pytest.mark.usefixtures("running")
def test_throttled_work_is_growing_and_status_says_why_it_is_slow(home: Home) -> None:
    restrict(home, THROTTLED)
    put(home)
    found = status(home)
    assert found.state is AgentState.GROWING
    assert found.power is not None
    assert found.power.words == "throttled: other programs keep the processor busy (83 %)"


@pytest.mark.usefixtures("running")
def test_the_agents_own_word_is_newer_than_its_row(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    restrict(home, LOW)
    said = {"mode": "normal", "cause": None, "reason": "", "held": False, "in_spite_of": ["battery_low"]}
    monkeypatch.setattr(room, "ask_the_agent", lambda _: {"power": said})
    put(home)
    found = status(home)
    assert found.state is AgentState.GROWING
    assert found.power == Power("normal", in_spite_of=("battery_low",))
    assert "as you said" in found.power.words


def test_an_agent_that_does_not_run_has_no_such_state(home: Home) -> None:
    restrict(home, LOW)
    assert status(home).power is None
