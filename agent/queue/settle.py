"""The ways a job ends: done, failed, deferred, put back; and cancelled by its owner.

``settle`` is one ``BEGIN IMMEDIATE`` transaction in the order of point 1: lease token, the plan's writes, the status,
the follow-ups. A lost lease applies nothing. Where the next claim needs no permit it is fused into the same
transaction (14,000 jobs/s plain, 18,500 fused; ``numbers.md``).

Every verb is fenced by row id and lease token, and the row count decides. A settled row keeps its token: a verb that
is repeated after a commit that reported an error finds it and says again what it said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from agent.db import faults
from agent.errors import JobFailure, LeaseLost, Postponed
from agent.queue.claim import Claim, claim_jobs_tx
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.redaction import describe_error, redact_error
from agent.queue.types import AT_ONCE_MS, STALE_PAUSE_MS, Defer, Job, NewJob, Plan, StalePlan, backoff_ms
from agent.queue.wake import send_wake, wake_ports
from agent.states import FailureClass, JobStatus

if TYPE_CHECKING:
    from agent.db import Connection

Result = Plan | Exception

_DONE = """
UPDATE mem_tree_jobs
   SET status = 'done',
       completed_at_ms = ?,
       last_error = NULL,
       failure_reason = NULL,
       failure_class = NULL,
       failure_scope = NULL,
       locked_until_ms = NULL,
       locked_by = NULL
 WHERE id = ?
   AND lease_token = ?
   AND status = 'running'
"""
# Most rows were not asked for again meanwhile: this form needs no RETURNING.
_DONE_ONCE = _DONE + "   AND rerun = 0\n"
_DONE_RERUN = _DONE + "RETURNING rerun\n"
# A row that goes back to ready serves an enqueue that met it running: it takes over the newest payload.
_READY_AGAIN = """
UPDATE mem_tree_jobs
   SET status = 'ready',
       attempts = max(attempts - ?, 0),
       crashes = CASE WHEN ? THEN 0 ELSE crashes END,
       available_at_ms = ?,
       last_error = coalesce(?, last_error),
       failure_reason = ?,
       failure_class = ?,
       failure_scope = ?,
       progress_at_ms = coalesce(?, progress_at_ms),
       payload_json = CASE WHEN rerun THEN coalesce(rerun_payload, payload_json) ELSE payload_json END,
       input_hash = CASE WHEN rerun THEN coalesce(rerun_input_hash, input_hash) ELSE input_hash END,
       rerun = 0,
       rerun_payload = NULL,
       rerun_input_hash = NULL,
       locked_until_ms = NULL,
       locked_by = NULL
 WHERE id = ?
   AND lease_token = ?
   AND status = 'running'
"""
_FAILED = """
UPDATE mem_tree_jobs
   SET status = 'failed',
       completed_at_ms = ?,
       last_error = ?,
       failure_reason = ?,
       failure_class = ?,
       failure_scope = ?,
       locked_until_ms = NULL,
       locked_by = NULL
 WHERE id = ?
   AND lease_token = ?
   AND status = 'running'
RETURNING rerun
"""
# The fresh row that was promised to whoever enqueued while this one ran; one that went before all others does so again
# (``AT_ONCE_MS``). Parameters: now, now, id.
RERUN = f"""
INSERT INTO mem_tree_jobs
       (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, input_hash, created_at_ms)
SELECT kind, coalesce(rerun_payload, payload_json), dedupe_key, 'ready', max_attempts,
       CASE WHEN available_at_ms = {AT_ONCE_MS} THEN available_at_ms ELSE ? END,
       coalesce(rerun_input_hash, input_hash), ?
  FROM mem_tree_jobs
 WHERE id = ?
"""
_HOLDS = "SELECT 1 FROM mem_tree_jobs WHERE id = ? AND lease_token = ? AND status = 'running'"


def postponed(later: Postponed) -> Plan:
    """Return the plan of a handler that cannot go on now: nothing is written, no attempt is burnt."""
    return Plan(outcome=Defer(later.until_ms, later.reason, later.code or None, later.scope))


class Settled(StrEnum):
    """What became of a job."""

    DONE = "done"
    DEFERRED = "deferred"
    RETRY = "retry"  # failed, ready again after its backoff
    FAILED = "failed"  # terminal
    STALE = "stale"  # nothing applied, ready again in a moment, no attempt burnt
    LOST = "lost"  # the lease was somebody else's by then: nothing applied


def mark_done(connection: Connection, job: Job, now_ms: int) -> bool:
    """Settle a job as done in a transaction of its own; ``False`` where the lease is lost. Safe to repeat."""
    return settle(connection, job, Plan(), now_ms) is Settled.DONE


def mark_deferred(connection: Connection, job: Job, until_ms: int, reason: str, now_ms: int) -> bool:
    """Put a job off to ``until_ms`` (UTC ms) without burning an attempt; ``False`` where the lease is lost."""
    return settle(connection, job, Plan(outcome=Defer(until_ms, reason)), now_ms) is Settled.DEFERRED


def mark_failed_typed(connection: Connection, job: Job, message: str, typed: JobFailure | None, now_ms: int) -> Settled:
    """Settle an error: terminal if ``typed`` is unrecoverable or the attempts are used up, else ready after a backoff.

    ``message`` is redacted and kept as ``last_error``. Returns ``FAILED``, ``RETRY`` or ``LOST``.
    """
    with connection.write():
        settled, inserted = _fail_tx(connection, job, message, typed, now_ms)
        ports = wake_ports(connection) if inserted else []
    send_wake(ports)
    return settled


def settle(connection: Connection, job: Job, result: Result, now_ms: int) -> Settled:
    """Apply a handler's plan, or its error, in one transaction. Raises only faults of the database: then repeat."""
    return settle_many(connection, [(job, result)], now_ms)[0]


def settle_many(connection: Connection, results: Sequence[tuple[Job, Result]], now_ms: int) -> list[Settled]:
    """Settle a batch in one transaction, each job on its own: one that is stale or lost takes no other with it."""
    return settle_and_claim(connection, results, now_ms, None)[0]


def settle_and_claim(
    connection: Connection, results: Sequence[tuple[Job, Result]], now_ms: int, claim: Claim | None
) -> tuple[list[Settled], list[Job]]:
    """Settle and lease the next jobs in one transaction; return both. Wakes other workers if work was added.

    Raises only faults of the database, nothing applied as far as SQLite knows: repeat ``settle_many`` with the same
    results, then ``release_running_locks`` for this worker, since a lease taken here may have been committed unseen.
    Waits for the disk (FULL) where one of the plans asks for it.
    """
    full = False
    for _, result in results:
        if isinstance(result, Plan) and result.full:
            full = True
    ports: list[int] = []
    with connection.write(full=full):
        settled: list[Settled] = []
        added = 0
        for job, result in results:
            word, inserted = _settle_tx(connection, job, result, now_ms)
            settled.append(word)
            added += inserted
        claimed = [] if claim is None else claim_jobs_tx(connection, claim, now_ms)
        # What this worker takes itself needs nobody else.
        if added > len(claimed):
            ports = wake_ports(connection)
    if ports:
        send_wake(ports)
    return settled, claimed


def _settle_tx(connection: Connection, job: Job, result: Result, now_ms: int) -> tuple[Settled, int]:
    if not isinstance(result, Plan):
        return _settle_error_tx(connection, job, result, now_ms)
    if result.writes is None:
        return _apply_tx(connection, job, result, result.follow_ups, now_ms)
    if not _holds(connection, job):
        return _repeated(connection, job, result, now_ms), 0
    connection.run("SAVEPOINT plan")
    try:
        # The generator, if it is one, must be read to its end before the status: its reads belong to the plan.
        more = list(result.writes(connection) or ())
        applied = _apply_tx(connection, job, result, [*result.follow_ups, *more], now_ms)
        if applied[0] is Settled.LOST:
            # The plan's own writes took the row away (forgetting does): without its row nothing of it may stay.
            raise LeaseLost("the job's row is gone", f"job {job.id}")
    except Exception as error:
        # A database that has rolled back by itself, or is in trouble, is not this job's failure.
        if not connection.in_transaction or faults.is_database_fault(error):
            raise
        connection.run("ROLLBACK TO plan")
        connection.run("RELEASE plan")
        return _settle_error_tx(connection, job, error, now_ms)
    connection.run("RELEASE plan")
    return applied


def _settle_error_tx(connection: Connection, job: Job, error: Exception, now_ms: int) -> tuple[Settled, int]:
    if isinstance(error, LeaseLost):
        return Settled.LOST, 0
    if isinstance(error, Postponed):
        return _apply_tx(connection, job, postponed(error), (), now_ms)
    if isinstance(error, StalePlan):
        soon = now_ms + STALE_PAUSE_MS
        if connection.run(_READY_AGAIN, (1, False, soon, None, None, None, None, None, job.id, job.lease_token)):
            return Settled.STALE, 0
        return _repeated(connection, job, error, now_ms), 0
    message, typed = describe_error(error)
    return _fail_tx(connection, job, message, typed, now_ms)


def _apply_tx(
    connection: Connection, job: Job, plan: Plan, follow_ups: Iterable[NewJob], now_ms: int
) -> tuple[Settled, int]:
    outcome = plan.outcome
    inserted = 0
    if isinstance(outcome, Defer):
        # Its age counts from the last progress: a back-fill that keeps moving never grows old.
        moved = now_ms if plan.writes is not None else None
        reason = redact_error(outcome.reason)
        code, scope = outcome.code, outcome.scope
        parameters = (1, True, outcome.until_ms, reason, code, None, scope, moved, job.id, job.lease_token)
        if not connection.run(_READY_AGAIN, parameters):
            return _repeated(connection, job, plan, now_ms), 0
        word = Settled.DEFERRED
    else:
        if not connection.run(_DONE_ONCE, (now_ms, job.id, job.lease_token)):
            row = connection.one(_DONE_RERUN, (now_ms, job.id, job.lease_token))
            if row is None:
                return _repeated(connection, job, plan, now_ms), 0
            inserted = connection.run(RERUN, (now_ms, now_ms, job.id))
        word = Settled.DONE
    if follow_ups:
        inserted += enqueue_many_tx(connection, follow_ups, now_ms)
    return word, inserted


def _fail_tx(
    connection: Connection, job: Job, message: str, typed: JobFailure | None, now_ms: int
) -> tuple[Settled, int]:
    text = redact_error(message)
    reason = None if typed is None else typed.code
    kind = None if typed is None else str(typed.failure_class)
    scope = None if typed is None else typed.scope
    if job.attempts < job.max_attempts and not (typed is not None and typed.is_unrecoverable()):
        wait = backoff_ms(job.attempts)
        if typed is not None and typed.retry_after_ms is not None:
            wait = max(wait, typed.retry_after_ms)
        parameters = (0, False, now_ms + wait, text, reason, kind, scope, None, job.id, job.lease_token)
        if connection.run(_READY_AGAIN, parameters):
            return Settled.RETRY, 0
        return _repeated(connection, job, None, now_ms), 0
    # Used-up attempts of an untyped error: nothing says that trying again cannot help, so self-heal may.
    kind = kind or str(FailureClass.TRANSIENT)
    row = connection.one(_FAILED, (now_ms, text, reason, kind, scope, job.id, job.lease_token))
    if row is None:
        return _repeated(connection, job, None, now_ms), 0
    # Whoever enqueued while it ran was promised a run: its input is newer than what failed here.
    return Settled.FAILED, connection.run(RERUN, (now_ms, now_ms, job.id)) if row[0] else 0


def _holds(connection: Connection, job: Job) -> bool:
    return connection.value(_HOLDS, (job.id, job.lease_token)) is not None


def _repeated(connection: Connection, job: Job, result: Result | None, now_ms: int) -> Settled:
    """Return what an earlier, unacknowledged commit of this very claim did to the row, or ``LOST``."""
    status = connection.value(
        "SELECT status FROM mem_tree_jobs WHERE id = ? AND lease_token = ? AND status <> 'running'",
        (job.id, job.lease_token),
    )
    if status == JobStatus.DONE:
        return Settled.DONE
    if status == JobStatus.FAILED:
        return Settled.FAILED
    if status == JobStatus.READY:
        if isinstance(result, Plan):
            # A plan that ends in done leaves its row ready only where its writes found their input changed.
            return Settled.DEFERRED if isinstance(result.outcome, Defer) else Settled.STALE
        return Settled.STALE if isinstance(result, StalePlan) else Settled.RETRY
    return Settled.LOST


def renew_leases(connection: Connection, jobs: Sequence[Job], until_ms: int) -> list[int]:
    """Prolong the leases that are still held and return the ids of those that are lost.

    Does not queue behind other writers: a heartbeat that waits is a lease that ends. Safe to repeat.
    """
    with connection.write(turn=False):
        return [
            job.id
            for job in jobs
            if not connection.run(
                """
                UPDATE mem_tree_jobs
                   SET locked_until_ms = ?
                 WHERE id = ?
                   AND lease_token = ?
                   AND status = 'running'
                """,
                (until_ms, job.id, job.lease_token),
            )
        ]


def holds_lease(connection: Connection, job: Job) -> bool:
    """Return whether the job's lease is still ours. Reads only."""
    return _holds(connection, job)


def cancel(connection: Connection, job_id: int, now_ms: int) -> JobStatus | None:
    """Cancel a job that is not over; return the status it had, or ``None`` where there is no such row.

    A running one loses its lease, so that nothing of its run is applied. A settled one stays as it is; a failed one
    becomes cancelled, which takes it out of the counts of failures.
    """
    with connection.write():
        before = connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,))
        if before is None:
            return None
        connection.run(
            """
            UPDATE mem_tree_jobs
               SET status = 'cancelled',
                   completed_at_ms = ?,
                   rerun = 0,
                   rerun_payload = NULL,
                   rerun_input_hash = NULL,
                   locked_until_ms = NULL,
                   locked_by = NULL,
                   lease_token = NULL
             WHERE id = ?
               AND status NOT IN ('done', 'cancelled')
            """,
            (now_ms, job_id),
        )
        return JobStatus(before)
