"""Cheap looks at a tree: is a level due for a seal, is the tree finished."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.tree.shape import groups
from agent.tree.store import (
    END,
    ROOT,
    NodeRow,
    Tree,
    first_child_key,
    last_edge,
    next_waiting,
    rows_between,
    summary_head,
    tree_of_seq,
)

if TYPE_CHECKING:
    from agent.db import Connection

FLUSH_ALL_MS = 1 << 62
"""A ``flush_before_ms`` behind every time: all tails, also those that closing others brings up."""

# A whole group, a whole group after it, and one node more.
_LOOK = 50


def level_is_due(connection: Connection, tree: Tree, level: int, above_gap_ms: int) -> bool:
    """Return whether a level may differ from its shape; reads some 60 rows whatever the size of the tree.

    What waits for something pending counts as due: a seal looks closer.
    """
    seq = tree.tree_seq
    if _has_stale(connection, seq, level + 1):
        return True
    first = next_waiting(connection, seq, level, b"")
    if first is None:
        return False
    if level > 0 and tree.had_root:
        return True
    edge = last_edge(connection, seq, level)
    if edge is not None and edge.sort_key > first:
        return True
    start = first if edge is None else _group_start(connection, seq, level, edge)
    rows = rows_between(connection, seq, level, start, END, _LOOK)
    if len(rows) == _LOOK:
        return True
    for group in groups(rows, level, closed=True):
        members = rows[group.start : group.end]
        if not group.final or any(row.provisional for row in members):
            return _tail_is_due(connection, tree, level, rows[group.start :], above_gap_ms)
        if any(row.parent_id is None for row in members):
            return True
    return False


def _group_start(connection: Connection, tree_seq: int, level: int, edge: NodeRow) -> bytes:
    if edge.is_promoted or edge.parent_id == ROOT:
        return edge.sort_key
    return first_child_key(connection, tree_seq, level, str(edge.parent_id)) or edge.sort_key


def _tail_is_due(connection: Connection, tree: Tree, level: int, tail: list[NodeRow], above_gap_ms: int) -> bool:
    cutoff = tree.flush_before_ms
    if cutoff is not None:
        cutoff -= above_gap_ms if level else 0
        if any(row.parent_id is None and row.added_at_ms < cutoff for row in tail):
            return True
    for parent in {row.parent_id for row in tail if row.parent_id and not row.is_promoted}:
        head = summary_head(connection, parent)
        if head is None or not head.provisional:
            return True
    alone = len(tail) == 1 and rows_between(connection, tree.tree_seq, level, b"", tail[0].sort_key, 2) == tail
    return (
        alone
        and level > 0
        and all(next_waiting(connection, tree.tree_seq, below, b"") is None for below in range(level))
    )


def _has_stale(connection: Connection, tree_seq: int, level: int) -> bool:
    found = connection.one(
        "SELECT 1 FROM mem_tree_summaries WHERE tree_seq = ? AND level = ? AND stale = 1 LIMIT 1", (tree_seq, level)
    )
    return found is not None


def next_due_level(connection: Connection, tree_seq: int, level: int, above_gap_ms: int) -> int | None:
    """Return the lowest level from ``level`` on that is due, ``None`` where the tree rests from there on."""
    tree = tree_of_seq(connection, tree_seq)
    if tree is None:
        return None
    top = max(tree.max_level, highest_level(connection, tree_seq))
    return next((at for at in range(level, top + 1) if level_is_due(connection, tree, at, above_gap_ms)), None)


def highest_level(connection: Connection, tree_seq: int) -> int:
    """Return the highest level that a node of the tree stands on; 0 for an empty tree."""
    highest: int = connection.value(
        """
        SELECT max(
          coalesce((SELECT max(level) FROM mem_tree_edges WHERE tree_seq = ?1), 0),
          coalesce((SELECT max(level) FROM mem_tree_buffers WHERE tree_seq = ?1), 0)
        )
        """,
        (tree_seq,),
    )
    return highest


def tree_rests(connection: Connection, tree: Tree) -> bool:
    """Return whether nothing of a tree waits: no buffer rows, no stale summary, a root over what there is."""
    found = connection.one(
        """
        SELECT 1 WHERE EXISTS (SELECT 1 FROM mem_tree_buffers WHERE tree_seq = ?1)
                    OR EXISTS (SELECT 1 FROM mem_tree_summaries WHERE tree_seq = ?1 AND stale = 1)
        """,
        (tree.tree_seq,),
    )
    return found is None and (tree.root_id is not None or last_edge(connection, tree.tree_seq, 0) is None)


def finish_flush(connection: Connection, tree_seq: int, now_ms: int) -> None:
    """End a flush of everything once the tree rests, inside the caller's transaction."""
    tree = tree_of_seq(connection, tree_seq)
    if tree is not None and tree.flush_before_ms == FLUSH_ALL_MS and tree_rests(connection, tree):
        connection.run("UPDATE mem_tree_trees SET flush_before_ms = ? WHERE tree_seq = ?", (now_ms, tree_seq))
