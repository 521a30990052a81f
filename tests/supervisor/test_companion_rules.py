"""When a tray or a page is started, restarted, left alone: by a clock that moves when told to."""

from __future__ import annotations

import signal

import pytest

from agent.clock import FakeClock
from agent.config import SupervisorIntent
from agent.states import CompanionState
from agent.supervisor.companion import (
    ASK_AGAIN_S,
    IMPOSSIBLE_AGAIN_AT_MOST_S,
    IMPOSSIBLE_AGAIN_S,
    START_PATIENCE_S,
    Companion,
    Do,
)
from agent.supervisor.result import CompanionSpec
from agent.system.companion import EXIT_IMPOSSIBLE, Say

INTENT = SupervisorIntent()
KILLED = -int(signal.SIGKILL)


class Desk:
    """A companion, a clock, and what the supervisor would do."""

    def __init__(self, *, on_demand: bool = False, off: str = "") -> None:
        self.clock = FakeClock()
        self.one = Companion(CompanionSpec("it", "a:b", on_demand=on_demand, off=off), lambda: 0.0)

    def step(self, *, may_start: bool = True) -> Do:
        step = self.one.next_step(self.clock.monotonic(), may_start=may_start)
        if step is Do.START:
            self.one.started(self.clock.monotonic())
        elif step is Do.END:
            self.one.ending()
        return step

    def said(self, word: str, **more: object) -> None:
        self.one.said({"say": word, **more}, self.clock.monotonic())

    def exited(self, code: int) -> bool:
        return self.one.exited(code, self.clock.monotonic(), INTENT)

    def ask(self) -> None:
        self.one.ask(self.clock.monotonic())

    def waits_s(self) -> float | None:
        """Go on to the next start and return how long that took; ``None`` where none is due."""
        at = self.one.next_moment()
        if at is None:
            return None
        waited = max(0.0, at - self.clock.monotonic())
        self.clock.advance(waited)
        assert self.step() is Do.START
        return waited

    @property
    def state(self) -> CompanionState:
        return self.one.view().state


def test_tray_waits_for_the_workers_and_a_page_for_nobody() -> None:
    tray, page = Desk(), Desk(on_demand=True)
    assert tray.step(may_start=False) is Do.NOTHING
    assert tray.step(may_start=True) is Do.START
    assert tray.state is CompanionState.STARTING
    assert page.step(may_start=True) is Do.NOTHING
    page.ask()
    assert page.step(may_start=False) is Do.START


def test_it_is_up_when_it_says_so() -> None:
    desk = Desk()
    desk.step()
    desk.said(Say.UP, detail="a back end")
    assert (desk.state, desk.one.view().detail) == (CompanionState.UP, "a back end")
    assert desk.step() is Do.NOTHING
    assert desk.one.next_moment() is None, "nothing is due while all is well"


def test_first_restart_is_immediate_then_backed_off_and_after_five_it_is_tried_slowly() -> None:
    desk = Desk()
    desk.step()
    waits = []
    for _ in range(4):
        desk.said(Say.UP)
        assert not desk.exited(KILLED)
        assert desk.state is CompanionState.STARTING
        waits.append(desk.waits_s())
    assert waits == [0.0, 1.0, 2.0, 4.0]
    assert desk.exited(KILLED), "that it is given up is news"
    view = desk.one.view()
    assert view.state is CompanionState.FAILED
    assert "signal 9" in view.reason
    assert desk.waits_s() == INTENT.slow_retry_seconds


def test_what_cannot_serve_is_no_failure_and_is_tried_again_later_and_later() -> None:
    desk = Desk()
    desk.step()
    waits = []
    for _ in range(6):
        desk.said(Say.IMPOSSIBLE, reason="no panel here")
        assert not desk.exited(EXIT_IMPOSSIBLE)
        assert (desk.state, desk.one.view().reason) == (CompanionState.IMPOSSIBLE, "no panel here")
        waits.append(desk.waits_s())
    assert waits == [IMPOSSIBLE_AGAIN_S * factor for factor in (1, 2, 4, 8)] + [IMPOSSIBLE_AGAIN_AT_MOST_S] * 2
    desk.said(Say.UP)
    assert desk.state is CompanionState.UP
    desk.said(Say.IMPOSSIBLE)
    desk.exited(EXIT_IMPOSSIBLE)
    assert desk.waits_s() == IMPOSSIBLE_AGAIN_S, "a panel that was there once comes back soon"


def test_exit_code_alone_says_that_it_cannot_serve() -> None:
    desk = Desk()
    desk.step()
    desk.exited(EXIT_IMPOSSIBLE)
    assert desk.state is CompanionState.IMPOSSIBLE
    assert desk.one.view().reason


def test_one_that_waits_for_a_panel_by_itself_is_left_alone() -> None:
    desk = Desk()
    desk.step()
    desk.said(Say.IMPOSSIBLE, reason="no panel yet")
    desk.clock.advance(3_600)
    assert desk.step() is Do.NOTHING
    assert desk.state is CompanionState.IMPOSSIBLE
    desk.said(Say.UP, detail="found it")
    assert desk.one.view().detail == "found it"


def test_what_ended_by_itself_stays_away_until_it_is_asked_for() -> None:
    desk = Desk(on_demand=True)
    desk.ask()
    desk.step()
    desk.said(Say.UP)
    desk.said(Say.BYE, reason="nobody looks at it")
    desk.exited(0)
    assert (desk.state, desk.one.view().reason) == (CompanionState.OFF, "nobody looks at it")
    desk.clock.advance(3_600)
    assert desk.step() is Do.NOTHING
    desk.ask()
    assert desk.step() is Do.START


def test_asked_for_while_it_leaves_it_is_started_when_it_has_left() -> None:
    desk = Desk(on_demand=True)
    desk.ask()
    desk.step()
    desk.said(Say.UP)
    desk.said(Say.BYE)
    desk.ask()
    assert desk.step() is Do.NOTHING
    assert not desk.exited(0)
    assert desk.step() is Do.START
    assert desk.one.next_moment() is not None


def test_an_end_without_a_word_is_a_failure() -> None:
    desk = Desk()
    desk.step()
    desk.said(Say.UP)
    desk.exited(0)
    assert desk.step() is Do.START
    assert "exit code 0" in desk.one.view().reason


def test_whoever_asks_has_a_failed_page_tried_at_once() -> None:
    desk = Desk(on_demand=True)
    desk.ask()
    desk.step()
    for _ in range(4):
        desk.exited(1)
        desk.waits_s()
    desk.exited(1)
    assert desk.state is CompanionState.FAILED
    desk.clock.advance(ASK_AGAIN_S)
    assert desk.one.view_when_asked(desk.clock.monotonic()).state is CompanionState.STARTING
    desk.ask()
    assert desk.step() is Do.START


def test_whoever_asks_again_and_again_starts_no_storm() -> None:
    desk = Desk(on_demand=True)
    starts = 0
    for _ in range(100):
        desk.ask()
        if desk.step() is Do.START:
            starts += 1
            desk.exited(1)
        desk.clock.advance(0.1)
    assert starts <= 8, "ten seconds of asking ten times a second"


def test_one_who_asks_too_soon_is_told_why_not() -> None:
    desk = Desk(on_demand=True)
    desk.ask()
    desk.step()
    desk.said(Say.IMPOSSIBLE, reason="a part is missing")
    desk.exited(EXIT_IMPOSSIBLE)
    told = desk.one.view_when_asked(desk.clock.monotonic())
    assert (told.state, told.reason) == (CompanionState.IMPOSSIBLE, "a part is missing")


def test_switched_off_it_ends_and_switched_on_it_starts() -> None:
    desk = Desk()
    desk.step()
    desk.said(Say.UP)
    desk.one.allow("the owner wants none")
    assert desk.step() is Do.END
    assert (desk.state, desk.one.view().reason) == (CompanionState.OFF, "the owner wants none")
    assert not desk.exited(-15)
    assert desk.step() is Do.NOTHING
    desk.one.allow("")
    assert desk.step() is Do.START


def test_switched_off_and_on_while_it_leaves_it_is_started_when_it_has_left() -> None:
    desk = Desk()
    desk.step()
    desk.said(Say.UP)
    desk.one.allow("the owner wants none")
    assert desk.step() is Do.END
    desk.one.allow("")
    assert desk.step() is Do.NOTHING
    desk.exited(0)
    assert desk.step() is Do.START


def test_switching_it_off_and_on_brings_back_what_was_closed_or_given_up() -> None:
    closed = Desk()
    closed.step()
    closed.said(Say.BYE)
    closed.exited(0)
    assert closed.step() is Do.NOTHING
    closed.one.allow("off")
    closed.one.allow("")
    assert closed.step() is Do.START


def test_what_a_run_has_not_is_not_to_be_had_by_asking() -> None:
    desk = Desk(on_demand=True, off="it runs with --once")
    desk.ask()
    assert desk.step() is Do.NOTHING
    told = desk.one.view_when_asked(0.0)
    assert (told.state, told.reason) == (CompanionState.IMPOSSIBLE, "it runs with --once")


def test_one_that_never_says_whether_it_serves_is_replaced() -> None:
    desk = Desk()
    desk.step()
    assert desk.one.next_moment() == desk.clock.monotonic() + START_PATIENCE_S
    desk.clock.advance(START_PATIENCE_S)
    assert desk.step() is Do.END
    desk.exited(-15)
    assert desk.state is CompanionState.STARTING
    assert "did not come up" in desk.one.view().reason
    assert desk.step() is Do.START


@pytest.mark.parametrize("word", ["dance", "", "stop"])
def test_unknown_words_are_passed_over(word: str) -> None:
    desk = Desk()
    desk.step()
    desk.said(word, reason="?")
    assert desk.state is CompanionState.STARTING
