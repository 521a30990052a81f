from __future__ import annotations

from collections.abc import Callable, Iterable

import apsw
import pytest

from agent.db import Connection
from agent.errors import JobFailure
from agent.queue import (
    NOTHING_TO_DO,
    Claim,
    Defer,
    NewJob,
    Plan,
    Settled,
    StalePlan,
    enqueue_tx,
    holds_lease,
    mark_deferred,
    mark_done,
    mark_failed_typed,
    recover_stale_locks,
    release_running_locks,
    renew_leases,
    settle,
    settle_and_claim,
    settle_many,
)
from agent.queue.types import STALE_PAUSE_MS, backoff_ms
from tests.queue.conftest import ME, OTHER, Queue


def writing(value: str, *follow_ups: NewJob) -> Plan:
    """A plan whose writes can be seen."""

    def writes(connection: Connection) -> Iterable[NewJob]:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES (?, 'x')", (value,))
        return follow_ups

    return Plan(writes=writes)


def written(connection: Connection) -> set[str]:
    return {row[0] for row in connection.all("SELECT key FROM mem_tree_state")}


def test_done_settles_the_row(queue: Queue) -> None:
    job_id = queue.add()
    job = queue.take()
    queue.clock.advance(2)
    assert mark_done(queue.connection, job, queue.now)
    row = queue.row(job_id)
    assert (row["status"], row["completed_at_ms"], row["attempts"]) == ("done", queue.now, 1)
    assert row["locked_by"] is row["locked_until_ms"] is row["last_error"] is row["failure_reason"] is None


def test_a_defer_burns_no_attempt_however_often(queue: Queue) -> None:
    job_id = queue.add(NewJob("reembed_backfill", "{}", "k", max_attempts=3))
    for _ in range(20):
        job = queue.take()
        assert mark_deferred(queue.connection, job, queue.now + 750, "more remain", queue.now)
        queue.clock.advance(0.75)
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("ready", 0, "more remain")
    assert row["available_at_ms"] == queue.now
    assert row["failure_reason"] is row["failure_class"] is None


def test_a_deferred_row_keeps_its_key(queue: Queue) -> None:
    queue.add(NewJob.reembed_backfill("s"))
    mark_deferred(queue.connection, queue.take(), queue.now + 750, "more", queue.now)
    with queue.connection.write():
        assert enqueue_tx(queue.connection, NewJob.reembed_backfill("s"), queue.now) is None


def test_the_age_of_a_deferred_row_counts_from_its_last_progress(queue: Queue) -> None:
    job_id = queue.add()
    settle(queue.connection, queue.take(), Plan(outcome=Defer(queue.now, "waiting")), queue.now)
    assert queue.row(job_id)["progress_at_ms"] is None
    moving = Plan(writes=lambda connection: None, outcome=Defer(queue.now, "moving"))
    settle(queue.connection, queue.take(), moving, queue.now)
    assert queue.row(job_id)["progress_at_ms"] == queue.now


def test_errors_back_off_and_then_fail(queue: Queue) -> None:
    job_id = queue.add()
    for attempt in range(1, 5):
        job = queue.take()
        assert job.attempts == attempt
        assert mark_failed_typed(queue.connection, job, "no", None, queue.now) is Settled.RETRY
        row = queue.row(job_id)
        assert (row["status"], row["attempts"]) == ("ready", attempt)
        assert row["available_at_ms"] == queue.now + backoff_ms(attempt)
        assert queue.claim() is None
        queue.clock.advance(backoff_ms(attempt) / 1000)
    assert mark_failed_typed(queue.connection, queue.take(), "no", None, queue.now) is Settled.FAILED
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("failed", 5, "no")
    assert row["completed_at_ms"] == queue.now


def test_an_unrecoverable_failure_is_terminal_on_the_first_attempt(queue: Queue) -> None:
    job_id = queue.add()
    settled = settle(queue.connection, queue.take(), JobFailure.budget_exhausted(), queue.now)
    assert settled is Settled.FAILED
    row = queue.row(job_id)
    assert (row["failure_reason"], row["failure_class"]) == ("budget_exhausted", "unrecoverable")


def test_a_transient_failure_keeps_its_code_and_its_retry_time(queue: Queue) -> None:
    job_id = queue.add()
    failure = JobFailure.transient("rate_limited", retry_after_ms=600_000)
    assert settle(queue.connection, queue.take(), failure, queue.now) is Settled.RETRY
    row = queue.row(job_id)
    assert (row["failure_reason"], row["failure_class"]) == ("rate_limited", "transient")
    assert row["available_at_ms"] == queue.now + 600_000
    queue.clock.advance(600)
    mark_done(queue.connection, queue.take(), queue.now)
    assert queue.row(job_id)["failure_reason"] is None


def test_a_typed_failure_is_found_down_the_chain_of_causes(queue: Queue) -> None:
    job_id = queue.add()
    error = RuntimeError("extraction failed")
    error.__cause__ = JobFailure.unrecoverable("no_such_model", "the model is not there")
    assert settle(queue.connection, queue.take(), error, queue.now) is Settled.FAILED
    row = queue.row(job_id)
    assert row["failure_reason"] == "no_such_model"
    assert row["last_error"] == "RuntimeError: extraction failed: the model is not there"


def test_a_fault_of_the_database_inside_a_handler_is_transient(queue: Queue) -> None:
    job_id = queue.add()
    error = apsw.FullError("disk full")
    error.result, error.extendedresult = 13, 13
    assert settle(queue.connection, queue.take(), error, queue.now) is Settled.RETRY
    assert queue.row(job_id)["failure_reason"] == "database_disk_full"


def test_effects_status_and_follow_ups_commit_together(queue: Queue, second: Connection) -> None:
    job_id = queue.add()
    seen: list[object] = []

    def writes(connection: Connection) -> list[NewJob]:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('effect', 'x')")
        # Nobody else sees a part of it, and the lease was checked but the status not set.
        seen.append(second.value("SELECT count(*) FROM mem_tree_state"))
        seen.append(connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,)))
        return [NewJob.seal("from writes", 0)]

    plan = Plan(writes=writes, follow_ups=[NewJob.seal("from plan", 0)])
    assert settle(queue.connection, queue.take(), plan, queue.now) is Settled.DONE
    assert seen == [0, "running"]
    assert written(second) == {"effect"}
    keys = [row[0] for row in second.all("SELECT dedupe_key FROM mem_tree_jobs WHERE id > ? ORDER BY id", (job_id,))]
    assert keys == ["seal:from plan:0", "seal:from writes:0"]


def test_a_follow_up_with_the_jobs_own_key_is_not_swallowed(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    again = NewJob("seal", '{"tree_id":"t","level":0}', "seal:t:0")
    assert settle(queue.connection, queue.take(), Plan(follow_ups=[again]), queue.now) is Settled.DONE
    assert queue.statuses() == ["done", "ready"]


def test_lost_lease_applies_nothing(queue: Queue) -> None:
    queue.add()
    job = queue.take()
    queue.clock.advance(301)
    assert recover_stale_locks(queue.connection, queue.now) == 1
    for plan in (NOTHING_TO_DO, writing("effect", NewJob.seal("t", 0)), Plan(outcome=Defer(0, "")), ValueError("x")):
        assert settle(queue.connection, job, plan, queue.now) is Settled.LOST
    assert not mark_done(queue.connection, job, queue.now)
    assert not mark_deferred(queue.connection, job, 0, "", queue.now)
    assert mark_failed_typed(queue.connection, job, "", None, queue.now) is Settled.LOST
    assert written(queue.connection) == set()
    assert queue.statuses() == ["ready"]


def test_a_stale_worker_touches_nothing_of_the_newer_attempt(queue: Queue) -> None:
    job_id = queue.add()
    stale = queue.take(ME)
    queue.clock.advance(301)
    recover_stale_locks(queue.connection, queue.now)
    newer = queue.take(OTHER)
    before = queue.row(job_id)
    assert settle(queue.connection, stale, writing("effect"), queue.now) is Settled.LOST
    assert renew_leases(queue.connection, [stale], queue.now + 999_999) == [job_id]
    assert release_running_locks(queue.connection, [ME], queue.now) == 0
    assert queue.row(job_id) == before
    assert settle(queue.connection, newer, writing("effect"), queue.now) is Settled.DONE


def test_the_same_worker_with_an_older_token_is_stale_too(queue: Queue) -> None:
    # A restarted worker with the same name must not make its old leases look alive (procrastinate 1518).
    queue.add()
    older = queue.take(ME)
    release_running_locks(queue.connection, [ME], queue.now)
    newer = queue.take(ME)
    assert settle(queue.connection, older, NOTHING_TO_DO, queue.now) is Settled.LOST
    assert settle(queue.connection, newer, NOTHING_TO_DO, queue.now) is Settled.DONE


def test_a_plan_that_is_stale_applies_nothing_and_burns_nothing(queue: Queue) -> None:
    job_id = queue.add()

    def writes(connection: Connection) -> Iterable[NewJob]:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('half', 'x')")
        enqueue_tx(connection, NewJob.seal("t", 0), queue.now)
        raise StalePlan("children changed")

    plan = Plan(writes=writes, follow_ups=[NewJob.seal("t", 1)])
    assert settle(queue.connection, queue.take(), plan, queue.now) is Settled.STALE
    row = queue.row(job_id)
    # In a moment, not at once: one that is stale each time would spin.
    assert (row["status"], row["attempts"], row["available_at_ms"]) == ("ready", 0, queue.now + STALE_PAUSE_MS)
    assert row["failure_class"] is None
    assert written(queue.connection) == set()
    assert queue.statuses() == ["ready"]


def test_writes_that_fail_apply_nothing_and_fail_the_job(queue: Queue) -> None:
    job_id = queue.add()

    def writes(connection: Connection) -> Iterable[NewJob]:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('half', 'x')")
        yield NewJob.seal("t", 0)
        raise KeyError("a bug")

    assert settle(queue.connection, queue.take(), Plan(writes=writes), queue.now) is Settled.RETRY
    assert queue.row(job_id)["attempts"] == 1
    assert written(queue.connection) == set()
    assert queue.statuses() == ["ready"]


def test_writes_that_delete_the_jobs_own_row_are_taken_back(queue: Queue) -> None:
    queue.add()

    def writes(connection: Connection) -> None:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('half', 'x')")
        connection.run("DELETE FROM mem_tree_jobs")

    assert settle(queue.connection, queue.take(), Plan(writes=writes), queue.now) is Settled.LOST
    assert written(queue.connection) == set()
    assert queue.statuses() == ["running"]


def test_a_batch_is_settled_together_but_each_row_for_itself(queue: Queue, second: Connection) -> None:
    ids = [queue.add() for _ in range(5)]
    jobs = [queue.take() for _ in ids]
    queue.change(ids[1], lease_token="somebody else's")

    def stale(connection: Connection) -> None:
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('stale', 'x')")
        raise StalePlan("it")

    results = [writing("a"), writing("lost"), Plan(writes=stale), ValueError("x"), writing("e")]
    settled = settle_many(queue.connection, list(zip(jobs, results, strict=True)), queue.now)
    assert settled == [Settled.DONE, Settled.LOST, Settled.STALE, Settled.RETRY, Settled.DONE]
    assert written(second) == {"a", "e"}


def test_a_batch_is_one_transaction(queue: Queue, changes: Callable[[], int]) -> None:
    jobs = [(queue.take(), NOTHING_TO_DO) for _ in range(8) if queue.add()]
    changes()
    frames: list[int] = []
    queue.connection.raw.set_wal_hook(lambda *_: frames.append(1) or 0)
    settle_many(queue.connection, jobs, queue.now)
    assert len(frames) == 1


def test_settling_and_the_next_claim_are_one_transaction(queue: Queue) -> None:
    first, second_id = queue.add(), queue.add()
    job = queue.take()
    commits: list[int] = []
    queue.connection.raw.set_wal_hook(lambda *_: commits.append(1) or 0)
    claim = Claim(queue.registry, ME)
    settled, jobs = settle_and_claim(queue.connection, [(job, NOTHING_TO_DO)], queue.now, claim)
    assert (settled, [each.id for each in jobs]) == ([Settled.DONE], [second_id])
    assert len(commits) == 1
    assert queue.statuses() == ["done", "running"]
    assert first == job.id


def test_the_fused_claim_sees_the_follow_ups(queue: Queue) -> None:
    queue.add()
    plan = Plan(follow_ups=[NewJob.seal("t", 0)])
    _, jobs = settle_and_claim(queue.connection, [(queue.take(), plan)], queue.now, Claim(queue.registry, ME))
    assert [job.dedupe_key for job in jobs] == ["seal:t:0"]


def test_a_plan_may_ask_to_wait_for_the_disk(queue: Queue) -> None:
    queue.add()
    levels: list[int] = []

    def writes(connection: Connection) -> None:
        levels.append(connection.value("PRAGMA synchronous"))

    settle(queue.connection, queue.take(), Plan(writes=writes, full=True), queue.now)
    queue.add()
    settle(queue.connection, queue.take(), Plan(writes=writes), queue.now)
    assert levels == [2, 1]


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (NOTHING_TO_DO, Settled.DONE),
        (Plan(outcome=Defer(5, "later")), Settled.DEFERRED),
        (ValueError("x"), Settled.RETRY),
        (JobFailure.unrecoverable("x"), Settled.FAILED),
        (StalePlan("x"), Settled.STALE),
    ],
)
def test_a_verb_repeated_after_an_unacknowledged_commit_says_the_same(
    queue: Queue, result: Plan | Exception, expected: Settled
) -> None:
    job_id = queue.add()
    job = queue.take()
    assert settle(queue.connection, job, result, queue.now) is expected
    before = queue.row(job_id)
    assert settle(queue.connection, job, result, queue.now + 5) is expected
    assert queue.row(job_id) == before


def test_a_repeated_plan_writes_once(queue: Queue) -> None:
    queue.add()
    job = queue.take()
    calls: list[int] = []

    def writes(connection: Connection) -> list[NewJob]:
        calls.append(1)
        connection.run(
            "INSERT INTO mem_tree_state (key, value) VALUES ('n', '1') ON CONFLICT DO UPDATE SET value = value + 1"
        )
        return [NewJob("seal", "{}")]

    for _ in range(2):
        assert settle(queue.connection, job, Plan(writes=writes), queue.now) is Settled.DONE
    assert len(calls) == 1
    assert queue.connection.value("SELECT value FROM mem_tree_state") == "1"
    assert queue.statuses() == ["done", "ready"]


def test_a_commit_that_reports_an_error_leaves_all_or_nothing(queue: Queue) -> None:
    queue.add()
    job = queue.take()
    queue.connection.raw.set_commit_hook(lambda: 1)
    with pytest.raises(apsw.ConstraintError):
        settle(queue.connection, job, writing("effect", NewJob.seal("t", 0)), queue.now)
    queue.connection.raw.set_commit_hook(None)
    assert written(queue.connection) == set()
    assert queue.statuses() == ["running"]
    assert settle(queue.connection, job, writing("effect", NewJob.seal("t", 0)), queue.now) is Settled.DONE
    assert queue.statuses() == ["done", "ready"]


def test_a_fault_of_the_database_in_the_writes_is_not_the_jobs_failure(queue: Queue) -> None:
    job_id = queue.add()
    job = queue.take()

    def writes(connection: Connection) -> None:
        error = apsw.FullError("disk full")
        error.result, error.extendedresult = 13, 13
        raise error

    with pytest.raises(apsw.FullError):
        settle(queue.connection, job, Plan(writes=writes), queue.now)
    assert queue.row(job_id)["status"] == "running"
    assert holds_lease(queue.connection, job)


def test_a_run_that_survived_to_defer_clears_the_crashes_before_it(queue: Queue) -> None:
    job_id = queue.add()
    queue.change(job_id, crashes=2)
    mark_deferred(queue.connection, queue.take(), queue.now, "more", queue.now)
    assert queue.row(job_id)["crashes"] == 0
    queue.change(job_id, crashes=2)
    settle(queue.connection, queue.take(), ValueError("an error proves nothing of the kind"), queue.now)
    assert queue.row(job_id)["crashes"] == 2
