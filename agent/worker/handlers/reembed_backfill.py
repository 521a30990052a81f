"""``reembed_backfill``: vectors for what has none at the wanted signature, batch by batch until all is covered.

Then the signature takes over from the one that served searches until now, and that one's vectors go, batch by batch.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.db.serving import number_signature_tx, remove_spare_tx, serving_signature, set_serving_tx, signature_number
from agent.models.protocol import AsksModel
from agent.queue.registry import JobSpec
from agent.queue.types import (
    NOTHING_TO_DO,
    REEMBED_BACKFILL_REVISIT_MS,
    REEMBED_MAX_ATTEMPTS,
    Defer,
    Job,
    NewJob,
    Plan,
    ReembedBackfillPayload,
)
from agent.states import JobKind
from agent.worker.embedding_batch import Batch, Embedded, embed_by_model, embed_by_table, widen_tx
from agent.worker.profile import active_profile
from agent.worker.reembed_sweep import (
    Unembedded,
    Wanted,
    is_due,
    mark_private_tx,
    nodes_without_vector,
    note_marked_tx,
    sweep_reembed,
    wanted_of,
)

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import JobContext

NODES_A_RUN = 512
SPARE_A_RUN = 4_000  # nodes whose old vectors go in one transaction: some 20 ms, where 100,000 at once take a second
REUSED_A_RUN = 4_000


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that stores the vectors of the next nodes: 512, what two seconds allow, or one call of a model.

    Defers by 750 ms where rows were written and more remain (the seed: no new row, so that its dedupe key stays);
    otherwise it is done. A chain at a signature that is no longer the wanted one ends.
    """
    profile = active_profile(context, str(JobKind.REEMBED_BACKFILL))
    embedder, wanted = profile.embedder, wanted_of(context.intent, profile)
    if job.payload(ReembedBackfillPayload).signature != wanted.signature:
        return NOTHING_TO_DO
    connection = context.connection
    waiting = nodes_without_vector(connection, wanted.signature, NODES_A_RUN + 1, wanted.sources)
    if not waiting and not is_due(connection, wanted):
        return NOTHING_TO_DO
    taken = waiting[:NODES_A_RUN]
    kept = _with_vectors(connection, wanted.signature, taken)
    private = [each.node for each in taken if each.node not in kept and not wanted.may_embed(each.source_id)]
    barred = kept.union(private)
    asked = [each for each in taken if each.node not in barred]
    batch = Batch([])
    if asked and isinstance(embedder, AsksModel):
        batch = embed_by_model(context, embedder, embedder, asked, all_nodes=len(waiting) == len(taken))
    elif asked:
        batch = embed_by_table(context, embedder, asked)
    soon = context.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS
    if batch.shrunk and not barred:
        return Plan(outcome=Defer(soon, "the model refused some text of a batch; a smaller one is tried"))
    is_last = len(barred) + len(batch.embedded) == len(waiting)

    def writes(connection: Connection) -> list[NewJob]:
        if batch.embedded:
            _store(connection, wanted.signature, batch.embedded)
            widen_tx(connection, wanted.signature)
        if kept:
            _take_back(connection, wanted.signature)
        if private:
            mark_private_tx(connection, wanted, private)
        return _finish(connection, wanted, soon)

    if is_last:
        return Plan(writes)
    return Plan(writes, outcome=Defer(soon, "more nodes to embed"))


def _with_vectors(connection: Connection, signature: str, nodes: Sequence[Unembedded]) -> frozenset[int]:
    """Return those of some nodes whose vectors at the signature are still there: its owner changed their mind."""
    number = signature_number(connection, signature)
    held = [each.node for each in nodes if each.held is not None]
    if number is None or not held:
        return frozenset()
    rows = connection.all(
        """
        SELECT v.node
          FROM json_each(?2) AS wanted
         CROSS JOIN mem_tree_vectors AS v ON v.signature_id = ?1 AND v.node = wanted.value
        """,
        (number, json.dumps(held)),
    )
    return frozenset(node for (node,) in rows)


def _take_back(connection: Connection, signature: str) -> None:
    """Count nodes as embedded at the signature whose vectors there are left, some thousands at once.

    A node's text never changes under its number, so that vectors under it are always those of its text.
    """
    number = number_signature_tx(connection, signature)
    for statement in _TAKE_BACK:
        connection.run(statement, (number, REUSED_A_RUN))


_TAKE_BACK = tuple(
    f"""
    UPDATE mem_tree_{table} SET embedded_signature = ?1
     WHERE seq IN (
       SELECT n.seq
         FROM mem_tree_{table} AS n
        WHERE n.embedded_signature {held}
          AND EXISTS (SELECT 1 FROM mem_tree_vectors AS v WHERE v.signature_id = ?1 AND v.node = {sign}n.seq)
        LIMIT ?2
     )
    """
    for table, sign in (("chunks", ""), ("summaries", "-"))
    for held in ("= -2", "> 0 AND n.embedded_signature < ?1", "> ?1")
)


def _finish(connection: Connection, wanted: Wanted, soon_ms: int) -> list[NewJob]:
    """Let the signature take over where it covers all that is served, and let go of what serves nobody.

    Inside the settle transaction: a search sees the old vectors or the new ones, whole. Returns the follow-up that goes
    on with removing.
    """
    signature, sources = wanted.signature, wanted.sources
    serving = serving_signature(connection, "")
    if serving != signature and (not serving or not nodes_without_vector(connection, signature, 1, sources, held=True)):
        set_serving_tx(connection, signature)
    if not nodes_without_vector(connection, signature, 1, sources):
        note_marked_tx(connection, wanted)
    if not remove_spare_tx(connection, signature, SPARE_A_RUN):
        return []
    return [replace(NewJob.reembed_backfill(signature), available_at_ms=soon_ms)]


def _store(connection: Connection, signature: str, embedded: Sequence[Embedded]) -> None:
    """Write vectors inside the settle transaction, only for nodes that still exist with the same text."""
    number = number_signature_tx(connection, signature)
    chunks = [each for each in embedded if each.node > 0]
    summaries = [each for each in embedded if each.node < 0]
    connection.many(
        """
        UPDATE mem_tree_chunks SET embedded_signature = ?1
         WHERE seq = ?2 AND text = ?3 AND lifecycle <> 'dropped'
        """,
        [(number, each.node, each.text) for each in chunks],
    )
    connection.many(
        "UPDATE mem_tree_summaries SET embedded_signature = ?1 WHERE seq = ?2 AND text = ?3",
        [(number, -each.node, each.text) for each in summaries],
    )
    connection.many(
        """
        INSERT INTO mem_tree_vectors (signature_id, node, windows)
        SELECT ?1, ?2, ?3
         WHERE EXISTS (SELECT 1 FROM mem_tree_chunks WHERE seq = ?2 AND embedded_signature = ?1 AND text = ?4)
            ON CONFLICT (signature_id, node) DO UPDATE SET windows = excluded.windows
        """,
        [(number, each.node, each.windows, each.text) for each in chunks if each.windows or each.is_refused],
    )
    connection.many(
        """
        INSERT INTO mem_tree_vectors (signature_id, node, windows)
        SELECT ?1, ?2, ?3
         WHERE EXISTS (SELECT 1 FROM mem_tree_summaries WHERE seq = -?2 AND embedded_signature = ?1 AND text = ?4)
            ON CONFLICT (signature_id, node) DO UPDATE SET windows = excluded.windows
        """,
        [(number, each.node, each.windows, each.text) for each in summaries if each.windows or each.is_refused],
    )


SPEC = JobSpec(
    kind=JobKind.REEMBED_BACKFILL,
    handle=handle,
    llm_bound=True,
    max_attempts=REEMBED_MAX_ATTEMPTS,
    time_limit_s=120.0,
    sweep=sweep_reembed,
)
