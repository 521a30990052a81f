"""``extract_chunk``: what a chunk names, how much it matters, and whether it is admitted (lanes 2 and 6).

Admission opens the way down: a chunk of mail or chat goes to its source's buffer, a document is sealed once none of its
chunks is pending. The built-in rules read every chunk; where the active profile calls a model, it is asked about those
whose score leaves it open how much they are worth, several in one call. A chunk whose job was parked has been admitted
on its fast score meanwhile, marked degraded (``ingest/admission.py``), and so has one that a model was asked about in
vain: when the job is tried again, what was missing is filled in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from agent.db.nodes import remove_vectors
from agent.ids import tree_id
from agent.ingest.admission import NEEDS_NO_VECTOR
from agent.ingest.score import deep_score, is_doubtful
from agent.ingest.sweeps import sweep_extract
from agent.queue.registry import JobSpec
from agent.queue.types import NOTHING_TO_DO, Defer, ExtractChunkPayload, Job, NewJob, NodeRef, Plan
from agent.states import JobKind, Lifecycle
from agent.tree.degraded import times
from agent.tree.due import level_is_due
from agent.tree.request import calls_model
from agent.tree.seal import above_gap_ms
from agent.tree.store import find_tree
from agent.tree.waiting import chunks_pending, is_stream
from agent.worker.profile import active_profile, arm_reembed

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.ingest.score import DeepScore
    from agent.models.extracting import Extracted, ToExtract
    from agent.models.protocol import Extraction, Profile
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


@dataclass(frozen=True)
class _Read:
    """A row and its chunk as the rules read it. ``asked`` is what a model is asked, ``None`` where nothing is open."""

    job: Job
    chunk: _Chunk
    profile: Profile
    first: Extraction
    asked: ToExtract | None


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that admits or drops the payload's chunk; nothing to do where that is decided already."""
    (plan,) = handle_batch(context, [job])
    if isinstance(plan, Exception):
        raise plan
    return plan


def handle_batch(context: JobContext, jobs: Sequence[Job]) -> list[Plan | Exception]:
    """Return one plan for each row; settling applies them in one transaction, each on its own. One call at most.

    A call that is put off or fails is the matter of the rows in it alone: what the rules decide is settled.
    """
    profiles: dict[str, Profile] = {}
    rows: list[_Read | None] = []
    for job in jobs:
        context.check()
        context.begin(job)
        rows.append(_read(context, job, profiles))
    answers = _ask(context, [row for row in rows if row is not None and row.asked is not None])
    return [NOTHING_TO_DO if row is None else _plan(context, row, answers.get(row.chunk.chunk_id)) for row in rows]


def _read(context: JobContext, job: Job, profiles: dict[str, Profile]) -> _Read | None:
    chunk = _load(context.connection, job.payload(ExtractChunkPayload).chunk_id)
    if chunk is None or not chunk.is_open:
        return None
    # A private source has another profile than its neighbours in the batch, where the active one is a cloud's.
    profile = profiles.get(chunk.source_id)
    if profile is None:
        profile = profiles[chunk.source_id] = active_profile(context, JobKind.EXTRACT_CHUNK, [chunk.source_id])
    first = profile.extractor.extract(chunk.text, title=chunk.title, author=chunk.author)
    asked = None
    if calls_model(profile.extractor) and is_doubtful(deep_score(chunk.fast, chunk.signals, first)):
        from agent.models.extracting import ToExtract

        asked = ToExtract(chunk.chunk_id, chunk.source_id, chunk.text, first, chunk.title, chunk.author)
    return _Read(job, chunk, profile, first, asked)


def _ask(context: JobContext, rows: Sequence[_Read]) -> dict[str, Extracted]:
    """Return what became of the chunks that a model is asked about, by chunk id."""
    if not rows:
        return {}
    # A death in the call counts against the row that is asked about first.
    context.begin(rows[0].job)
    extractor: Any = rows[0].profile.extractor
    found = extractor.extract_many([row.asked for row in rows])
    return {row.chunk.chunk_id: each for row, each in zip(rows, found, strict=True)}


def _plan(context: JobContext, row: _Read, answer: Extracted | None) -> Plan | Exception:
    if answer is None:
        return _decide(context, row, row.first)
    if answer.failure is not None:
        return answer.failure
    if answer.waits:
        return Plan(outcome=Defer(context.clock.now_ms(), answer.waits))
    return _decide(context, row, answer.extraction, judged=answer.judged, degraded=answer.degraded)


def _decide(
    context: JobContext, row: _Read, extraction: Extraction, *, judged: bool = False, degraded: bool = False
) -> Plan:
    chunk, profile = row.chunk, row.profile
    decided = deep_score(chunk.fast, chunk.signals, extraction, judged=judged)
    intent, now_ms = context.intent, context.clock.now_ms()

    def writes(connection: Connection) -> list[NewJob]:
        lifecycle = _take_in(connection, chunk, extraction, decided, now_ms, times(chunk.degraded, degraded))
        if lifecycle is None:
            return []
        jobs = _follow_ups(connection, chunk, lifecycle, intent)
        if lifecycle is not Lifecycle.DROPPED:
            jobs += arm_reembed(context, profile)
        return jobs

    return Plan(writes)


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
    connection: Connection, chunk: _Chunk, extraction: Extraction, decided: DeepScore, now_ms: int, degraded: int
) -> Lifecycle | None:
    """Write score, entities and lifecycle; return the decision, ``None`` where none was open any more.

    ``degraded`` is how often in a row the rules stood in for a model (``tree/degraded.py``).
    """
    lifecycle = Lifecycle.ADMITTED if decided.admitted else Lifecycle.DROPPED
    is_decided = connection.run(
        "UPDATE mem_tree_chunks SET lifecycle = ?, degraded = ? WHERE seq = ? AND lifecycle = 'pending_extraction'",
        (lifecycle, degraded, chunk.seq),
    )
    # Let in without extraction before: what is in the tree stays there, only what was missing is filled in.
    if not is_decided and not connection.run(
        "UPDATE mem_tree_chunks SET degraded = ? WHERE seq = ? AND degraded > 0", (degraded, chunk.seq)
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
