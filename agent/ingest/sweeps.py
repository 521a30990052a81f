"""Finding lane 1's work again from the items and chunks themselves: the queue may be lost.

Each sweep reads through an index of what is unfinished, so on a finished memory it reads next to nothing, and at most
some thousands of entries on one that grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.ingest.removal import REMOVAL
from agent.ingest.window import found_items, ready_ingests
from agent.queue.types import NewJob

if TYPE_CHECKING:
    from agent.queue.registry import SweepContext

_LOOK_AT = 10  # entries looked at for each job that may be asked for

# Chunks that wait for extraction while no job of theirs is ready or running; parked says whether one failed.
_LOST_EXTRACTS = """
SELECT p.chunk_id, p.source_id, p.item_key,
       (SELECT j.status IN ('failed', 'cancelled')
          FROM mem_tree_jobs AS j
         WHERE j.dedupe_key = 'extract:' || p.chunk_id
         ORDER BY j.id DESC
         LIMIT 1) AS parked
  FROM (SELECT chunk_id, source_id, item_key
          FROM mem_tree_chunks
         WHERE lifecycle = 'pending_extraction'
         LIMIT ?) AS p
 WHERE NOT EXISTS (SELECT 1
                     FROM mem_tree_jobs AS j
                    WHERE j.dedupe_key = 'extract:' || p.chunk_id AND j.status IN ('ready', 'running'))
 LIMIT ?
"""


def sweep_extract(context: SweepContext) -> Iterator[NewJob]:
    """Yield ``extract_chunk`` for pending chunks that the queue lost.

    For one whose extract job is parked it yields ``ingest_file`` of its item, which admits it on its fast score
    (``admission.py``): as long as it is pending, its group and its document stay open.
    """
    rows = context.connection.all(_LOST_EXTRACTS, (context.limit * _LOOK_AT, context.limit))
    asked: set[tuple[str, str]] = set()
    for chunk_id, source_id, item_key, parked in rows:
        if not parked:
            yield NewJob.extract_chunk(chunk_id)
        elif (source_id, item_key) not in asked:
            asked.add((source_id, item_key))
            # Not the hash of any content: a parked ingest of the item does not forbid this.
            yield NewJob.ingest_file(source_id, item_key, "admit-parked")


def sweep_ingest(context: SweepContext) -> Iterator[NewJob]:
    """Yield ``ingest_file`` for items that were queued but whose job is lost, then for found and gone ones.

    Of the latter up to the window.
    """
    connection, intent = context.connection, context.intent
    for source in intent.sources:
        rows = connection.all(
            """
            SELECT i.item_key, i.seen_hash
              FROM (SELECT item_key, seen_hash
                      FROM mem_tree_items
                     WHERE source_id = ? AND state = 'queued'
                     ORDER BY sort_key
                     LIMIT ?) AS i
             WHERE NOT EXISTS (SELECT 1
                                 FROM mem_tree_jobs AS j
                                WHERE j.dedupe_key = 'ingest:' || ? || ':' || i.item_key
                                  AND j.status IN ('ready', 'running'))
             LIMIT ?
            """,
            (source.id, context.limit * _LOOK_AT, source.id, context.limit),
        )
        for item_key, seen_hash in rows:
            yield NewJob.ingest_file(source.id, item_key, REMOVAL if seen_hash is None else seen_hash)
    window = intent.queue.max_ready_ingest
    room = window - ready_ingests(connection, window)
    for source in intent.sources:
        if room <= 0:
            return
        for _, job in found_items(connection, source.id, room):
            room -= 1
            yield job


def sweep_sync(context: SweepContext) -> Iterator[NewJob]:
    """Yield ``sync_source`` for sources of the intent that were never looked at, or not for ``sync_seconds``.

    A source that is not there counts as looked at: it is tried again at the next turn, not at every tick.
    """
    looked: dict[str, int | None] = dict(context.connection.all("SELECT source_id, last_sync_ms FROM mem_tree_sources"))
    due_ms = context.now_ms - round(context.intent.schedule.sync_seconds * 1000)
    for source in context.intent.sources:
        last_ms = looked.get(source.id)
        # A clock that was set back must not stop the looking.
        if last_ms is None or last_ms <= due_ms or last_ms > context.now_ms + 60_000:
            yield NewJob.sync_source(source.id)
