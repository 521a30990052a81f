"""What is held of a source and could not be read again: asked before a memory is emptied."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent.ingest.readers.protocol import Found, SourceMissing
from agent.ingest.readers.registry import reader_for

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.db import Connection

_ITEMS_A_PAGE = 1000


def passages_without_source(connection: Connection, source: SourceIntent) -> int:
    """Return how many chunks are held of items that the source does not have any more, by a look at all of it.

    An item counts where it is not found, or where one of the contents that it was made from is neither found nor
    followed by another version in the same file. Blocks while every file of the source is read. Writes nothing. Raises
    ``UsageFault`` for a kind that this version does not read.
    """
    hashes: dict[str, set[str]] = {}
    paths: set[str] = set()
    try:
        for event in reader_for(source.kind).scan(source, {}):
            if isinstance(event, Found):
                hashes.setdefault(event.item_key, set()).add(str(event.part["hash"]))
                paths.add(str(event.part["path"]))
    except SourceMissing:
        hashes.clear()
    count, last = 0, 0
    while rows := connection.all(
        """
        SELECT i.item_seq, i.item_key, i.place,
               (SELECT count(*) FROM mem_tree_chunks AS c WHERE c.item_seq = i.item_seq)
          FROM mem_tree_items AS i
         WHERE i.source_id = ? AND i.item_seq > ?
         ORDER BY i.item_seq
         LIMIT ?
        """,
        (source.id, last, _ITEMS_A_PAGE),
    ):
        for _, item_key, place, chunks in rows:
            parts = json.loads(place).get("parts", [])
            there = hashes.get(item_key)
            if there is None or any(part["hash"] not in there and part["path"] not in paths for part in parts):
                count += chunks
        last = rows[-1][0]
    return count
