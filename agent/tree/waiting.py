"""What a group waits for: a chunk of it that is still pending, an item of it on its way, a hole on the level below.

A group that was closed around something that is about to arrive would be made again at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.states import ItemState, Lifecycle, SourceKind
from agent.tree.store import NodeRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.db import Connection
    from agent.tree.store import Tree

_LAST_ORDER = 2**63 - 1


def group_waits(
    connection: Connection, tree: Tree, level: int, before: NodeRow | None, rows: Sequence[NodeRow]
) -> bool:
    """Return whether something is pending behind the node before a group up to the group's last leaf."""
    if level > 0:
        low = before.last_key if before is not None else b""
        return _hole_below(connection, tree, level, low, rows[-1].last_key)
    low_key, low_order = _place(before) if before is not None else (b"", -1)
    high_key, high_order = _place(rows[-1])
    if _chunk_pending(connection, tree.source_id, low_key, low_order, high_key, high_order):
        return True
    # An item that comes again may grow behind its last leaf, a document has one place only.
    skip_low = before is not None and not before.is_stream_leaf
    if _item_queued(connection, tree.source_id, low_key, high_key, skip_low):
        return True
    return any(not row.is_stream_leaf for row in rows) and _document_open(connection, tree, low_key, high_key, skip_low)


def _place(row: NodeRow) -> tuple[bytes, int]:
    """Return the item's sort key and the order in the item of a leaf; a document's root is all of its item."""
    if row.is_stream_leaf:
        return row.last_key[:-8], int.from_bytes(row.last_key[-8:], "big")
    return row.last_key, _LAST_ORDER


def _chunk_pending(
    connection: Connection, source_id: str, low_key: bytes, low_order: int, high_key: bytes, high_order: int
) -> bool:
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_chunks INDEXED BY mem_tree_chunks_pending
         WHERE lifecycle = 'pending_extraction'
           AND source_id = ?1
           AND sort_key >= ?2
           AND sort_key <= ?4
           AND (sort_key <> ?2 OR order_key > ?3)
           AND (sort_key <> ?4 OR order_key <= ?5)
         LIMIT 1
        """,
        (source_id, low_key, low_order, high_key, high_order),
    )
    return found is not None


def _item_queued(connection: Connection, source_id: str, low_key: bytes, high_key: bytes, skip_low: bool) -> bool:
    """Return whether an item in the range is on its way.

    One whose job is parked is not: nobody may ever retry it. One that the queue lost is: a sweep asks for it again.
    """
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_items
         WHERE source_id = ?1
           AND state = ?2
           AND sort_key >= ?3
           AND sort_key <= ?4
           AND (NOT ?5 OR sort_key > ?3)
           AND coalesce((SELECT j.status
                           FROM mem_tree_jobs AS j
                          WHERE j.dedupe_key = 'ingest:' || source_id || ':' || item_key
                          ORDER BY j.id DESC
                          LIMIT 1), 'lost') NOT IN ('failed', 'cancelled')
         LIMIT 1
        """,
        (source_id, ItemState.QUEUED, low_key, high_key, int(skip_low)),
    )
    return found is not None


def _document_open(connection: Connection, tree: Tree, low_key: bytes, high_key: bytes, skip_low: bool) -> bool:
    """Return whether a document in the range has a version whose root does not stand in the source's tree yet.

    One whose seal is parked keeps the place that its former version has, or none, until it is retried.
    """
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_items INDEXED BY mem_tree_items_ungrown
         WHERE source_kind = 'document'
           AND held_hash IS NOT grown_hash
           AND source_id = ?1
           AND sort_key >= ?2
           AND sort_key <= ?3
           AND (NOT ?4 OR sort_key > ?2)
           AND coalesce((SELECT j.status
                           FROM mem_tree_jobs AS j
                          WHERE j.dedupe_key = 'seal_doc:' || source_id || '/' || item_key || '@' || version_ms
                          ORDER BY j.id DESC
                          LIMIT 1), 'lost') NOT IN ('failed', 'cancelled')
         LIMIT 1
        """,
        (tree.source_id, low_key, high_key, int(skip_low)),
    )
    return found is not None


def _hole_below(connection: Connection, tree: Tree, level: int, low: bytes, high: bytes) -> bool:
    """Return whether a lower level still has nodes in the range that nothing on this level covers, or covers rightly.

    A stale summary is looked for by where it begins: its place on the level below is what changes.
    """
    for below in range(level):
        found = connection.one(
            """
            SELECT 1
              FROM mem_tree_buffers
             WHERE tree_seq = ? AND level = ? AND sort_key > ? AND sort_key <= ?
             LIMIT 1
            """,
            (tree.tree_seq, below, low, high),
        )
        if found is not None:
            return True
        found = connection.one(
            """
            SELECT 1
              FROM mem_tree_summaries
             WHERE tree_seq = ? AND level = ? AND stale = 1 AND sort_key > ? AND sort_key <= ?
             LIMIT 1
            """,
            (tree.tree_seq, below + 1, low, high),
        )
        if found is not None:
            return True
    return False


def chunks_pending(connection: Connection, item_seq: int) -> bool:
    """Return whether a chunk of an item has not been decided on yet."""
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_chunks
         WHERE item_seq = ? AND lifecycle = ?
         LIMIT 1
        """,
        (item_seq, Lifecycle.PENDING_EXTRACTION),
    )
    return found is not None


def is_stream(source_kind: str) -> bool:
    """Return whether the chunks of an item are leaves of the source's tree themselves (mail and chats)."""
    return source_kind != SourceKind.DOCUMENT
