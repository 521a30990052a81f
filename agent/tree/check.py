"""The invariants of the trees, read from the rows: for tests and for ``doctor``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agent.states import NodeKind, TreeKind
from agent.tree.due import highest_level, tree_rests
from agent.tree.shape import ShapeNode, whole_shape
from agent.tree.store import END, ROOT, NodeRow, Tree, rows_between, tree_of_seq

if TYPE_CHECKING:
    from agent.db import Connection


def problems(connection: Connection, limit: int = 100) -> list[str]:
    """Return what is wrong with the trees, at most ``limit`` findings; an empty list: all is well.

    A tree that still grows is checked for what always holds: one place a level, parents that are there. One that rests
    must equal its shape; and where all of a source rests, each admitted chunk is reached exactly once from the root of
    the source's tree. Reads every row; call it inside a snapshot where others write.
    """
    found: list[str] = []
    trees = [
        tree
        for (seq,) in connection.all("SELECT tree_seq FROM mem_tree_trees ORDER BY tree_seq")
        if (tree := tree_of_seq(connection, seq)) is not None
    ]
    for tree in trees:
        levels = [
            rows_between(connection, tree.tree_seq, level, b"", END)
            for level in range(highest_level(connection, tree.tree_seq) + 1)
        ]
        found += [f"{tree.tree_id}: {text}" for text in _links(connection, tree, levels)]
        if tree_rests(connection, tree):
            found += [f"{tree.tree_id}: {text}" for text in _shape(tree, levels)]
        if len(found) >= limit:
            return found[:limit]
    for tree in trees:
        if tree.kind == TreeKind.SOURCE:
            found += [f"{tree.tree_id}: {text}" for text in _reached(connection, tree)]
    found += _orphans(connection)
    return found[:limit]


def _links(connection: Connection, tree: Tree, levels: list[list[NodeRow]]) -> list[str]:
    found = []
    live: dict[str, int] = dict(
        connection.all("SELECT summary_id, level FROM mem_tree_summaries WHERE tree_seq = ?", (tree.tree_seq,))
    )
    standing = [{row.node_id: row for row in rows} for rows in levels]
    for level, rows in enumerate(levels):
        for row in rows:
            if row.parent_id is None or row.parent_id == ROOT:
                continue
            if level + 1 >= len(levels) or row.parent_id not in standing[level + 1]:
                found.append(f"level {level}: a node's parent {row.parent_id} does not stand on the level above")
            elif not row.is_promoted and live.get(row.parent_id) != level + 1:
                found.append(f"level {level}: a node's parent {row.parent_id} is no live summary of that level")
        doubled = [node for node, times in Counter(row.node_id for row in rows).items() if times > 1]
        found += [f"level {level}: {node} stands there twice" for node in doubled]
        if level == 0:
            continue
        below = {row.parent_id for row in levels[level - 1]}
        found += [f"level {level}: {row.node_id} has nothing below it" for row in rows if row.node_id not in below]
    complete = tree.kind != TreeKind.DOCUMENT or tree_rests(connection, tree)
    for summary, level in live.items():
        if complete and not _stands(standing, summary, level) and not _is_being_built(connection, tree):
            found.append(f"summary {summary} stands nowhere")
    roots = [row.node_id for rows in levels for row in rows if row.parent_id == ROOT]
    if roots != ([] if tree.root_id is None else [tree.root_id]):
        found.append(f"names {tree.root_id} as its root, but the rows name {roots}")
    return found


def _stands(standing: list[dict[str, NodeRow]], summary: str, level: int) -> bool:
    return level < len(standing) and summary in standing[level]


def _is_being_built(connection: Connection, tree: Tree) -> bool:
    """Return whether a document's next version is being built beside the one that stands."""
    held = connection.value(
        "SELECT held_hash FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (tree.source_id, tree.item_key)
    )
    return tree.kind == TreeKind.DOCUMENT and held != tree.version_hash


def _shape(tree: Tree, levels: list[list[NodeRow]]) -> list[str]:
    leaves = [
        ShapeNode(row.shape_id, row.leaf_id, row.tokens, row.first_break, row.last_break, row.sort_key, row.last_key)
        for row in levels[0]
    ]
    wanted = [
        [(node.shape_id, node.leaf_id, node.sort_key, node.last_key) for node in nodes]
        for nodes in whole_shape(tree.tree_id, leaves).levels
    ]
    rows = [[(row.shape_id, row.leaf_id, row.sort_key, row.last_key) for row in nodes] for nodes in levels if nodes]
    if rows != wanted:
        sizes, expected = [len(one) for one in rows], [len(one) for one in wanted]
        return [f"its rows are not its shape (levels of {sizes} nodes, expected {expected})"]
    return []


def _reached(connection: Connection, tree: Tree) -> list[str]:
    """Return the admitted chunks of a source that its root does not reach exactly once, if the source rests."""
    open_work = connection.one(
        """
        SELECT 1 WHERE EXISTS (
          SELECT 1 FROM mem_tree_chunks WHERE lifecycle IN ('pending_extraction', 'admitted') AND source_id = ?1
        ) OR EXISTS (
          SELECT 1
            FROM mem_tree_items
           WHERE source_kind = 'document' AND held_hash IS NOT grown_hash AND source_id = ?1
        )
        """,
        (tree.source_id,),
    )
    if open_work is not None or not tree_rests(connection, tree):
        return []
    times: Counter[str] = Counter()
    if tree.root_id is not None:
        _descend(connection, tree.tree_seq, tree.max_level, tree.root_id, str(tree.root_kind), times)
    wanted = {
        chunk
        for (chunk,) in connection.all(
            "SELECT chunk_id FROM mem_tree_chunks WHERE source_id = ? AND lifecycle = 'sealed'", (tree.source_id,)
        )
    }
    found = [f"chunk {chunk} is reached {times[chunk]} times" for chunk in wanted if times[chunk] != 1]
    return found + [f"node {node} is reached but is no sealed chunk" for node in times.keys() - wanted]


def _descend(
    connection: Connection, tree_seq: int, level: int, node_id: str, node_kind: str, times: Counter[str]
) -> None:
    children = connection.all(
        """
        SELECT node_id, node_kind
          FROM mem_tree_edges
         WHERE parent_id = ? AND tree_seq = ? AND level = ?
        """,
        (node_id, tree_seq, level - 1),
    )
    if level > 0 and children:
        for child, kind in children:
            _descend(connection, tree_seq, level - 1, child, kind, times)
        return
    if node_kind == NodeKind.LEAF:
        times[node_id] += 1
        return
    # A document's root: go on in the document's own tree.
    inner = connection.one("SELECT tree_seq, level FROM mem_tree_summaries WHERE summary_id = ?", (node_id,))
    if inner is None or inner[0] == tree_seq:
        times[node_id] += 1
        return
    _descend(connection, inner[0], inner[1], node_id, node_kind, times)


def _orphans(connection: Connection) -> list[str]:
    """Return nodes in trees that no table holds, and chunks whose lifecycle says other than where they stand."""
    lost = connection.all(
        """
        SELECT node_id
          FROM mem_tree_edges
         WHERE node_kind = 'leaf' AND node_id NOT IN (SELECT chunk_id FROM mem_tree_chunks)
        UNION
        SELECT node_id
          FROM mem_tree_edges
         WHERE node_kind = 'summary' AND node_id NOT IN (SELECT summary_id FROM mem_tree_summaries)
        """
    )
    astray = connection.all(
        """
        SELECT chunk_id
          FROM mem_tree_chunks AS c
         WHERE lifecycle = 'buffered'
           AND NOT EXISTS (SELECT 1 FROM mem_tree_buffers AS b WHERE b.node_id = c.chunk_id)
        """
    )
    uncalled = connection.all(
        """
        SELECT c.chunk_id, c.lifecycle
          FROM mem_tree_buffers AS b
          JOIN mem_tree_chunks AS c ON c.chunk_id = b.node_id
         WHERE b.level = 0 AND b.leaf_id = b.node_id AND c.lifecycle <> 'buffered'
        """
    )
    return [
        *(f"node {node} stands in a tree but is gone" for (node,) in lost),
        *(f"chunk {chunk} is called buffered but stands in no buffer" for (chunk,) in astray),
        *(f"chunk {chunk} stands in a buffer but is called {state}" for chunk, state in uncalled),
    ]
