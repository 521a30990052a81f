from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from agent.db import Connection
from agent.queue import (
    Claim,
    JobSpec,
    NewJob,
    NodeRef,
    Registry,
    claim_jobs,
    claim_next,
    claim_ready_extract_batch,
    count_due,
    due,
    due_llm,
    get_job,
    next_due_ms,
)
from agent.states import JobKind, JobStatus
from tests.queue.conftest import ME, Queue, do_nothing


def test_a_claim_leases_the_row_and_counts_as_an_attempt(queue: Queue) -> None:
    job_id = queue.add(NewJob.extract_chunk("c1"))
    job = queue.take(lease_ms=1234)
    row = queue.row(job_id)
    assert (job.id, job.kind, job.status, job.attempts) == (job_id, "extract_chunk", JobStatus.RUNNING, 1)
    assert (row["status"], row["attempts"], row["locked_by"]) == ("running", 1, ME)
    assert row["locked_until_ms"] == job.locked_until_ms == queue.now + 1234
    assert row["started_at_ms"] == queue.now
    assert row["lease_token"] == job.lease_token
    assert queue.claim() is None


def test_every_claim_has_a_token_of_its_own(queue: Queue) -> None:
    for _ in range(600):
        queue.add()
    tokens = {queue.take().lease_token for _ in range(600)}
    assert len(tokens) == 600


def test_claim_order_drains_forward_then_by_time_then_by_id(queue: Queue) -> None:
    now = queue.now
    jobs = [
        NewJob("extract_chunk", "{}", "e2", available_at_ms=now - 10),
        NewJob("extract_chunk", "{}", "e1", available_at_ms=now - 20),
        NewJob("sync_source", "{}", "s", available_at_ms=now - 15),
        NewJob("append_buffer", "{}", "a", available_at_ms=now),
        NewJob("flush_stale", "{}", "f", available_at_ms=now - 1),
        NewJob("seal", "{}", "late", available_at_ms=now),
        NewJob("seal", "{}", "early", available_at_ms=now - 5),
        NewJob("seal", "{}", "late twin", available_at_ms=now),
        NewJob("reembed_backfill", "{}", "r", available_at_ms=now - 12),
        NewJob("seal_document", "{}", "d", available_at_ms=now - 30),
        NewJob("ingest_file", "{}", "i", available_at_ms=now - 11),
    ]
    for job in jobs:
        queue.add(job)
    order = [queue.take().dedupe_key for _ in jobs]
    assert order == ["early", "late", "late twin", "f", "a", "d", "e1", "s", "r", "i", "e2"]


def test_claim_order_equals_the_seeds_order_by_for_any_mix(queue: Queue) -> None:
    # The seed's own ORDER BY, over the whole table, is the reference for the seeks per kind.
    chance = random.Random(7)
    for number in range(120):
        kind = chance.choice(list(JobKind))
        queue.add(NewJob(kind, "{}", f"k{number}", available_at_ms=queue.now - chance.randrange(5) * 10))
    expected = [
        row[0]
        for row in queue.connection.all(
            """
            SELECT id FROM mem_tree_jobs
             WHERE status = 'ready' AND available_at_ms <= ? AND kind NOT IN ('topic_route', 'digest_daily')
             ORDER BY CASE kind WHEN 'seal' THEN 1 WHEN 'flush_stale' THEN 2 WHEN 'append_buffer' THEN 3 ELSE 4 END,
                      available_at_ms, id
            """,
            (queue.now,),
        )
    ]
    assert [queue.take().id for _ in expected] == expected


def test_a_row_is_not_claimed_before_its_time(queue: Queue) -> None:
    queue.add(NewJob("seal", "{}", "k", available_at_ms=queue.now + 1))
    assert queue.claim() is None
    queue.clock.advance(0.001)
    assert queue.claim() is not None


def test_only_registered_kinds_are_claimed(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    queue.registry = Registry.of([JobSpec("extract_chunk", do_nothing)])
    assert queue.claim() is None
    assert queue.statuses() == ["ready"]


def test_retired_kinds_are_never_claimed(queue: Queue) -> None:
    job_id = queue.add(NewJob.seal("t", 0))
    queue.change(job_id, kind="digest_daily")
    assert queue.claim() is None
    assert queue.status(job_id) == "ready"


def test_without_a_permit_only_kinds_that_need_none_are_claimed(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    append = queue.add(NewJob.append_buffer("source", "s", NodeRef.leaf("c")))
    assert queue.take(with_permit=False).id == append
    assert queue.claim(with_permit=False) is None
    assert queue.claim() is not None


def test_capacity_is_asked_for_each_kind(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    extract = queue.add(NewJob.extract_chunk("c"))
    assert queue.take(allowed=lambda kind: kind != "seal").id == extract
    assert queue.claim(allowed=lambda kind: False) is None


def test_looking_at_an_empty_queue_takes_no_write_lock(queue: Queue, second: Connection) -> None:
    queue.add(NewJob("seal", "{}", "later", available_at_ms=queue.now + 1))
    with second.write():
        # Anything that wrote would wait for this writer, and fail.
        queue.connection.raw.set_busy_timeout(0)
        assert queue.claim() is None
        assert not due(queue.connection, registry=queue.registry, now_ms=queue.now)
        assert claim_ready_extract_batch(queue.connection, worker_id=ME, now_ms=queue.now, limit=8) == []


def test_due_says_what_a_claim_would_find(queue: Queue) -> None:
    def looked(**options: bool) -> bool:
        return due(queue.connection, registry=queue.registry, now_ms=queue.now, **options)

    assert not looked()
    queue.add(NewJob.seal("t", 0))
    assert looked()
    assert not looked(with_permit=False)
    assert due_llm(queue.connection, registry=queue.registry, now_ms=queue.now)
    queue.take()
    assert not looked()
    queue.add(NewJob.sync_source("s"))
    assert not due_llm(queue.connection, registry=queue.registry, now_ms=queue.now)


def test_counting_what_is_due_stops_at_its_limit(queue: Queue) -> None:
    for _ in range(5):
        queue.add()
    queue.add(NewJob.seal("t", 0))
    claim = Claim(queue.registry, ME)
    assert count_due(queue.connection, claim, queue.now, 100) == 6
    assert count_due(queue.connection, claim, queue.now, 3) == 3
    assert count_due(queue.connection, Claim(queue.registry, ME, with_permit=False), queue.now, 100) == 5


def test_next_due_is_the_earliest_ready_row_of_known_kinds(queue: Queue) -> None:
    assert next_due_ms(queue.connection, queue.registry) is None
    queue.add(NewJob("seal", "{}", "b", available_at_ms=queue.now + 90))
    queue.add(NewJob("sync_source", "{}", "a", available_at_ms=queue.now + 70))
    assert next_due_ms(queue.connection, queue.registry) == queue.now + 70


def test_batch_claim_takes_extract_rows_oldest_first_and_no_others(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    late = queue.add(NewJob("extract_chunk", "{}", "late", available_at_ms=queue.now))
    early = queue.add(NewJob("extract_chunk", "{}", "early", available_at_ms=queue.now - 5))
    queue.add(NewJob("extract_chunk", "{}", "delayed", available_at_ms=queue.now + 5))
    jobs = claim_ready_extract_batch(queue.connection, worker_id=ME, now_ms=queue.now, limit=8)
    assert [job.id for job in jobs] == [early, late]
    assert all(job.attempts == 1 and job.locked_by == ME for job in jobs)
    assert queue.statuses() == ["ready", "running", "running", "ready"]


def test_a_row_that_crashed_a_worker_is_claimed_alone(queue: Queue) -> None:
    registry = Registry.of([JobSpec("extract_chunk", do_nothing, batch_size=8)])
    rows = [queue.add(NewJob.extract_chunk(f"c{n}")) for n in range(4)]
    queue.change(rows[0], crashes=1)
    queue.change(rows[2], crashes=2)
    claim = Claim(registry, ME)
    claimed = [[job.id for job in claim_jobs(queue.connection, claim, queue.now)] for _ in range(4)]
    assert claimed == [[rows[0]], [rows[1], rows[3]], [rows[2]], []]
    batch = claim_ready_extract_batch(queue.connection, worker_id=ME, now_ms=queue.now, limit=8)
    assert batch == []


def test_the_owners_bound_on_a_batch_is_kept(queue: Queue) -> None:
    registry = Registry.of([JobSpec("extract_chunk", do_nothing, batch_size=8)])
    for number in range(9):
        queue.add(NewJob.extract_chunk(f"c{number}"))
    assert len(claim_jobs(queue.connection, Claim(registry, ME, batch=3), queue.now)) == 3
    assert len(claim_jobs(queue.connection, Claim(registry, ME), queue.now)) == 6
    assert len({row[0] for row in queue.connection.all("SELECT lease_token FROM mem_tree_jobs")}) >= 2


@pytest.mark.parametrize("payload", ["", "{", "{} trailing", "\udcff".encode("utf-8", "surrogatepass").hex() + "{"])
def test_a_payload_that_is_no_json_is_parked_once_and_seen(queue: Queue, payload: str) -> None:
    broken = queue.add(NewJob("seal", payload, "broken"))
    sound = queue.add(NewJob.seal("t", 0))
    assert queue.take().id == sound
    row = queue.row(broken)
    assert (row["status"], row["failure_class"], row["failure_reason"]) == ("failed", "unrecoverable", "unreadable")
    assert row["last_error"]
    assert row["attempts"] == 0
    assert queue.claim() is None


def test_the_claims_plan_is_a_seek_per_kind(queue: Queue) -> None:
    # Flat with millions of rows: no scan of the table, no sort of what is ready.
    from agent.queue.claim import _find

    plan = [row[3] for row in queue.connection.all("EXPLAIN QUERY PLAN " + _find(2), ("seal", 1, "x", 4, 0))]
    assert any("mem_tree_jobs_line (kind=? AND phase=? AND at_ms<?)" in line for line in plan)
    assert not any(line.startswith("SCAN") and "mem_tree_jobs" in line for line in plan)


def test_claiming_steps_few_rows_however_many_are_delayed_or_done(
    queue: Queue, connection: Connection, measure_steps: Callable[[Callable[[], object]], int]
) -> None:
    def few() -> int:
        queue.add(NewJob.seal("t", queue.connection.value("SELECT count(*) FROM mem_tree_jobs")))
        return measure_steps(lambda: claim_next(connection, registry=queue.registry, worker_id=ME, now_ms=queue.now))

    few()
    alone = few()
    with connection.write():
        connection.many(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
                                       completed_at_ms)
            VALUES (?, '{}', ?, 5, ?, 0, 0)
            """,
            [
                (kind, status, queue.now + (0 if status == "done" else 1 + number))
                for number in range(2_000)
                for kind in ("seal", "extract_chunk")
                for status in ("ready", "done")
            ],
        )
    assert few() <= alone + 60


def test_a_claimed_job_is_the_row_in_full(queue: Queue) -> None:
    job_id = queue.add(NewJob("seal", '{"n":1}', "key", max_attempts=4, input_hash="v1"))
    queue.change(job_id, last_error="x", failure_reason="timeout", failure_class="transient", progress_at_ms=7)
    assert queue.take() == get_job(queue.connection, job_id)
