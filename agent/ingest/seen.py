"""What a look saw of an item, written down: its row says whether there is work, whatever the queue holds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.ingest.order import item_sort_key
from agent.ingest.readers.protocol import hash_of_parts
from agent.masking.mask import mask_secrets
from agent.states import ItemState, SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.db import Connection
    from agent.ingest.look import SeenItem
    from agent.ingest.readers.protocol import Part


def store_item_tx(connection: Connection, source_id: str, item: SeenItem) -> None:
    """Write an item down inside the caller's transaction. One of which nothing is left is marked gone."""
    row = connection.one(
        "SELECT item_seq, seen_hash, held_hash, state FROM mem_tree_items WHERE source_id = ? AND item_key = ?",
        (source_id, item.item_key),
    )
    parts = sorted(item.parts, key=lambda part: (str(part["path"]), int(part.get("offset", 0))))
    place = json.dumps({"parts": parts}, ensure_ascii=False, separators=(",", ":"))
    seen = hash_of_parts(parts) if parts else None
    if row is None:
        if seen is not None:
            _insert(connection, source_id, item, place, seen)
        return
    item_seq, old_seen, held, state = row
    connection.run(
        """
        UPDATE mem_tree_items
           SET place = ?, seen_hash = ?, state = ?, urgent = 0, reason = CASE WHEN ? = 'unreadable' THEN reason END
         WHERE item_seq = ?
        """,
        (place, seen, after := _next_state(item, seen, old_seen, held, ItemState(state)), after, item_seq),
    )
    if item.moved and item.source_kind is SourceKind.EMAIL:
        _move_locators(connection, item_seq, item.moved)


def _insert(connection: Connection, source_id: str, item: SeenItem, place: str, seen: str) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_items
               (source_id, item_key, source_kind, place, title, time_ms, sort_key, seen_hash, state)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            source_id,
            item.item_key,
            str(item.source_kind),
            place,
            None if item.title is None else mask_secrets(item.title),
            item.time_ms,
            item_sort_key(item.source_kind, item.item_key, item.time_ms),
            seen,
            str(ItemState.FOUND),
        ),
    )


def _next_state(
    item: SeenItem, seen: str | None, old_seen: str | None, held: str | None, state: ItemState
) -> ItemState:
    if seen is None:
        # Queued for its removal already, or for a reading whose job will see that nothing is there.
        return ItemState.QUEUED if old_seen is None and state is ItemState.QUEUED else ItemState.GONE
    if item.moved and item.source_kind is SourceKind.CHAT:
        return ItemState.FOUND  # the lines that its chunks point at are others now
    if seen == old_seen and state in (ItemState.FOUND, ItemState.QUEUED):
        return state
    # What could not be read and is found with the same content was another in between, or could not be opened.
    return ItemState.CURRENT if seen == held else ItemState.FOUND


def _move_locators(connection: Connection, item_seq: int, moved: Mapping[tuple[str, int], Part]) -> None:
    """Let a mail's chunks point at where it lies now: deleting one mail of a mailbox shifts all behind it."""
    for (path, before), part in moved.items():
        connection.run(
            """
            UPDATE mem_tree_chunks
               SET locator = json_set(locator, '$.path', ?, '$.offset', ?, '$.length', ?)
             WHERE item_seq = ?
               AND json_extract(locator, '$.path') = ?
               AND json_extract(locator, '$.offset') = ?
            """,
            (str(part["path"]), int(part.get("offset", 0)), int(part.get("length", 0)), item_seq, path, before),
        )


def mark_urgent_tx(connection: Connection, source_id: str, item_keys: Iterable[str]) -> None:
    """Let items that wait be read before all others, inside the caller's transaction."""
    connection.many(
        """
        UPDATE mem_tree_items
           SET urgent = 1
         WHERE source_id = ? AND item_key = ? AND state IN ('found', 'gone')
        """,
        [(source_id, item_key) for item_key in item_keys],
    )
