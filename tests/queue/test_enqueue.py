from __future__ import annotations

import pytest

from agent.db import Connection
from agent.queue import (
    Defer,
    JobSpec,
    NewJob,
    Plan,
    Registry,
    Settled,
    enqueue,
    enqueue_many_tx,
    enqueue_tx,
    mark_done,
    settle,
)
from agent.states import RETIRED_JOB_KINDS
from tests.queue.conftest import Queue, do_nothing


def test_enqueue_makes_a_ready_row_with_the_defaults(queue: Queue) -> None:
    row = queue.row(queue.add(NewJob.extract_chunk("c1")))
    assert row["kind"] == "extract_chunk"
    assert row["payload_json"] == '{"chunk_id":"c1"}'
    assert row["status"] == "ready"
    assert (row["attempts"], row["max_attempts"], row["crashes"], row["rerun"]) == (0, 5, 0, 0)
    assert row["available_at_ms"] == row["created_at_ms"] == queue.now
    assert row["locked_by"] is row["lease_token"] is row["locked_until_ms"] is None


def test_attempts_of_a_job_go_before_those_of_its_kind_and_these_before_the_default(queue: Queue) -> None:
    registry = Registry.of([JobSpec("seal", do_nothing, max_attempts=7)])
    for job, expected in ((NewJob.seal("t", 0), 7), (NewJob("seal", "{}", "k", max_attempts=2), 2)):
        job_id = enqueue(queue.connection, job, queue.now, registry=registry)
        assert job_id is not None
        assert queue.row(job_id)["max_attempts"] == expected


def test_a_second_enqueue_while_ready_is_a_silent_no_op(queue: Queue) -> None:
    first = queue.add(NewJob("seal", "{}", "key", available_at_ms=queue.now + 60_000))
    before = queue.row(first)
    assert enqueue(queue.connection, NewJob("seal", '{"other":1}', "key"), queue.now) is None
    # Its delay is a backoff or a pace: a duplicate neither shortens it nor changes the row.
    assert queue.row(first) == before
    assert queue.statuses() == ["ready"]


def test_the_key_is_released_when_the_row_is_done(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    mark_done(queue.connection, queue.take(), queue.now)
    assert queue.add(NewJob.seal("t", 0)) == 2
    assert queue.statuses() == ["done", "ready"]


def test_jobs_without_a_key_never_meet(queue: Queue) -> None:
    assert queue.add(NewJob("seal", "{}")) != queue.add(NewJob("seal", "{}"))


def test_an_enqueue_that_meets_a_running_row_is_never_lost(queue: Queue) -> None:
    queue.add(NewJob("seal", '{"n":1}', "key", input_hash="old"))
    job = queue.take()
    assert enqueue(queue.connection, NewJob("seal", '{"n":2}', "key", input_hash="new"), queue.now) is None
    assert enqueue(queue.connection, NewJob("seal", '{"n":3}', "key", input_hash="newest"), queue.now) is None
    assert queue.statuses() == ["running"]
    queue.clock.advance(1)
    assert mark_done(queue.connection, job, queue.now)
    assert queue.statuses() == ["done", "ready"]
    fresh = queue.row(queue.connection.value("SELECT max(id) FROM mem_tree_jobs"))
    assert (fresh["payload_json"], fresh["input_hash"], fresh["dedupe_key"]) == ('{"n":3}', "newest", "key")
    assert (fresh["attempts"], fresh["rerun"], fresh["available_at_ms"]) == (0, 0, queue.now)


def test_a_deferred_row_serves_the_enqueue_that_met_it_running_itself(queue: Queue) -> None:
    job_id = queue.add(NewJob("seal", '{"n":1}', "key"))
    job = queue.take()
    enqueue(queue.connection, NewJob("seal", '{"n":2}', "key"), queue.now)
    until = queue.now + 750
    assert settle(queue.connection, job, Plan(outcome=Defer(until, "more")), queue.now) is Settled.DEFERRED
    row = queue.row(job_id)
    assert (row["payload_json"], row["rerun"], row["available_at_ms"]) == ('{"n":2}', 0, until)
    assert queue.statuses() == ["ready"]


def test_a_failed_row_leaves_a_fresh_one_to_whoever_enqueued_meanwhile(queue: Queue) -> None:
    queue.add(NewJob("seal", '{"n":1}', "key", max_attempts=1))
    job = queue.take()
    enqueue(queue.connection, NewJob("seal", '{"n":2}', "key"), queue.now)
    assert settle(queue.connection, job, ValueError("no"), queue.now) is Settled.FAILED
    assert queue.statuses() == ["failed", "ready"]


def test_retired_kinds_are_refused(queue: Queue) -> None:
    for kind in RETIRED_JOB_KINDS:
        with pytest.raises(ValueError, match="retired"):
            enqueue(queue.connection, NewJob(kind, "{}"), queue.now)


def test_enqueue_tx_commits_and_rolls_back_with_its_cause(queue: Queue, second: Connection) -> None:
    def break_off() -> None:
        with queue.connection.write():
            assert enqueue_tx(queue.connection, NewJob.seal("t", 0), queue.now) == 1
            assert second.value("SELECT count(*) FROM mem_tree_jobs") == 0
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_off()
    assert queue.statuses() == []
    with queue.connection.write():
        jobs = [NewJob.seal("t", 0), NewJob.seal("t", 1), NewJob.seal("t", 0)]
        assert enqueue_many_tx(queue.connection, jobs, queue.now) == 2
    assert second.value("SELECT count(*) FROM mem_tree_jobs") == 2


def test_the_index_itself_refuses_two_active_rows_with_one_key(queue: Queue) -> None:
    import apsw

    queue.add(NewJob.seal("t", 0))
    other = queue.add(NewJob.seal("t", 1))
    with pytest.raises(apsw.ConstraintError):
        queue.change(other, dedupe_key="seal:t:0")
