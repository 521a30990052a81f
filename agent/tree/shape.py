"""The shape of a tree: which neighbours stand together, decided by the ordered leaves and by nothing else.

Pure functions over the nodes of one level (``docs/architecture.md``). A decision looks only at the nodes since the last
boundary, so a change moves boundaries only until they meet the old ones again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.ids import shape_id, stable_number

TOKEN_LIMIT = 12_000


@dataclass(frozen=True)
class Sizes:
    """How many nodes a group has. ``fanout`` is even: halving it only ever adds boundaries, never moves one."""

    minimum: int
    fanout: int
    maximum: int


LEAF_SIZES = Sizes(minimum=4, fanout=10, maximum=24)
UPPER_SIZES = Sizes(minimum=3, fanout=8, maximum=16)


class Shaped(Protocol):
    """What the shape looks at: never a text, a signature, a time of arrival."""

    @property
    def shape_id(self) -> str: ...
    @property
    def leaf_id(self) -> str: ...
    @property
    def tokens(self) -> int: ...
    @property
    def first_break(self) -> int: ...
    @property
    def last_break(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ShapeNode:
    """One node of a level. ``leaf_id`` is its last leaf; tokens count at level 0 alone."""

    shape_id: str
    leaf_id: str
    tokens: int
    first_break: int
    last_break: int
    sort_key: bytes = b""
    last_key: bytes = b""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes ``start`` to ``end`` (exclusive) of a level. ``final``: it ended by itself, not where the nodes ended."""

    start: int
    end: int
    final: bool


def sizes(level: int) -> Sizes:
    """Return the sizes of the groups of nodes that stand on this level (0: the leaves)."""
    return LEAF_SIZES if level == 0 else UPPER_SIZES


def ends_group(node: Shaped, following_break: int | None, level: int, count: int, tokens: int) -> bool:
    """Return whether a group ends after this node, its ``count``-th, with ``tokens`` in the group so far.

    ``following_break`` is the ``first_break`` of the node after it, ``None`` where that is not known.
    """
    size = sizes(level)
    if count >= size.maximum or (level == 0 and tokens >= TOKEN_LIMIT):
        return True
    if count < size.minimum:
        return False
    natural = following_break is not None and following_break != node.last_break
    fanout = size.fanout // 2 if natural else size.fanout
    return stable_number("boundary", node.leaf_id, level) % fanout == 0


def groups(nodes: Sequence[Shaped], level: int, closed: bool) -> list[Group]:
    """Return the groups of a level in order. The tail that has not ended is one of them only if ``closed``."""
    found: list[Group] = []
    start, tokens = 0, 0
    for at, node in enumerate(nodes):
        tokens += node.tokens
        following = nodes[at + 1].first_break if at + 1 < len(nodes) else None
        if ends_group(node, following, level, at + 1 - start, tokens):
            found.append(Group(start, at + 1, True))
            start, tokens = at + 1, 0
    if closed and start < len(nodes):
        found.append(Group(start, len(nodes), False))
    return found


def joined(tree_id: str, level: int, children: Sequence[Shaped], sort_key: bytes, last_key: bytes) -> ShapeNode:
    """Return the node above two or more children that stand on ``level``; it stands on ``level + 1``."""
    return ShapeNode(
        shape_id(tree_id, level + 1, [child.shape_id for child in children]),
        children[-1].leaf_id,
        0,
        children[0].first_break,
        children[-1].last_break,
        sort_key,
        last_key,
    )


@dataclass(frozen=True)
class WholeShape:
    """The finished shape of a tree.

    ``levels[n]`` are the nodes that stand on level n, the last level holds the root alone; ``grouped[n]`` are the
    groups of level n, one for each node of level n + 1, in order. A group of one is promoted as itself.
    """

    levels: tuple[tuple[ShapeNode, ...], ...]
    grouped: tuple[tuple[Group, ...], ...]

    @property
    def root(self) -> ShapeNode | None:
        """The node that covers all leaves, ``None`` where there are none."""
        return self.levels[-1][0] if self.levels else None


def whole_shape(tree_id: str, leaves: Sequence[ShapeNode]) -> WholeShape:
    """Return the finished shape over these leaves: the tail of every level closed, up to the first with one node."""
    if not leaves:
        return WholeShape((), ())
    levels: list[tuple[ShapeNode, ...]] = [tuple(leaves)]
    grouped: list[tuple[Group, ...]] = []
    while len(levels[-1]) > 1:
        level, nodes = len(levels) - 1, levels[-1]
        found = groups(nodes, level, closed=True)
        above = []
        for group in found:
            children = nodes[group.start : group.end]
            if len(children) == 1:
                above.append(children[0])
            else:
                above.append(joined(tree_id, level, children, children[0].sort_key, children[-1].last_key))
        grouped.append(tuple(found))
        levels.append(tuple(above))
    return WholeShape(tuple(levels), tuple(grouped))
