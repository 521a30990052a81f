"""Leases are kept by a thread of its own, and a worker that cannot keep them stops by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.errors import LeaseLost
from agent.queue import claim_jobs, enqueue
from agent.queue.claim import Claim
from agent.queue.registry import Registry
from agent.queue.types import Job
from agent.worker.heartbeat import RETRY_S, Heartbeat
from tests.worker import kinds
from tests.worker.conftest import Bench
from tests.worker.kinds import new_job

LEASE_MS = 300_000
Make = Callable[..., Bench]


def claim(connection: Connection, clock: FakeClock, count: int = 1) -> list[Job]:
    for number in range(count):
        enqueue(connection, new_job("test_batch", str(number)), clock.now_ms())
    jobs = claim_jobs(connection, Claim(Registry.of([kinds.BATCH]), "w", LEASE_MS), clock.now_ms())
    assert len(jobs) == count
    return jobs


@dataclass
class Renewals:
    """Renews nothing, remembers, and fails while told to."""

    lost: list[int] = field(default_factory=list)
    error: Exception | None = None
    calls: list[list[int]] = field(default_factory=list)
    seen: threading.Event = field(default_factory=threading.Event)

    def __call__(self, connection: Any, jobs: Sequence[Job], until_ms: int) -> list[int]:
        self.calls.append([job.id for job in jobs])
        self.seen.set()
        if self.error is not None:
            raise self.error
        return self.lost


def beating(clock: Any, renew: Any, connection: Any = None, lease_ms: int = LEASE_MS, on_dead: Any = None) -> Heartbeat:
    return Heartbeat(lambda: connection, lease_ms=lease_ms, clock=clock, on_dead=on_dead or (lambda: None), renew=renew)


def test_a_lease_is_renewed_at_a_third_of_its_time(connection: Connection, clock: FakeClock) -> None:
    jobs = claim(connection, clock)
    heartbeat = Heartbeat(lambda: connection, lease_ms=LEASE_MS, clock=clock, on_dead=lambda: None)
    heartbeat.hold(jobs)
    assert heartbeat.interval_s == 100.0
    clock.advance(100)
    assert heartbeat.beat() == 100.0
    until = connection.value("SELECT locked_until_ms FROM mem_tree_jobs")
    assert until == clock.now_ms() + LEASE_MS
    assert not heartbeat.is_lost(jobs[0])


def test_a_renewal_does_not_wait_for_the_writers_turn(connection: Connection, clock: FakeClock) -> None:
    jobs = claim(connection, clock)
    assert connection._turn is not None
    taken: list[int] = []
    connection._turn.take = lambda *args: taken.append(1) or True  # type: ignore[assignment, func-returns-value]
    heartbeat = Heartbeat(lambda: connection, lease_ms=LEASE_MS, clock=clock, on_dead=lambda: None)
    heartbeat.hold(jobs)
    heartbeat.beat()
    assert taken == []


def test_a_lease_that_somebody_else_holds_is_found_lost(make_bench: Make) -> None:
    bench = make_bench(kinds.BATCH)
    jobs = claim(bench.connection, bench.clock, 3)
    context = bench.loop.context
    context.start(jobs)
    with bench.connection.write():
        bench.connection.run("UPDATE mem_tree_jobs SET lease_token = 'other' WHERE id = ?", (jobs[0].id,))
    bench.heartbeat.beat()
    assert [bench.heartbeat.is_lost(job) for job in jobs] == [True, False, False]
    context.check()  # two leases of the batch are good
    with bench.connection.write():
        bench.connection.run("UPDATE mem_tree_jobs SET lease_token = 'other'")
    bench.heartbeat.beat()
    with pytest.raises(LeaseLost):
        context.check()


def test_a_stop_reaches_the_handler_by_its_check(make_bench: Make) -> None:
    bench = make_bench()
    bench.loop.context.check()
    bench.stop.set()
    with pytest.raises(LeaseLost):
        bench.loop.context.check()


def test_a_failed_heartbeat_is_tried_again_and_gives_up_after_a_whole_lease(
    connection: Connection, clock: FakeClock
) -> None:
    renew = Renewals(error=OSError("the disk is away"))
    heartbeat = beating(clock, renew)
    heartbeat.hold(claim(connection, clock))
    clock.advance(100)
    waited = 100.0
    while (pause := heartbeat.beat()) is not None:
        assert pause <= RETRY_S
        clock.advance(pause)
        waited += pause
    assert 300 <= waited <= 300 + RETRY_S


def test_a_heartbeat_that_works_again_starts_a_whole_lease_anew(connection: Connection, clock: FakeClock) -> None:
    renew = Renewals(error=OSError("the disk is away"))
    heartbeat = beating(clock, renew)
    heartbeat.hold(claim(connection, clock))
    clock.advance(290)
    assert heartbeat.beat() is not None
    renew.error = None
    assert heartbeat.beat() == heartbeat.interval_s
    renew.error = OSError("away again")
    clock.advance(290)
    assert heartbeat.beat() is not None
    clock.advance(10)
    assert heartbeat.beat() is None


def test_the_thread_sleeps_while_nothing_is_held_and_beats_while_something_is(
    connection: Connection, clock: FakeClock, wait_until: Callable[..., None]
) -> None:
    from agent.clock import SYSTEM_CLOCK

    renew = Renewals()
    jobs = claim(connection, clock)
    heartbeat = beating(SYSTEM_CLOCK, renew, lease_ms=60)
    heartbeat.start()
    wait_until(lambda: heartbeat._is_dozing)
    heartbeat.hold(jobs)
    wait_until(lambda: len(renew.calls) >= 3)
    heartbeat.let_go()
    wait_until(lambda: heartbeat._is_dozing, what="blocked again")
    before = len(renew.calls)
    heartbeat.hold(jobs)
    wait_until(lambda: len(renew.calls) > before)
    heartbeat.close()
    assert heartbeat._thread is not None
    assert not heartbeat._thread.is_alive()


def test_the_thread_tells_once_that_its_leases_are_gone(
    connection: Connection, clock: FakeClock, wait_until: Callable[..., None]
) -> None:
    from agent.clock import SYSTEM_CLOCK

    dead: list[int] = []
    renew = Renewals(error=OSError("the disk is away"))
    heartbeat = beating(SYSTEM_CLOCK, renew, lease_ms=60, on_dead=lambda: dead.append(1))
    heartbeat.hold(claim(connection, clock))
    heartbeat.start()
    wait_until(lambda: dead)
    assert heartbeat._thread is not None
    heartbeat._thread.join(5)
    assert dead == [1]
