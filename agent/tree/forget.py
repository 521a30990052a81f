"""Forgetting in the trees: nodes leave together with every summary that was made from them, up to the root.

A removed leaf elsewhere only marks the summary above it stale, and its words stand there until a seal has made it
anew. Here nothing may be left standing for a moment: each ancestor goes in the caller's transaction, in the document's
tree and in the source's, and the nodes beside the way go back to the buffer of their level. The seals then make the
ancestors again, from what is left; every other summary keeps its row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.db.nodes import remove_nodes
from agent.ids import tree_id
from agent.queue.types import NewJob
from agent.states import Lifecycle, TreeKind
from agent.tree.store import (
    children_of,
    put_in_buffer,
    row_before,
    rows_between,
    take_edges,
    tree_of_seq,
)

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.tree.store import Tree

WAITED_SINCE_EVER_MS = 0
CLOSE_THESE_MS = 1
"""A flush before this instant closes what was put back with ``WAITED_SINCE_EVER_MS``, and nothing else."""


@dataclass(frozen=True)
class TakenOut:
    """How much went, and what has to be done next."""

    chunks: int
    summaries: int
    jobs: tuple[NewJob, ...]


@dataclass
class _Cut:
    """What goes, and where it stood."""

    connection: Connection
    now_ms: int
    leaves: set[str] = field(default_factory=set)
    summaries: set[str] = field(default_factory=set)
    places: list[tuple[int, int, bytes]] = field(default_factory=list)  # tree, level, sort key
    trees: dict[int, Tree] = field(default_factory=dict)

    def tree(self, tree_seq: int) -> Tree:
        """Return a tree by its row number, read once."""
        if tree_seq not in self.trees:
            found = tree_of_seq(self.connection, tree_seq)
            assert found is not None
            self.trees[tree_seq] = found
        return self.trees[tree_seq]


def take_out(connection: Connection, chunk_ids: Iterable[str], summary_ids: Iterable[str], now_ms: int) -> TakenOut:
    """Delete chunks and summaries with all their ancestors, inside the caller's transaction.

    The words are then in no row. Summaries of the same trees that are stale hold words of what left them earlier, so
    they go too. A document that loses a chunk has its tree built again; ``jobs`` are the seals to enqueue.
    """
    cut = _Cut(connection, now_ms)
    cut.leaves.update(chunk_ids)
    _climb(cut, [*cut.leaves, *summary_ids], set(summary_ids))
    _take_stale_along(cut)
    for summary in cut.summaries:
        _free_children(cut, summary)
    chunks, gone = remove_nodes(connection, cut.leaves, cut.summaries)
    _mark_neighbours(cut)
    return TakenOut(chunks, gone, tuple(_follow_ups(cut)))


def _climb(cut: _Cut, nodes: Iterable[str], summaries: Iterable[str]) -> None:
    """Find every ancestor of these nodes in every tree, and note where all of them stand."""
    known = set(summaries)
    cut.summaries |= known
    waiting = list(nodes)
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for tree_seq, level, sort_key, parent in cut.connection.all(
            """
            SELECT tree_seq, level, sort_key, parent_id FROM mem_tree_edges WHERE node_id = ?1
            UNION ALL
            SELECT tree_seq, level, sort_key, '' FROM mem_tree_buffers WHERE node_id = ?1
            """,
            (node,),
        ):
            cut.places.append((tree_seq, level, bytes(sort_key)))
            cut.tree(tree_seq)
            if parent and parent != node:
                cut.summaries.add(parent)
                waiting.append(parent)


def _take_stale_along(cut: _Cut) -> None:
    """Add what stands in the concerned trees from before: stale summaries, half-built ones of documents."""
    while True:
        found: set[str] = set()
        for tree in list(cut.trees.values()):
            for (summary,) in cut.connection.all(
                "SELECT summary_id FROM mem_tree_summaries WHERE tree_seq = ? AND stale = 1", (tree.tree_seq,)
            ):
                found.add(summary)
            if tree.kind == TreeKind.DOCUMENT:
                found |= _standing_nowhere(cut.connection, tree.tree_seq)
        found -= cut.summaries
        if not found:
            return
        _climb(cut, found, found)


def _standing_nowhere(connection: Connection, tree_seq: int) -> set[str]:
    """Return summaries of a document's tree that no row names: made for a version that never stood."""
    return {
        summary
        for (summary,) in connection.all(
            """
            SELECT s.summary_id
              FROM mem_tree_summaries AS s
             WHERE s.tree_seq = ?
               AND NOT EXISTS (SELECT 1 FROM mem_tree_edges AS e WHERE e.node_id = s.summary_id)
            """,
            (tree_seq,),
        )
    }


def _free_children(cut: _Cut, summary: str) -> None:
    """Let what stood under a summary that goes, and stays itself, stand with nothing above it."""
    row = cut.connection.one("SELECT tree_seq, level FROM mem_tree_summaries WHERE summary_id = ?", (summary,))
    if row is None:
        return
    tree_seq, level = row
    tree = cut.tree(tree_seq)
    stay = [
        child
        for child in children_of(cut.connection, tree_seq, level - 1, summary)
        if child.node_id not in cut.summaries and child.node_id not in cut.leaves
    ]
    if tree.kind == TreeKind.DOCUMENT:
        return  # it has no buffers; all of it is laid out anew (_build_again)
    take_edges(cut.connection, tree_seq, level - 1, [child.sort_key for child in stay])
    # A finished tree closes its tails again at once; one that grows closes them when they have waited.
    since = WAITED_SINCE_EVER_MS if tree.had_root else cut.now_ms
    put_in_buffer(cut.connection, tree_seq, level - 1, stay, since)
    if level == 1:
        cut.connection.many(
            "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ? AND lifecycle = ?",
            [(Lifecycle.BUFFERED, child.node_id, Lifecycle.SEALED) for child in stay if child.is_stream_leaf],
        )


def _mark_neighbours(cut: _Cut) -> None:
    """Have the group before a gap looked at where nothing beside the gap waits.

    Whether it ends there was decided by what followed, which is another node now.
    """
    for tree_seq, level, key in cut.places:
        if cut.tree(tree_seq).kind == TreeKind.DOCUMENT:
            continue
        before = row_before(cut.connection, tree_seq, level, key)
        if before is None or before.parent_id is None:
            continue
        after = rows_between(cut.connection, tree_seq, level, key, b"\xff" * 64, 1)
        if after and after[0].parent_id is None:
            continue
        cut.connection.run(
            "UPDATE mem_tree_summaries SET stale = 1 WHERE summary_id = ? AND tree_seq = ?",
            (before.parent_id, tree_seq),
        )


def _follow_ups(cut: _Cut) -> Iterable[NewJob]:
    for tree in cut.trees.values():
        if tree.kind == TreeKind.DOCUMENT:
            yield from _build_again(cut.connection, tree)
            continue
        if tree.had_root:
            cut.connection.run(
                """
                UPDATE mem_tree_trees SET flush_before_ms = max(coalesce(flush_before_ms, 0), ?) WHERE tree_seq = ?
                """,
                (CLOSE_THESE_MS, tree.tree_seq),
            )
        yield NewJob.seal(tree.tree_id, 0)


def _build_again(connection: Connection, tree: Tree) -> Iterable[NewJob]:
    """Let a document's tree count as none, and ask for it and for the place of its root.

    Its rows go, its other summaries stay: they are found again by their shape, if they are of the same texts.
    """
    connection.run("UPDATE mem_tree_summaries SET stale = 1 WHERE tree_seq = ?", (tree.tree_seq,))
    connection.run("DELETE FROM mem_tree_edges WHERE tree_seq = ?", (tree.tree_seq,))
    connection.run(
        """
        UPDATE mem_tree_trees SET version_hash = NULL, root_id = NULL, root_kind = NULL, max_level = 0
         WHERE tree_seq = ?
        """,
        (tree.tree_seq,),
    )
    row = connection.one(
        """
        UPDATE mem_tree_items SET grown_hash = NULL
         WHERE source_id = ? AND item_key = ?
        RETURNING item_seq, version_ms
        """,
        (tree.source_id, tree.item_key),
    )
    if row is not None:
        item_seq, version_ms = row
        connection.run(
            "UPDATE mem_tree_chunks SET lifecycle = ? WHERE item_seq = ? AND lifecycle = ?",
            (Lifecycle.ADMITTED, item_seq, Lifecycle.SEALED),
        )
        yield NewJob.seal_document(f"{tree.source_id}/{tree.item_key}", version_ms)
    yield NewJob.seal(tree_id(TreeKind.SOURCE, tree.source_id), 0)
