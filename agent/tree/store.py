"""The rows of a tree: which tree, which nodes stand on a level, and what stands above them.

A node stands on a level either in the buffer (nothing above it) or as an edge (to the summary above it, to itself
where it stood alone and went up, or to nothing, ``''``, where it is the root).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.ids import SHAPE_VERSION
from agent.states import NodeKind, TreeKind

if TYPE_CHECKING:
    from agent.db import Connection

ROOT = ""
"""The ``parent_id`` of a root."""

END = b"\xff" * 64
"""A key behind every sort key: times and paths never begin with this byte."""


@dataclass(frozen=True, slots=True)
class Tree:
    """One row of ``mem_tree_trees``."""

    tree_seq: int
    tree_id: str
    kind: str
    source_id: str
    item_key: str | None
    max_level: int
    root_id: str | None
    root_kind: str | None
    version_hash: str | None
    flush_before_ms: int | None
    had_root: bool


_TREE = """
SELECT tree_seq, tree_id, kind, source_id, item_key, max_level, root_id, root_kind, version_hash, flush_before_ms,
       had_root
  FROM mem_tree_trees
"""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node where it stands. ``parent_id`` is ``None`` in the buffer, where ``added_at_ms`` says since when."""

    sort_key: bytes
    node_id: str
    node_kind: str
    shape_id: str
    leaf_id: str
    tokens: int
    first_break: int
    last_break: int
    last_key: bytes
    provisional: bool
    parent_id: str | None = None
    added_at_ms: int = 0

    @property
    def is_promoted(self) -> bool:
        """Whether it stood alone in its group and stands on the next level too."""
        return self.parent_id == self.node_id

    @property
    def is_stream_leaf(self) -> bool:
        """Whether it is a chunk that is a leaf by itself (a document's root has its tree's id for a leaf id)."""
        return self.node_kind == NodeKind.LEAF and self.leaf_id == self.node_id


@dataclass(frozen=True, slots=True)
class SummaryHead:
    """What is known of a live summary without its text."""

    summary_id: str
    shape_id: str
    signature: str
    stale: bool
    provisional: bool
    input_hash: str | None
    degraded: int = 0
    created_at_ms: int = 0


def _tree(row: tuple[Any, ...] | None) -> Tree | None:
    if row is None:
        return None
    seq, name, kind, source_id, item_key, max_level, root_id, root_kind, version, flush_before, had_root = row
    return Tree(
        seq, name, kind, source_id, item_key, max_level, root_id, root_kind, version, flush_before, bool(had_root)
    )


def find_tree(connection: Connection, tree_id: str) -> Tree | None:
    """Return a tree, or ``None``."""
    return _tree(connection.one(_TREE + " WHERE tree_id = ?", (tree_id,)))


def tree_of_seq(connection: Connection, tree_seq: int) -> Tree | None:
    """Return a tree by its row number, or ``None``."""
    return _tree(connection.one(_TREE + " WHERE tree_seq = ?", (tree_seq,)))


def make_tree(
    connection: Connection, tree_id: str, kind: TreeKind, source_id: str, item_key: str | None, now_ms: int
) -> Tree:
    """Return the tree, making its row at the first call. Runs inside the caller's transaction."""
    connection.run(
        """
        INSERT INTO mem_tree_trees (tree_id, kind, source_id, item_key, shape_version, updated_at_ms)
        VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (tree_id) DO NOTHING
        """,
        (tree_id, kind, source_id, item_key, SHAPE_VERSION, now_ms),
    )
    tree = find_tree(connection, tree_id)
    assert tree is not None
    return tree


_EDGE_COLUMNS = """sort_key, node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break, last_key,
       provisional"""

# A merge of two walks along primary keys: SQLite sorts nothing here and stops at the limit.
_ROWS_FROM = f"""
SELECT {_EDGE_COLUMNS}, parent_id, 0 AS added_at_ms
  FROM mem_tree_edges
 WHERE tree_seq = ?1 AND level = ?2 AND sort_key >= ?3 AND sort_key <= ?4
UNION ALL
SELECT {_EDGE_COLUMNS}, NULL, added_at_ms
  FROM mem_tree_buffers
 WHERE tree_seq = ?1 AND level = ?2 AND sort_key >= ?3 AND sort_key <= ?4
 ORDER BY sort_key
 LIMIT ?5
"""


def _row(row: tuple[Any, ...]) -> NodeRow:
    key, node, kind, shape, leaf, tokens, first_break, last_break, last_key, provisional, parent, added = row
    return NodeRow(
        key, node, kind, shape, leaf, tokens, first_break, last_break, last_key, bool(provisional), parent, added
    )


def rows_between(
    connection: Connection, tree_seq: int, level: int, first: bytes, last: bytes, limit: int = -1
) -> list[NodeRow]:
    """Return the nodes of a level from one sort key to another, both included, in order."""
    return [_row(row) for row in connection.all(_ROWS_FROM, (tree_seq, level, first, last, limit))]


def walk_level(connection: Connection, tree_seq: int, level: int, first: bytes) -> Iterator[NodeRow]:
    """Yield the nodes of a level from a sort key on, page by page; for use inside one snapshot."""
    page = 32
    start = first
    while True:
        rows = rows_between(connection, tree_seq, level, start, END, page)
        yield from rows
        if len(rows) < page:
            return
        start = rows[-1].sort_key + b"\x00"
        page = min(page * 2, 512)


def row_before(connection: Connection, tree_seq: int, level: int, key: bytes) -> NodeRow | None:
    """Return the last node of a level before a sort key."""
    edge = connection.one(
        f"""
        SELECT {_EDGE_COLUMNS}, parent_id, 0
          FROM mem_tree_edges
         WHERE tree_seq = ? AND level = ? AND sort_key < ?
         ORDER BY sort_key DESC
         LIMIT 1
        """,
        (tree_seq, level, key),
    )
    waiting = connection.one(
        f"""
        SELECT {_EDGE_COLUMNS}, NULL, added_at_ms
          FROM mem_tree_buffers
         WHERE tree_seq = ? AND level = ? AND sort_key < ?
         ORDER BY sort_key DESC
         LIMIT 1
        """,
        (tree_seq, level, key),
    )
    found = [_row(row) for row in (edge, waiting) if row is not None]
    return max(found, key=lambda row: row.sort_key) if found else None


def last_edge(connection: Connection, tree_seq: int, level: int) -> NodeRow | None:
    """Return the last node of a level that has something above it or is the root."""
    row = connection.one(
        f"""
        SELECT {_EDGE_COLUMNS}, parent_id, 0
          FROM mem_tree_edges
         WHERE tree_seq = ? AND level = ?
         ORDER BY sort_key DESC
         LIMIT 1
        """,
        (tree_seq, level),
    )
    return None if row is None else _row(row)


def next_waiting(connection: Connection, tree_seq: int, level: int, after: bytes) -> bytes | None:
    """Return the sort key of the first buffered node of a level behind a key; ``b''`` begins at the start."""
    key: bytes | None = connection.value(
        """
        SELECT sort_key
          FROM mem_tree_buffers
         WHERE tree_seq = ? AND level = ? AND sort_key > ?
         ORDER BY sort_key
         LIMIT 1
        """,
        (tree_seq, level, after),
    )
    return key


def first_child_key(connection: Connection, tree_seq: int, level: int, parent_id: str) -> bytes | None:
    """Return the sort key of the first node of a level under a parent."""
    key: bytes | None = connection.value(
        """
        SELECT min(sort_key)
          FROM mem_tree_edges
         WHERE parent_id = ? AND tree_seq = ? AND level = ?
        """,
        (parent_id, tree_seq, level),
    )
    return key


def children_of(connection: Connection, tree_seq: int, level: int, parent_id: str) -> list[NodeRow]:
    """Return the nodes of a level under a parent, in order."""
    rows = connection.all(
        f"""
        SELECT {_EDGE_COLUMNS}, parent_id, 0
          FROM mem_tree_edges
         WHERE parent_id = ? AND tree_seq = ? AND level = ?
         ORDER BY sort_key
        """,
        (parent_id, tree_seq, level),
    )
    return [_row(row) for row in rows]


def summary_head(connection: Connection, summary_id: str) -> SummaryHead | None:
    """Return what is known of a live summary without its text, or ``None``."""
    row = connection.one(
        """
        SELECT summary_id, shape_id, signature, stale, provisional, input_hash, degraded, created_at_ms
          FROM mem_tree_summaries
         WHERE summary_id = ?
        """,
        (summary_id,),
    )
    return None if row is None else SummaryHead(row[0], row[1], row[2], bool(row[3]), bool(row[4]), *row[5:])


def row_numbers(connection: Connection, rows: Iterable[NodeRow]) -> list[int | None]:
    """Return the numbers of the chunks and summaries that stand there, ``None`` for one that is gone.

    What is read of a node for the text above it never changes under one number.
    """
    return [
        connection.value(
            "SELECT seq FROM mem_tree_chunks WHERE chunk_id = ?"
            if row.node_kind == NodeKind.LEAF
            else "SELECT seq FROM mem_tree_summaries WHERE summary_id = ?",
            (row.node_id,),
        )
        for row in rows
    ]


def stale_at(connection: Connection, tree_seq: int, level: int, limit: int) -> list[tuple[bytes, str]]:
    """Return (sort key, id) of summaries standing on a level of which a child left or changed, in order."""
    return [
        (row[0], row[1])
        for row in connection.all(
            """
            SELECT sort_key, summary_id
              FROM mem_tree_summaries
             WHERE tree_seq = ? AND level = ? AND stale = 1
             ORDER BY sort_key
             LIMIT ?
            """,
            (tree_seq, level, limit),
        )
    ]


def put_in_buffer(connection: Connection, tree_seq: int, level: int, rows: Iterable[NodeRow], added_at_ms: int) -> None:
    """Let nodes stand on a level with nothing above them."""
    connection.many(
        """
        INSERT OR REPLACE INTO mem_tree_buffers (
          tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break, last_key,
          provisional, added_at_ms
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [(tree_seq, level, *_columns(row), added_at_ms) for row in rows],
    )


def put_under(connection: Connection, tree_seq: int, level: int, rows: Iterable[NodeRow], parent_id: str) -> None:
    """Let nodes stand on a level under a parent (``''``: as the root)."""
    connection.many(
        """
        INSERT OR REPLACE INTO mem_tree_edges (
          tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break, last_key,
          provisional, parent_id
        ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        [(tree_seq, level, *_columns(row), parent_id) for row in rows],
    )


def take_from_buffer(connection: Connection, tree_seq: int, level: int, keys: Iterable[bytes]) -> None:
    """Remove rows of the buffer by their sort keys."""
    connection.many(
        "DELETE FROM mem_tree_buffers WHERE tree_seq = ? AND level = ? AND sort_key = ?",
        [(tree_seq, level, key) for key in keys],
    )


def take_edges(connection: Connection, tree_seq: int, level: int, keys: Iterable[bytes]) -> None:
    """Remove edges by the sort keys of their nodes."""
    connection.many(
        "DELETE FROM mem_tree_edges WHERE tree_seq = ? AND level = ? AND sort_key = ?",
        [(tree_seq, level, key) for key in keys],
    )


def _columns(row: NodeRow) -> tuple[object, ...]:
    return (
        row.sort_key,
        row.node_id,
        row.node_kind,
        row.shape_id,
        row.leaf_id,
        row.tokens,
        row.first_break,
        row.last_break,
        row.last_key,
        int(row.provisional),
    )


def order_bytes(order_key: int) -> bytes:
    """Return a chunk's order in its item as eight bytes that compare as the number does."""
    return order_key.to_bytes(8, "big")


def is_news_above(connection: Connection, tree_seq: int, node_id: str) -> bool:
    """Return whether a summary directly above a node is marked to be made again."""
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_edges AS e
          JOIN mem_tree_summaries AS s ON s.summary_id = e.parent_id
         WHERE e.node_id = ? AND e.tree_seq = ? AND s.stale = 1
         LIMIT 1
        """,
        (node_id, tree_seq),
    )
    return found is not None
