"""The writing half of a seal: rows move, summaries come and go, all inside the settle transaction.

Each group is checked against the rows of this moment; one whose children changed meanwhile is left for the next run,
so an append during a seal is never lost and never undoes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.db.nodes import clear_summary, detach_node, mark_above, remove_summary
from agent.db.text_index import add_text
from agent.states import Lifecycle, NodeKind
from agent.tree.degraded import times
from agent.tree.request import NewSummary, as_child, load_child
from agent.tree.store import (
    ROOT,
    NodeRow,
    SummaryHead,
    Tree,
    children_of,
    first_child_key,
    put_in_buffer,
    put_under,
    row_numbers,
    rows_between,
    summary_head,
    take_edges,
    take_from_buffer,
)

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.tree.regroup import Wanted


@dataclass(frozen=True)
class Prepared:
    """A wanted group with the id of its summary, and the summary itself where it had to be made.

    ``read`` are the numbers of the children that were read for it, ``None`` where a live summary is adopted unread.
    """

    wanted: Wanted
    summary_id: str = ""
    made: NewSummary | None = None
    read: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Applied:
    """How many groups were written, and how many were not because their children had changed."""

    written: int
    skipped: int


def apply_groups(
    connection: Connection,
    tree: Tree,
    level: int,
    prepared: Sequence[Prepared],
    empty: Sequence[str],
    now_ms: int,
) -> Applied:
    """Write groups of one level inside the caller's transaction; ``empty`` are summaries that lost every child."""
    current = [one for one in prepared if _as_read(connection, tree, level, one)]
    kept = {
        one.summary_id or one.wanted.rows[0].node_id for one in current if one.wanted.kind in ("summary", "promote")
    }
    above: list[str] = []
    for one in current:
        above += [row.parent_id for row in one.wanted.rows if row.parent_id]
        _move_children(connection, tree, level, one, now_ms)
    retired = [parent for parent in dict.fromkeys(above) if parent not in kept]
    for parent in retired:
        _retire(connection, tree, level, parent, now_ms)
    for summary_id in empty:
        if summary_id not in kept and first_child_key(connection, tree.tree_seq, level, summary_id) is None:
            remove_summary(connection, summary_id)
    for one in current:
        _place_above(connection, tree, level, one, now_ms)
    _keep_root(connection, tree)
    return Applied(len(current), len(prepared) - len(current))


def _as_read(connection: Connection, tree: Tree, level: int, one: Prepared) -> bool:
    """Return whether exactly these rows still stand where the group begins to where it ends, under what they did."""
    rows = one.wanted.rows
    if one.wanted.kind == "summary" and not _says_the_same(connection, one):
        return False
    if one.wanted.kind == "root":
        found = rows_between(connection, tree.tree_seq, level, b"", b"\xff" * 64, 2)
    else:
        found = rows_between(connection, tree.tree_seq, level, rows[0].sort_key, rows[-1].sort_key)
    if one.wanted.kind == "dissolve":
        standing = {(row.sort_key, row.node_id, row.parent_id) for row in found}
        return all((row.sort_key, row.node_id, row.parent_id) in standing for row in rows)
    return [(row.node_id, row.parent_id) for row in found] == [(row.node_id, row.parent_id) for row in rows]


def _says_the_same(connection: Connection, one: Prepared) -> bool:
    """Return whether the children of a group are what its text was, or is to be, made from."""
    head = summary_head(connection, one.summary_id)
    if one.made is None and head is None:
        return False
    if one.read is None:
        return head is not None and not head.stale
    return row_numbers(connection, one.wanted.rows) == list(one.read)


def _move_children(connection: Connection, tree: Tree, level: int, one: Prepared, now_ms: int) -> None:
    rows = one.wanted.rows
    if one.wanted.kind == "dissolve":
        _return_to_buffer(connection, tree, level, rows, now_ms)
        return
    parent = ROOT if one.wanted.kind == "root" else one.summary_id or rows[0].node_id
    waiting = [row for row in rows if row.parent_id is None]
    take_from_buffer(connection, tree.tree_seq, level, [row.sort_key for row in waiting])
    put_under(connection, tree.tree_seq, level, [row for row in rows if row.parent_id != parent], parent)
    if level == 0:
        _set_lifecycle(connection, waiting, Lifecycle.BUFFERED, Lifecycle.SEALED)


def _return_to_buffer(connection: Connection, tree: Tree, level: int, rows: Sequence[NodeRow], now_ms: int) -> None:
    take_edges(connection, tree.tree_seq, level, [row.sort_key for row in rows])
    put_in_buffer(connection, tree.tree_seq, level, rows, now_ms)
    if level == 0:
        _set_lifecycle(connection, rows, Lifecycle.SEALED, Lifecycle.BUFFERED)


def _set_lifecycle(connection: Connection, rows: Sequence[NodeRow], old: Lifecycle, new: Lifecycle) -> None:
    # A document's chunks are sealed by their own tree, whatever becomes of its root here.
    connection.many(
        "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ? AND lifecycle = ?",
        [(new, row.node_id, old) for row in rows if row.is_stream_leaf],
    )


def _retire(connection: Connection, tree: Tree, level: int, parent: str, now_ms: int) -> None:
    """Take away what stood above nodes of this level; children that no new group took go back to the buffer."""
    left = [row for row in children_of(connection, tree.tree_seq, level, parent) if not row.is_promoted]
    _return_to_buffer(connection, tree, level, left, now_ms)
    if not _withdraw(connection, tree, level + 1, parent):
        remove_summary(connection, parent)


def _withdraw(connection: Connection, tree: Tree, from_level: int, node_id: str) -> bool:
    """Take a node that stood alone in its group off the levels it went up to; return whether it was such a node.

    A summary of this tree that was made one level below ``from_level`` is none: it begins there. A document's root is a
    summary too, but of its own tree, whose levels say nothing here.
    """
    born: int | None = connection.value(
        "SELECT level FROM mem_tree_summaries WHERE summary_id = ? AND tree_seq = ?", (node_id, tree.tree_seq)
    )
    if born is not None and born >= from_level:
        return False
    connection.run(
        """
        UPDATE mem_tree_summaries SET stale = 1
         WHERE summary_id IN (
           SELECT parent_id FROM mem_tree_edges WHERE node_id = ? AND tree_seq = ? AND level >= ? AND parent_id <> ?
         )
        """,
        (node_id, tree.tree_seq, from_level, node_id),
    )
    for table in (
        "DELETE FROM mem_tree_edges WHERE node_id = ? AND tree_seq = ? AND level >= ?",
        "DELETE FROM mem_tree_buffers WHERE node_id = ? AND tree_seq = ? AND level >= ?",
    ):
        connection.run(table, (node_id, tree.tree_seq, from_level))
    return True


def _place_above(connection: Connection, tree: Tree, level: int, one: Prepared, now_ms: int) -> None:
    kind, rows = one.wanted.kind, one.wanted.rows
    if kind == "dissolve":
        return
    if kind == "root":
        # Before its first flush a tree that happens to have one node on top is still growing.
        connection.run(
            """
            UPDATE mem_tree_trees
               SET root_id = ?, root_kind = ?, max_level = ?, updated_at_ms = ?,
                   had_root = (had_root OR flush_before_ms IS NOT NULL)
             WHERE tree_seq = ?
            """,
            (rows[0].node_id, rows[0].node_kind, level, now_ms, tree.tree_seq),
        )
        return
    if kind == "promote":
        node = replace(rows[0], provisional=not one.wanted.final, parent_id=None)
    else:
        tokens = _store_summary(connection, tree, one, now_ms)
        node = NodeRow(
            rows[0].sort_key,
            one.summary_id,
            NodeKind.SUMMARY,
            one.wanted.shape_id,
            rows[-1].leaf_id,
            tokens,
            rows[0].first_break,
            rows[-1].last_break,
            rows[-1].last_key,
            not one.wanted.final,
        )
    for there in rows_between(connection, tree.tree_seq, level + 1, node.sort_key, node.sort_key):
        if there.node_id == node.node_id:
            _mark_provisional(connection, tree, level + 1, node)
            return
        _retire(connection, tree, level, there.node_id, now_ms)
    put_in_buffer(connection, tree.tree_seq, level + 1, [node], now_ms)
    connection.run(
        "UPDATE mem_tree_trees SET max_level = max(max_level, ?), updated_at_ms = ? WHERE tree_seq = ?",
        (level + 1, now_ms, tree.tree_seq),
    )


def _mark_provisional(connection: Connection, tree: Tree, from_level: int, node: NodeRow) -> None:
    for table in (
        "UPDATE mem_tree_edges SET provisional = ? WHERE node_id = ? AND tree_seq = ? AND level >= ?",
        "UPDATE mem_tree_buffers SET provisional = ? WHERE node_id = ? AND tree_seq = ? AND level >= ?",
    ):
        connection.run(table, (int(node.provisional), node.node_id, tree.tree_seq, from_level))


def _store_summary(connection: Connection, tree: Tree, one: Prepared, now_ms: int) -> int:
    """Insert the summary, keep the live one made from the same, or put it in that one's place; return its tokens."""
    provisional = int(not one.wanted.final)
    head = summary_head(connection, one.summary_id)
    if one.made is None or _is_kept(head, one.made):
        connection.run(
            "UPDATE mem_tree_summaries SET stale = 0, provisional = ?, sort_key = ? WHERE summary_id = ?",
            (provisional, one.wanted.rows[0].sort_key, one.summary_id),
        )
        tokens = connection.value("SELECT tokens FROM mem_tree_summaries WHERE summary_id = ?", (one.summary_id,))
        return int(tokens)
    if head is None:
        insert_summary(connection, tree, one.made, one.wanted.rows[0].sort_key, now_ms, provisional=bool(provisional))
    else:
        renew_summary(connection, tree, one.made, one.wanted.rows[0].sort_key, now_ms, provisional=bool(provisional))
    return one.made.tokens


def _is_kept(head: SummaryHead | None, made: NewSummary) -> bool:
    """Return whether the live summary is what was made; one that a fallback made gives way, to a fallback's too."""
    return head is not None and head.input_hash == made.input_hash and not head.degraded


def _is_live(connection: Connection, summary_id: str) -> bool:
    return connection.one("SELECT 1 FROM mem_tree_summaries WHERE summary_id = ?", (summary_id,)) is not None


def renew_summary(
    connection: Connection,
    tree: Tree,
    made: NewSummary,
    sort_key: bytes,
    now_ms: int,
    *,
    provisional: bool = False,
    stale: bool = False,
) -> None:
    """Put a summary that was made again in the place of the one with its id, inside the caller's transaction.

    Words, vectors and results of the old one go. Where it says something else, what is above it is stale.
    """
    before = load_child(connection, NodeKind.SUMMARY, made.summary_id)
    head = summary_head(connection, made.summary_id)
    degraded = times(0 if head is None else head.degraded, made.degraded)
    clear_summary(connection, made.summary_id)
    insert_summary(connection, tree, made, sort_key, now_ms, provisional=provisional, stale=stale, degraded=degraded)
    if before == as_child(made):
        return
    mark_above(connection, made.summary_id)
    for table in ("edges", "buffers"):
        connection.run(
            f"UPDATE mem_tree_{table} SET tokens = ? WHERE node_id = ? AND tree_seq = ?",
            (made.tokens, made.summary_id, tree.tree_seq),
        )


def insert_summary(
    connection: Connection,
    tree: Tree,
    made: NewSummary,
    sort_key: bytes,
    now_ms: int,
    *,
    provisional: bool = False,
    stale: bool = False,
    degraded: int | None = None,
) -> None:
    """Store a summary with its index row inside the caller's transaction.

    ``degraded`` is how often in a row a fallback stood in, where it was made before.
    """
    connection.run(
        """
        INSERT INTO mem_tree_summaries (
          summary_id, shape_id, tree_seq, source_id, level, sort_key, title, text, tokens, leaves, first_time_ms,
          last_time_ms, signature, provisional, degraded, stale, input_hash, created_at_ms
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            made.summary_id,
            made.shape_id,
            tree.tree_seq,
            tree.source_id,
            made.level,
            sort_key,
            made.title,
            made.text,
            made.tokens,
            made.leaves,
            made.first_time_ms,
            made.last_time_ms,
            made.signature,
            int(provisional),
            times(0, made.degraded) if degraded is None else degraded,
            int(stale),
            made.input_hash,
            now_ms,
        ),
    )
    add_text(connection, -connection.last_id, made.title, None, made.text)


def drop_lost(connection: Connection, rows: Sequence[NodeRow]) -> int:
    """Take nodes out of the trees that no table holds any more, and return how many there were.

    Nobody removes a node without its places; a damaged file that was put together again might.
    """
    lost = 0
    for row in rows:
        if row.node_kind == NodeKind.LEAF:
            there = connection.one("SELECT 1 FROM mem_tree_chunks WHERE chunk_id = ?", (row.node_id,)) is not None
        else:
            there = _is_live(connection, row.node_id)
        if not there:
            detach_node(connection, row.node_id)
            lost += 1
    return lost


def _keep_root(connection: Connection, tree: Tree) -> None:
    """Forget a root that does not stand as one any more."""
    connection.run(
        """
        UPDATE mem_tree_trees SET root_id = NULL, root_kind = NULL
         WHERE tree_seq = ?1
           AND root_id IS NOT NULL
           AND NOT EXISTS (
             SELECT 1
               FROM mem_tree_edges AS e
              WHERE e.node_id = mem_tree_trees.root_id AND e.tree_seq = ?1 AND e.parent_id = ?2
           )
        """,
        (tree.tree_seq, ROOT),
    )
