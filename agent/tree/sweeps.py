"""The work of trees, found again from what the tables say: the queue may be lost (the rule of the k-mood record).

Each looks only where something is not as it will be, through partial indexes, so a finished memory costs next to
nothing whatever its size. The indexes are named: without statistics SQLite would rather walk all trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.queue.types import NewJob, NodeRef
from agent.states import NodeKind
from agent.tree.flush import first_level_to_seal, flush_is_due, trees_that_wait
from agent.tree.seal import above_gap_ms
from agent.tree.store import tree_of_seq

if TYPE_CHECKING:
    from agent.queue.registry import SweepContext


def sweep_append(context: SweepContext) -> Iterator[NewJob]:
    """Yield appends of admitted chunks of mail and chats, and of roots of finished documents, that stand in no tree."""
    for source_id, chunk_id in context.connection.all(
        """
        SELECT source_id, chunk_id
          FROM mem_tree_chunks
         WHERE lifecycle = 'admitted' AND source_kind <> 'document'
         LIMIT ?
        """,
        (context.limit,),
    ):
        yield NewJob.append_buffer("source", source_id, NodeRef.leaf(chunk_id))
    for source_id, root_kind, root_id in context.connection.all(
        """
        SELECT i.source_id, t.root_kind, t.root_id
          FROM mem_tree_items AS i INDEXED BY mem_tree_items_ungrown
         CROSS JOIN mem_tree_trees AS t ON t.source_id = i.source_id AND t.item_key = i.item_key
         WHERE i.source_kind = 'document'
           AND i.held_hash IS NOT i.grown_hash
           AND t.kind = 'document'
           AND t.version_hash IS i.held_hash
           AND t.root_id IS NOT NULL
         LIMIT ?
        """,
        (context.limit,),
    ):
        yield NewJob.append_buffer("source", source_id, NodeRef(NodeKind(root_kind), root_id))


def sweep_seal(context: SweepContext) -> Iterator[NewJob]:
    """Yield seals of trees that a seal would change now: closed groups in the buffer, stale summaries, lost roots."""
    found = 0
    for tree_seq in trees_that_wait(context.connection):
        tree = tree_of_seq(context.connection, tree_seq)
        if tree is None:
            continue
        level = first_level_to_seal(context.connection, tree, above_gap_ms(context.intent))
        if level is not None:
            yield NewJob.seal(tree.tree_id, level)
            found += 1
        if found >= context.limit:
            return


def sweep_seal_document(context: SweepContext) -> Iterator[NewJob]:
    """Yield documents whose own tree is not that of the held version, or lost a child.

    Those with a pending chunk, or with a newer version on its way, are asked for by what they wait for.
    """
    for source_id, item_key, version_ms in context.connection.all(
        """
        SELECT i.source_id, i.item_key, i.version_ms
          FROM mem_tree_items AS i INDEXED BY mem_tree_items_ungrown
         WHERE i.source_kind = 'document'
           AND i.held_hash IS NOT i.grown_hash
           AND (i.state <> 'queued'
                OR (SELECT j.status
                      FROM mem_tree_jobs AS j
                     WHERE j.dedupe_key = 'ingest:' || i.source_id || ':' || i.item_key
                     ORDER BY j.id DESC
                     LIMIT 1) IN ('failed', 'cancelled'))
           AND NOT EXISTS (
             SELECT 1
               FROM mem_tree_trees AS t
              WHERE t.source_id = i.source_id
                AND t.item_key = i.item_key
                AND t.kind = 'document'
                AND t.version_hash IS i.held_hash
                AND t.root_id IS NOT NULL
           )
           AND NOT EXISTS (
             SELECT 1
               FROM mem_tree_chunks AS c
              WHERE c.item_seq = i.item_seq AND c.lifecycle = 'pending_extraction'
           )
        UNION
        SELECT i.source_id, i.item_key, i.version_ms
          FROM mem_tree_summaries AS s INDEXED BY mem_tree_summaries_stale
         CROSS JOIN mem_tree_trees AS t ON t.tree_seq = s.tree_seq
         CROSS JOIN mem_tree_items AS i ON i.source_id = t.source_id AND i.item_key = t.item_key
         WHERE s.stale = 1 AND t.kind = 'document'
         LIMIT ?
        """,
        (context.limit,),
    ):
        yield NewJob.seal_document(f"{source_id}/{item_key}", version_ms)


def sweep_flush(context: SweepContext) -> Iterator[NewJob]:
    """Yield the flush of the current block of three hours if a tail waited too long and the block had none."""
    if not flush_is_due(context.connection, context.intent, context.now_ms):
        return
    job = NewJob.flush_stale(context.now_ms)
    had = context.connection.one("SELECT 1 FROM mem_tree_jobs WHERE dedupe_key = ? LIMIT 1", (job.dedupe_key,))
    if had is None:
        yield job
