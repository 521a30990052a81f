"""``seal_document``: the tree of one document's current version, and its root's place in the source's tree.

A document is small, so its whole shape is computed each time. What stands already is used again by shape, so an edit
makes one path of summaries; the old tree stays whole until the new one is. A summary that stands nowhere yet is stale:
nothing below it could tell it of a change, so what it was made from is compared before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.nodes import detach_node, mark_above, remove_summary
from agent.ids import summary_id, tree_id
from agent.queue.types import NOTHING_TO_DO, NewJob, NodeRef, Plan, StalePlan
from agent.states import Lifecycle, NodeKind, TreeKind
from agent.tree.apply import insert_summary, renew_summary
from agent.tree.degraded import is_due
from agent.tree.request import (
    Child,
    NewSummary,
    as_child,
    build_request,
    calls_model,
    input_hash,
    load_child,
    make_summary,
    passes_through,
)
from agent.tree.shape import ShapeNode, WholeShape, whole_shape
from agent.tree.store import (
    ROOT,
    NodeRow,
    Tree,
    find_tree,
    is_news_above,
    make_tree,
    order_bytes,
    put_under,
    rows_between,
    take_edges,
)
from agent.tree.waiting import chunks_pending, is_stream

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.models.protocol import Summariser
    from agent.queue.registry import JobContext
    from agent.queue.types import SealDocumentPayload

SUMMARIES_A_RUN = 64
SECONDS_A_RUN = 2.0


@dataclass(frozen=True)
class _Item:
    item_seq: int
    source_id: str
    item_key: str
    sort_key: bytes
    held_hash: str | None
    version_ms: int | None

    @property
    def doc_id(self) -> str:
        return f"{self.source_id}/{self.item_key}"


@dataclass(frozen=True)
class _Live:
    """What is known of a summary that stands in, or was made for, this document's tree."""

    number: int
    summary_id: str
    tokens: int
    sort_key: bytes
    stale: bool
    input_hash: str | None
    degraded: int
    created_at_ms: int


@dataclass(frozen=True)
class _Leaves:
    """The admitted chunks of an item in order, and their rows' numbers: one with another title has another."""

    nodes: tuple[ShapeNode, ...]
    numbers: tuple[int, ...]


def plan_seal_document(
    context: JobContext, payload: SealDocumentPayload, summariser: Summariser, built_in: Summariser | None = None
) -> Plan:
    """Return the plan that builds the tree of a document's current version, or the next part of it.

    Makes at most 64 summaries or for 2 s in one run, of these at most one through a summariser that calls a model, and
    that one first: its children are stored by then, and a call that is put off takes nothing with it. Follows up with
    itself; ``built_in`` signs what passes through without one. Does nothing while a chunk of the
    document is pending: extract asks again. Raises ``StalePlan`` in the settle transaction if the version changed
    meanwhile, and what the summariser and the context's check raise.
    """
    connection = context.connection
    with connection.snapshot():
        item = _load_item(connection, payload.source_id, payload.item_key)
        if item is None or chunks_pending(connection, item.item_seq):
            return NOTHING_TO_DO
        leaves = _load_leaves(connection, item.item_seq)
        name = tree_id("document", item.source_id, item.item_key)
        live = _load_live(connection, name)
    shape = whole_shape(name, leaves.nodes)
    try:
        made, complete = _make_missing(context, shape, live, item.source_id, summariser, built_in or summariser)
    except StalePlan as stale:
        return Plan(_raises(stale))

    def writes(settling: Connection) -> Sequence[NewJob]:
        now = context.clock.now_ms()
        if _load_item(settling, item.source_id, item.item_key) != item or chunks_pending(settling, item.item_seq):
            raise StalePlan("the document's version")
        if _load_leaves(settling, item.item_seq) != leaves:
            raise StalePlan("the document's chunks")
        if _load_live(settling, name) != live:
            raise StalePlan("the summaries of the document's tree")
        tree = make_tree(settling, name, TreeKind.DOCUMENT, item.source_id, item.item_key, now)
        for node, summary in made:
            known = live.get(node.shape_id)
            if known is not None and known.summary_id == summary.summary_id:
                renew_summary(settling, tree, summary, node.sort_key, now, stale=not complete)
                continue
            if known is not None:
                mark_above(settling, known.summary_id)
            insert_summary(settling, tree, summary, node.sort_key, now, stale=not complete)
        if not complete:
            return [NewJob.seal_document(item.doc_id, item.version_ms)]
        return _stand(settling, tree, item, shape, now)

    return Plan(writes)


def _raises(stale: StalePlan) -> Callable[[Connection], None]:
    def writes(connection: Connection) -> None:
        raise stale

    return writes


def _load_item(connection: Connection, source_id: str, item_key: str) -> _Item | None:
    row = connection.one(
        """
        SELECT item_seq, source_id, item_key, sort_key, held_hash, version_ms, source_kind
          FROM mem_tree_items
         WHERE source_id = ? AND item_key = ?
        """,
        (source_id, item_key),
    )
    return None if row is None or is_stream(row[6]) else _Item(*row[:6])


def _load_leaves(connection: Connection, item_seq: int) -> _Leaves:
    rows = connection.all(
        """
        SELECT chunk_id, tokens, break_key, order_key, seq
          FROM mem_tree_chunks
         WHERE item_seq = ? AND lifecycle IN ('admitted', 'buffered', 'sealed')
         ORDER BY order_key
        """,
        (item_seq,),
    )
    nodes = [
        ShapeNode(chunk_id, chunk_id, tokens, break_key, break_key, order_bytes(order), order_bytes(order))
        for chunk_id, tokens, break_key, order, _ in rows
    ]
    return _Leaves(tuple(nodes), tuple(row[4] for row in rows))


def _load_live(connection: Connection, name: str) -> dict[str, _Live]:
    """Return the summaries of the document's tree by shape id."""
    rows = connection.all(
        """
        SELECT s.shape_id, s.seq, s.summary_id, s.tokens, s.sort_key, s.stale, s.input_hash, s.degraded,
               s.created_at_ms
          FROM mem_tree_summaries AS s
          JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         WHERE t.tree_id = ?
         ORDER BY s.seq
        """,
        (name,),
    )
    return {
        shape: _Live(number, summary, tokens, bytes(sort_key), bool(stale), *rest)
        for shape, number, summary, tokens, sort_key, stale, *rest in rows
    }


def _make_missing(
    context: JobContext,
    shape: WholeShape,
    live: dict[str, _Live],
    source_id: str,
    summariser: Summariser,
    built_in: Summariser,
) -> tuple[list[tuple[ShapeNode, NewSummary]], bool]:
    """Make summaries that no live one can stand for, lowest level first; return them and whether these were all."""
    made: dict[str, tuple[ShapeNode, NewSummary]] = {}
    until = context.clock.monotonic() + SECONDS_A_RUN
    for level, found in enumerate(shape.grouped):
        for node, group in zip(shape.levels[level + 1], found, strict=True):
            if group.end - group.start == 1:
                continue
            below = shape.levels[level][group.start : group.end]
            known = live.get(node.shape_id)
            if known is not None and not known.stale and not any(child.shape_id in made for child in below):
                continue
            context.check()
            children = _children(context.connection, below, live, made)
            request = build_request(children, level + 1, TreeKind.DOCUMENT, source_id)
            passing = passes_through(request)
            model = not passing and calls_model(summariser)
            if (
                known is not None
                and known.input_hash == input_hash(request)
                and not (model and _is_due(context, known))
            ):
                # A child left and came back as it was.
                continue
            if len(made) >= SUMMARIES_A_RUN or (made and context.clock.monotonic() > until):
                return list(made.values()), False
            if model and made:
                return list(made.values()), False
            signature = built_in.signature if passing else summariser.signature
            made[node.shape_id] = (
                node,
                make_summary(
                    summariser,
                    request,
                    children,
                    summary_id=summary_id(node.shape_id, signature),
                    shape_id=node.shape_id,
                    signature=signature,
                ),
            )
    return list(made.values()), True


def _is_due(context: JobContext, known: _Live) -> bool:
    """Return whether a summary is a fallback's whose time to be made again has come."""
    return is_due(known.degraded, known.created_at_ms, context.clock.now_ms())


def _children(
    connection: Connection,
    nodes: Sequence[ShapeNode],
    live: dict[str, _Live],
    made: dict[str, tuple[ShapeNode, NewSummary]],
) -> list[Child]:
    children = []
    for node in nodes:
        if node.shape_id in made:
            children.append(as_child(made[node.shape_id][1]))
            continue
        known = live.get(node.shape_id)
        child = (
            load_child(connection, NodeKind.LEAF, node.shape_id)
            if known is None
            else load_child(connection, NodeKind.SUMMARY, known.summary_id)
        )
        if child is None:
            raise StalePlan("a child of the document's tree")
        children.append(child)
    return children


def _stand(connection: Connection, tree: Tree, item: _Item, shape: WholeShape, now_ms: int) -> Sequence[NewJob]:
    """Let the rows be the shape: edges, summaries, root, lifecycle; return the append of the root where it is due."""
    live = _load_live(connection, tree.tree_id)
    rows, root = _rows_of(shape, live)
    source_tree = find_tree(connection, tree_id("source", item.source_id))
    _write_edges(connection, tree, rows)
    for summary, shape_key in connection.all(
        "SELECT summary_id, shape_id FROM mem_tree_summaries WHERE tree_seq = ?", (tree.tree_seq,)
    ):
        if live[shape_key].summary_id != summary or (shape_key not in rows.shapes):
            remove_summary(connection, summary)
    connection.many(
        "UPDATE mem_tree_summaries SET sort_key = ? WHERE seq = ?",
        [
            (row.sort_key, live[row.shape_id].number)
            for (level, _), row in rows.edges.items()
            if row.shape_id in live and row.sort_key != live[row.shape_id].sort_key
        ],
    )
    # All of them were compared with what is below them now.
    connection.run("UPDATE mem_tree_summaries SET stale = 0 WHERE tree_seq = ? AND stale = 1", (tree.tree_seq,))
    connection.run(
        "UPDATE mem_tree_chunks SET lifecycle = ? WHERE item_seq = ? AND lifecycle IN ('admitted', 'buffered')",
        (Lifecycle.SEALED, item.item_seq),
    )
    connection.run(
        """
        UPDATE mem_tree_trees
           SET root_id = ?, root_kind = ?, max_level = ?, version_hash = ?, had_root = 1, updated_at_ms = ?
         WHERE tree_seq = ?
        """,
        (
            None if root is None else root.node_id,
            None if root is None else root.node_kind,
            max(len(shape.levels) - 1, 0),
            item.held_hash,
            now_ms,
            tree.tree_seq,
        ),
    )
    return _stand_in_source(connection, source_tree, item, root)


@dataclass(frozen=True)
class _Rows:
    """The edges of a finished document tree by (level, sort key), and the shapes of its summaries."""

    edges: dict[tuple[int, bytes], NodeRow]
    shapes: frozenset[str]


def _rows_of(shape: WholeShape, live: dict[str, _Live]) -> tuple[_Rows, NodeRow | None]:
    edges: dict[tuple[int, bytes], NodeRow] = {}
    shapes: set[str] = set()
    root: NodeRow | None = None
    for level, nodes in enumerate(shape.levels):
        parents = [ROOT] * len(nodes)
        if level < len(shape.grouped):
            for above, group in zip(shape.levels[level + 1], shape.grouped[level], strict=True):
                known = live.get(above.shape_id)
                parent = above.shape_id if known is None else known.summary_id
                parents[group.start : group.end] = [parent] * (group.end - group.start)
        for node, parent in zip(nodes, parents, strict=True):
            row = _row_of(node, live.get(node.shape_id), parent)
            if row.node_kind == NodeKind.SUMMARY:
                shapes.add(row.shape_id)
            edges[level, node.sort_key] = row
            root = row
    return _Rows(edges, frozenset(shapes)), root


def _row_of(node: ShapeNode, known: _Live | None, parent: str) -> NodeRow:
    return NodeRow(
        node.sort_key,
        node.shape_id if known is None else known.summary_id,
        NodeKind.LEAF if known is None else NodeKind.SUMMARY,
        node.shape_id,
        node.leaf_id,
        node.tokens if known is None else known.tokens,
        node.first_break,
        node.last_break,
        node.last_key,
        False,
        parent,
    )


def _write_edges(connection: Connection, tree: Tree, wanted: _Rows) -> None:
    """Write the edges that differ, and no others: an edit of one paragraph rewrites one path."""
    standing: dict[tuple[int, bytes], NodeRow] = {}
    level = 0
    while True:
        rows = rows_between(connection, tree.tree_seq, level, b"", b"\xff" * 64)
        if not rows and level > tree.max_level:
            break
        standing.update({(level, row.sort_key): row for row in rows})
        level += 1
    for level_gone, key in standing.keys() - wanted.edges.keys():
        take_edges(connection, tree.tree_seq, level_gone, [key])
    for (level_new, key), row in wanted.edges.items():
        if standing.get((level_new, key)) != row:
            put_under(connection, tree.tree_seq, level_new, [row], str(row.parent_id))


def _places(connection: Connection, source_tree: Tree, item: _Item) -> list[NodeRow]:
    return rows_between(connection, source_tree.tree_seq, 0, item.sort_key, item.sort_key)


def _stand_in_source(
    connection: Connection, source_tree: Tree | None, item: _Item, root: NodeRow | None
) -> Sequence[NewJob]:
    """Return the append of the root unless it stands in the source's tree; take an empty document's leaf out.

    Of a root that stands there and says something else now, what is above it is sealed again.
    """
    standing = [] if source_tree is None else _places(connection, source_tree, item)
    grown = item.held_hash
    jobs: list[NewJob] = []
    if root is not None and not any(row.node_id == root.node_id for row in standing):
        grown = None
        jobs.append(NewJob.append_buffer("source", item.source_id, NodeRef(NodeKind(root.node_kind), root.node_id)))
    elif root is None and source_tree is not None:
        # Also where it has no place any more (forgetting took it): a group may have waited for this document.
        for row in standing:
            detach_node(connection, row.node_id, source_tree.tree_seq)
        jobs.append(NewJob.seal(source_tree.tree_id, 0))
    elif root is not None and source_tree is not None and is_news_above(connection, source_tree.tree_seq, root.node_id):
        jobs.append(NewJob.seal(source_tree.tree_id, 0))
    connection.run("UPDATE mem_tree_items SET grown_hash = ? WHERE item_seq = ?", (grown, item.item_seq))
    return jobs
