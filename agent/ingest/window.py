"""How many items are on their way at once: drain forward, don't widen.

At most ``queue.max_ready_ingest`` ``ingest_file`` rows are ready; what else was found waits in ``mem_tree_items``. Each
ingest that settles looks whether the window fell below a half and fills it, so a large source flows without a tick.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.ingest.removal import REMOVAL
from agent.queue.types import AT_ONCE_MS, NewJob
from agent.states import ItemState, JobKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection


URGENT_LIMIT = 200
"""So few changes at once are somebody at work, not a first look: they are read before everything else."""

_WAITING = (ItemState.GONE, ItemState.FOUND)
_READY = 2  # the phase of a ready row in the queue's one index (agent/db/schema.py)


class Pace:
    """When one process has to count the window again.

    With ``n`` rows above the half, all workers together settle ``n`` ingests before it can fall below: none has to look
    before its share of them is done. Counting at each settle cost a third of a millisecond, more than storing a mail.
    """

    def __init__(self) -> None:
        self._left = 0

    def is_due(self) -> bool:
        """Return whether to count now; one call for each ingest."""
        self._left -= 1
        return self._left < 0

    def counted(self, waiting: int, window: int, workers: int) -> None:
        """Take in what was counted."""
        self._left = max(0, waiting - window // 2) // workers


def top_up(
    connection: Connection,
    intent: Intent,
    *,
    first: str | None = None,
    always: bool = False,
    pace: Pace | None = None,
) -> list[NewJob]:
    """Return jobs for items that were found or are gone, and mark these queued, inside the caller's transaction.

    Nothing happens while the window is at least half full, unless ``always``: then also what is urgent in the ``first``
    source goes out, however full the window is. Sources share the room evenly; ``first`` is asked first. ``pace``
    spares counting the window each time.
    """
    if pace is not None and not always and not pace.is_due():
        return []
    window = intent.queue.max_ready_ingest
    waiting = ready_ingests(connection, window)
    if pace is not None:
        pace.counted(waiting, window, intent.pool.max_workers)
    urgent = urgent_items(connection, first) if always and first is not None else []
    _mark_queued(connection, urgent)
    jobs = [job for _, job in urgent]
    room = window - waiting - len(urgent)
    if room <= 0 or (not always and waiting * 2 >= window):
        return jobs
    sources = [source.id for source in intent.sources]
    if first is not None:
        sources = [first, *(source for source in sources if source != first)]
    queues = [rows for source_id in sources if (rows := found_items(connection, source_id, room))]
    chosen: list[tuple[int, NewJob]] = []
    share = -(-room // len(queues)) if queues else 0
    for rows in queues:
        chosen.extend(rows[: min(share, room - len(chosen))])
    for rows in queues:
        if len(chosen) < room:
            chosen.extend(rows[share : share + room - len(chosen)])
    _mark_queued(connection, chosen)
    return [*jobs, *(job for _, job in chosen)]


def _mark_queued(connection: Connection, chosen: list[tuple[int, NewJob]]) -> None:
    connection.many(
        "UPDATE mem_tree_items SET state = ? WHERE item_seq = ?",
        [(str(ItemState.QUEUED), item_seq) for item_seq, _ in chosen],
    )


def ready_ingests(connection: Connection, most: int) -> int:
    """Return how many ``ingest_file`` rows are ready, counting no further than ``most``."""
    count: int = connection.value(
        """
        SELECT count(*)
          FROM (SELECT 1 FROM mem_tree_jobs WHERE kind = ? AND phase = ? LIMIT ?)
        """,
        (str(JobKind.INGEST_FILE), _READY, most),
    )
    return count


def found_items(connection: Connection, source_id: str, most: int) -> list[tuple[int, NewJob]]:
    """Return the first items of a source that wait for a job: the urgent, then the gone, then the found ones."""
    found = urgent_items(connection, source_id, most)
    for state in _WAITING:
        if len(found) >= most:
            break
        rows = connection.all(
            """
            SELECT item_seq, item_key, seen_hash
              FROM mem_tree_items
             WHERE source_id = ? AND state = ? AND urgent = 0
             ORDER BY sort_key
             LIMIT ?
            """,
            (source_id, str(state), most - len(found)),
        )
        found.extend((item_seq, _job(source_id, item_key, seen)) for item_seq, item_key, seen in rows)
    return found


def urgent_items(connection: Connection, source_id: str, most: int = URGENT_LIMIT) -> list[tuple[int, NewJob]]:
    """Return the items of a source that wait for a job and were just seen to change; their jobs go before others."""
    found: list[tuple[int, NewJob]] = []
    for state in _WAITING:
        rows = connection.all(
            """
            SELECT item_seq, item_key, seen_hash
              FROM mem_tree_items INDEXED BY mem_tree_items_urgent
             WHERE source_id = ? AND state = ? AND urgent = 1
             ORDER BY sort_key
             LIMIT ?
            """,
            (source_id, str(state), most - len(found)),
        )
        found.extend((item_seq, _job(source_id, item_key, seen, urgent=True)) for item_seq, item_key, seen in rows)
    return found


def _job(source_id: str, item_key: str, seen_hash: str | None, *, urgent: bool = False) -> NewJob:
    job = NewJob.ingest_file(source_id, item_key, REMOVAL if seen_hash is None else seen_hash)
    return replace(job, available_at_ms=AT_ONCE_MS) if urgent else job
