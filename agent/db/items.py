"""Taking whole items out of the memory: chunks, the document's own tree, jobs, the row itself.

Summaries *above* the item are marked stale and made again by their seals; who must not leave them standing for a
moment (forgetting) takes them out first (``agent/tree``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.nodes import detach_node, remove_chunk, remove_summary
from agent.ids import tree_id
from agent.states import SourceKind, TreeKind

if TYPE_CHECKING:
    from agent.db.connection import Connection


@dataclass(frozen=True, slots=True)
class Removed:
    """What went: how many chunks, and how many summaries of the item's own tree."""

    chunks: int
    summaries: int


def remove_item(connection: Connection, item_seq: int, *, spare_running: bool = False) -> Removed:
    """Delete an item with everything made from it alone, inside the caller's transaction.

    ``spare_running`` leaves the rows of running jobs: for a job that removes its own item. The caller asks for a seal
    of the source's tree. Rows of ``mem_tree_files`` stay: whether a file may be looked at again is the look's to say.
    """
    row = connection.one("SELECT source_id, item_key, source_kind FROM mem_tree_items WHERE item_seq = ?", (item_seq,))
    if row is None:
        return Removed(0, 0)
    source_id, item_key, source_kind = row
    chunks = [
        chunk_id
        for (chunk_id,) in connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ?", (item_seq,))
    ]
    for chunk_id in chunks:
        remove_chunk(connection, chunk_id)
    summaries = 0
    if source_kind == SourceKind.DOCUMENT:
        summaries = remove_tree(connection, tree_id(TreeKind.DOCUMENT, source_id, item_key))
    forget_jobs(connection, source_id, item_key, spare_running=spare_running)
    connection.run("DELETE FROM mem_tree_items WHERE item_seq = ?", (item_seq,))
    return Removed(len(chunks), summaries)


def remove_tree(connection: Connection, name: str) -> int:
    """Delete a tree with its summaries and its root's places elsewhere; return how many summaries there were."""
    tree_seq = connection.value("SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (name,))
    if tree_seq is None:
        return 0
    summaries = connection.all("SELECT summary_id FROM mem_tree_summaries WHERE tree_seq = ?", (tree_seq,))
    for (summary_id,) in summaries:
        remove_summary(connection, summary_id)
    root = connection.value("SELECT root_id FROM mem_tree_trees WHERE tree_seq = ?", (tree_seq,))
    if root is not None:
        detach_node(connection, root)
    # Edges and buffers go with the tree by foreign key.
    connection.run("DELETE FROM mem_tree_trees WHERE tree_seq = ?", (tree_seq,))
    return len(summaries)


def forget_jobs(connection: Connection, source_id: str, item_key: str, *, spare_running: bool = False) -> None:
    """Delete the rows of the queue that name an item, in every status: their keys and payloads hold its name.

    One that runs loses its lease with its row, so nothing of it is applied, unless running ones are spared.
    """
    document = f"{source_id}/{item_key}"
    tree = tree_id(TreeKind.DOCUMENT, source_id, item_key)
    for begin in (f"ingest:{source_id}:{item_key}", f"seal_doc:{document}"):
        connection.run(
            "DELETE FROM mem_tree_jobs WHERE dedupe_key = ? AND NOT (? AND status = 'running')",
            (begin, int(spare_running)),
        )
    # A document's versions and levels follow its name; no other name continues with these characters and digits only.
    for begin in (f"seal_doc:{document}@", f"seal:{tree}:"):
        connection.run(
            """
            DELETE FROM mem_tree_jobs
             WHERE dedupe_key > ?1
               AND dedupe_key < ?1 || ':'
               AND substr(dedupe_key, length(?1) + 1) NOT GLOB '*[^0-9]*'
               AND NOT (?2 AND status = 'running')
            """,
            (begin, int(spare_running)),
        )
