"""The end of a session is answered at once, and waits for the agent no longer than it must. By a fake of the system."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from agent.system.session_end import (
    DONE,
    WM_CLOSE,
    WM_ENDSESSION,
    WM_QUERYENDSESSION,
    YES,
    FakeSessionEnd,
    Farewell,
    NoSessionEnd,
    session_end,
)


def test_the_question_is_answered_with_yes_at_once_and_ends_nothing() -> None:
    told: list[str] = []
    farewell = Farewell(lambda: told.append("end"))
    began = time.monotonic()
    assert farewell.handle(WM_QUERYENDSESSION, 0) == YES
    assert time.monotonic() - began < 0.5
    assert told == []


def test_a_session_that_another_program_keeps_goes_on() -> None:
    told: list[str] = []
    session = FakeSessionEnd()
    session.start(lambda: told.append("end"))
    assert session.end(is_refused=True) == [YES, DONE]
    assert told == []


def test_the_end_is_held_until_the_agent_has_ended() -> None:
    session = FakeSessionEnd(patience_s=30)
    asked = threading.Event()
    session.start(asked.set)
    answers: list[list[int | None]] = []
    ending = threading.Thread(target=lambda: answers.append(session.end()))
    ending.start()
    assert asked.wait(10), "the agent was told"
    assert answers == [], "it is not over while the agent still puts its work away"
    session.put_away()
    ending.join(10)
    assert answers == [[YES, DONE]]


def test_an_agent_that_does_not_end_holds_nobody_up_for_long() -> None:
    session = FakeSessionEnd(patience_s=0.1)
    session.start(lambda: None)
    began = time.monotonic()
    assert session.end() == [YES, DONE]
    assert time.monotonic() - began < 4.0


def test_other_messages_are_not_for_us() -> None:
    assert Farewell(lambda: None).handle(WM_CLOSE, 0) is None
    assert Farewell(lambda: None).handle(WM_ENDSESSION + 1, 1) is None


@pytest.mark.skipif(sys.platform == "win32", reason="there a window hears it")
def test_elsewhere_a_signal_says_it() -> None:
    session = session_end()
    assert isinstance(session, NoSessionEnd)
    session.start(lambda: None)
    session.put_away()
