"""Whether each admitted chunk is reached exactly once from the top of its source's tree, and is called what it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.db.check import pages
from agent.states import Lifecycle, NodeKind
from agent.tree.due import highest_level
from agent.tree.flush import source_trees
from agent.tree.store import ROOT, Tree, walk_level

if TYPE_CHECKING:
    from agent.db import Connection

_MANY = 255

_CHILDREN = """
SELECT e.node_id, e.node_kind, c.seq
  FROM mem_tree_edges AS e
  LEFT JOIN mem_tree_chunks AS c ON e.node_kind = 'leaf' AND c.chunk_id = e.node_id
 WHERE e.parent_id = ? AND e.tree_seq = ? AND e.level = ?
"""


def chunks_reached(connection: Connection) -> Iterator[str]:
    """Yield admitted chunks that are not reached exactly once, and others that are reached at all.

    Everything is reached from the nodes that nothing stands above: the root, and while a tree grows those in its
    buffers. Through a document's root the way goes on in the document's own tree. Takes one byte a chunk. ``mark_open``
    (``check.py``) has said before which documents are between two versions: these may miss some, never have one twice.
    """
    times = bytearray(1 + int(connection.value("SELECT max(seq) FROM mem_tree_chunks") or 0))
    for tree in source_trees(connection):
        _descend(connection, tree, times)
    for seq, chunk_id, lifecycle, is_document, is_open in pages(
        connection,
        """
        SELECT c.seq, c.chunk_id, c.lifecycle, c.source_kind = 'document',
               EXISTS (SELECT 1 FROM temp.doctor_open AS o WHERE o.item_seq = c.item_seq)
          FROM mem_tree_chunks AS c
         WHERE c.seq > ?1
         ORDER BY c.seq
         LIMIT ?2
        """,
        size=5_000,
    ):
        placed = lifecycle == Lifecycle.SEALED or (lifecycle == Lifecycle.BUFFERED and not is_document)
        reached = times[seq]
        if placed and (reached > 1 or (reached == 0 and not is_open)):
            yield f"chunk {chunk_id} is reached {reached} times from the root of its source's tree"
        elif reached and not placed:
            yield f"chunk {chunk_id} is reached from a root but is called {lifecycle}"


def _descend(connection: Connection, tree: Tree, times: bytearray) -> None:
    for level in range(highest_level(connection, tree.tree_seq) + 1):
        for row in walk_level(connection, tree.tree_seq, level, b""):
            if row.parent_id is None or row.parent_id == ROOT:
                seq = None
                if row.node_kind == NodeKind.LEAF:
                    seq = connection.value("SELECT seq FROM mem_tree_chunks WHERE chunk_id = ?", (row.node_id,))
                _descend_from(connection, tree.tree_seq, level, (row.node_id, row.node_kind, seq), times)


def _descend_from(
    connection: Connection, tree_seq: int, level: int, top: tuple[str, str, int | None], times: bytearray
) -> None:
    waiting = [(tree_seq, level, *top)]
    while waiting:
        tree, at, node_id, kind, seq = waiting.pop()
        if at == 0 and kind == NodeKind.LEAF:
            if seq is not None:
                times[seq] = min(times[seq] + 1, _MANY)
            continue
        if at == 0:
            # A document's root: go on in the document's own tree.
            inner = connection.one("SELECT tree_seq, level FROM mem_tree_summaries WHERE summary_id = ?", (node_id,))
            if inner is None or inner[0] == tree:
                continue
            tree, at = inner
        for child, child_kind, child_seq in connection.all(_CHILDREN, (node_id, tree, at - 1)):
            waiting.append((tree, at - 1, child, child_kind, child_seq))


def lifecycles(connection: Connection) -> Iterator[str]:
    """Yield chunks that are called something else than where they stand."""
    known = ", ".join(f"'{word}'" for word in Lifecycle)
    for words, sql in (
        (
            "chunk {0} is called {1}, which is no state of a chunk",
            f"SELECT chunk_id, lifecycle FROM mem_tree_chunks WHERE lifecycle NOT IN ({known}) LIMIT 1000",
        ),
        (
            "chunk {0} is called buffered but stands in no buffer",
            """
            SELECT chunk_id
              FROM mem_tree_chunks AS c
             WHERE lifecycle = 'buffered'
               AND NOT EXISTS (SELECT 1 FROM mem_tree_buffers AS b WHERE b.node_id = c.chunk_id AND b.level = 0)
             LIMIT 1000
            """,
        ),
        (
            "chunk {0} stands in a buffer but is called {1}",
            """
            SELECT c.chunk_id, c.lifecycle
              FROM mem_tree_buffers AS b
              JOIN mem_tree_chunks AS c ON c.chunk_id = b.node_id
             WHERE b.level = 0 AND b.leaf_id = b.node_id AND c.lifecycle <> 'buffered'
             LIMIT 1000
            """,
        ),
        (
            "chunk {0} stands under a summary but is called {1}",
            """
            SELECT c.chunk_id, c.lifecycle
              FROM mem_tree_edges AS e
              JOIN mem_tree_chunks AS c ON c.chunk_id = e.node_id
             WHERE e.level = 0 AND e.leaf_id = e.node_id AND c.lifecycle <> 'sealed'
             LIMIT 1000
            """,
        ),
        (
            "chunk {0} is called sealed but nothing stands above it",
            """
            SELECT chunk_id
              FROM mem_tree_chunks AS c
             WHERE lifecycle = 'sealed'
               AND source_kind <> 'document'
               AND NOT EXISTS (SELECT 1 FROM mem_tree_edges AS e WHERE e.node_id = c.chunk_id AND e.level = 0)
             LIMIT 1000
            """,
        ),
    ):
        for row in connection.all(sql):
            yield words.format(*row)
