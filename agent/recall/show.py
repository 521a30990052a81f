"""Drill-down: a node with what is below it, what is above it, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import iso
from agent.errors import UsageFault
from agent.recall.latest import outdated_summaries
from agent.recall.provenance import Origin, Parent, chunk_origin, parents_of, summary_origin
from agent.states import NodeKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db.connection import Connection

MIN_PREFIX = 6
MAX_NODES = 2_000  # of one answer; what is left out is said

_HINT = "take an id, or its first letters, from what `sapwood search` or `sapwood tree` prints"

# Ids are hexadecimal: everything that begins with a prefix lies below the prefix and a letter after f.
_BY_PREFIX = """
SELECT chunk_id, 'leaf' FROM mem_tree_chunks WHERE chunk_id >= ?1 AND chunk_id < ?1 || 'g'
UNION ALL
SELECT summary_id, 'summary' FROM mem_tree_summaries WHERE summary_id >= ?1 AND summary_id < ?1 || 'g'
LIMIT 6
"""

_LEAF = """
SELECT c.title, c.text, c.source_id, c.tokens, c.time_ms, c.author, c.lifecycle, c.degraded,
       (SELECT t.tree_id
          FROM mem_tree_edges AS e
          JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
         WHERE e.node_id = c.chunk_id
         ORDER BY t.kind, e.level
         LIMIT 1)
  FROM mem_tree_chunks AS c
 WHERE c.chunk_id = ?
"""

_SUMMARY = """
SELECT s.title, s.text, s.source_id, s.tokens, s.first_time_ms, s.last_time_ms, s.level, s.leaves, s.signature,
       s.provisional, s.degraded, s.stale, t.tree_id
  FROM mem_tree_summaries AS s
  JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
 WHERE s.summary_id = ?
"""

_CHILDREN = """
SELECT node_id, node_kind
  FROM mem_tree_edges
 WHERE parent_id = ?1
   AND node_id <> ?1
 ORDER BY tree_seq, level, sort_key
"""


@dataclass(frozen=True)
class Node:
    """One node of a tree. What only leaves or only summaries have is ``None`` at the others."""

    node_id: str
    kind: str  # leaf | summary
    level: int
    title: str | None
    text: str
    source_id: str
    tree_id: str | None
    tokens: int
    time: str | None  # ISO 8601 with offset; of a summary the first of what it covers
    last_time: str | None
    author: str | None = None
    lifecycle: str | None = None
    leaves: int | None = None
    signature: str | None = None
    provisional: bool = False
    degraded: bool = False
    stale: bool = False

    def as_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class Branch:
    """A node below the one that was asked for, and, as deep as was asked, its own children."""

    node: Node
    children: tuple[Branch, ...]

    def as_json(self) -> dict[str, Any]:
        return {**self.node.as_json(), "children": [child.as_json() for child in self.children]}


@dataclass(frozen=True)
class Shown:
    """A node, its children in the order of the tree, the summaries above it up to the root, and its origin."""

    node: Node
    children: tuple[Branch, ...]
    parents: tuple[Parent, ...]
    origin: Origin
    left_out: int = 0  # children that did not fit

    def as_json(self) -> dict[str, Any]:
        return {
            "node": self.node.as_json(),
            "children": [child.as_json() for child in self.children],
            "parents": [parent.as_json() for parent in self.parents],
            "origin": self.origin.as_json(),
            "left_out": self.left_out,
        }


def find_node(connection: Connection, node_id: str) -> tuple[str, NodeKind]:
    """Return the whole id and the kind of the node that an id, or the beginning of one, names.

    Raises ``UsageFault`` for one that is unknown, too short, or not of one node alone.
    """
    prefix = node_id.strip().lower()
    if len(prefix) < MIN_PREFIX:
        raise UsageFault("a node's id needs at least its first six characters", node_id or "nothing was given", _HINT)
    rows = connection.all(_BY_PREFIX, (prefix,))
    if not rows:
        raise UsageFault("there is no such node", node_id, _HINT)
    if len(rows) > 1:
        some = ", ".join(row[0][: len(prefix) + 4] for row in rows[:5])
        raise UsageFault("several nodes begin so", some, "give more of the id")
    return rows[0][0], NodeKind(rows[0][1])


def show(connection: Connection, node_id: str, depth: int = 1, intent: Intent | None = None) -> Shown:
    """Return a node (by its id, or by at least six characters that begin it alone) with ``depth`` levels below it.

    Raises as ``find_node``. Does not block beyond reading rows; with ``intent`` it looks for the file on disk.
    """
    if depth < 0:
        raise UsageFault("the depth cannot be negative", str(depth), "leave it out for the children alone")
    whole, kind = find_node(connection, node_id)
    origin_of = chunk_origin if kind is NodeKind.LEAF else summary_origin
    with connection.snapshot():
        node = node_of(connection, whole, kind)
        origin = origin_of(connection, whole, intent)
        if node is None or origin is None:
            raise UsageFault("there is no such node", node_id, _HINT)
        room = _Room(MAX_NODES)
        children = _children(connection, whole, depth, room)
        return Shown(node, children, parents_of(connection, whole), origin, room.left_out)


@dataclass
class _Room:
    left: int
    left_out: int = 0


def _children(connection: Connection, node_id: str, depth: int, room: _Room) -> tuple[Branch, ...]:
    if depth == 0:
        return ()
    found: list[Branch] = []
    for child_id, child_kind in connection.all(_CHILDREN, (node_id,)):
        if room.left == 0:
            room.left_out += 1
            continue
        node = node_of(connection, child_id, NodeKind(child_kind))
        if node is None:
            continue
        room.left -= 1
        found.append(Branch(node, _children(connection, child_id, depth - 1, room)))
    return tuple(found)


def node_of(connection: Connection, node_id: str, kind: NodeKind) -> Node | None:
    """Return one node by its whole id, or ``None`` where it is not there (any more)."""
    if kind is NodeKind.LEAF:
        row = connection.one(_LEAF, (node_id,))
        if row is None:
            return None
        title, text, source_id, tokens, time_ms, author, lifecycle, degraded, tree_id = row
        return Node(
            node_id=node_id,
            kind=kind.value,
            level=0,
            title=title,
            text=text,
            source_id=source_id,
            tree_id=tree_id,
            tokens=tokens,
            time=iso(time_ms),
            last_time=iso(time_ms),
            author=author,
            lifecycle=lifecycle,
            degraded=bool(degraded),
        )
    row = connection.one(_SUMMARY, (node_id,))
    if row is None:
        return None
    (
        title,
        text,
        source_id,
        tokens,
        first_ms,
        last_ms,
        level,
        leaves,
        signature,
        provisional,
        degraded,
        stale,
        tree_id,
    ) = row
    return Node(
        node_id=node_id,
        kind=kind.value,
        level=level,
        title=title,
        text=text,
        source_id=source_id,
        tree_id=tree_id,
        tokens=tokens,
        time=iso(first_ms),
        last_time=iso(last_ms),
        leaves=leaves,
        signature=signature,
        provisional=bool(provisional),
        degraded=bool(degraded),
        stale=bool(stale) or node_id in outdated_summaries(connection),
    )
