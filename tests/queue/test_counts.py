from __future__ import annotations

from agent.queue import (
    NewJob,
    QueueCounts,
    count_done_since,
    count_failed_by_reason,
    count_failed_unrecoverable,
    count_jobs,
    count_running,
    count_waiting,
    get_job,
    list_jobs,
)
from agent.states import JobStatus
from tests.queue.conftest import Queue


def test_counts_tell_due_from_deferred_and_unrecoverable_from_failed(queue: Queue) -> None:
    assert count_jobs(queue.connection, queue.now) == QueueCounts()
    ids = [queue.add() for _ in range(11)]
    queue.change(ids[0], available_at_ms=queue.now + 1)
    queue.change(ids[1], status="running")
    for each in ids[2:5]:
        queue.change(each, status="failed", failure_class="transient", failure_reason="timeout")
    for each in ids[3:5]:
        queue.change(each, failure_class="unrecoverable", failure_reason="crash_loop")
    queue.change(ids[5], status="cancelled", failure_class="unrecoverable")
    queue.change(ids[6], status="done", completed_at_ms=queue.now - 50)
    queue.change(ids[7], status="done", completed_at_ms=queue.now - 10)
    assert count_jobs(queue.connection, queue.now) == QueueCounts(
        ready=3, deferred=1, running=1, failed=3, unrecoverable=2, cancelled=1, done=2
    )
    assert count_jobs(queue.connection, queue.now).waiting == 5
    assert count_running(queue.connection) == 1
    assert count_waiting(queue.connection) == 5
    assert count_failed_unrecoverable(queue.connection) == 2
    assert count_failed_by_reason(queue.connection) == {"crash_loop": 2, "timeout": 1}
    assert count_done_since(queue.connection, queue.now - 20) == (1, queue.now - 10)
    assert count_done_since(queue.connection, queue.now) == (0, None)


def test_jobs_are_listed_newest_first_by_status_and_kind(queue: Queue) -> None:
    first, second = queue.add(NewJob.seal("t", 0)), queue.add()
    third = queue.add()
    queue.change(third, status="failed", failure_class="transient", completed_at_ms=5)
    assert [job.id for job in list_jobs(queue.connection)] == [third, second, first]
    assert [job.id for job in list_jobs(queue.connection, kind="seal")] == [first]
    assert [job.id for job in list_jobs(queue.connection, limit=1)] == [third]
    failed = list_jobs(queue.connection, status=JobStatus.FAILED)
    assert [(job.id, job.status, job.failure_class) for job in failed] == [(third, "failed", "transient")]
    assert failed == [get_job(queue.connection, third)]
    assert get_job(queue.connection, 99) is None
