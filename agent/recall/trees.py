"""The trees of a memory, and the outline of one for printing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.states import NodeKind

if TYPE_CHECKING:
    from agent.db.connection import Connection

_TREES = """
SELECT t.tree_seq, t.tree_id, t.kind, t.source_id, t.item_key, t.max_level, t.root_id,
       (SELECT count(*) FROM mem_tree_buffers AS b WHERE b.tree_seq = t.tree_seq AND b.level = 0)
  FROM mem_tree_trees AS t
 WHERE (?1 IS NULL OR t.source_id = ?1)
 ORDER BY t.source_id, t.kind = 'document', t.item_key, t.tree_id
"""

_SUMMARY_IDS = """
SELECT tree_seq, summary_id
  FROM mem_tree_summaries
 WHERE (?1 IS NULL OR source_id = ?1)
   AND stale = 0
 ORDER BY tree_seq, level, sort_key
"""

_LABEL = """
SELECT coalesce(s.title, c.title), coalesce(s.text, c.text), s.level, s.leaves,
       coalesce(s.first_time_ms, c.time_ms), coalesce(s.last_time_ms, c.time_ms)
  FROM (SELECT ?1 AS node_id) AS n
  LEFT JOIN mem_tree_summaries AS s ON s.summary_id = n.node_id
  LEFT JOIN mem_tree_chunks AS c ON c.chunk_id = n.node_id
"""

# What stands highest: the root, or while a tree still grows, all that has no parent yet.
_TOP = """
SELECT node_id, node_kind, level, sort_key
  FROM mem_tree_buffers
 WHERE tree_seq = ?1
 UNION ALL
SELECT node_id, node_kind, level, sort_key
  FROM mem_tree_edges
 WHERE tree_seq = ?1
   AND parent_id = ''
 ORDER BY level DESC, sort_key
 LIMIT ?2
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
 ORDER BY tree_seq, level, sort_key
 LIMIT ?2
"""

_CHILD_COUNT = "SELECT count(*) FROM mem_tree_edges WHERE parent_id = ?1 AND node_id <> ?1"


@dataclass(frozen=True)
class TreeInfo:
    """One tree. ``open_leaves`` wait in its L0 buffer; ``summary_ids`` are the live ones, level by level in order."""

    id: str
    kind: str
    scope: str
    max_level: int
    open_leaves: int
    summary_ids: tuple[str, ...]
    root_id: str | None

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "summary_ids": list(self.summary_ids)}


@dataclass(frozen=True)
class Outline:
    """A node of a printed tree; ``more`` of its children are not among ``children``."""

    node_id: str
    kind: str
    level: int
    label: str
    leaves: int | None
    time: str | None
    last_time: str | None
    children: tuple[Outline, ...]
    more: int


def trees(connection: Connection, source: str | None = None) -> tuple[TreeInfo, ...]:
    """Return the trees of a source (of all of them): by source, its own tree first, then its documents' by name."""
    with connection.snapshot():
        live: dict[int, list[str]] = {}
        for tree_seq, summary_id in connection.all(_SUMMARY_IDS, (source,)):
            live.setdefault(tree_seq, []).append(summary_id)
        return tuple(
            TreeInfo(
                id=tree_id,
                kind=kind,
                scope=f"{source_id}/{item_key}" if item_key is not None else source_id,
                max_level=max_level,
                open_leaves=open_leaves,
                summary_ids=tuple(live.get(tree_seq, ())),
                root_id=root_id,
            )
            for tree_seq, tree_id, kind, source_id, item_key, max_level, root_id, open_leaves in connection.all(
                _TREES, (source,)
            )
        )


def outline(connection: Connection, tree_id: str, depth: int = 3, breadth: int = 8) -> tuple[Outline, ...]:
    """Return the top of a tree, ``depth`` levels of it, at most ``breadth`` children a node; ``()`` if unknown.

    A finished tree has one top node; one that still grows has several, the highest first.
    """
    with connection.snapshot():
        tree_seq = connection.value("SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (tree_id,))
        if tree_seq is None or depth < 1 or breadth < 1:
            return ()
        rows = connection.all(_TOP, (tree_seq, breadth))
        return tuple(_outline(connection, node_id, node_kind, depth - 1, breadth) for node_id, node_kind, *_ in rows)


def outline_more(connection: Connection, tree_id: str, breadth: int = 8) -> int:
    """Return how many top nodes of a growing tree ``outline`` leaves out."""
    tree_seq = connection.value("SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (tree_id,))
    if tree_seq is None:
        return 0
    return max(0, int(connection.value(_TOP_COUNT, (tree_seq,))) - breadth)


def _outline(connection: Connection, node_id: str, kind: str, depth: int, breadth: int) -> Outline:
    title, text, level, leaves, first_ms, last_ms = connection.all(_LABEL, (node_id,))[0]
    children: tuple[Outline, ...] = ()
    total = int(connection.value(_CHILD_COUNT, (node_id,))) if kind == NodeKind.SUMMARY else 0
    if depth > 0 and total:
        rows = connection.all(_CHILDREN, (node_id, breadth))
        children = tuple(_outline(connection, child, child_kind, depth - 1, breadth) for child, child_kind in rows)
    return Outline(
        node_id=node_id,
        kind=kind,
        level=level or 0,
        label=" ".join((title or text or "").split()),
        leaves=leaves,
        time=iso(first_ms),
        last_time=iso(last_ms),
        children=children,
        more=total - len(children),
    )
