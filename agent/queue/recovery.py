"""Giving back what dead or stopping workers held, and parking what nobody can work on.

Recovery runs always: at start, on every tick, and the instant a child exits (point 8). A crash is not a failed
attempt and is not free (point 6): the attempt is given back and ``crashes`` counts up; at the limit the row is parked,
visibly, as ``failed`` / ``unrecoverable`` / ``crash_loop``. Each is one conditional UPDATE behind a look that only
reads, so that an idle tick writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.queue.settle import RERUN
from agent.queue.types import DEFAULT_LOCK_DURATION_MS
from agent.queue.wake import wake_workers
from agent.states import RETIRED_JOB_KINDS, JobKind

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import Registry

log = logging.getLogger("sapwood.queue")

CRASH_LIMIT = 3
CRASH_LOOP = "crash_loop"
CLOCK_SLACK_MS = 5_000
# Nothing of ours waits a year: such a time was not written by this build, or by a machine that knew the date.
ABSURD_DELAY_MS = 400 * 24 * 3_600_000

# ?1 whether a crash is counted, ?2 the limit, ?3 now, ?4 why. A parked row keeps ``rerun`` for the fresh row that
# whoever enqueued meanwhile was promised; a ready one serves it itself.
_BACK = """
UPDATE mem_tree_jobs
   SET status = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN 'failed' ELSE 'ready' END,
       attempts = max(attempts - 1, 0),
       crashes = crashes + ?1,
       completed_at_ms = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN ?3 ELSE completed_at_ms END,
       failure_class = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN 'unrecoverable' ELSE failure_class END,
       failure_reason = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN 'crash_loop' ELSE failure_reason END,
       last_error = CASE WHEN ?1 THEN ?4 ELSE last_error END,
       payload_json = CASE WHEN rerun AND NOT (?1 AND crashes + 1 >= ?2)
                           THEN coalesce(rerun_payload, payload_json) ELSE payload_json END,
       input_hash = CASE WHEN rerun AND NOT (?1 AND crashes + 1 >= ?2)
                         THEN coalesce(rerun_input_hash, input_hash) ELSE input_hash END,
       rerun = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN rerun ELSE 0 END,
       rerun_payload = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN rerun_payload END,
       rerun_input_hash = CASE WHEN ?1 AND crashes + 1 >= ?2 THEN rerun_input_hash END,
       locked_until_ms = NULL,
       locked_by = NULL,
       lease_token = NULL
 WHERE id IN (SELECT job.id
                FROM mem_tree_job_kinds AS kinds
               CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 1
               WHERE
"""
_RETURNING = ")\nRETURNING id, kind, status, rerun\n"
_BACK_STALE = f"{_BACK} (job.at_ms IS NULL OR job.at_ms <= ?3){_RETURNING}"
_BACK_OF_WORKER = f"{_BACK} job.locked_by = ?5 AND job.id = coalesce(?6, job.id){_RETURNING}"
_RUNNING = """
  FROM mem_tree_job_kinds AS kinds
 CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 1
"""


@dataclass(frozen=True)
class Reclaimed:
    """What a recovery did: ids that are ready again, ids that were parked at the crash limit."""

    ready: tuple[int, ...] = ()
    parked: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.ready) + len(self.parked)


def _give_back(connection: Connection, statement: str, params: Sequence[object]) -> Reclaimed:
    ready: list[int] = []
    parked: list[int] = []
    for job_id, kind, status, rerun in connection.all(statement, params):
        if status == "ready":
            ready.append(job_id)
            continue
        parked.append(job_id)
        log.error("job %d (%s) ended its worker too often and was parked: %s", job_id, kind, CRASH_LOOP)
        if rerun:
            connection.run(RERUN, (params[2], params[2], job_id))
    return Reclaimed(tuple(sorted(ready)), tuple(sorted(parked)))


def recover_stale_locks(connection: Connection, now_ms: int, *, crash_limit: int = CRASH_LIMIT) -> int:
    """Give back every running row whose lease has ended and return how many; each counts a crash.

    Nobody saw what happened to such a row's worker, so all of a batch are counted; from then on each is claimed alone
    and counts for itself. Writes nothing where no lease has ended. Wakes the workers.
    """
    stale = connection.value(
        f"SELECT 1 {_RUNNING} WHERE job.at_ms IS NULL OR job.at_ms <= ? LIMIT 1",
        (now_ms,),
    )
    if stale is None:
        return 0
    why = "the lease ended before the job did"
    with connection.write(turn=False):
        found = _give_back(connection, _BACK_STALE, (1, crash_limit, now_ms, why))
    if found:
        wake_workers(connection)
    return len(found)


def reclaim_worker(
    connection: Connection,
    worker_id: str,
    handling_job_id: int | None,
    *,
    ordered: bool,
    now_ms: int,
    crash_limit: int = CRASH_LIMIT,
    why: str = "the worker ended while it handled this job",
) -> Reclaimed:
    """Give back what a worker that is gone still held, and wake the others.

    Only the row it was handling counts a crash, and not even that where the supervisor ordered the end (stop,
    recycle); an end for time or memory is not ``ordered``. ``handling_job_id=None``: it was between jobs.
    """
    if _held_by(connection, worker_id) is None:
        return Reclaimed()
    counted = Reclaimed()
    with connection.write(turn=False):
        if handling_job_id is not None and not ordered:
            params = (1, crash_limit, now_ms, why, worker_id, handling_job_id)
            counted = _give_back(connection, _BACK_OF_WORKER, params)
        others = _give_back(connection, _BACK_OF_WORKER, (0, crash_limit, now_ms, None, worker_id, None))
    found = Reclaimed(counted.ready + others.ready, counted.parked)
    if found:
        wake_workers(connection)
    return found


def release_running_locks(
    connection: Connection, worker_ids: Sequence[str], now_ms: int, *, keep: Collection[int] = ()
) -> int:
    """Give back these workers' own leases, no attempt burnt, no crash counted; return how many.

    For stopping (on a connection with a short busy timeout: it never waits for the writers' turn) and for a worker
    that gave up a claim; ``keep`` are ids that it still works on. Other workers' rows are never touched.
    """
    held = [
        (worker_id, row[0])
        for worker_id in worker_ids
        for row in connection.all(f"SELECT job.id {_RUNNING} WHERE job.locked_by = ?", (worker_id,))
        if row[0] not in keep
    ]
    if not held:
        return 0
    with connection.write(turn=False):
        return sum(
            len(_give_back(connection, _BACK_OF_WORKER, (0, CRASH_LIMIT, now_ms, None, worker_id, job_id)))
            for worker_id, job_id in held
        )


def running_workers(connection: Connection) -> list[str]:
    """Return the worker ids that hold leases, dead or alive. Reads only."""
    rows = connection.all(f"SELECT DISTINCT job.locked_by {_RUNNING} WHERE job.locked_by IS NOT NULL")
    return sorted(row[0] for row in rows)


def _held_by(connection: Connection, worker_id: str) -> int | None:
    held: int | None = connection.value(f"SELECT 1 {_RUNNING} WHERE job.locked_by = ? LIMIT 1", (worker_id,))
    return held


def purge_retired_jobs(connection: Connection) -> int:
    """Delete the rows of the retired kinds, whatever their status, and return how many. Reads first."""
    found = connection.value(
        "SELECT 1 FROM mem_tree_jobs WHERE kind IN ('topic_route', 'digest_daily') LIMIT 1",
    )
    if found is None:
        return 0
    with connection.write():
        return connection.run("DELETE FROM mem_tree_jobs WHERE kind IN ('topic_route', 'digest_daily')")


def park_unreadable(connection: Connection, registry: Registry, now_ms: int) -> int:
    """Park rows that no build like this one can work on, once and visibly; return how many. Reads first.

    An unknown status, an unknown kind (retired ones are purged instead), a due time more than a year away. Payloads
    are looked at when a row is claimed. For the process that knows every kind: a test's own kinds are its registry's.
    """
    known = {str(spec.kind) for spec in registry} | {str(kind) for kind in JobKind} | set(RETIRED_JOB_KINDS)
    wrong = [
        row[0]
        for row in connection.all(
            """
            SELECT job.id
              FROM mem_tree_job_kinds AS kinds
             CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase IS NULL
            """
        )
    ]
    for kind in _kinds(connection):
        since = 0 if kind not in known else now_ms + ABSURD_DELAY_MS
        wrong += [
            row[0]
            for row in connection.all(
                "SELECT id FROM mem_tree_jobs WHERE kind = ? AND phase = 2 AND at_ms >= ? LIMIT 1000",
                (kind, since),
            )
        ]
    if not wrong:
        return 0
    parked = 0
    with connection.write():
        for job_id in wrong:
            parked += connection.run(
                """
                UPDATE mem_tree_jobs
                   SET status = 'failed',
                       failure_class = 'unrecoverable',
                       failure_reason = 'unreadable',
                       last_error = 'this build cannot read the row''s kind, status or time',
                       completed_at_ms = ?,
                       locked_until_ms = NULL,
                       locked_by = NULL,
                       lease_token = NULL
                 WHERE id = ?
                   AND status NOT IN ('running', 'done', 'failed', 'cancelled')
                """,
                (now_ms, job_id),
            )
    log.warning("%d jobs cannot be read by this build and were parked", parked)
    return parked


def _kinds(connection: Connection) -> list[str]:
    return [row[0] for row in connection.all("SELECT kind FROM mem_tree_job_kinds")]


def mend_clock(connection: Connection, now_ms: int, *, lease_ms: int = DEFAULT_LOCK_DURATION_MS) -> int:
    """Mend what a clock that was set back left in the rows; return how many rows. Reads first.

    A lease that ends later than any lease can is cut to a whole one from now: its worker, if alive, renews it. A
    ready row that was last touched in the future keeps its delay, counted from now (schedule 323: nothing ran).
    """
    latest = now_ms + lease_ms + CLOCK_SLACK_MS
    absurd = [row[0] for row in connection.all(f"SELECT job.id {_RUNNING} WHERE job.at_ms > ?", (latest,))]
    # After a step back the rows that were due come first among those that seem delayed; a few per kind are enough to
    # notice, and a million honestly delayed ones are not walked.
    shifted = [
        kind
        for kind in _kinds(connection)
        if any(
            max(made, started or 0) > now_ms + CLOCK_SLACK_MS
            for made, started in connection.all(
                """
                SELECT created_at_ms, started_at_ms
                  FROM mem_tree_jobs
                 WHERE kind = ? AND phase = 2 AND at_ms > ?
                 ORDER BY at_ms, id
                 LIMIT 8
                """,
                (kind, now_ms),
            )
        )
    ]
    if not absurd and not shifted:
        return 0
    mended = 0
    with connection.write():
        for job_id in absurd:
            mended += connection.run(
                """
                UPDATE mem_tree_jobs
                   SET locked_until_ms = ?
                 WHERE id = ?
                   AND status = 'running'
                   AND locked_until_ms > ?
                """,
                (now_ms + lease_ms, job_id, latest),
            )
        for kind in shifted:
            mended += connection.run(
                """
                UPDATE mem_tree_jobs
                   SET available_at_ms =
                         ?1 + max(available_at_ms - max(created_at_ms, coalesce(started_at_ms, 0)), 0),
                       created_at_ms = min(created_at_ms, ?1),
                       started_at_ms = min(started_at_ms, ?1)
                 WHERE kind = ?2
                   AND phase = 2
                   AND at_ms > ?1
                   AND max(created_at_ms, coalesce(started_at_ms, 0)) > ?3
                """,
                (now_ms, kind, now_ms + CLOCK_SLACK_MS),
            )
    log.warning("the clock was set back: %d jobs were given times that can come", mended)
    return mended


def bootstrap(
    connection: Connection,
    now_ms: int,
    *,
    registry: Registry | None = None,
    crash_limit: int = CRASH_LIMIT,
    lease_ms: int = DEFAULT_LOCK_DURATION_MS,
) -> tuple[int, int]:
    """Do the housekeeping of a start and return ``(purged, recovered)``: retired rows deleted, ended leases given back.

    Also mends times after a clock was set back and, where ``registry`` holds every kind, parks unreadable rows. Call
    it once before the loop; the tick calls the parts again.
    """
    purged = purge_retired_jobs(connection)
    mend_clock(connection, now_ms, lease_ms=lease_ms)
    recovered = recover_stale_locks(connection, now_ms, crash_limit=crash_limit)
    if registry is not None:
        park_unreadable(connection, registry, now_ms)
    return purged, recovered
