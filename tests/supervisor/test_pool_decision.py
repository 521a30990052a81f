"""How many workers: a decision from plain numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.supervisor.pool import HEAVY_BYTES, Claimable, PoolChange, WorkerFacts, decide

BUSY = WorkerFacts(0, None)


def _decide(workers: list[WorkerFacts], claimable: Claimable, *, minimum: int = 1, maximum: int = 4) -> PoolChange:
    return decide(workers, claimable, minimum=minimum, maximum=maximum, idle_seconds=60)


def test_there_are_never_fewer_than_the_minimum() -> None:
    assert _decide([], Claimable()) == PoolChange(add=1)
    assert _decide([], Claimable(), minimum=3) == PoolChange(add=3)


def test_grows_by_rows_that_another_worker_could_claim_now() -> None:
    assert _decide([BUSY], Claimable(free=1)) == PoolChange(add=1)
    assert _decide([BUSY], Claimable(free=0)) == PoolChange()
    assert _decide([BUSY] * 4, Claimable(free=100)) == PoolChange()


def test_rows_that_wait_for_a_permit_call_for_nobody() -> None:
    assert _decide([BUSY], Claimable(bound=50, permits=0)) == PoolChange()
    assert _decide([BUSY], Claimable(bound=50, permits=1)) == PoolChange(add=1)
    assert _decide([BUSY, WorkerFacts(1, 0.0)], Claimable(bound=50, permits=1)) == PoolChange()
    assert _decide([BUSY], Claimable(bound=50, permits=None)) == PoolChange(add=1)


def test_whoever_idles_or_comes_up_takes_the_first_rows() -> None:
    assert _decide([WorkerFacts(0, 0.0)], Claimable(free=1)) == PoolChange()
    assert _decide([WorkerFacts(0, None, starting=True)], Claimable(free=1)) == PoolChange()
    assert _decide([WorkerFacts(0, None, starting=True)], Claimable(free=2)) == PoolChange(add=1)


def test_shrinks_to_the_minimum_after_idling() -> None:
    workers = [WorkerFacts(0, 61.0), WorkerFacts(1, 61.0), WorkerFacts(2, 59.0)]
    assert _decide(workers, Claimable()).end == (1, 0)
    assert _decide(workers[:2], Claimable()).end == (1,)
    assert _decide(workers[:1], Claimable()).end == ()
    assert _decide(workers[:2], Claimable(free=1)).end == (), "not while there is work for them"


def test_heavy_worker_that_stays_is_replaced_once_it_idled() -> None:
    assert _decide([WorkerFacts(0, 61.0, grown_bytes=HEAVY_BYTES)], Claimable()).refresh == (0,)
    assert _decide([WorkerFacts(0, 61.0, grown_bytes=HEAVY_BYTES - 1)], Claimable()).refresh == ()
    assert _decide([WorkerFacts(0, 59.0, grown_bytes=HEAVY_BYTES)], Claimable()).refresh == ()


def test_lowered_maximum_takes_idle_ones_first() -> None:
    workers = [WorkerFacts(0, None), WorkerFacts(1, 1.0), WorkerFacts(2, None)]
    assert _decide(workers, Claimable(free=9), maximum=2).end == (1,)


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 200), st.booleans(), st.integers(0, 10**9)), max_size=8),
    st.integers(0, 50),
    st.integers(0, 50),
    st.none() | st.integers(0, 4),
    st.integers(1, 4),
    st.integers(0, 4),
)
def test_decision_stays_between_minimum_and_maximum(
    raw: list[tuple[float | None, bool, int]], free: int, bound: int, permits: int | None, minimum: int, more: int
) -> None:
    workers = [WorkerFacts(index, *facts) for index, facts in enumerate(raw)]
    maximum = minimum + more
    change = decide(workers, Claimable(free, bound, permits), minimum=minimum, maximum=maximum, idle_seconds=60)
    after = len(workers) + change.add - len(change.end)
    assert change.add == 0 or after <= maximum
    assert not change.end or after >= minimum
    assert not (change.add and change.end)
    assert set(change.end) & set(change.refresh) == set()
    idle = {worker.index for worker in workers if worker.idle_s is not None}
    assert set(change.refresh) <= idle
    assert len(workers) > maximum or set(change.end) <= idle
