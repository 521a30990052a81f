"""Who holds a row: prolonging it, taking it away, and what is settled without it."""

from __future__ import annotations

import pytest

from agent.db import Connection
from agent.errors import LeaseLost
from agent.queue import (
    NOTHING_TO_DO,
    Plan,
    Settled,
    cancel,
    holds_lease,
    reclaim_worker,
    recover_stale_locks,
    release_running_locks,
    renew_leases,
    settle,
)
from agent.states import JobStatus
from tests.queue.conftest import ME, OTHER, Queue
from tests.queue.test_settle import writing, written


def test_the_lease_is_checked_before_anything_is_written(queue: Queue) -> None:
    job_id = queue.add()
    job = queue.take()
    queue.change(job_id, lease_token="somebody else's")
    written_without_a_lease: list[int] = []

    def writes(connection: Connection) -> None:
        written_without_a_lease.append(job_id)

    assert settle(queue.connection, job, Plan(writes=writes), queue.now) is Settled.LOST
    # An error raised in there would be settled like any, and end in the same word.
    assert written_without_a_lease == []


def test_renewing_prolongs_what_is_held_and_names_what_is_lost(queue: Queue) -> None:
    held, lost = queue.add(), queue.add()
    jobs = [queue.take(), queue.take()]
    queue.change(lost, lease_token="somebody else's")
    assert renew_leases(queue.connection, jobs, queue.now + 900_000) == [lost]
    assert queue.row(held)["locked_until_ms"] == queue.now + 900_000
    assert queue.row(lost)["locked_until_ms"] == queue.now + 300_000
    assert holds_lease(queue.connection, jobs[0])
    assert not holds_lease(queue.connection, jobs[1])


def test_cancelling_takes_the_lease_away(queue: Queue) -> None:
    job_id = queue.add()
    job = queue.take()
    assert cancel(queue.connection, job_id, queue.now) is JobStatus.RUNNING
    assert settle(queue.connection, job, writing("effect"), queue.now) is Settled.LOST
    assert queue.status(job_id) == "cancelled"
    assert written(queue.connection) == set()


def test_cancelling_says_what_there_was(queue: Queue) -> None:
    assert cancel(queue.connection, 99, queue.now) is None
    ready, done = queue.add(), queue.add()
    queue.change(done, status="done")
    assert cancel(queue.connection, ready, queue.now) is JobStatus.READY
    assert cancel(queue.connection, ready, queue.now) is JobStatus.CANCELLED
    assert cancel(queue.connection, done, queue.now) is JobStatus.DONE
    assert queue.statuses() == ["cancelled", "done"]


def test_a_lost_lease_of_a_handler_settles_nothing(queue: Queue) -> None:
    queue.add()
    assert settle(queue.connection, queue.take(), LeaseLost("gone"), queue.now) is Settled.LOST
    assert queue.statuses() == ["running"]


class NoTurn:
    """A place in the queue of writers that must not be taken."""

    def take(self, patience_s: float = 0) -> bool:
        raise AssertionError("waited for the writers' turn")

    def give(self) -> None:
        raise AssertionError

    def close(self) -> None:
        pass


def test_heartbeats_recovery_and_stopping_never_queue_behind_writers(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        queue.add()
    jobs = [queue.take(), queue.take(), queue.take(OTHER)]
    monkeypatch.setattr(queue.connection, "_turn", NoTurn())
    assert renew_leases(queue.connection, jobs[:1], queue.now + 5) == []
    assert release_running_locks(queue.connection, [ME], queue.now, keep=[jobs[0].id]) == 1
    assert len(reclaim_worker(queue.connection, OTHER, None, ordered=False, now_ms=queue.now)) == 1
    assert recover_stale_locks(queue.connection, queue.now + 5) == 1
    with pytest.raises(AssertionError, match="turn"):
        settle(queue.connection, jobs[0], NOTHING_TO_DO, queue.now)
