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
    # A place in the order of completion: rows of one millisecond are told apart by their ids.
    beyond = connection.one(
        """
        SELECT completed_at_ms, id
          FROM mem_tree_jobs
         WHERE status = 'done'
         ORDER BY completed_at_ms DESC, id DESC
         LIMIT 1 OFFSET ?
        """,
        (keep_rows,),
    )
    last_to_go = max((now_ms - keep_ms, 0), (0, 0) if beyond is None else (beyond[0], beyond[1]))
    pruned = 0
    for _ in range(max_batches):
        ids = _old_done(connection, last_to_go, block_start, batch_rows)
        ids = ids or _superseded(connection, now_ms - keep_ms, batch_rows)
        if not ids:
            break
        with connection.write():
            for job_id in ids:
                pruned += connection.run(
                    "DELETE FROM mem_tree_jobs WHERE id = ? AND status IN ('done', 'cancelled')", (job_id,)
                )
    return pruned


def settle_superseded(connection: Connection, now_ms: int) -> int:
    """Cancel failed rows whose key has a newer row that is done; return how many. Reads first.

    Their work was done after all (the file was mended, the input changed): they are nothing to look into any more.
    """
    ids = [
        row[0]
        for row in connection.all(
            """
            SELECT id
              FROM mem_tree_jobs AS old
             WHERE status = 'failed'
               AND EXISTS (SELECT 1
                             FROM mem_tree_jobs AS newer
                            WHERE newer.dedupe_key = old.dedupe_key
                              AND newer.id > old.id
                              AND newer.status = 'done')
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


def _old_done(connection: Connection, last_to_go: tuple[int, int], block_start: int, limit: int) -> list[int]:
    rows = connection.all(
        """
        SELECT id
          FROM mem_tree_jobs
         WHERE status = 'done'
           AND (completed_at_ms, id) <= (?, ?)
           AND NOT (kind = ? AND created_at_ms >= ?)
         ORDER BY completed_at_ms, id
         LIMIT ?
        """,
        (*last_to_go, str(JobKind.FLUSH_STALE), block_start, limit),
    )
    return [row[0] for row in rows]


def _superseded(connection: Connection, cutoff: int, limit: int) -> list[int]:
    rows = connection.all(
        """
        SELECT id
          FROM mem_tree_jobs AS old
         WHERE status = 'cancelled'
           AND completed_at_ms < ?
           AND (dedupe_key IS NULL
                OR EXISTS (SELECT 1
                             FROM mem_tree_jobs AS newer
                            WHERE newer.dedupe_key = old.dedupe_key
                              AND newer.id > old.id))
         LIMIT ?
        """,
        (cutoff, limit),
    )
    return [row[0] for row in rows]
