"""Letting in what no extractor can look at: a chunk whose extract job is parked holds nothing open (``tree.md``).

Such a chunk is admitted on its fast score and marked degraded. A sweep only reads, so it asks for an ``ingest_file`` of
the item, which finds the item current and comes here (``pipeline.py``); when the job is retried later and succeeds, the
extract handler's result replaces this one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from agent import ids
from agent.db.nodes import remove_vectors
from agent.ingest.score import deep_score
from agent.queue.types import NewJob, NodeRef
from agent.states import Lifecycle, SourceKind

if TYPE_CHECKING:
    from agent.db import Connection

NEEDS_NO_VECTOR = -1

# The newest row of a chunk's key decides: live work is waited for, parked work is not.
_PARKED = """
SELECT c.chunk_id, c.seq, c.source_kind, c.source_id, c.item_key, s.fast, s.signals
  FROM mem_tree_chunks AS c
  LEFT JOIN mem_tree_score AS s ON s.chunk_seq = c.seq
 WHERE c.item_seq = ?
   AND c.lifecycle = 'pending_extraction'
   AND (SELECT j.status
          FROM mem_tree_jobs AS j
         WHERE j.dedupe_key = 'extract:' || c.chunk_id
         ORDER BY j.id DESC
         LIMIT 1) IN ('failed', 'cancelled')
"""


def admit_parked_tx(connection: Connection, item_seq: int, now_ms: int) -> list[NewJob]:
    """Decide on an item's chunks whose extract jobs are parked, inside the caller's transaction.

    Return what follows from it: leaves to append and a seal for streams, the document's seal once nothing is pending.
    """
    rows = connection.all(_PARKED, (item_seq,))
    jobs: list[NewJob] = []
    for chunk_id, seq, source_kind, source_id, _, fast, signals in rows:
        decision = deep_score(fast or 0.0, json.loads(signals or "{}"), None)
        connection.run(
            """
            UPDATE mem_tree_chunks
               SET lifecycle = ?, degraded = 1,
                   embedded_signature = CASE WHEN ? THEN embedded_signature ELSE ? END
             WHERE seq = ?
            """,
            (
                str(Lifecycle.ADMITTED if decision.admitted else Lifecycle.DROPPED),
                decision.admitted,
                NEEDS_NO_VECTOR,
                seq,
            ),
        )
        if not decision.admitted:
            # It may have got them while it waited.
            remove_vectors(connection, seq)
        connection.run(
            "UPDATE mem_tree_score SET deep = ?, decided_at_ms = ? WHERE chunk_seq = ?", (decision.score, now_ms, seq)
        )
        if decision.admitted and source_kind != SourceKind.DOCUMENT:
            jobs.append(NewJob.append_buffer("source", source_id, NodeRef.leaf(chunk_id)))
    if not rows:
        return jobs
    _, _, source_kind, source_id, item_key, _, _ = rows[0]
    if source_kind != SourceKind.DOCUMENT:
        jobs.append(NewJob.seal(ids.tree_id("source", source_id), 0))
    elif not connection.value(
        "SELECT 1 FROM mem_tree_chunks WHERE item_seq = ? AND lifecycle = 'pending_extraction' LIMIT 1", (item_seq,)
    ):
        version_ms = connection.value("SELECT version_ms FROM mem_tree_items WHERE item_seq = ?", (item_seq,))
        jobs.append(NewJob.seal_document(f"{source_id}/{item_key}", version_ms))
    return jobs
