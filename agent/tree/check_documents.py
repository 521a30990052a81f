"""Whether the documents that count as grown are: a tree of the held version, and its root's place in the folder's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.db.check import pages
from agent.ids import tree_id
from agent.tree.append import document_leaf
from agent.tree.store import find_tree, rows_between

if TYPE_CHECKING:
    from agent.db import Connection


def documents_standing(connection: Connection) -> Iterator[str]:
    """Yield documents at rest that have no tree of their held version, or whose root does not stand in the source's.

    ``mark_open`` (``check.py``) has said before which documents are at rest.
    """
    sources: dict[str, int | None] = {}
    for _, source_id, item_key, sort_key, held_hash, leaves in pages(
        connection,
        """
        SELECT i.item_seq, i.source_id, i.item_key, i.sort_key, i.held_hash,
               EXISTS (SELECT 1 FROM mem_tree_chunks AS c WHERE c.item_seq = i.item_seq AND c.lifecycle = 'sealed')
          FROM mem_tree_items AS i
         WHERE i.item_seq > ?1
           AND i.source_kind = 'document'
           AND i.held_hash IS NOT NULL
           AND i.item_seq NOT IN (SELECT item_seq FROM temp.doctor_open)
         ORDER BY i.item_seq
         LIMIT ?2
        """,
    ):
        name = tree_id("document", source_id, item_key)
        tree = find_tree(connection, name)
        if tree is None:
            yield f"{name}: its document counts as grown, but there is no tree"
            continue
        if tree.version_hash != held_hash:
            yield f"{name}: its document counts as grown, but the tree is of another version"
            continue
        if leaves != (tree.root_id is not None):
            yield f"{name}: {'has no root over its leaves' if leaves else 'has a root over nothing'}"
            continue
        if source_id not in sources:
            above = find_tree(connection, tree_id("source", source_id))
            sources[source_id] = None if above is None else above.tree_seq
        seq = sources[source_id]
        standing = [] if seq is None else rows_between(connection, seq, 0, sort_key, sort_key)
        wanted = document_leaf(connection, tree, sort_key)
        places = [replace(row, parent_id=None, added_at_ms=0) for row in standing]
        if places != ([] if wanted is None else [wanted]):
            yield f"{name}: its root does not stand in the tree of its source as it should"
