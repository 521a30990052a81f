"""Deleting done rows in batches (django-tasks 140: 230,000 of them made a worker crawl).

Failed and cancelled rows stay as long as they are the newest of their key: they are what keeps a sweep from asking
for the same thing for ever (point 12).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.types import HOURS_PER_BLOCK
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.db import Connection

BATCH_ROWS = 1_000
MAX_BATCHES = 20


def prune(
    connection: Connection,
    now_ms: int,
    *,
    keep_ms: int,
    keep_rows: int,
    batch_rows: int = BATCH_ROWS,
    max_batches: int = MAX_BATCHES,
) -> int:
    """Delete done rows older than ``keep_ms`` or beyond the newest ``keep_rows``, and superseded cancelled ones.

    Returns how many rows went. One short transaction per ``batch_rows``, ``max_batches`` at most in one call; writes
    nothing where nothing is old. The current block's flush row stays: it is what says that the block had its flush.
    """
    block_start = now_ms - now_ms % (HOURS_PER_BLOCK * 3_600_000)
    excess = max(0, count_done(connection) - keep_rows)
    pruned = 0
    for _ in range(max_batches):
        ids = _oldest_done(connection, now_ms - keep_ms, excess, block_start, batch_rows)
        excess = max(0, excess - len(ids))
        ids = ids or _superseded(connection, now_ms - keep_ms, batch_rows)
        if not ids:
            break
        with connection.write():
            for job_id in ids:
                pruned += connection.run(
                    "DELETE FROM mem_tree_jobs WHERE id = ? AND status IN ('done', 'cancelled')", (job_id,)
                )
    return pruned


def count_done(connection: Connection) -> int:
    """Return how many rows are done. Walks their part of one index."""
    count: int = connection.value(
        """
        SELECT count(*)
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 0
        """
    )
    return count


def _oldest_done(connection: Connection, cutoff: int, excess: int, block_start: int, limit: int) -> list[int]:
    """Return ids of the oldest done rows of all kinds: those before ``cutoff``, and ``excess`` of whatever age."""
    oldest: list[tuple[int, int]] = []
    for (kind,) in connection.all("SELECT kind FROM mem_tree_job_kinds"):
        oldest += connection.all(
            """
            SELECT at_ms, id
              FROM mem_tree_jobs
             WHERE kind = ?1
               AND phase = 0
               AND NOT (kind = ?2 AND created_at_ms >= ?3)
             ORDER BY at_ms, id
             LIMIT ?4
            """,
            (kind, str(JobKind.FLUSH_STALE), block_start, limit),
        )
    oldest.sort()
    return [job_id for place, (at_ms, job_id) in enumerate(oldest[:limit]) if at_ms < cutoff or place < excess]


def settle_superseded(connection: Connection, now_ms: int) -> int:
    """Cancel failed rows whose key has a newer row that is done or failed; return how many. Reads first.

    Their work was done after all (the file was mended, the input changed), or a newer row says what is wrong now: they
    are nothing to look into any more, and pruning takes them in the end.
    """
    ids = [
        row[0]
        for row in connection.all(
            """
            SELECT old.id
              FROM mem_tree_job_kinds AS kinds
             CROSS JOIN mem_tree_jobs AS old ON old.kind = kinds.kind AND old.phase = 3
             WHERE EXISTS (SELECT 1
                             FROM mem_tree_jobs AS newer
                            WHERE newer.dedupe_key = old.dedupe_key
                              AND newer.id > old.id
                              AND newer.status IN ('done', 'failed'))
             LIMIT ?
            """,
            (BATCH_ROWS,),
        )
    ]
    if not ids:
        return 0
    with connection.write():
        return sum(
            connection.run(
                "UPDATE mem_tree_jobs SET status = 'cancelled', completed_at_ms = ? WHERE id = ? AND status = 'failed'",
                (now_ms, job_id),
            )
            for job_id in ids
        )


def _superseded(connection: Connection, cutoff: int, limit: int) -> list[int]:
    rows = connection.all(
        """
        SELECT old.id
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS old ON old.kind = kinds.kind AND old.phase = 4
         WHERE old.at_ms < ?
           AND (old.dedupe_key IS NULL
                OR EXISTS (SELECT 1
                             FROM mem_tree_jobs AS newer
                            WHERE newer.dedupe_key = old.dedupe_key
                              AND newer.id > old.id))
         LIMIT ?
        """,
        (cutoff, limit),
    )
    return [row[0] for row in rows]
