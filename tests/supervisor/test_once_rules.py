"""When ``run --once`` is over, without processes."""

from __future__ import annotations

import pytest

from agent.supervisor.once import PATIENCE_MS, OnceGuard, Quiet, Step

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("quiet", "busy", "step"),
    [
        (Quiet(0, None), False, Step.SEARCH),
        (Quiet(1, None), False, Step.WAIT),
        (Quiet(0, None), True, Step.WAIT),
        (Quiet(0, NOW - 1), False, Step.WAIT),
        (Quiet(0, NOW + PATIENCE_MS), False, Step.WAIT),
        (Quiet(0, NOW + PATIENCE_MS + 1), False, Step.SEARCH),
        (Quiet(0, NOW, NOW + 60_000), False, Step.WAIT),
        (Quiet(0, NOW, NOW + PATIENCE_MS + 1), False, Step.GIVE_UP),
        (Quiet(2, None, NOW + PATIENCE_MS + 1), True, Step.GIVE_UP),
    ],
)
def test_what_a_moment_asks_for(quiet: Quiet, busy: bool, step: Step) -> None:
    assert OnceGuard().judge(quiet, NOW, anyone_busy=busy) is step


def test_says_what_is_left() -> None:
    guard = OnceGuard()
    assert guard.verdict(Quiet(0, None), NOW, []) == ""
    assert "due in 20 minutes" in guard.verdict(Quiet(0, NOW + 20 * 60_000), NOW, [])
    said = guard.verdict(Quiet(0, None), NOW, ["tree one", "tree two", "tree three", "tree four"])
    assert said == "not finished: tree one; tree two; tree three and 1 more"


def test_tails_that_ask_for_the_same_for_ever_end_it() -> None:
    guard = OnceGuard()
    assert not any(guard.is_stuck(["seal:a:0"]) for _ in range(5))
    assert guard.is_stuck(["seal:a:0"])
    assert "seal:a:0" in guard.reason


def test_tails_that_get_on_do_not() -> None:
    guard = OnceGuard()
    assert not any(guard.is_stuck([f"seal:a:{round % 3}"]) for round in range(100))
    assert not any(guard.is_stuck([]) for _ in range(100))
