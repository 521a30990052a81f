"""``flush_stale``: tails that waited too long are closed for now; and which trees are not finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.ids import tree_id
from agent.queue.types import NewJob, Plan
from agent.states import TreeKind
from agent.tree.degraded import chunks_again_tx, mark_summaries_tx, may_try, some_are_due
from agent.tree.due import FLUSH_ALL_MS, highest_level, next_due_level, tree_rests
from agent.tree.regroup import regroup
from agent.tree.seal import above_gap_ms
from agent.tree.store import Tree, tree_of_seq

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.registry import JobContext
    from agent.queue.types import FlushStalePayload

NAMES_AT_MOST = 100


def plan_flush_stale(context: JobContext, payload: FlushStalePayload) -> Plan:
    """Return the plan that asks for a seal of every tail with a leaf that waited too long, and for fallbacks once more.

    Too long is by time in the buffer, never by the age of what is in it (``intent.tree``: 1 h for leaves, 24 h above).
    The payload only names the block of three hours that this is the flush of.
    """
    del payload
    gap = above_gap_ms(context.intent)

    def writes(connection: Connection) -> Sequence[NewJob]:
        now_ms = context.clock.now_ms()
        cutoff = _leaf_cutoff(context.intent, now_ms)
        jobs = []
        if may_try(connection, context.intent, now_ms):
            mark_summaries_tx(connection, now_ms)
            jobs += chunks_again_tx(connection, now_ms)
        for tree_seq in _with_old_tails(connection, cutoff, gap):
            connection.run(
                "UPDATE mem_tree_trees SET flush_before_ms = max(coalesce(flush_before_ms, 0), ?) WHERE tree_seq = ?",
                (cutoff, tree_seq),
            )
            tree = tree_of_seq(connection, tree_seq)
            level = next_due_level(connection, tree_seq, 0, gap)
            if tree is not None and level is not None:
                jobs.append(NewJob.seal(tree.tree_id, level))
        return jobs

    return Plan(writes)


def _leaf_cutoff(intent: Intent, now_ms: int) -> int:
    return now_ms - round(intent.tree.flush_leaves_seconds * 1000)


def _with_old_tails(connection: Connection, cutoff_ms: int, gap_ms: int) -> list[int]:
    """Return the trees with a node in the buffer since before the cutoff of its level."""
    return [
        row[0]
        for row in connection.all(
            """
            SELECT tree_seq FROM mem_tree_buffers WHERE level = 0 AND added_at_ms < ?
            UNION
            SELECT tree_seq FROM mem_tree_buffers WHERE level > 0 AND added_at_ms < ?
            """,
            (cutoff_ms, cutoff_ms - gap_ms),
        )
    ]


def flush_is_due(connection: Connection, intent: Intent, now_ms: int) -> bool:
    """Return whether a tail waited too long and nobody asked for it yet, or a fallback is to be tried again."""
    if some_are_due(connection, intent, now_ms):
        return True
    cutoff = _leaf_cutoff(intent, now_ms)
    found = connection.one(
        """
        SELECT 1
          FROM mem_tree_buffers AS b
          JOIN mem_tree_trees AS t ON t.tree_seq = b.tree_seq
         WHERE b.level = 0 AND b.added_at_ms < ?1 AND b.added_at_ms >= coalesce(t.flush_before_ms, 0)
        UNION ALL
        SELECT 1
          FROM mem_tree_buffers AS b
          JOIN mem_tree_trees AS t ON t.tree_seq = b.tree_seq
         WHERE b.level > 0 AND b.added_at_ms < ?1 - ?2 AND b.added_at_ms >= coalesce(t.flush_before_ms, 0) - ?2
         LIMIT 1
        """,
        (cutoff, above_gap_ms(intent)),
    )
    return found is not None


def close_all_tails(connection: Connection, now_ms: int) -> list[NewJob]:
    """Ask every tree that waits to close all its tails now; return the seals to enqueue, none where none can help.

    For ``run --once`` and ``drain_until_idle(flush=...)``. Opens a write transaction of its own unless one is open. A
    tree whose groups all wait for something pending is marked, and named again once that is settled.
    """
    del now_ms
    if connection.in_transaction:
        return _close_all(connection)
    # Look before you write: an idle drain asks again and again.
    if not trees_that_wait(connection):
        return []
    with connection.write():
        return _close_all(connection)


def _close_all(connection: Connection) -> list[NewJob]:
    jobs = []
    for tree_seq in trees_that_wait(connection):
        connection.run(
            "UPDATE mem_tree_trees SET flush_before_ms = ? WHERE tree_seq = ? AND kind <> ?",
            (FLUSH_ALL_MS, tree_seq, TreeKind.DOCUMENT),
        )
        tree = tree_of_seq(connection, tree_seq)
        level = None if tree is None else first_level_to_seal(connection, tree, 0)
        if tree is not None and level is not None:
            jobs.append(NewJob.seal(tree.tree_id, level))
    return jobs


def trees_that_wait(connection: Connection) -> list[int]:
    """Return the trees, documents' apart, with nodes in a buffer, a stale summary or leaves without a root.

    One index look-up for each such tree and each source.
    """
    found: set[int] = set()
    seq: int | None = connection.value("SELECT min(tree_seq) FROM mem_tree_buffers")
    while seq is not None:
        found.add(seq)
        seq = connection.value("SELECT min(tree_seq) FROM mem_tree_buffers WHERE tree_seq > ?", (seq,))
    seq = connection.value("SELECT min(tree_seq) FROM mem_tree_summaries WHERE stale = 1")
    while seq is not None:
        found.add(seq)
        seq = connection.value("SELECT min(tree_seq) FROM mem_tree_summaries WHERE stale = 1 AND tree_seq > ?", (seq,))
    for tree in source_trees(connection):
        if not tree_rests(connection, tree) or not root_stands(connection, tree):
            found.add(tree.tree_seq)
    return sorted(
        seq
        for seq in found
        if connection.value("SELECT kind FROM mem_tree_trees WHERE tree_seq = ?", (seq,)) != TreeKind.DOCUMENT
    )


def root_stands(connection: Connection, tree: Tree) -> bool:
    """Return whether the root that a tree names is there (a tree that names none has none to lose)."""
    if tree.root_id is None:
        return True
    found = connection.one(
        "SELECT 1 FROM mem_tree_edges WHERE node_id = ? AND tree_seq = ? AND parent_id = ''",
        (tree.root_id, tree.tree_seq),
    )
    return found is not None


def source_trees(connection: Connection) -> list[Tree]:
    """Return the trees of sources, without walking those of documents."""
    found = []
    source: str | None = connection.value("SELECT min(source_id) FROM mem_tree_trees")
    while source is not None:
        for (seq,) in connection.all(
            "SELECT tree_seq FROM mem_tree_trees WHERE source_id = ? AND item_key IS NULL", (source,)
        ):
            tree = tree_of_seq(connection, seq)
            if tree is not None:
                found.append(tree)
        source = connection.value("SELECT min(source_id) FROM mem_tree_trees WHERE source_id > ?", (source,))
    return found


def first_level_to_seal(connection: Connection, tree: Tree, gap_ms: int) -> int | None:
    """Return the lowest level on which a seal would change something now, ``None`` where none would."""
    if not root_stands(connection, tree):
        return 0
    for level in range(highest_level(connection, tree.tree_seq) + 1):
        if regroup(connection, tree, level, above_gap_ms=gap_ms, limit=1).changes_something:
            return level
    return None


def unfinished(connection: Connection, limit: int = NAMES_AT_MOST) -> list[str]:
    """Return the ids of trees that are not what they will be, at most ``limit``; an empty list: all are finished.

    Not finished are trees with nodes in a buffer, stale summaries or leaves without a root, those with a chunk that is
    pending or not placed yet, and documents whose current version does not stand in their source's tree. What is
    parked holds nothing open: the queue names it as failed.
    """
    names: dict[str, None] = {}
    for seq in trees_that_wait(connection):
        tree = tree_of_seq(connection, seq)
        if tree is not None:
            names[tree.tree_id] = None
    for source_id in _sources_with(connection, _NEXT_PENDING) + _sources_with(connection, _NEXT_ADMITTED):
        names[tree_id("source", source_id)] = None
    for source_id, item_key in connection.all(
        """
        SELECT source_id, item_key
          FROM mem_tree_items INDEXED BY mem_tree_items_ungrown
         WHERE source_kind = 'document'
           AND held_hash IS NOT grown_hash
           AND coalesce((SELECT j.status
                           FROM mem_tree_jobs AS j
                          WHERE j.dedupe_key = 'seal_doc:' || source_id || '/' || item_key || '@' || version_ms
                          ORDER BY j.id DESC
                          LIMIT 1), 'lost') NOT IN ('failed', 'cancelled')
         LIMIT ?
        """,
        (limit,),
    ):
        names[tree_id("document", source_id, item_key)] = None
    for (name,) in connection.all(
        """
        SELECT DISTINCT t.tree_id
          FROM mem_tree_summaries AS s INDEXED BY mem_tree_summaries_stale
         CROSS JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         WHERE s.stale = 1
           AND t.kind = 'document'
           AND coalesce((SELECT j.status
                           FROM mem_tree_items AS i
                          CROSS JOIN mem_tree_jobs AS j
                             ON j.dedupe_key = 'seal_doc:' || i.source_id || '/' || i.item_key || '@' || i.version_ms
                          WHERE i.source_id = t.source_id AND i.item_key = t.item_key
                          ORDER BY j.id DESC
                          LIMIT 1), 'lost') NOT IN ('failed', 'cancelled')
         LIMIT ?
        """,
        (limit,),
    ):
        names[name] = None
    return list(names)[:limit]


_NEXT_PENDING = """
SELECT min(source_id) FROM mem_tree_chunks WHERE lifecycle = 'pending_extraction' AND source_id > ?
"""

_NEXT_ADMITTED = """
SELECT min(c.source_id)
  FROM mem_tree_chunks AS c
 WHERE c.lifecycle = 'admitted'
   AND c.source_id > ?
   AND (c.source_kind <> 'document'
        OR coalesce((SELECT j.status
                       FROM mem_tree_items AS i
                      CROSS JOIN mem_tree_jobs AS j
                         ON j.dedupe_key = 'seal_doc:' || i.source_id || '/' || i.item_key || '@' || i.version_ms
                      WHERE i.item_seq = c.item_seq
                      ORDER BY j.id DESC
                      LIMIT 1), 'lost') NOT IN ('failed', 'cancelled'))
"""


def _sources_with(connection: Connection, next_source: str) -> list[str]:
    found: list[str] = []
    source: str | None = connection.value(next_source, ("",))
    while source is not None:
        found.append(source)
        source = connection.value(next_source, (source,))
    return found
