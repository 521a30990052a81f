"""Giving failed jobs another chance: by their owner, by a mended cause, by time.

Requeueing respects the dedupe index row by row (point 11; a bulk UPDATE broke on it and self-heal died silently,
tinycortex PR 139): of several failed rows with one key the newest is requeued and the others are cancelled, and so is
one whose work a newer row of its key does or did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.queue.wake import wake_workers
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.db import Connection

HEAL_BASE_MS = 3_600_000
HEAL_CAP_MS = 24 * 3_600_000
HEAL_ROWS = 10_000  # a fifth of a second: the supervisor's stop must not wait for a long one
_ROWS_PER_TRANSACTION = 100

# A row that ended its worker stays one that is claimed alone.
_READY = """
UPDATE mem_tree_jobs
   SET status = 'ready',
       attempts = 0,
       crashes = min(crashes, 1),
       heals = heals + ?,
       available_at_ms = ?,
       failure_reason = NULL,
       failure_class = NULL,
       failure_scope = NULL,
       completed_at_ms = NULL,
       lease_token = NULL,
       rerun = 0,
       rerun_payload = NULL,
       rerun_input_hash = NULL
 WHERE id = ?
   AND status IN ('failed', 'cancelled')
"""
_CANCEL = """
UPDATE mem_tree_jobs
   SET status = 'cancelled',
       completed_at_ms = ?
 WHERE id = ?
   AND status = 'failed'
"""


def heal_wait_ms(heals: int) -> int:
    """Return how long (ms) a failed row rests before it is healed: not at all, then 1 h, doubling, 24 h at most."""
    return 0 if heals <= 0 else min(HEAL_BASE_MS << min(heals - 1, 16), HEAL_CAP_MS)


def requeue_failed(
    connection: Connection,
    now_ms: int,
    *,
    reasons: Sequence[str] | None = None,
    scopes: Sequence[str] | None = None,
    limit: int | None = None,
) -> int:
    """Make failed jobs of either class ready again and return how many, the newest ``limit`` of them at most.

    ``reasons`` names typed codes whose cause was mended (a key, credit, a model: openhuman 3091), ``scopes`` the model
    profiles whose cause it was; ``None`` means all.
    """
    rows = connection.all(
        """
        SELECT job.id, job.failure_reason, job.failure_scope
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 3
         ORDER BY job.id DESC
        """
    )
    meant = [
        job_id
        for job_id, reason, scope in rows
        if (reasons is None or reason in reasons) and (scopes is None or scope in scopes)
    ]
    return _requeue(connection, meant[:limit], now_ms, healed=False)


def requeue_transient_failed(connection: Connection, now_ms: int) -> int:
    """Make transiently failed jobs ready again and return how many; unrecoverable ones stay parked."""
    return _requeue(connection, _transient(connection, None), now_ms, healed=False)


def self_heal(connection: Connection, now_ms: int) -> int:
    """Requeue transiently failed jobs whose rest is over, each time after a longer one; return how many.

    For the tick: writes nothing where there is nothing to heal, and takes ``HEAL_ROWS`` at most in one call, the newest
    first; the next tick takes the rest.
    """
    return _requeue(connection, _transient(connection, now_ms)[:HEAL_ROWS], now_ms, healed=True)


def retry(connection: Connection, job_id: int, now_ms: int) -> bool:
    """Run one job again at its owner's wish; return whether it is on its way now.

    A failed or cancelled row becomes ready, unless another row with its key is already; one that waits for its
    backoff becomes due at once. ``False`` for a row that is running or done, or is not there.
    """
    with connection.write():
        row = connection.one("SELECT status, dedupe_key FROM mem_tree_jobs WHERE id = ?", (job_id,))
        if row is None or row[0] not in (JobStatus.READY, JobStatus.FAILED, JobStatus.CANCELLED):
            return False
        status, key = row
        newest, newest_status = _newest(connection, key) or (job_id, status)
        if status == JobStatus.READY:
            connection.run(
                "UPDATE mem_tree_jobs SET available_at_ms = min(available_at_ms, ?) WHERE id = ?", (now_ms, job_id)
            )
        elif newest_status in (JobStatus.READY, JobStatus.RUNNING):
            connection.run(_CANCEL, (now_ms, job_id))
        else:
            # The newest row of a key speaks for it: sweeps look at that one.
            chosen = job_id if newest_status == JobStatus.DONE else newest
            connection.run(_READY, (0, now_ms, chosen))
            if chosen != job_id:
                connection.run(_CANCEL, (now_ms, job_id))
    wake_workers(connection)
    return True


def _transient(connection: Connection, rested_at_ms: int | None) -> list[int]:
    rows = connection.all(
        """
        SELECT job.id, job.heals, job.completed_at_ms
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 3
         WHERE job.failure_class IS NULL
            OR job.failure_class = 'transient'
         ORDER BY job.id DESC
        """
    )
    return [
        job_id
        for job_id, heals, completed in rows
        if rested_at_ms is None or (completed or 0) + heal_wait_ms(heals) <= rested_at_ms
    ]


def _requeue(connection: Connection, ids: Sequence[int], now_ms: int, *, healed: bool) -> int:
    requeued = 0
    # Newest first, so that the newest of a key is the one that becomes ready.
    for start in range(0, len(ids), _ROWS_PER_TRANSACTION):
        with connection.write():
            for job_id in ids[start : start + _ROWS_PER_TRANSACTION]:
                row = connection.one(
                    "SELECT dedupe_key FROM mem_tree_jobs WHERE id = ? AND status = 'failed'", (job_id,)
                )
                if row is None:
                    continue
                newest = _newest(connection, row[0])
                if newest is not None and newest[0] != job_id:
                    connection.run(_CANCEL, (now_ms, job_id))
                else:
                    requeued += connection.run(_READY, (int(healed), now_ms, job_id))
    if requeued:
        wake_workers(connection)
    return requeued


def _newest(connection: Connection, key: str | None) -> tuple[int, str] | None:
    """Return id and status of the newest row of a key, whatever its status."""
    if key is None:
        return None
    row = connection.one(
        "SELECT id, status FROM mem_tree_jobs WHERE dedupe_key = ? ORDER BY id DESC LIMIT 1",
        (key,),
    )
    return None if row is None else (row[0], row[1])
