"""What the power policy means to a worker: what loads the machine waits or rests, everything else goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.db.power_row import PowerRow, put_power_tx
from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import Job, NewJob, Plan
from agent.states import PowerCause, PowerMode
from agent.worker.capacity import LONGEST_REST_S, SHORTEST_REST_S, Capacity
from tests.worker.conftest import Bench

TOOK_S: list[float] = []
DURING: list[Callable[[], None]] = []


def work(context: JobContext, job: Job) -> Plan:
    context.clock.sleep(TOOK_S[0] if TOOK_S else 0.0)
    for act in DURING:
        act()
    return Plan()


CHEAP = JobSpec("cheap", work)
HEAVY = JobSpec("heavy", work, llm_bound=True)


@pytest.fixture(autouse=True)
def nothing_special() -> None:
    TOOK_S.clear()
    DURING.clear()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    bench = make_bench(CHEAP, HEAVY)
    bench.loop.capacity = Capacity(bench.connection, bench.clock, frozenset({"heavy"}))
    return bench


def restrict(bench: Bench, mode: PowerMode | None) -> None:
    with bench.connection.write():
        row = None if mode is None else PowerRow(mode, PowerCause.BATTERY, "on battery")
        put_power_tx(bench.connection, row)


def add(bench: Bench, kind: str, count: int = 1) -> list[int]:
    return [bench.add(NewJob(kind, "{}", f"{kind}:{number}")) for number in range(count)]


def test_paused_by_the_policy_what_loads_the_machine_waits_and_the_rest_is_done(bench: Bench) -> None:
    restrict(bench, PowerMode.PAUSED)
    [heavy], [cheap] = add(bench, "heavy"), add(bench, "cheap")
    bench.steps(4)
    assert (bench.status(heavy), bench.status(cheap)) == ("ready", "done")
    assert bench.row(heavy)["attempts"] == 0
    restrict(bench, None)
    bench.steps(2)
    assert bench.status(heavy) == "done"


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.0, SHORTEST_REST_S), (2.0, 2.0), (60.0, LONGEST_REST_S)])
def test_throttled_it_rests_as_long_as_it_worked(bench: Bench, took_s: float, rest_s: float) -> None:
    restrict(bench, PowerMode.THROTTLED)
    TOOK_S.append(took_s)
    first, second = add(bench, "heavy", 2)
    bench.steps(1)
    assert (bench.status(first), bench.status(second)) == ("done", "ready")
    bench.steps(1)
    assert bench.waiter.waits == [pytest.approx(rest_s)]
    bench.steps(2)
    assert bench.status(second) == "done"


def test_throttled_cheap_work_is_done_without_a_rest(bench: Bench) -> None:
    restrict(bench, PowerMode.THROTTLED)
    jobs = add(bench, "cheap", 3)
    bench.steps(3)
    assert [bench.status(job) for job in jobs] == ["done"] * 3
    assert bench.waiter.waits == []


def test_unrestricted_nothing_rests(bench: Bench) -> None:
    jobs = add(bench, "heavy", 3)
    bench.steps(3)
    assert [bench.status(job) for job in jobs] == ["done"] * 3
    assert bench.loop.capacity.limits() is None


def test_whoever_is_to_leave_finishes_its_job_and_takes_no_other(bench: Bench) -> None:
    first, second = add(bench, "cheap", 2)
    DURING.append(bench.stop.leave)
    assert bench.loop.run() == 0
    assert (bench.status(first), bench.status(second)) == ("done", "ready")
    assert not bench.stop.is_set(), "and nothing that asks whether to end is told so"
