"""``extract_chunk``: what a chunk names, how much it matters, and whether it is admitted (lanes 2 and 6).

Admission opens the way down: a chunk of mail or chat goes to its source's buffer, a document is sealed once none of its
chunks is pending. A chunk whose job was parked has been admitted on its fast score meanwhile, marked degraded
(``ingest/admission.py``): when the job is tried again, what was missing is filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agent.db.nodes import remove_vectors
from agent.ids import tree_id
from agent.ingest.admission import NEEDS_NO_VECTOR
from agent.ingest.score import deep_score
from agent.ingest.sweeps import sweep_extract
from agent.queue.registry import JobSpec
from agent.queue.types import NOTHING_TO_DO, ExtractChunkPayload, Job, NewJob, NodeRef, Plan
from agent.states import JobKind, Lifecycle
from agent.tree.due import level_is_due
from agent.tree.seal import above_gap_ms
from agent.tree.store import find_tree
from agent.tree.waiting import chunks_pending, is_stream
from agent.worker.profile import active_profile, arm_reembed

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.ingest.score import DeepScore
    from agent.models.protocol import Extraction
    from agent.queue.registry import JobContext

BATCH_SIZE = 128  # queue.extract_batch of the intent decides below it; one settle must not hold others up for long


@dataclass(frozen=True)
class _Chunk:
    """What is read of a chunk before its extraction."""

    seq: int
    chunk_id: str
    source_id: str
    source_kind: str
    item_seq: int
    item_key: str
    text: str
    title: str | None
    author: str | None
    lifecycle: str
    degraded: int
    fast: float
    signals_json: str

    @property
    def is_open(self) -> bool:
        """Whether there is something to decide or to fill in."""
        return self.lifecycle == Lifecycle.PENDING_EXTRACTION or self.degraded != 0

    @property
    def signals(self) -> dict[str, float]:
        """The signals of the fast score, and of an earlier extraction under other names."""
        return msgspec.json.decode(self.signals_json, type=dict[str, float])


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that admits or drops the payload's chunk; nothing to do where that is decided already."""
    chunk = _load(context.connection, job.payload(ExtractChunkPayload).chunk_id)
    if chunk is None or not chunk.is_open:
        return NOTHING_TO_DO
    profile = active_profile(context)
    extraction = profile.extractor.extract(chunk.text, title=chunk.title, author=chunk.author)
    decided = deep_score(chunk.fast, chunk.signals, extraction)
    intent, now_ms = context.intent, context.clock.now_ms()

    def writes(connection: Connection) -> list[NewJob]:
        lifecycle = _take_in(connection, chunk, extraction, decided, now_ms)
        if lifecycle is None:
            return []
        jobs = _follow_ups(connection, chunk, lifecycle, intent)
        if lifecycle is not Lifecycle.DROPPED:
            jobs.append(arm_reembed(context, profile))
        return jobs

    return Plan(writes)


def handle_batch(context: JobContext, jobs: Sequence[Job]) -> list[Plan]:
    """Return one plan for each row; settling applies them in one transaction, each on its own."""
    plans = []
    for job in jobs:
        context.check()
        context.begin(job)
        plans.append(handle(context, job))
    return plans


def _load(connection: Connection, chunk_id: str) -> _Chunk | None:
    row = connection.one(
        """
        SELECT c.seq, c.chunk_id, c.source_id, c.source_kind, c.item_seq, c.item_key, c.text, c.title, c.author,
               c.lifecycle, c.degraded, s.fast, s.signals
          FROM mem_tree_chunks AS c
          JOIN mem_tree_score AS s ON s.chunk_seq = c.seq
         WHERE c.chunk_id = ?
        """,
        (chunk_id,),
    )
    if row is None:
        return None
    return _Chunk(*row)


def _take_in(
    connection: Connection, chunk: _Chunk, extraction: Extraction, decided: DeepScore, now_ms: int
) -> Lifecycle | None:
    """Write score, entities and lifecycle; return the decision, ``None`` where none was open any more."""
    lifecycle = Lifecycle.ADMITTED if decided.admitted else Lifecycle.DROPPED
    is_decided = connection.run(
        "UPDATE mem_tree_chunks SET lifecycle = ?, degraded = 0 WHERE seq = ? AND lifecycle = 'pending_extraction'",
        (lifecycle, chunk.seq),
    )
    # Let in without extraction before: what is in the tree stays there, only what was missing is filled in.
    if not is_decided and not connection.run(
        "UPDATE mem_tree_chunks SET degraded = 0 WHERE seq = ? AND degraded = 1", (chunk.seq,)
    ):
        return None
    _write_score(connection, chunk, extraction, decided, now_ms)
    if lifecycle is Lifecycle.ADMITTED:
        _write_entities(connection, chunk.seq, extraction)
    elif is_decided:
        connection.run("UPDATE mem_tree_chunks SET embedded_signature = ? WHERE seq = ?", (NEEDS_NO_VECTOR, chunk.seq))
        remove_vectors(connection, chunk.seq)
    return lifecycle if is_decided else None


def _write_score(
    connection: Connection, chunk: _Chunk, extraction: Extraction, decided: DeepScore, now_ms: int
) -> None:
    # Beside the fast ones, under names of their own: a second run must find the fast ones as they were.
    signals = chunk.signals | {f"deep_{name}": value for name, value in extraction.signals.items()}
    connection.run(
        """
        UPDATE mem_tree_score
           SET deep = ?, importance = ?, signals = ?, decided_at_ms = ?
         WHERE chunk_seq = ?
        """,
        (
            decided.score,
            extraction.importance,
            msgspec.json.encode(signals).decode(),
            now_ms,
            chunk.seq,
        ),
    )


def _write_entities(connection: Connection, seq: int, extraction: Extraction) -> None:
    connection.run("DELETE FROM mem_tree_entity_index WHERE chunk_seq = ?", (seq,))
    connection.many(
        """
        INSERT INTO mem_tree_entity_index (entity, kind, chunk_seq, surface, mentions) VALUES (?, ?, ?, ?, ?)
        ON CONFLICT (entity, kind, chunk_seq) DO UPDATE SET mentions = mentions + excluded.mentions
        """,
        [(each.name, each.kind, seq, each.surface, each.mentions) for each in extraction.entities],
    )


def _follow_ups(connection: Connection, chunk: _Chunk, lifecycle: Lifecycle, intent: Intent) -> list[NewJob]:
    if not is_stream(chunk.source_kind):
        if chunks_pending(connection, chunk.item_seq):
            return []
        version_ms = connection.value("SELECT version_ms FROM mem_tree_items WHERE item_seq = ?", (chunk.item_seq,))
        return [NewJob.seal_document(f"{chunk.source_id}/{chunk.item_key}", version_ms)]
    if lifecycle is Lifecycle.ADMITTED:
        # The append looks whether a seal is due: one that came before it would close a group without this leaf.
        return [NewJob.append_buffer("source", chunk.source_id, NodeRef.leaf(chunk.chunk_id))]
    tree = find_tree(connection, tree_id("source", chunk.source_id))
    if tree is not None and level_is_due(connection, tree, 0, above_gap_ms(intent)):
        return [NewJob.seal(tree.tree_id, 0)]
    return []


SPEC = JobSpec(
    kind=JobKind.EXTRACT_CHUNK,
    handle=handle,
    llm_bound=True,
    time_limit_s=120.0,
    batch=handle_batch,
    batch_size=BATCH_SIZE,
    sweep=sweep_extract,
)
