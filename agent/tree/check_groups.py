"""Whether the groups of each level are those of the shape, and the summaries above them name exactly their children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.db.check import pages
from agent.ids import shape_id
from agent.tree.due import highest_level, tree_rests
from agent.tree.request import build_request, input_hash, load_children
from agent.tree.shape import ends_group
from agent.tree.store import ROOT, NodeRow, Tree, rows_between, tree_of_seq, walk_level

if TYPE_CHECKING:
    from agent.db import Connection


def tree_shapes(connection: Connection) -> Iterator[str]:
    """Yield summaries that are not of the children below them, and trees at rest that are not their shape.

    ``mark_open`` (``check.py``) has said before which documents are between two versions: they are passed over.
    """
    for seq, is_open in pages(
        connection,
        """
        SELECT t.tree_seq,
               t.kind = 'document'
               AND EXISTS (SELECT 1
                             FROM mem_tree_items AS i
                             JOIN temp.doctor_open AS o ON o.item_seq = i.item_seq
                            WHERE i.source_id = t.source_id AND i.item_key = t.item_key)
          FROM mem_tree_trees AS t
         WHERE t.tree_seq > ?1
         ORDER BY t.tree_seq
         LIMIT ?2
        """,
    ):
        tree = None if is_open else tree_of_seq(connection, seq)
        if tree is not None:
            for text in _levels(connection, tree):
                yield f"{tree.tree_id}: {text}"


def _levels(connection: Connection, tree: Tree) -> Iterator[str]:
    rests = tree_rests(connection, tree)
    highest = highest_level(connection, tree.tree_seq)
    for level in range(highest + 1):
        yield from _level(connection, tree, level, rests)
    if rests and tree.root_id is not None:
        top = rows_between(connection, tree.tree_seq, highest, b"", b"\xff" * 64, 2)
        if tree.max_level != highest or [row.node_id for row in top] != [tree.root_id]:
            yield f"is {highest} levels high and says {tree.max_level}, or has other nodes beside its root"


def _level(connection: Connection, tree: Tree, level: int, rests: bool) -> Iterator[str]:
    # What came since waits in the buffer between children of a summary that stands: it is nobody's child yet.
    rows = (row for row in walk_level(connection, tree.tree_seq, level, b"") if row.parent_id is not None)
    group: list[NodeRow] = []
    tokens, alone = 0, True
    row = next(rows, None)
    while row is not None:
        following = next(rows, None)
        group.append(row)
        tokens += row.tokens
        parts = following is None or following.parent_id != row.parent_id
        if rests and not (alone and following is None):
            after = None if following is None else following.first_break
            if (following is None or ends_group(row, after, level, len(group), tokens)) != parts:
                yield f"level {level}: the group at {row.node_id} does not end where its shape does"
                return
        if parts:
            yield from _group(connection, tree, level, group)
            group, tokens = [], 0
        alone = False
        row = following


def _group(connection: Connection, tree: Tree, level: int, rows: Sequence[NodeRow]) -> Iterator[str]:
    parent = str(rows[0].parent_id)
    if parent == ROOT:
        return
    promoted = parent == rows[0].node_id
    if not promoted:
        stored = connection.one(
            "SELECT shape_id, stale, leaves, input_hash FROM mem_tree_summaries WHERE summary_id = ?", (parent,)
        )
        # One that is gone is named by the links; one that lost a child will be made again.
        if stored is None or stored[1]:
            return
        wanted = shape_id(tree.tree_id, level + 1, [row.shape_id for row in rows])
        if stored[0] != wanted:
            yield f"level {level + 1}: summary {parent} is of other children than those below it"
            return
        if stored[2] != (leaves := _leaves(connection, tree, level, parent)):
            yield f"level {level + 1}: summary {parent} says {stored[2]} leaves, counted {leaves}"
        children = load_children(connection, rows)
        # Those that an earlier version made do not say what they were made from.
        if (
            children
            and stored[3]
            and stored[3] != input_hash(build_request(children, level + 1, tree.kind, tree.source_id))
        ):
            yield f"level {level + 1}: summary {parent} was made from other texts or titles than those below it"
    first, last = rows[0], rows[-1]
    for above in rows_between(connection, tree.tree_seq, level + 1, first.sort_key, first.sort_key):
        if above.node_id != parent:
            continue
        if (above.leaf_id, above.first_break, above.last_break, above.last_key) != (
            last.leaf_id,
            first.first_break,
            last.last_break,
            last.last_key,
        ) or (promoted and (above.shape_id, above.tokens) != (first.shape_id, first.tokens)):
            yield f"level {level + 1}: the place of {parent} does not span its children"
        return
    yield f"level {level + 1}: {parent} does not stand where its children begin"


def _leaves(connection: Connection, tree: Tree, level: int, parent: str) -> int:
    """Return how many chunks the children of a summary cover, by their own count."""
    count: int | None = connection.value(
        """
        SELECT sum(CASE e.node_kind
                   WHEN 'leaf' THEN 1
                   ELSE (SELECT s.leaves FROM mem_tree_summaries AS s WHERE s.summary_id = e.node_id) END)
          FROM mem_tree_edges AS e
         WHERE e.parent_id = ? AND e.tree_seq = ? AND e.level = ?
        """,
        (parent, tree.tree_seq, level),
    )
    return count or 0
