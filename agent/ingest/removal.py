"""Items that are no longer there leave the memory, one ``ingest_file`` job each.

A look only marks them (``gone``, nothing seen); the window hands out their jobs like those of found ones. So a mailbox
that lost ten thousand mails is ten thousand small transactions, and a removal that was lost is found by the sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent import ids
from agent.db.items import remove_item, remove_tree
from agent.db.nodes import remove_chunk
from agent.queue.types import NewJob, StalePlan
from agent.states import ItemState, SourceKind, TreeKind

if TYPE_CHECKING:
    from agent.db import Connection

CHUNKS_A_TIME = 400
"""So many chunks of one item are deleted in one transaction (0.1 s); a longer item takes several."""

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
    chunks = connection.all(
        "SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ? LIMIT ?", (item_seq, CHUNKS_A_TIME + 1)
    )
    if len(chunks) <= CHUNKS_A_TIME:
        remove_item(connection, item_seq, spare_running=True)
        return [*top_up(), *seal_source(connection, source_id)]
    if source_kind == SourceKind.DOCUMENT:
        remove_tree(connection, ids.tree_id(TreeKind.DOCUMENT, source_id, item_key))
    # Were it to come back now, nothing of it would be taken for held.
    connection.run(
        "UPDATE mem_tree_items SET held_hash = NULL, grown_hash = NULL, state = ? WHERE item_seq = ?",
        (str(ItemState.QUEUED), item_seq),
    )
    for (chunk_id,) in chunks[:CHUNKS_A_TIME]:
        remove_chunk(connection, chunk_id)
    return [NewJob.ingest_file(source_id, item_key, REMOVAL)]


def seal_source(connection: Connection, source_id: str) -> list[NewJob]:
    """Return the job that lets a source's tree look again, if it has one: a leaf left, or a group waited."""
    tree = ids.tree_id(TreeKind.SOURCE, source_id)
    there = connection.value("SELECT 1 FROM mem_tree_trees WHERE tree_id = ?", (tree,))
    return [NewJob.seal(tree, 0)] if there else []
