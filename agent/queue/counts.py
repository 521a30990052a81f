"""How much there is, for ``status``, ``jobs`` and the tray. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.queue.rows import select_jobs
from agent.queue.types import Job
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.db import Connection


# A status is a phase of the one index (agent/db/schema.py): 0 done, 1 running, 2 ready, 3 failed, 4 cancelled.
_IN_PHASE = """
  FROM mem_tree_job_kinds AS kinds
 CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = ?
"""


@dataclass(frozen=True)
class QueueCounts:
    """Rows by status: ``ready`` due now, ``deferred`` due later; ``unrecoverable`` are some of ``failed``."""

    ready: int = 0
    deferred: int = 0
    running: int = 0
    failed: int = 0
    unrecoverable: int = 0
    cancelled: int = 0
    done: int = 0

    @property
    def waiting(self) -> int:
        """Rows that will still run by themselves."""
        return self.ready + self.deferred + self.running


def count_jobs(connection: Connection, now_ms: int) -> QueueCounts:
    """Return the counts of all rows as of now. Walks one index, and of the rows only the failed ones."""
    ready, total, running, failed, cancelled, done = connection.one(
        """
        SELECT coalesce(sum(phase = 2 AND at_ms <= ?), 0),
               coalesce(sum(phase = 2), 0),
               coalesce(sum(phase = 1), 0),
               coalesce(sum(phase = 3), 0),
               coalesce(sum(phase = 4), 0),
               coalesce(sum(phase = 0), 0)
          FROM mem_tree_jobs INDEXED BY mem_tree_jobs_line
        """,
        (now_ms,),
    ) or (0, 0, 0, 0, 0, 0)
    unrecoverable = count_failed_unrecoverable(connection) if failed else 0
    return QueueCounts(ready, total - ready, running, failed, unrecoverable, cancelled, done)


def count_open(connection: Connection, now_ms: int) -> QueueCounts:
    """Return the counts of what is not settled and of what failed, at the cost of a few seeks and those rows.

    What was done, which is most, is not walked: its counts stay 0.
    """
    due, waiting = connection.one(f"SELECT coalesce(sum(job.at_ms <= ?), 0), count(*) {_IN_PHASE}", (now_ms, 2)) or (
        0,
        0,
    )
    failed = int(connection.value(f"SELECT count(*) {_IN_PHASE}", (3,)))
    return QueueCounts(ready=due, deferred=waiting - due, running=count_running(connection), failed=failed)


def count_running(connection: Connection) -> int:
    """Return how many rows are running, at the cost of a few seeks."""
    count: int = connection.value(f"SELECT count(*) {_IN_PHASE}", (1,))
    return count


def count_waiting(connection: Connection) -> int:
    """Return how many rows are ready (due or not) or running."""
    count: int = connection.value(f"SELECT count(*) {_IN_PHASE}", (2,)) + count_running(connection)
    return count


def has_waiting(connection: Connection, kind: str) -> bool:
    """Return whether a row of this kind is ready (due or not) or running, at the cost of two seeks."""
    found = connection.one("SELECT 1 FROM mem_tree_jobs WHERE kind = ? AND phase IN (1, 2) LIMIT 1", (kind,))
    return found is not None


def has_due(connection: Connection, now_ms: int) -> bool:
    """Return whether a row is running or could be claimed now, at the cost of a few seeks for each kind."""
    running = connection.one(f"SELECT 1 {_IN_PHASE} LIMIT 1", (1,))
    return (
        running is not None
        or connection.one(f"SELECT 1 {_IN_PHASE} AND job.at_ms <= ? LIMIT 1", (2, now_ms)) is not None
    )


def has_open(connection: Connection) -> bool:
    """Return whether any row is not settled, due or not, at the cost of a few seeks for each kind."""
    return any(connection.one(f"SELECT 1 {_IN_PHASE} LIMIT 1", (phase,)) is not None for phase in (1, 2))


def has_failed(connection: Connection) -> bool:
    """Return whether any row has failed, at the cost of a seek for each kind."""
    return connection.one(f"SELECT 1 {_IN_PHASE} LIMIT 1", (3,)) is not None


def count_done_since(connection: Connection, since_ms: int) -> tuple[int, int | None]:
    """Return how many rows were done after ``since_ms`` and when the first of them was (UTC ms)."""
    count, first_ms = connection.one(
        f"SELECT count(*), min(job.at_ms) {_IN_PHASE} AND job.at_ms > ?", (0, since_ms)
    ) or (
        0,
        None,
    )
    return count, first_ms


def count_failed_unrecoverable(connection: Connection) -> int:
    """Return how many jobs are parked because trying again cannot help."""
    count: int = connection.value(
        f"SELECT count(*) {_IN_PHASE} AND job.failure_class = 'unrecoverable'",
        (3,),
    )
    return count


def count_failed_by_reason(connection: Connection) -> dict[str, int]:
    """Return how many failed jobs there are per typed code; ``""`` for those without one."""
    rows = connection.all(
        f"SELECT coalesce(job.failure_reason, ''), count(*) {_IN_PHASE} GROUP BY 1 ORDER BY 2 DESC, 1", (3,)
    )
    return {row[0]: row[1] for row in rows}


def list_jobs(
    connection: Connection, *, status: JobStatus | None = None, kind: str | None = None, limit: int = 1000
) -> list[Job]:
    """Return rows of a status and a kind (``None``: any), newest first, ``limit`` at most."""
    return select_jobs(
        connection,
        """
         WHERE (?1 IS NULL OR status = ?1)
           AND (?2 IS NULL OR kind = ?2)
           AND status IN ('ready', 'running', 'done', 'failed', 'cancelled')
         ORDER BY id DESC
         LIMIT ?3
        """,
        (None if status is None else str(status), kind, limit),
    )
