"""What must hold for sources, files and items: their states agree, and whatever is unfinished is found by somebody.

Each function yields what is wrong as words, lazily, and writes nothing; for ``doctor``, inside one snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.db.check import pages
from agent.ingest.order import item_sort_key
from agent.ingest.readers.registry import find_source
from agent.states import ItemState, SourceKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths

_STATES = ", ".join(f"'{state}'" for state in ItemState)
_KINDS = ", ".join(f"'{kind}'" for kind in SourceKind)


def items_agree(connection: Connection) -> Iterator[str]:
    """Yield items whose state, what was seen and what is held contradict each other, or whose order is not theirs."""
    for item_seq, source_id, trouble in connection.all(
        f"""
        SELECT item_seq, source_id,
               CASE
               WHEN state NOT IN ({_STATES}) THEN 'is called ' || state || ', which is no state of an item'
               WHEN source_kind NOT IN ({_KINDS}) THEN 'is of the kind ' || source_kind || ', which nothing reads'
               WHEN state = 'current' AND seen_hash IS NOT held_hash
                 THEN 'counts as current, but what was seen last is not what is held'
               WHEN state = 'current' AND held_hash IS NULL THEN 'counts as current, but nothing is held of it'
               WHEN state = 'found' AND seen_hash IS NULL THEN 'counts as found, but nothing was seen'
               WHEN state = 'unreadable' AND reason IS NULL THEN 'counts as unreadable and has no reason'
               WHEN held_hash IS NOT NULL AND version_ms IS NULL THEN 'holds a version that has no time'
               WHEN grown_hash IS NOT NULL AND source_kind <> 'document' THEN 'is no document and counts as grown'
               WHEN masked < 0 THEN 'counts ' || masked || ' masked secrets'
               ELSE 'has chunks, but holds no version'
               END
          FROM mem_tree_items AS i
         WHERE state NOT IN ({_STATES})
            OR source_kind NOT IN ({_KINDS})
            OR (state = 'current' AND (seen_hash IS NOT held_hash OR held_hash IS NULL))
            OR (state = 'found' AND seen_hash IS NULL)
            OR (state = 'unreadable' AND reason IS NULL)
            OR (held_hash IS NOT NULL AND version_ms IS NULL)
            OR (grown_hash IS NOT NULL AND source_kind <> 'document')
            OR masked < 0
            OR (held_hash IS NULL
                AND seen_hash IS NOT NULL
                AND state NOT IN ('found', 'queued')
                AND EXISTS (SELECT 1 FROM mem_tree_chunks AS c WHERE c.item_seq = i.item_seq))
         LIMIT 1000
        """
    ):
        yield f"item {item_seq} of {source_id} {trouble}"
    for item_seq, source_id, source_kind, item_key, time_ms, sort_key in pages(
        connection,
        """
        SELECT item_seq, source_id, source_kind, item_key, time_ms, sort_key
          FROM mem_tree_items
         WHERE item_seq > ?1
         ORDER BY item_seq
         LIMIT ?2
        """,
        size=2_000,
    ):
        if not _is_key(sort_key, source_kind, item_key, time_ms):
            yield f"item {item_seq} of {source_id} does not stand where its time and name say"


def _is_key(sort_key: bytes, source_kind: str, item_key: str, time_ms: int | None) -> bool:
    try:
        return item_sort_key(source_kind, item_key, time_ms) == bytes(sort_key)
    except OverflowError:
        return False


def files_and_items(connection: Connection, intent: Intent, paths: Paths) -> Iterator[str]:
    """Yield files that nothing was made of although they count as read, and items whose file nobody would miss.

    A source that is in the middle of a look is passed over: its files are written behind its items.
    """
    for (source_id,) in connection.all("SELECT DISTINCT source_id FROM mem_tree_items ORDER BY 1"):
        source = find_source(intent, paths, source_id)
        if source is None or connection.one(
            "SELECT 1 FROM mem_tree_state WHERE key = ?", (f"sync_cursor:{source_id}",)
        ):
            continue
        yield from _items_without_file(connection, source_id)
        if source.kind == "folder":
            yield from _files_without_item(connection, source_id)


def _files_without_item(connection: Connection, source_id: str) -> Iterator[str]:
    """A file whose stamp says that it was read is not read again: without its item it would be lost for good.

    That of a forgotten one stands under a veil (``stamps.py``) and has none by right.
    """
    count = connection.value(
        """
        SELECT count(*)
          FROM mem_tree_files AS f
         WHERE f.source_id = ?1
           AND f.state = 'current'
           AND f.size >= 0
           AND substr(CAST(f.path AS BLOB), 1, 1) <> x'00'  -- a text would end there
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_items AS i
                            WHERE i.source_id = f.source_id AND i.item_key = f.path)
        """,
        (source_id,),
    )
    if count:
        yield f"{count} files of {source_id} count as read, but there is no item of them"


def _items_without_file(connection: Connection, source_id: str) -> Iterator[str]:
    lost = 0
    known: set[str] = {
        path for (path,) in connection.all("SELECT path FROM mem_tree_files WHERE source_id = ?", (source_id,))
    }
    for _, state, place in pages(
        connection,
        """
        SELECT item_seq, state, place
          FROM mem_tree_items
         WHERE item_seq > ?1 AND source_id = ?3
         ORDER BY item_seq
         LIMIT ?2
        """,
        (source_id,),
        size=2_000,
    ):
        if state == ItemState.GONE:
            continue
        try:
            parts = json.loads(place)["parts"]
            lost += any(str(part["path"]) not in known for part in parts)
        except (ValueError, KeyError, TypeError):
            lost += 1
    if lost:
        yield f"{lost} items of {source_id} lie in files that no look would miss"


def sources_known(connection: Connection, intent: Intent, paths: Paths) -> Iterator[str]:
    """Yield sources that the memory holds and the intent does not name: nobody looks at them, and nothing leaves."""
    for source_id, what in connection.all(
        """
        SELECT source_id, group_concat(what, ', ')
          FROM (SELECT source_id, count(*) || ' items' AS what FROM mem_tree_items GROUP BY 1
                UNION ALL
                SELECT source_id, count(*) || ' files' FROM mem_tree_files GROUP BY 1
                UNION ALL
                SELECT source_id, count(*) || ' trees' FROM mem_tree_trees GROUP BY 1
                UNION ALL
                SELECT source_id, 'a question' FROM mem_tree_questions
                UNION ALL
                SELECT source_id, 'a look' FROM mem_tree_sources)
         GROUP BY source_id
        """
    ):
        if find_source(intent, paths, source_id) is None:
            yield f"{source_id} ({what}) is not in the settings"


def unfound_items(connection: Connection, intent: Intent) -> Iterator[str]:
    """Yield unfinished items and chunks that neither a job nor a sweep comes to.

    Items are swept source by source of the intent; one of any other source waits for ever unless a job holds it.
    """
    named = json.dumps([source.id for source in intent.sources])
    for source_id, state, count in connection.all(
        """
        SELECT i.source_id, i.state, count(*)
          FROM mem_tree_items AS i
         WHERE i.state IN ('found', 'queued', 'gone')
           AND i.source_id NOT IN (SELECT value FROM json_each(?1))
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_jobs AS j
                            WHERE j.dedupe_key IN ('ingest:' || i.source_id || ':' || i.item_key,
                                                   'sync:' || i.source_id)
                              AND j.status <> 'done')
         GROUP BY 1, 2
        """,
        (named,),
    ):
        yield f"{count} items of {source_id} are {state}, and neither a job nor a sweep comes to them"
    for chunk_id, lifecycle in connection.all(
        """
        SELECT c.chunk_id, c.lifecycle
          FROM mem_tree_chunks AS c
          LEFT JOIN mem_tree_items AS i ON i.item_seq = c.item_seq
         WHERE c.lifecycle = 'admitted'
           AND c.source_kind = 'document'
           AND i.held_hash IS i.grown_hash
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_chunks AS o
                            WHERE o.item_seq = c.item_seq AND o.lifecycle = 'pending_extraction')
           AND NOT EXISTS (SELECT 1
                             FROM mem_tree_jobs AS j
                            WHERE j.dedupe_key = 'seal_doc:' || c.source_id || '/' || c.item_key
                                                 || coalesce('@' || i.version_ms, '')
                              AND j.status <> 'done')
         LIMIT 1000
        """
    ):
        yield f"chunk {chunk_id} is {lifecycle}, and its document counts as grown without it"


def open_questions(connection: Connection) -> list[tuple[str, int, int]]:
    """Return (source id, items gone, items held) of each question that waits for its owner."""
    return [
        (source_id, gone, held)
        for source_id, gone, held in connection.all(
            "SELECT source_id, gone, held FROM mem_tree_questions ORDER BY source_id"
        )
    ]
