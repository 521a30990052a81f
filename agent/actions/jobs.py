"""The queue as an owner sees it: what is there, again please, not this one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.actions.remedies import Remedy, remedies_of
from agent.errors import UsageFault
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.actions.home import Home

# All columns but the payloads: what a job is about belongs to the memory, not to a listing.
COLUMNS = (
    *("id", "kind", "status", "dedupe_key", "attempts", "max_attempts", "crashes", "rerun", "heals"),
    *("available_at_ms", "locked_until_ms", "locked_by", "lease_token", "last_error", "failure_reason"),
    *("failure_class", "failure_scope", "input_hash", "created_at_ms", "progress_at_ms", "started_at_ms"),
    "completed_at_ms",
)


@dataclass(frozen=True)
class JobList:
    """Rows of the queue by column name, newest first, and how many there are in all."""

    jobs: tuple[dict[str, Any], ...]
    total: int
    remedies: tuple[Remedy, ...] = ()
    """What helps against those of them that failed."""


@dataclass(frozen=True)
class Requeued:
    """How many jobs are ready again."""

    requeued: int


@dataclass(frozen=True)
class Cancelled:
    """A job that is cancelled now, and the status it had."""

    id: int
    was: JobStatus


def jobs(home: Home, *, status: str | None = None, kind: str | None = None, limit: int | None = None) -> JobList:
    """Return the jobs with this status and kind, newest first, ``limit`` of them at most. Times are UTC ms."""
    given = (status, kind)
    with home.connection.snapshot() as connection:
        rows = connection.all(
            """
            SELECT id, kind, status, dedupe_key, attempts, max_attempts, crashes, rerun, heals,
                   available_at_ms, locked_until_ms, locked_by, lease_token, last_error, failure_reason,
                   failure_class, failure_scope, input_hash, created_at_ms, progress_at_ms, started_at_ms,
                   completed_at_ms
              FROM mem_tree_jobs
             WHERE (?1 IS NULL OR status = ?1)
               AND (?2 IS NULL OR kind = ?2)
             ORDER BY id DESC
             LIMIT ?3
            """,
            (*given, -1 if limit is None else limit),
        )
        total = connection.value(
            """
            SELECT count(*)
              FROM mem_tree_jobs
             WHERE (?1 IS NULL OR status = ?1)
               AND (?2 IS NULL OR kind = ?2)
            """,
            given,
        )
    found = tuple(dict(zip(COLUMNS, row, strict=True)) for row in rows)
    return JobList(found, int(total), tuple(remedies_of(found)))


def retry(home: Home, job_id: int | None = None) -> Requeued:
    """Make one job ready again, or every failed one, and return how many are. Raises ``UsageFault``."""
    from agent.queue import requeue

    now_ms = home.clock.now_ms()
    if job_id is None:
        return Requeued(requeue.requeue_failed(home.connection, now_ms))
    if not requeue.retry(home.connection, job_id, now_ms):
        found = home.connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,))
        if found is None:
            raise UsageFault("there is no such job", str(job_id), "see `sapwood jobs`")
        raise UsageFault(f"this job is {found}", str(job_id), "only what failed or was cancelled is tried again")
    return Requeued(1)


def cancel(home: Home, job_id: int) -> Cancelled:
    """Cancel one job; what a worker has made of it until now is not applied. Raises ``UsageFault``."""
    from agent.queue.settle import cancel as cancel_job

    was = cancel_job(home.connection, job_id, home.clock.now_ms())
    if was is None:
        raise UsageFault("there is no such job", str(job_id), "see `sapwood jobs`")
    if was is JobStatus.DONE:
        raise UsageFault("this job is done already", str(job_id), "nothing of it can be taken back here")
    return Cancelled(job_id, was)
