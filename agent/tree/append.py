"""``append_buffer``: a node takes its place among the leaves of a source's tree (lane 4 of the pipeline)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.db.nodes import detach_node
from agent.ids import stable_number, tree_id
from agent.queue.types import NOTHING_TO_DO, NewJob, Plan
from agent.states import Lifecycle, NodeKind, SourceKind, TreeKind
from agent.tree.due import level_is_due
from agent.tree.seal import above_gap_ms
from agent.tree.store import NodeRow, Tree, make_tree, order_bytes, put_in_buffer, rows_between, tree_of_seq

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import JobContext
    from agent.queue.types import AppendBufferPayload, NodeRef

IN_TREE = (Lifecycle.ADMITTED, Lifecycle.BUFFERED, Lifecycle.SEALED)


def plan_append(context: JobContext, payload: AppendBufferPayload) -> Plan:
    """Return the plan that puts a node into the leaf buffer of its source's tree and asks for a seal where one is due.

    All of it is a few look-ups, done inside the settle transaction. A node that stands there already changes nothing;
    one that is gone, dropped or replaced by now is left out. A document's root takes the place of the one before it.
    """
    if payload.target != "source":
        return NOTHING_TO_DO
    gap = above_gap_ms(context.intent)

    def writes(connection: Connection) -> Sequence[NewJob]:
        return append_node(connection, payload.scope, payload.node, context.clock.now_ms(), gap)

    return Plan(writes)


def append_node(connection: Connection, source_id: str, node: NodeRef, now_ms: int, gap_ms: int) -> Sequence[NewJob]:
    """Append inside the caller's transaction and return the seal that is due then, if any."""
    found = _stream_leaf(connection, source_id, node.id) if node.kind == NodeKind.LEAF else None
    item_seq = None
    if found is None:
        found, item_seq = _document_root(connection, source_id, node)
    if found is None:
        return ()
    tree = make_tree(connection, tree_id("source", source_id), TreeKind.SOURCE, source_id, None, now_ms)
    changed = _take_place(connection, tree, found, now_ms)
    if item_seq is not None:
        connection.run("UPDATE mem_tree_items SET grown_hash = held_hash WHERE item_seq = ?", (item_seq,))
    else:
        connection.run(
            "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ? AND lifecycle = ?",
            (Lifecycle.BUFFERED, node.id, Lifecycle.ADMITTED),
        )
    if changed and level_is_due(connection, tree, 0, gap_ms):
        return (NewJob.seal(tree.tree_id, 0),)
    return ()


def _take_place(connection: Connection, tree: Tree, row: NodeRow, now_ms: int) -> bool:
    """Put the row where it belongs unless it stands there; return whether anything changed."""
    for level_key in connection.all(
        """
        SELECT sort_key FROM mem_tree_edges WHERE node_id = ?1 AND tree_seq = ?2 AND level = 0
        UNION ALL
        SELECT sort_key FROM mem_tree_buffers WHERE node_id = ?1 AND tree_seq = ?2 AND level = 0
        """,
        (row.node_id, tree.tree_seq),
    ):
        if level_key[0] == row.sort_key:
            return False
        detach_node(connection, row.node_id, tree.tree_seq)
    for there in rows_between(connection, tree.tree_seq, 0, row.sort_key, row.sort_key):
        # The root of a document of one chunk stands in the document's own tree too.
        detach_node(connection, there.node_id, tree.tree_seq)
    put_in_buffer(connection, tree.tree_seq, 0, [row], now_ms)
    return True


def _stream_leaf(connection: Connection, source_id: str, chunk_id: str) -> NodeRow | None:
    chunk = connection.one(
        """
        SELECT sort_key, order_key, tokens, break_key, lifecycle, source_kind
          FROM mem_tree_chunks
         WHERE chunk_id = ? AND source_id = ?
        """,
        (chunk_id, source_id),
    )
    if chunk is None or chunk[4] not in IN_TREE or chunk[5] == SourceKind.DOCUMENT:
        return None
    key = chunk[0] + order_bytes(chunk[1])
    return NodeRow(key, chunk_id, NodeKind.LEAF, chunk_id, chunk_id, chunk[2], chunk[3], chunk[3], key, False)


def _document_root(connection: Connection, source_id: str, node: NodeRef) -> tuple[NodeRow | None, int | None]:
    """Return the leaf that a document's root is in its folder's tree, and the item; ``None`` if it is outdated."""
    tree = _tree_of_root(connection, node)
    if tree is None or tree.source_id != source_id or tree.root_id != node.id:
        return None, None
    item = connection.one(
        """
        SELECT item_seq, sort_key, held_hash
          FROM mem_tree_items
         WHERE source_id = ? AND item_key = ?
        """,
        (source_id, tree.item_key),
    )
    if item is None or item[2] != tree.version_hash:
        return None, None
    return document_leaf(connection, tree, item[1]), item[0]


def _tree_of_root(connection: Connection, node: NodeRef) -> Tree | None:
    if node.kind == NodeKind.SUMMARY:
        seq = connection.value("SELECT tree_seq FROM mem_tree_summaries WHERE summary_id = ?", (node.id,))
    else:
        seq = connection.value(
            """
            SELECT t.tree_seq
              FROM mem_tree_chunks AS c
              JOIN mem_tree_trees AS t ON t.source_id = c.source_id AND t.item_key = c.item_key
             WHERE c.chunk_id = ? AND t.kind = 'document'
            """,
            (node.id,),
        )
    tree = None if seq is None else tree_of_seq(connection, seq)
    return tree if tree is not None and tree.kind == TreeKind.DOCUMENT else None


def document_leaf(connection: Connection, tree: Tree, sort_key: bytes) -> NodeRow | None:
    """Return a document's root as a leaf of its folder's tree.

    What the boundaries look at does not change when the document does: its tree's id, its folder, no tokens (those of
    a summary would let the model into the shape).
    """
    if tree.root_id is None or tree.root_kind is None or tree.item_key is None:
        return None
    shape = tree.root_id
    if tree.root_kind == NodeKind.SUMMARY:
        shape = connection.value("SELECT shape_id FROM mem_tree_summaries WHERE summary_id = ?", (tree.root_id,))
    folder = stable_number("folder", tree.item_key.rpartition("/")[0])
    return NodeRow(sort_key, tree.root_id, tree.root_kind, shape, tree.tree_id, 0, folder, folder, sort_key, False)
