"""Items that are no longer there leave the memory, one ``ingest_file`` job each.

A look only marks them (``gone``, nothing seen); the window hands out their jobs like those of found ones. So a mailbox
that lost ten thousand mails is ten thousand small transactions, and a removal that was lost is found by the sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent import ids
from agent.db.items import remove_item, remove_tree
from agent.db.nodes import remove_nodes
from agent.queue.types import NewJob, StalePlan
from agent.states import ItemState, SourceKind, TreeKind

if TYPE_CHECKING:
    from agent.db import Connection

NODES_A_TIME = 64
"""So many chunks and summaries of one item are deleted in one transaction, a longer item takes several: wiping one out
of the full-text index costs 1 to 3 ms (measured), and nobody else writes meanwhile."""

REMOVAL = "gone"
"""The input of a job that removes: not the hash of any content, so that a parked reading does not forbid it."""


def is_leaving(state: ItemState, seen_hash: str | None) -> bool:
    """Return whether an item's ``ingest_file`` takes it out of the memory."""
    return seen_hash is None and state in (ItemState.GONE, ItemState.QUEUED)


def remove_tx(connection: Connection, item_seq: int, top_up: Callable[[], list[NewJob]]) -> list[NewJob]:
    """Take an item out, or the first part of a long one, inside the caller's transaction; return what is to be done.

    ``top_up`` says what comes next of its source. Raises ``StalePlan`` where the item is there again.
    """
    row = connection.one(
        "SELECT source_id, item_key, source_kind, state, seen_hash FROM mem_tree_items WHERE item_seq = ?", (item_seq,)
    )
    if row is None:
        return []
    source_id, item_key, source_kind, state, seen_hash = row
    if not is_leaving(ItemState(state), seen_hash):
        raise StalePlan(f"item {item_seq} is there again")
    tree = ids.tree_id(TreeKind.DOCUMENT, source_id, item_key) if source_kind == SourceKind.DOCUMENT else None
    summaries = [] if tree is None else _some_summaries(connection, tree)
    chunks = _some_chunks(connection, item_seq)
    if len(summaries) + len(chunks) <= NODES_A_TIME:
        # All words at once, before the rows: a third cheaper than node by node.
        remove_nodes(connection, chunks, summaries)
        remove_item(connection, item_seq, spare_running=True)
        return [*top_up(), *seal_source(connection, source_id)]
    # Were it to come back now, nothing of it would be taken for held.
    connection.run(
        "UPDATE mem_tree_items SET held_hash = NULL, grown_hash = NULL, state = ? WHERE item_seq = ?",
        (str(ItemState.QUEUED), item_seq),
    )
    summaries_now = summaries[:NODES_A_TIME]
    remove_nodes(connection, chunks[: NODES_A_TIME - len(summaries_now)], summaries_now)
    if len(summaries) <= NODES_A_TIME and tree is not None:
        remove_tree(connection, tree)
    return [NewJob.ingest_file(source_id, item_key, REMOVAL)]


def _some_chunks(connection: Connection, item_seq: int) -> list[str]:
    rows = connection.all(
        "SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ? LIMIT ?", (item_seq, NODES_A_TIME + 1)
    )
    return [chunk_id for (chunk_id,) in rows]


def _some_summaries(connection: Connection, tree: str) -> list[str]:
    """Return summaries of a tree, the highest first: its root takes the tree's place in its folder's tree with it."""
    rows = connection.all(
        """
        SELECT s.summary_id
          FROM mem_tree_trees AS t
          JOIN mem_tree_summaries AS s ON s.tree_seq = t.tree_seq
         WHERE t.tree_id = ?
         ORDER BY s.level DESC
         LIMIT ?
        """,
        (tree, NODES_A_TIME + 1),
    )
    return [summary_id for (summary_id,) in rows]


def seal_source(connection: Connection, source_id: str) -> list[NewJob]:
    """Return the job that lets a source's tree look again, if it has one: a leaf left, or a group waited."""
    tree = ids.tree_id(TreeKind.SOURCE, source_id)
    there = connection.value("SELECT 1 FROM mem_tree_trees WHERE tree_id = ?", (tree,))
    return [NewJob.seal(tree, 0)] if there else []


def seal_waiting(connection: Connection, source_id: str) -> list[NewJob]:
    """Return the job that lets a source's tree look again for an item that came back as it was: nothing left the tree.

    Only a group that is still open can have waited for it, and a tree that rests has none: no node in a buffer, no
    stale summary, a root.
    """
    tree = ids.tree_id(TreeKind.SOURCE, source_id)
    waits = connection.value(
        """
        SELECT t.root_id IS NULL
               OR EXISTS (SELECT 1 FROM mem_tree_buffers WHERE tree_seq = t.tree_seq)
               OR EXISTS (SELECT 1 FROM mem_tree_summaries WHERE tree_seq = t.tree_seq AND stale = 1)
          FROM mem_tree_trees AS t
         WHERE t.tree_id = ?
        """,
        (tree,),
    )
    return [NewJob.seal(tree, 0)] if waits else []
