"""What sleep and long runs mean, by a clock that moves when told to."""

from __future__ import annotations

from agent.clock import FakeClock
from agent.supervisor.limits import RunWatch
from agent.supervisor.sleepgap import SleepGap
from agent.supervisor.stopping import Force, StopBudget


def _gap(clock: FakeClock) -> SleepGap:
    return SleepGap(clock.now_ms(), renewal_seconds=100, catch_up_seconds=30)


def test_waiting_as_long_as_meant_is_no_gap() -> None:
    clock = FakeClock()
    gap = _gap(clock)
    clock.advance(30)
    assert gap.look(clock.now_ms(), clock.monotonic(), 30) == 0
    clock.advance(9)
    assert gap.look(clock.now_ms(), clock.monotonic(), 0) == 0, "a busy machine is late too"
    assert gap.leases_are_trusted(clock.monotonic())
    assert gap.may_catch_up(clock.monotonic())


def test_after_sleep_leases_get_one_renewal_and_catching_up_starts_once_after_thirty_seconds() -> None:
    clock = FakeClock()
    gap = _gap(clock)
    clock.set_wall(clock.now_ms() + 8 * 3_600_000)  # the monotonic clock stands still while the machine sleeps
    assert gap.look(clock.now_ms(), clock.monotonic(), 30) > 8 * 3600 - 60
    assert not gap.leases_are_trusted(clock.monotonic())
    assert not gap.may_catch_up(clock.monotonic())
    assert gap.catch_up_at == clock.monotonic() + 30

    clock.advance(29)
    assert gap.look(clock.now_ms(), clock.monotonic(), 29) == 0
    assert not gap.may_catch_up(clock.monotonic())
    clock.advance(1)
    assert gap.may_catch_up(clock.monotonic())
    assert gap.catch_up_at is None
    assert not gap.leases_are_trusted(clock.monotonic())
    clock.advance(70)
    assert gap.leases_are_trusted(clock.monotonic())


def test_a_second_nap_moves_the_catching_up_on() -> None:
    clock = FakeClock()
    gap = _gap(clock)
    for _ in range(3):
        clock.set_wall(clock.now_ms() + 3_600_000)
        gap.look(clock.now_ms(), clock.monotonic(), 1)
        clock.advance(20)
        gap.look(clock.now_ms(), clock.monotonic(), 20)
        assert not gap.may_catch_up(clock.monotonic())
    clock.advance(10)
    assert gap.may_catch_up(clock.monotonic())


def test_clock_set_back_is_no_gap() -> None:
    clock = FakeClock()
    gap = _gap(clock)
    clock.set_wall(clock.now_ms() - 3_600_000)
    assert gap.look(clock.now_ms(), clock.monotonic(), 1) == 0
    clock.advance(1)
    assert gap.look(clock.now_ms(), clock.monotonic(), 1) == 0


def _over(watch: RunWatch, clock: FakeClock, job: int | None, started_ms: int, ago: float = 0.5) -> bool:
    return watch.look(
        "w", job, started_ms, 10_000, wall_ms=clock.now_ms(), monotonic=clock.monotonic(), looked_s_ago=ago
    )


def test_run_is_over_its_limit_by_working_time() -> None:
    clock, watch = FakeClock(), RunWatch()
    started = clock.now_ms()
    clock.advance(0.4)
    assert not _over(watch, clock, 1, started)
    clock.advance(9.5)
    assert not _over(watch, clock, 1, started)
    clock.advance(0.2)
    assert _over(watch, clock, 1, started)


def test_a_night_of_sleep_is_no_work() -> None:
    clock, watch = FakeClock(), RunWatch()
    started = clock.now_ms()
    assert not _over(watch, clock, 1, started)
    clock.set_wall(clock.now_ms() + 8 * 3_600_000)
    assert not _over(watch, clock, 1, started), "the wall clock alone went on"
    clock.advance(60)
    watch.slept(60)
    assert not _over(watch, clock, 1, started), "where the monotonic clock counts sleep it is taken off"
    clock.advance(10)
    assert _over(watch, clock, 1, started)


def test_run_first_seen_after_sleep_starts_fresh() -> None:
    clock, watch = FakeClock(), RunWatch()
    started = clock.now_ms()
    clock.set_wall(clock.now_ms() + 8 * 3_600_000)
    assert not _over(watch, clock, 1, started, ago=0.5)


def test_each_run_has_its_own_time() -> None:
    clock, watch = FakeClock(), RunWatch()
    assert not _over(watch, clock, 1, clock.now_ms())
    clock.advance(9)
    assert not _over(watch, clock, 2, clock.now_ms())
    clock.advance(9)
    assert not _over(watch, clock, None, 0)
    assert watch.next_deadline is None
    started = clock.now_ms()
    assert not _over(watch, clock, 2, started)
    clock.advance(2)
    assert not _over(watch, clock, 2, started)


def test_stop_uses_force_in_order_and_is_over_in_time() -> None:
    clock = FakeClock()
    budget = StopBudget(clock.monotonic())
    assert budget.next_force(clock.monotonic()) is Force.ASKED
    assert budget.next_force(clock.monotonic()) is None
    assert budget.wait_s(clock.monotonic()) == 1.5
    clock.advance(1.5)
    assert budget.next_force(clock.monotonic()) is Force.TERMINATED
    clock.advance(1.0)
    assert budget.next_force(clock.monotonic()) is Force.KILLED
    assert not budget.is_over(clock.monotonic())
    clock.advance(0.8)
    assert budget.is_over(clock.monotonic())
    assert not budget.has_time_for_checkpoint(clock.monotonic())


def test_stop_that_begins_late_skips_to_the_force_that_is_due() -> None:
    clock = FakeClock()
    budget = StopBudget(clock.monotonic())
    clock.advance(2.6)
    assert budget.next_force(clock.monotonic()) is Force.KILLED
