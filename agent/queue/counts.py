"""How much there is, for ``status``, ``jobs`` and the tray. Reads only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.queue.claim import select_jobs
from agent.queue.types import Job
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.db import Connection


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
    """Return the counts of all rows as of now. Walks indexes only."""
    ready, total = connection.one(
        """
        SELECT coalesce(sum(available_at_ms <= ?), 0), count(*)
          FROM mem_tree_jobs
         WHERE status = 'ready'
        """,
        (now_ms,),
    ) or (0, 0)
    parked = {
        (row[0], row[1]): row[2]
        for row in connection.all(
            """
            SELECT status, coalesce(failure_class, ''), count(*)
              FROM mem_tree_jobs
             WHERE status IN ('failed', 'cancelled')
             GROUP BY 1, 2
            """
        )
    }
    return QueueCounts(
        ready=ready,
        deferred=total - ready,
        running=connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'running'"),
        failed=sum(count for (status, _), count in parked.items() if status == JobStatus.FAILED),
        unrecoverable=parked.get((JobStatus.FAILED, "unrecoverable"), 0),
        cancelled=sum(count for (status, _), count in parked.items() if status == JobStatus.CANCELLED),
        done=connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'done'"),
    )


def count_failed_unrecoverable(connection: Connection) -> int:
    """Return how many jobs are parked because trying again cannot help."""
    count: int = connection.value(
        "SELECT count(*) FROM mem_tree_jobs WHERE status = 'failed' AND failure_class = 'unrecoverable'"
    )
    return count


def count_failed_by_reason(connection: Connection) -> dict[str, int]:
    """Return how many failed jobs there are per typed code; ``""`` for those without one."""
    rows = connection.all(
        """
        SELECT coalesce(failure_reason, ''), count(*)
          FROM mem_tree_jobs
         WHERE status = 'failed'
         GROUP BY 1
         ORDER BY 2 DESC, 1
        """
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
