"""A slot's life, by a clock that moves when told to: STOPPED, STARTING, RUNNING, STOPPING, BACKOFF, FAILED."""

from __future__ import annotations

import pytest

from agent.clock import FakeClock
from agent.config import SupervisorIntent
from agent.states import WorkerState
from agent.supervisor.slots import Exit, Slot

INTENT = SupervisorIntent()


def _slot(jitter: float = 0.0) -> Slot:
    return Slot(0, lambda: jitter)


def _run_and_fail(slot: Slot, clock: FakeClock, *, healthy_s: float = 0.0) -> float | None:
    """Start it, let it be well for so long, let it fail; return the wait before the next start."""
    slot.started()
    slot.ready(clock.monotonic())
    clock.advance(healthy_s)
    slot.exited(Exit.FAILURE, clock.monotonic(), INTENT)
    return None if slot.start_at is None else slot.start_at - clock.monotonic()


def test_states_follow_one_another() -> None:
    clock, slot = FakeClock(), _slot()
    assert (slot.state, slot.has_process, slot.serves) == (WorkerState.STOPPED, False, False)
    slot.started()
    assert (slot.state, slot.generation, slot.serves) == (WorkerState.STARTING, 1, True)
    slot.ready(clock.monotonic())
    assert slot.state is WorkerState.RUNNING
    slot.stopping()
    assert (slot.state, slot.has_process, slot.serves) == (WorkerState.STOPPING, True, False)
    slot.exited(Exit.ORDERED, clock.monotonic(), INTENT)
    assert (slot.state, slot.start_at) == (WorkerState.STOPPED, None)


def test_first_restart_is_immediate_then_doubling_up_to_the_cap() -> None:
    clock, slot = FakeClock(), _slot()
    # Far enough apart that five failures never fall into one window, near enough that it is never healthy.
    waits = [_run_and_fail(slot, clock, healthy_s=500) for _ in range(9)]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@pytest.mark.parametrize(("jitter", "share"), [(-1.0, 0.8), (1.0, 1.2)])
def test_jitter_is_a_fifth_at_most(jitter: float, share: float) -> None:
    clock, slot = FakeClock(), _slot(jitter)
    _run_and_fail(slot, clock)
    wait = _run_and_fail(slot, clock)
    assert wait == pytest.approx(1.0 * share)


def test_ten_healthy_minutes_reset_the_series() -> None:
    clock, slot = FakeClock(), _slot()
    for _ in range(4):
        _run_and_fail(slot, clock, healthy_s=300)
    assert _run_and_fail(slot, clock, healthy_s=INTENT.healthy_seconds) == 0.0


def test_five_failures_in_ten_minutes_are_failed_with_a_slow_retry() -> None:
    clock, slot = FakeClock(), _slot()
    for _ in range(4):
        _run_and_fail(slot, clock)
        clock.advance(100)
    assert slot.state is WorkerState.BACKOFF
    assert _run_and_fail(slot, clock) == INTENT.slow_retry_seconds
    assert slot.state is WorkerState.FAILED
    assert not slot.is_due(clock.monotonic())
    clock.advance(INTENT.slow_retry_seconds)
    assert slot.is_due(clock.monotonic())


def test_failures_further_apart_are_forgiven() -> None:
    clock, slot = FakeClock(), _slot()
    for _ in range(20):
        _run_and_fail(slot, clock)
        clock.advance(INTENT.failure_window_seconds / 4)
    assert slot.state is WorkerState.BACKOFF


def test_giving_up_is_news_once() -> None:
    clock, slot = FakeClock(), _slot()
    news = []
    for _ in range(9):
        slot.started()
        news.append(slot.exited(Exit.FAILURE, clock.monotonic(), INTENT))
        clock.advance(INTENT.slow_retry_seconds if slot.state is WorkerState.FAILED else 1)
    assert news == [False] * 4 + [True] + [False] * 4
    # It is itself again after ten healthy minutes.
    assert _run_and_fail(slot, clock, healthy_s=INTENT.healthy_seconds) == 0.0
    assert slot.state is WorkerState.BACKOFF


@pytest.mark.parametrize("how", [Exit.FRESH, Exit.ORDERED])
def test_wanted_exits_are_no_failures(how: Exit) -> None:
    clock, slot = FakeClock(), _slot()
    for _ in range(50):
        slot.started()
        slot.exited(how, clock.monotonic(), INTENT)
    assert slot.state is (WorkerState.BACKOFF if how is Exit.FRESH else WorkerState.STOPPED)
    assert slot.start_at == (clock.monotonic() if how is Exit.FRESH else None)


def test_all_of_it_is_configuration() -> None:
    intent = SupervisorIntent(failure_limit=2, failure_window_seconds=10, slow_retry_seconds=7)
    clock, slot = FakeClock(), _slot()
    for _ in range(2):
        slot.started()
        slot.exited(Exit.FAILURE, clock.monotonic(), intent)
    assert (slot.state, slot.start_at) == (WorkerState.FAILED, clock.monotonic() + 7)
