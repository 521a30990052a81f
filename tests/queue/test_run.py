"""The loop without processes: the seed's ``run_once`` and ``drain_until_idle``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.errors import AgentFault, JobFailure, LeaseLost
from agent.queue import (
    NOTHING_TO_DO,
    Defer,
    Job,
    JobContext,
    JobSpec,
    LocalContext,
    NewJob,
    Plan,
    Registry,
    drain_until_idle,
    run_due,
    run_once,
)
from agent.queue.types import REEMBED_BACKFILL_REVISIT_MS, SealPayload
from tests.queue.conftest import Queue, do_nothing


def test_run_once_is_false_where_nothing_is_eligible(queue: Queue, context: LocalContext) -> None:
    assert not run_once(queue.connection, queue.registry, context)
    queue.add(NewJob("seal", "{}", "later", available_at_ms=queue.now + 1))
    assert not run_once(queue.connection, queue.registry, context)
    assert run_once(queue.connection, queue.registry, context, now_ms=queue.now + 1)
    assert queue.statuses() == ["done"]


def test_the_handler_runs_outside_any_transaction(queue: Queue, context: LocalContext, second: Connection) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        assert not context.connection.in_transaction
        with second.write():
            pass
        return NOTHING_TO_DO

    queue.add(NewJob.seal("t", 0))
    assert run_once(queue.connection, Registry.of([JobSpec("seal", handle)]), context)
    assert queue.statuses() == ["done"]


def test_a_handlers_error_is_settled_into_its_row(queue: Queue, context: LocalContext) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        raise ValueError("no")

    job_id = queue.add(NewJob.seal("t", 0))
    assert run_once(queue.connection, Registry.of([JobSpec("seal", handle)]), context)
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["last_error"]) == ("ready", 1, "ValueError: no")


def test_a_lost_lease_settles_nothing(queue: Queue, context: LocalContext) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        raise LeaseLost("gone")

    job_id = queue.add(NewJob.seal("t", 0))
    assert run_once(queue.connection, Registry.of([JobSpec("seal", handle)]), context)
    assert queue.status(job_id) == "running"


class Gate:
    """A permit that remembers when it was held."""

    def __init__(self, connection: Connection, free: bool = True) -> None:
        self.connection = connection
        self.free = free
        self.tried = 0
        self.held = False
        self.seen: list[str] = []

    def __call__(self) -> Permit | None:
        self.tried += 1
        # The permit comes before the claim: nothing may be running for it yet.
        assert self.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'running'") == 0
        return Permit(self) if self.free else None


class Permit:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def __enter__(self) -> None:
        self.gate.held = True

    def __exit__(self, *error: object) -> None:
        self.gate.held = False
        self.gate.seen.append(self.gate.connection.value("SELECT group_concat(status) FROM mem_tree_jobs"))


@pytest.fixture
def gated(queue: Queue) -> tuple[Registry, Gate, list[tuple[str, bool]]]:
    gate, ran = Gate(queue.connection), []

    def handle(context: JobContext, job: Job) -> Plan:
        ran.append((job.kind, gate.held))
        return NOTHING_TO_DO

    specs = [JobSpec("seal", handle, llm_bound=True, rank=1), JobSpec("append_buffer", handle, rank=3)]
    return Registry.of(specs), gate, ran


def test_the_permit_is_taken_before_the_claim_and_given_back_before_settling(
    queue: Queue, context: LocalContext, gated: tuple[Registry, Gate, list[tuple[str, bool]]]
) -> None:
    registry, gate, ran = gated
    queue.add(NewJob.seal("t", 0))
    assert run_once(queue.connection, registry, context, permit=gate)
    assert ran == [("seal", True)]
    assert gate.seen == ["running"]
    assert queue.statuses() == ["done"]


def test_without_a_permit_the_llm_bound_rows_wait_unclaimed(
    queue: Queue, context: LocalContext, gated: tuple[Registry, Gate, list[tuple[str, bool]]]
) -> None:
    registry, gate, ran = gated
    gate.free = False
    queue.add(NewJob.seal("t", 0))
    queue.add(NewJob("append_buffer", "{}", "a"))
    assert run_due(queue.connection, registry, context, permit=gate) == 1
    assert ran == [("append_buffer", False)]
    assert queue.statuses() == ["ready", "done"]


def test_nobody_tries_the_gate_where_no_llm_bound_row_is_due(
    queue: Queue, context: LocalContext, gated: tuple[Registry, Gate, list[tuple[str, bool]]]
) -> None:
    registry, gate, _ = gated
    queue.add(NewJob("append_buffer", "{}", "a"))
    queue.add(NewJob("seal", "{}", "later", available_at_ms=queue.now + 5))
    run_due(queue.connection, registry, context, permit=gate)
    assert gate.tried == 0


def test_a_batch_handler_gets_its_rows_at_once_and_each_settles_for_itself(queue: Queue, context: LocalContext) -> None:
    calls: list[list[str | None]] = []

    def batch(context: JobContext, jobs: Sequence[Job]) -> list[Plan]:
        calls.append([job.dedupe_key for job in jobs])
        return [Plan(outcome=Defer(queue.now + 9, "odd")) if job.id % 2 else NOTHING_TO_DO for job in jobs]

    registry = Registry.of([JobSpec("extract_chunk", do_nothing, batch=batch, batch_size=4)])
    for number in range(6):
        queue.add(NewJob.extract_chunk(f"c{number}"))
    assert run_due(queue.connection, registry, context) == 6
    assert calls == [["extract:c0", "extract:c1", "extract:c2", "extract:c3"], ["extract:c4", "extract:c5"]]
    assert queue.statuses() == ["ready", "done"] * 3


def test_one_bad_row_takes_no_batch_mate_with_it(queue: Queue, context: LocalContext) -> None:
    begun: list[int] = []

    def batch(context: JobContext, jobs: Sequence[Job]) -> list[Plan]:
        raise KeyError("one of them")

    def handle(context: JobContext, job: Job) -> Plan:
        begun.append(job.id)
        if job.id == 2:
            raise KeyError("this one")
        return NOTHING_TO_DO

    registry = Registry.of([JobSpec("extract_chunk", handle, batch=batch, batch_size=4)])
    for number in range(3):
        queue.add(NewJob.extract_chunk(f"c{number}"))
    run_due(queue.connection, registry, context)
    assert begun == [1, 2, 3]
    assert queue.statuses() == ["done", "ready", "done"]


def test_a_typed_failure_of_a_batch_is_not_asked_for_again_row_by_row(queue: Queue, context: LocalContext) -> None:
    def batch(context: JobContext, jobs: Sequence[Job]) -> list[Plan]:
        raise JobFailure.budget_exhausted()

    def handle(context: JobContext, job: Job) -> Plan:
        raise AssertionError("thirty-two more payment errors")

    registry = Registry.of([JobSpec("extract_chunk", handle, batch=batch, batch_size=4)])
    for number in range(3):
        queue.add(NewJob.extract_chunk(f"c{number}"))
    run_due(queue.connection, registry, context)
    assert {row[0] for row in queue.connection.all("SELECT failure_reason FROM mem_tree_jobs")} == {"budget_exhausted"}


def test_small_jobs_may_be_claimed_and_settled_together_without_a_batch_handler(
    queue: Queue, context: LocalContext
) -> None:
    registry = Registry.of([JobSpec("append_buffer", do_nothing, batch_size=16)])
    for number in range(16):
        queue.add(NewJob("append_buffer", "{}", f"k{number}"))
    commits: list[int] = []
    queue.connection.raw.set_wal_hook(lambda *_: commits.append(1) or 0)
    assert run_due(queue.connection, registry, context) == 16
    assert len(commits) == 2
    assert set(queue.statuses()) == {"done"}


def test_drain_runs_follow_ups_until_nothing_is_left(queue: Queue, context: LocalContext) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        level = int(job.payload_json)
        return Plan(follow_ups=[NewJob("seal", str(level + 1), f"l{level + 1}")]) if level < 9 else NOTHING_TO_DO

    queue.add(NewJob("seal", "0", "l0"))
    assert drain_until_idle(context, Registry.of([JobSpec("seal", handle)])) == 10
    assert queue.statuses() == ["done"] * 10


def test_drain_lets_time_go_on_instead_of_waiting(queue: Queue, context: LocalContext, clock: FakeClock) -> None:
    times: list[int] = []

    def handle(context: JobContext, job: Job) -> Plan:
        times.append(context.clock.now_ms())
        if len(times) < 4:
            return Plan(outcome=Defer(context.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS, "more"))
        return NOTHING_TO_DO

    queue.add(NewJob.reembed_backfill("s"))
    start = queue.now
    assert drain_until_idle(context, Registry.of([JobSpec("reembed_backfill", handle)])) == 4
    assert [at - start for at in times] == [0, 750, 1500, 2250]
    assert clock.slept == []
    assert queue.now == start


def test_drain_goes_through_the_backoffs_to_the_end(queue: Queue, context: LocalContext) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        raise ValueError("never")

    queue.add(NewJob.seal("t", 0))
    assert drain_until_idle(context, Registry.of([JobSpec("seal", handle)])) == 5
    assert queue.statuses() == ["failed"]


def test_drain_flushes_once_idle_until_there_is_nothing_new(queue: Queue, context: LocalContext) -> None:
    asked: list[int] = []

    def flush(connection: Connection, now_ms: int) -> list[NewJob]:
        assert connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'ready'") == 0
        asked.append(now_ms)
        return [NewJob.seal("t", len(asked))] if len(asked) < 3 else []

    assert drain_until_idle(context, queue.registry, flush=flush) == 2
    assert len(asked) == 3


def test_drain_refuses_a_queue_that_feeds_itself_for_ever(queue: Queue, context: LocalContext) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        return Plan(outcome=Defer(context.clock.now_ms(), "again"))

    queue.add(NewJob.seal("t", 0))
    with pytest.raises(AgentFault, match="rest"):
        drain_until_idle(context, Registry.of([JobSpec("seal", handle)]), limit=50)


def test_drain_leaves_what_is_due_beyond_its_horizon(queue: Queue, context: LocalContext) -> None:
    queue.add(NewJob("seal", "{}", "next year", available_at_ms=queue.now + 365 * 86_400_000))
    assert drain_until_idle(context, queue.registry) == 0
    assert queue.statuses() == ["ready"]


def test_drain_with_a_permit(queue: Queue, context: LocalContext) -> None:
    held: list[str] = []

    @contextmanager
    def permit() -> Iterator[None]:
        held.append("taken")
        yield
        held.append("given")

    queue.add(NewJob.seal("t", 0))
    queue.add(NewJob.sync_source("s"))
    assert drain_until_idle(context, queue.registry, permit=permit) == 2
    assert held == ["taken", "given"]


def test_a_payload_that_does_not_fit_its_kind_is_parked_at_the_first_attempt(
    queue: Queue, context: LocalContext
) -> None:
    def handle(context: JobContext, job: Job) -> Plan:
        return Plan(follow_ups=[NewJob.seal(job.payload(SealPayload).tree_id, 1)])

    job_id = queue.add(NewJob("seal", '{"tree":"t"}', "k"))
    assert run_once(queue.connection, Registry.of([JobSpec("seal", handle)]), context)
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["failure_reason"]) == ("failed", 1, "unreadable_payload")
    assert "tree_id" in row["last_error"]


def test_a_permit_that_the_claimed_row_does_not_need_goes_back_before_its_handler_runs(
    queue: Queue, context: LocalContext, gated: tuple[Registry, Gate, list[tuple[str, bool]]]
) -> None:
    registry, gate, ran = gated
    registry = Registry.of([JobSpec("flush_stale", registry["append_buffer"].handle, rank=0), *registry])
    queue.add(NewJob.seal("t", 0))
    queue.add(NewJob("flush_stale", "{}", "f"))
    assert run_once(queue.connection, registry, context, permit=gate)
    assert ran == [("flush_stale", False)]
    assert run_once(queue.connection, registry, context, permit=gate)
    assert ran[1:] == [("seal", True)]
