"""A tree page by page: what stands at its top, what is below a node, what stands beside a chunk in its item.

For those who read in pieces. All rows come in one order, so that pages by offset meet each of them once for as long as
nothing changes; the count that comes with a page tells whether something did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ids import tree_id
from agent.states import ItemState, NodeKind, TreeKind

if TYPE_CHECKING:
    from agent.db.connection import Connection

_TOP = """
SELECT node_id, node_kind, level, sort_key
  FROM mem_tree_buffers
 WHERE tree_seq = ?1
 UNION ALL
SELECT node_id, node_kind, level, sort_key
  FROM mem_tree_edges
 WHERE tree_seq = ?1
   AND parent_id = ''
 ORDER BY level DESC, sort_key, node_id
 LIMIT ?2 OFFSET ?3
"""

_TOP_COUNT = """
SELECT (SELECT count(*) FROM mem_tree_buffers WHERE tree_seq = ?1)
     + (SELECT count(*) FROM mem_tree_edges WHERE tree_seq = ?1 AND parent_id = '')
"""

_CHILDREN = """
SELECT node_id, node_kind
  FROM mem_tree_edges
 WHERE parent_id = ?1
   AND node_id <> ?1
 ORDER BY tree_seq, level, sort_key, node_id
 LIMIT ?2 OFFSET ?3
"""

_CHILD_COUNT = "SELECT count(*) FROM mem_tree_edges WHERE parent_id = ?1 AND node_id <> ?1"

_BEFORE = """
SELECT chunk_id
  FROM mem_tree_chunks
 WHERE item_seq = ?1
   AND order_key < ?2
 ORDER BY order_key DESC
 LIMIT 1
"""

_AFTER = """
SELECT chunk_id
  FROM mem_tree_chunks
 WHERE item_seq = ?1
   AND order_key > ?2
 ORDER BY order_key
 LIMIT 1
"""

# The sources that there are, one seek each.
_HELD_SOURCES = """
WITH RECURSIVE
  hop (source_id) AS (
    SELECT min(source_id) FROM mem_tree_items
    UNION ALL
    SELECT (SELECT min(i.source_id) FROM mem_tree_items AS i WHERE i.source_id > hop.source_id)
      FROM hop
     WHERE hop.source_id IS NOT NULL
  )
SELECT source_id FROM hop WHERE source_id IS NOT NULL
"""

_COUNTS = """
SELECT (SELECT count(*) FROM mem_tree_items WHERE source_id = ?1 AND state = ?2),
       (SELECT count(*) FROM mem_tree_items WHERE source_id = ?1 AND state IN (?3, ?4)),
       (SELECT count(*)
          FROM mem_tree_items AS i
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE i.source_id = ?1),
       (SELECT count(*)
          FROM mem_tree_trees AS t
          JOIN mem_tree_summaries AS s ON s.tree_seq = t.tree_seq
         WHERE t.source_id = ?1)
"""


@dataclass(frozen=True)
class Page:
    """Some nodes in order, and how many there are in all."""

    nodes: tuple[tuple[str, NodeKind], ...]
    total: int


@dataclass(frozen=True)
class SourceCounts:
    """What is held of a source; ``waiting`` items were found and are not read yet."""

    items: int
    waiting: int
    chunks: int
    summaries: int


def top_of(connection: Connection, source_id: str, limit: int, offset: int = 0) -> Page:
    """Return what stands highest in a source's tree: its root, or while it grows all that has no parent yet."""
    seq = connection.value(
        "SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (tree_id(TreeKind.SOURCE, source_id),)
    )
    if seq is None:
        return Page((), 0)
    rows = connection.all(_TOP, (seq, limit, offset))
    return Page(tuple((node, NodeKind(kind)) for node, kind, *_ in rows), int(connection.value(_TOP_COUNT, (seq,))))


def below(connection: Connection, node_id: str, limit: int, offset: int = 0) -> Page:
    """Return the children of a node in the order of its tree."""
    rows = connection.all(_CHILDREN, (node_id, limit, offset))
    return Page(tuple((node, NodeKind(kind)) for node, kind in rows), int(connection.value(_CHILD_COUNT, (node_id,))))


def beside(connection: Connection, chunk_id: str) -> tuple[str | None, str | None]:
    """Return the chunks before and after a chunk in its item."""
    row = connection.one("SELECT item_seq, order_key FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,))
    if row is None:
        return None, None
    return connection.value(_BEFORE, row), connection.value(_AFTER, row)


def held_sources(connection: Connection) -> tuple[str, ...]:
    """Return the ids of the sources that anything is held of, whether or not the intent names them still."""
    return tuple(source_id for (source_id,) in connection.all(_HELD_SOURCES))


def count_source(connection: Connection, source_id: str) -> SourceCounts:
    """Return how much is held of a source, along indexes."""
    states = (ItemState.CURRENT, ItemState.FOUND, ItemState.QUEUED)
    return SourceCounts(*connection.all(_COUNTS, (source_id, *map(str, states)))[0])
