from __future__ import annotations

import pytest

import agent.queue.requeue as requeue_module
from agent.errors import JobFailure
from agent.queue import (
    NewJob,
    count_failed_unrecoverable,
    requeue_failed,
    requeue_transient_failed,
    retry,
    self_heal,
    settle,
    settle_superseded,
)
from agent.queue.requeue import heal_wait_ms
from tests.queue.conftest import Queue


def fail(queue: Queue, key: str | None = None, failure: Exception | None = None) -> int:
    """Leave a failed row behind and return its id."""
    job_id = queue.add(NewJob("sync_source", "{}", key, max_attempts=1))
    assert queue.take().id == job_id
    queue.change(job_id, status="running")
    row = queue.row(job_id)
    from agent.queue import get_job

    job = get_job(queue.connection, job_id)
    assert job is not None
    assert row["lease_token"] == job.lease_token
    settle(queue.connection, job, failure or JobFailure.transient("timeout"), queue.now)
    assert queue.status(job_id) == "failed"
    return job_id


def test_transient_failures_are_requeued_and_unrecoverable_ones_stay(queue: Queue) -> None:
    transient = fail(queue, "a")
    untyped = fail(queue, "b", ValueError("x"))
    parked = fail(queue, "c", JobFailure.budget_exhausted())
    assert count_failed_unrecoverable(queue.connection) == 1
    assert requeue_transient_failed(queue.connection, queue.now) == 2
    assert [queue.status(each) for each in (transient, untyped, parked)] == ["ready", "ready", "failed"]
    row = queue.row(transient)
    assert (row["attempts"], row["available_at_ms"], row["failure_reason"]) == (0, queue.now, None)


def test_requeue_failed_takes_both_classes_or_the_reasons_named(queue: Queue) -> None:
    key, credit = fail(queue, "a", JobFailure.unrecoverable("key_missing")), fail(queue, "b")
    assert requeue_failed(queue.connection, queue.now, reasons=["key_missing"]) == 1
    assert (queue.status(key), queue.status(credit)) == ("ready", "failed")
    assert requeue_failed(queue.connection, queue.now) == 1
    assert requeue_failed(queue.connection, queue.now) == 0


@pytest.mark.parametrize("requeue", [requeue_failed, requeue_transient_failed, self_heal])
def test_of_several_failed_rows_with_one_key_the_newest_is_requeued(queue: Queue, requeue: object) -> None:
    assert callable(requeue)
    older, newest, single, keyless, keyless_too = (
        fail(queue, "k"),
        fail(queue, "k"),
        fail(queue, "other"),
        fail(queue),
        fail(queue),
    )
    assert requeue(queue.connection, queue.now) == 4
    assert queue.status(older) == "cancelled"
    assert [queue.status(each) for each in (newest, single, keyless, keyless_too)] == ["ready"] * 4


@pytest.mark.parametrize("status", ["ready", "running", "done"])
def test_a_row_whose_work_a_newer_one_does_is_cancelled(queue: Queue, status: str) -> None:
    failed = fail(queue, "k")
    newer = queue.add(NewJob("sync_source", "{}", "k"))
    queue.change(newer, status=status)
    assert requeue_failed(queue.connection, queue.now) == 0
    assert (queue.status(failed), queue.status(newer)) == ("cancelled", status)


def test_five_hundred_failed_rows_with_clashing_keys_are_requeued(queue: Queue) -> None:
    # A bulk UPDATE broke on the dedupe index here, and self-heal died silently.
    with queue.connection.write():
        queue.connection.many(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, failure_class,
                                       available_at_ms, created_at_ms, completed_at_ms)
            VALUES ('seal', '{}', ?, 'failed', 5, 'transient', 0, 0, 0)
            """,
            [(f"k{number % 250}",) for number in range(500)],
        )
    assert self_heal(queue.connection, queue.now) == 250
    assert sorted(queue.statuses()) == ["cancelled"] * 250 + ["ready"] * 250


def test_self_heal_rests_longer_each_time(queue: Queue) -> None:
    assert [heal_wait_ms(n) // 3_600_000 for n in range(8)] == [0, 1, 2, 4, 8, 16, 24, 24]
    job_id = fail(queue, "k")
    for heals in range(1, 4):
        if heals > 1:
            assert self_heal(queue.connection, queue.now) == 0
            queue.clock.advance(heal_wait_ms(heals - 1) / 1000 - 0.001)
            assert self_heal(queue.connection, queue.now) == 0
            queue.clock.advance(0.001)
        assert self_heal(queue.connection, queue.now) == 1
        assert queue.row(job_id)["heals"] == heals
        for _ in range(queue.row(job_id)["max_attempts"]):
            settle(queue.connection, queue.take(), JobFailure.transient("timeout"), queue.now)
        assert queue.status(job_id) == "failed"


def test_self_heal_is_bounded_and_goes_on_at_the_next_tick(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requeue_module, "HEAL_ROWS", 2)
    for key in "abc":
        fail(queue, key)
    assert [self_heal(queue.connection, queue.now) for _ in range(3)] == [2, 1, 0]


def test_a_requeued_crash_loop_is_still_claimed_alone(queue: Queue) -> None:
    job_id = fail(queue, "k")
    queue.change(job_id, crashes=3, failure_class="unrecoverable", failure_reason="crash_loop")
    assert self_heal(queue.connection, queue.now) == 0
    assert requeue_failed(queue.connection, queue.now) == 1
    assert queue.row(job_id)["crashes"] == 1


def test_retry_opens_failed_and_cancelled_rows(queue: Queue) -> None:
    failed, cancelled = fail(queue, "a"), fail(queue, "b")
    queue.change(cancelled, status="cancelled")
    assert retry(queue.connection, failed, queue.now)
    assert retry(queue.connection, cancelled, queue.now)
    assert queue.statuses() == ["ready", "ready"]


def test_retry_ends_a_backoff(queue: Queue) -> None:
    job_id = queue.add(NewJob("seal", "{}", "k", available_at_ms=queue.now + 3_600_000))
    assert retry(queue.connection, job_id, queue.now)
    assert queue.take().id == job_id


def test_retry_of_an_older_row_opens_the_newest_of_its_key(queue: Queue) -> None:
    older, newest = fail(queue, "k"), fail(queue, "k")
    assert retry(queue.connection, older, queue.now)
    assert (queue.status(older), queue.status(newest)) == ("cancelled", "ready")


def test_retry_where_the_work_is_on_its_way_adds_nothing(queue: Queue) -> None:
    failed = fail(queue, "k")
    active = queue.add(NewJob("sync_source", "{}", "k"))
    assert retry(queue.connection, failed, queue.now)
    assert (queue.status(failed), queue.status(active)) == ("cancelled", "ready")


def test_retry_refuses_what_runs_is_done_or_is_not_there(queue: Queue) -> None:
    running, done = queue.add(), queue.add()
    queue.take()
    queue.change(done, status="done")
    assert not retry(queue.connection, running, queue.now)
    assert not retry(queue.connection, done, queue.now)
    assert not retry(queue.connection, 99, queue.now)


def test_a_failure_that_a_newer_success_made_good_is_no_failure_any_more(queue: Queue) -> None:
    failed, other = fail(queue, "k"), fail(queue, "other")
    newer = queue.add(NewJob("sync_source", "{}", "k"))
    assert settle_superseded(queue.connection, queue.now) == 0
    queue.change(newer, status="done")
    assert settle_superseded(queue.connection, queue.now) == 1
    assert (queue.status(failed), queue.status(other)) == ("cancelled", "failed")


def test_of_failures_with_one_key_only_the_newest_stays_a_failure(queue: Queue) -> None:
    older, newest = (fail(queue, "k", JobFailure.budget_exhausted()) for _ in range(2))
    assert settle_superseded(queue.connection, queue.now) == 1
    assert (queue.status(older), queue.status(newest)) == ("cancelled", "failed")
    assert settle_superseded(queue.connection, queue.now) == 0
