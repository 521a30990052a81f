"""A memory without readers and models: items and chunks put in by hand, jobs run in any order, leases lost at will."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent import ids
from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Connection
from agent.db.nodes import detach_node, remove_chunk
from agent.db.text_index import add_text
from agent.models.protocol import SummaryRequest, SummaryText
from agent.paths import Paths
from agent.queue.types import (
    AppendBufferPayload,
    FlushStalePayload,
    NewJob,
    NodeRef,
    Plan,
    SealDocumentPayload,
    SealPayload,
    StalePlan,
)
from agent.states import ItemState, JobKind, Lifecycle, SourceKind
from agent.tokens import count_tokens
from agent.tree.append import plan_append
from agent.tree.documents import plan_seal_document
from agent.tree.flush import close_all_tails, plan_flush_stale, unfinished
from agent.tree.seal import plan_seal

T0 = 1_600_000_000_000


class Digest:
    """A summariser whose text names all of its children: any difference below shows above."""

    def __init__(self, signature: str = "test:digest@1", calls_model: bool = False) -> None:
        self.signature = signature
        self.calls_model = calls_model
        self.requests: list[SummaryRequest] = []

    def summarise(self, request: SummaryRequest) -> SummaryText:
        self.requests.append(request)
        whole = "\n".join(f"{child.title}|{child.author}|{child.time_ms}|{child.text}" for child in request.children)
        mark = hashlib.sha256(whole.encode()).hexdigest()[:16]
        text = f"Level {request.level} of {len(request.children)}: {mark}. " + "A summary of middling length. " * 12
        return SummaryText(text, None, count_tokens(text))


@dataclass
class Context:
    """A job context whose lease a test can take away."""

    connection: Connection
    clock: FakeClock
    paths: Paths
    intent: Intent = field(default_factory=Intent)
    shared: dict[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        return

    def begin(self, job: object) -> None:
        return


def body(seed: int, tokens: int = 80) -> str:
    """Return a text of about that many tokens that belongs to one seed."""
    chance = random.Random(seed)
    words = [f"w{chance.randrange(1000):03d}" for _ in range(tokens)]
    return f"Note {seed}. " + " ".join(words)


class Garden:
    """The memory under test and the jobs that wait for it."""

    def __init__(
        self,
        connection: Connection,
        clock: FakeClock,
        paths: Paths,
        summariser: Digest | None = None,
        built_in: Digest | None = None,
    ) -> None:
        self.connection = connection
        self.clock = clock
        self.context = Context(connection, clock, paths)
        self.summariser = summariser or Digest()
        self.built_in = built_in
        self.jobs: dict[str, NewJob] = {}
        self.ran: list[NewJob] = []

    # Putting things in, as ingest and extract do.

    def item(
        self, source: str, key: str, kind: SourceKind, sort_key: bytes, state: ItemState = ItemState.CURRENT
    ) -> int:
        connection = self.connection
        with connection.write():
            connection.run(
                """
                INSERT INTO mem_tree_items (
                  source_id, item_key, source_kind, place, sort_key, held_hash, version_ms, state
                ) VALUES (?, ?, ?, '{}', ?, ?, ?, ?)
                ON CONFLICT (source_id, item_key) DO UPDATE
                   SET held_hash = excluded.held_hash, version_ms = excluded.version_ms, state = excluded.state
                """,
                (source, key, kind, sort_key, ids.random_id(), self.clock.now_ms(), state),
            )
        seq: int = connection.value(
            "SELECT item_seq FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (source, key)
        )
        return seq

    def chunk(
        self,
        source: str,
        key: str,
        text: str,
        order: int,
        *,
        lifecycle: Lifecycle = Lifecycle.ADMITTED,
        break_key: int = 0,
        time_ms: int | None = None,
        title: str | None = None,
    ) -> str:
        connection = self.connection
        seq, kind, sort_key = connection.one(  # type: ignore[misc]
            "SELECT item_seq, source_kind, sort_key FROM mem_tree_items WHERE source_id = ? AND item_key = ?",
            (source, key),
        )
        body_hash = ids.content_hash(text)
        position = connection.value(
            "SELECT count(*) FROM mem_tree_chunks WHERE item_seq = ? AND body_hash = ?", (seq, body_hash)
        )
        chunk_id = ids.chunk_id(kind, source, key, position, body_hash)
        with connection.write():
            connection.run(
                """
                INSERT INTO mem_tree_chunks (
                  chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                  break_key, time_ms, title, locator, tokens, text, lifecycle, created_at_ms
                ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '{}', ?, ?, ?, ?)
                """,
                (
                    chunk_id,
                    kind,
                    source,
                    key,
                    seq,
                    position,
                    body_hash,
                    order,
                    sort_key,
                    break_key,
                    time_ms,
                    title,
                    count_tokens(text),
                    text,
                    lifecycle,
                    self.clock.now_ms(),
                ),
            )
            add_text(connection, connection.last_id, title, None, text)
        return chunk_id

    def mail(
        self,
        source: str,
        at: int,
        text: str | None = None,
        *,
        key: str | None = None,
        break_key: int = 0,
        lifecycle: Lifecycle = Lifecycle.ADMITTED,
        append: bool = True,
    ) -> str:
        """Put in a mail of one chunk that stands at a second, and ask for its append."""
        key = key or f"mail-{at:06d}"
        time_ms = T0 + at * 1000
        self.item(source, key, SourceKind.EMAIL, (time_ms + 2**62).to_bytes(8, "big") + key.encode())
        chunk = self.chunk(
            source,
            key,
            text if text is not None else body(at),
            1 << 20,
            break_key=break_key,
            time_ms=time_ms,
            title=f"Mail {at}",
            lifecycle=lifecycle,
        )
        if append and lifecycle is Lifecycle.ADMITTED:
            self.enqueue(NewJob.append_buffer("source", source, NodeRef.leaf(chunk)))
        return chunk

    def decide(self, source: str, chunk: str, *, admitted: bool) -> None:
        """Decide on a pending mail as extract does."""
        with self.connection.write():
            self.connection.run(
                "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ?",
                (Lifecycle.ADMITTED if admitted else Lifecycle.DROPPED, chunk),
            )
        if admitted:
            self.enqueue(NewJob.append_buffer("source", source, NodeRef.leaf(chunk)))
        self.enqueue(NewJob.seal(ids.tree_id("source", source), 0))

    def drop_mail(self, source: str, chunk: str) -> None:
        """Take a mail out, as ingest does when it is gone."""
        with self.connection.write():
            remove_chunk(self.connection, chunk)
        self.enqueue(NewJob.seal(ids.tree_id("source", source), 0))

    def document(self, source: str, key: str, texts: Sequence[str], breaks: Sequence[int] | None = None) -> None:
        """Put in a version of a document; chunks that stay keep their order keys, new ones come between."""
        sort_key = key.replace("/", "\x00").encode()
        item = self.item(source, key, SourceKind.DOCUMENT, sort_key)
        old = dict(self.connection.all("SELECT text, order_key FROM mem_tree_chunks WHERE item_seq = ?", (item,)))
        kept = [text for text in texts if text in old]
        with self.connection.write():
            for chunk_id, text in self.connection.all(
                "SELECT chunk_id, text FROM mem_tree_chunks WHERE item_seq = ?", (item,)
            ):
                if text not in texts:
                    remove_chunk(self.connection, chunk_id)
        assert [old[text] for text in kept] == sorted(old[text] for text in kept)
        low = 0
        for at, text in enumerate(texts):
            if text in old:
                low = old[text]
                continue
            high = next((old[later] for later in texts[at + 1 :] if later in old), None)
            order = low + (1 << 20) if high is None else (low + high) // 2
            assert order > low
            self.chunk(source, key, text, order, break_key=breaks[at] if breaks else 0, title=key)
            low = order
        version = self.connection.value("SELECT version_ms FROM mem_tree_items WHERE item_seq = ?", (item,))
        self.enqueue(NewJob.seal_document(f"{source}/{key}", version))

    # Running jobs, as workers do.

    def enqueue(self, *jobs: NewJob) -> None:
        for job in jobs:
            assert job.dedupe_key is not None
            self.jobs.setdefault(job.dedupe_key, job)

    def plan(self, job: NewJob) -> Plan:
        handlers: dict[str, Callable[[], Plan]] = {
            JobKind.APPEND_BUFFER: lambda: plan_append(self.context, _read(job, AppendBufferPayload)),
            JobKind.SEAL: lambda: plan_seal(self.context, _read(job, SealPayload), self.summariser, self.built_in),
            JobKind.SEAL_DOCUMENT: lambda: plan_seal_document(
                self.context, _read(job, SealDocumentPayload), self.summariser, self.built_in
            ),
            JobKind.FLUSH_STALE: lambda: plan_flush_stale(self.context, _read(job, FlushStalePayload)),
        }
        return handlers[job.kind]()

    def settle(self, job: NewJob, plan: Plan) -> bool:
        """Apply a plan in one transaction and enqueue what follows; return whether it was applied."""
        try:
            with self.connection.write():
                more = plan.writes(self.connection) if plan.writes is not None else None
        except StalePlan:
            self.enqueue(job)
            return False
        self.ran.append(job)
        self.enqueue(*plan.follow_ups, *(more or ()))
        return True

    def run(self, job: NewJob) -> bool:
        assert job.dedupe_key is not None
        self.jobs.pop(job.dedupe_key, None)
        return self.settle(job, self.plan(job))

    def run_appends(self) -> None:
        """Run the appends alone; what they ask for waits."""
        while appends := [job for job in self.jobs.values() if job.kind == JobKind.APPEND_BUFFER]:
            self.run(appends[0])

    def drain(self, limit: int = 20_000) -> None:
        """Run all jobs in the order of the queue: what is downstream first."""
        for _ in range(limit):
            if not self.jobs:
                return
            rank = {JobKind.SEAL: 1, JobKind.FLUSH_STALE: 2, JobKind.APPEND_BUFFER: 3}
            self.run(min(self.jobs.values(), key=lambda job: rank.get(JobKind(job.kind), 4)))
        raise AssertionError("the jobs do not come to rest")

    def finish(self) -> None:
        """Run everything and close all tails, as ``run --once`` does."""
        for _ in range(100):
            self.drain()
            jobs = close_all_tails(self.connection, self.clock.now_ms())
            if not jobs:
                break
            self.enqueue(*jobs)
        assert unfinished(self.connection) == []

    def scramble(self, chance: random.Random, workers: int = 3, lost: float = 0.1) -> None:
        """Run all jobs in random order, several at once, some of them losing their lease before they settle."""
        flying: list[tuple[NewJob, Plan]] = []
        for _ in range(50_000):
            ready = [job for key, job in self.jobs.items() if not any(key == one.dedupe_key for one, _ in flying)]
            if not ready and not flying:
                return
            if ready and (len(flying) < workers) and (not flying or chance.random() < 0.6):
                job = chance.choice(ready)
                self.jobs.pop(str(job.dedupe_key))
                flying.append((job, self.plan(job)))
                continue
            job, plan = flying.pop(chance.randrange(len(flying)))
            if chance.random() < lost:
                self.enqueue(job)
                continue
            self.settle(job, plan)
        raise AssertionError("the jobs do not come to rest")

    # Looking.

    def fingerprints(self) -> set[tuple[str, str]]:
        rows = self.connection.all("SELECT summary_id, text FROM mem_tree_summaries")
        return {(summary, hashlib.sha256(text.encode()).hexdigest()) for summary, text in rows}

    def shape(self, source: str) -> list[list[str]]:
        """Return the node ids of each level of a source's tree."""
        seq = self.connection.value(
            "SELECT tree_seq FROM mem_tree_trees WHERE tree_id = ?", (ids.tree_id("source", source),)
        )
        rows = self.connection.all(
            """
            SELECT level, sort_key, node_id FROM mem_tree_edges WHERE tree_seq = ?1
            UNION ALL SELECT level, sort_key, node_id FROM mem_tree_buffers WHERE tree_seq = ?1
            ORDER BY 1, 2
            """,
            (seq,),
        )
        levels: dict[int, list[str]] = {}
        for level, _, node in rows:
            levels.setdefault(level, []).append(node)
        return [levels[level] for level in sorted(levels)]

    def detach(self, chunk: str) -> None:
        with self.connection.write():
            detach_node(self.connection, chunk)


def _read(job: NewJob, kind: type[Any]) -> Any:
    return msgspec.json.decode(json.dumps(json.loads(job.payload_json)), type=kind)
