"""What a fallback made is made again: after a day, and after a week once that was in vain several times.

Nobody calls a model on a timer without need: only a flush looks for it (eight times a day at most), a few at a time,
and only while the active profile calls a model that is not known to be out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.db.state import get_state, set_state
from agent.queue.holds import read_hold
from agent.queue.types import NewJob

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection

AGAIN_AFTER_MS = 24 * 3_600_000
RESTS_MS = 7 * AGAIN_AFTER_MS
TIMES_IN_VAIN = 3
"""So often it is tried again after a day; from then on after a week."""

MOST = TIMES_IN_VAIN + 1
"""``degraded`` counts up to here."""

AT_ONCE = 64
_LOOK_AT = 256
_CURSOR = "degraded_chunks"


def is_due(degraded: int, made_at_ms: int, now_ms: int) -> bool:
    """Return whether something that the fallback made so often in a row, the last time then, is to be made again."""
    if not degraded:
        return False
    return made_at_ms <= now_ms - (AGAIN_AFTER_MS if degraded <= TIMES_IN_VAIN else RESTS_MS)


def times(before: int, degraded: bool) -> int:
    """Return how often in a row the fallback stood in, after one more making."""
    return min(before + 1, MOST) if degraded else 0


def may_try(connection: Connection, intent: Intent, now_ms: int) -> bool:
    """Return whether there is a model to be asked now."""
    profile = intent.active_profile
    if profile is None:
        return False
    held = read_hold(connection, profile.name)
    return held is None or not held.is_on(now_ms)


def some_are_due(connection: Connection, intent: Intent, now_ms: int) -> bool:
    """Return whether a flush would find something to make again. Reads a row or two of an index."""
    if not may_try(connection, intent, now_ms):
        return False
    if connection.one("SELECT 1 FROM mem_tree_chunks INDEXED BY mem_tree_chunks_degraded WHERE degraded > 0 LIMIT 1"):
        return True
    return bool(_due_summaries(connection, now_ms, 1))


def mark_summaries_tx(connection: Connection, now_ms: int) -> int:
    """Mark the degraded summaries that are due as stale, at most 64; return how many. Their seals are swept up.

    A sweep leaves alone what is parked, and so this opens nothing again.
    """
    due = _due_summaries(connection, now_ms, AT_ONCE)
    connection.many("UPDATE mem_tree_summaries SET stale = 1 WHERE seq = ?", [(seq,) for seq in due])
    return len(due)


def _due_summaries(connection: Connection, now_ms: int, limit: int) -> list[int]:
    found: list[int] = []
    for degraded in range(1, MOST + 1):
        wait_ms = AGAIN_AFTER_MS if degraded <= TIMES_IN_VAIN else RESTS_MS
        found += [
            row[0]
            for row in connection.all(
                """
                SELECT seq
                  FROM mem_tree_summaries INDEXED BY mem_tree_summaries_degraded
                 WHERE degraded > 0 AND degraded = ? AND created_at_ms <= ? AND stale = 0
                 ORDER BY created_at_ms
                 LIMIT ?
                """,
                (degraded, now_ms - wait_ms, limit - len(found)),
            )
        ]
    return found


def chunks_again_tx(connection: Connection, now_ms: int) -> list[NewJob]:
    """Return the extractions to be tried again, at most 64, of the next 256 degraded chunks after those looked at last.

    One whose job is parked is left alone: mending the cause brings it back.
    """
    after = int(get_state(connection, _CURSOR) or 0)
    rows = connection.all(
        """
        SELECT c.seq, c.chunk_id, c.degraded, coalesce(s.decided_at_ms, 0),
               coalesce((SELECT j.status
                           FROM mem_tree_jobs AS j
                          WHERE j.dedupe_key = 'extract:' || c.chunk_id
                          ORDER BY j.id DESC
                          LIMIT 1), 'lost')
          FROM mem_tree_chunks AS c INDEXED BY mem_tree_chunks_degraded
          JOIN mem_tree_score AS s ON s.chunk_seq = c.seq
         WHERE c.degraded > 0 AND c.seq > ?
         ORDER BY c.seq
         LIMIT ?
        """,
        (after, _LOOK_AT),
    )
    jobs: list[NewJob] = []
    last = 0
    for seq, chunk_id, degraded, decided_ms, status in rows:
        if len(jobs) == AT_ONCE:
            break
        last = seq
        if status in ("done", "lost") and is_due(degraded, decided_ms, now_ms):
            jobs.append(NewJob.extract_chunk(chunk_id))
    else:
        last = last if len(rows) == _LOOK_AT else 0
    if last != after:
        set_state(connection, _CURSOR, str(last))
    return jobs
