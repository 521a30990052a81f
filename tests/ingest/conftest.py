"""A memory that only ingests: sources on the disk, the real queue, no model anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, SourceIntent
from agent.db import Connection, Database
from agent.ingest.pipeline import plan_ingest
from agent.ingest.removal import REMOVAL
from agent.ingest.sweeps import sweep_ingest, sweep_sync
from agent.ingest.sync import plan_sync
from agent.models.profiles import open_profile
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.registry import JobSpec, Registry, SweepContext
from agent.queue.run import LocalContext, drain_until_idle
from agent.queue.sweep import sweep
from agent.queue.types import IngestFilePayload, NewJob, SyncSourcePayload
from agent.tree.check import problems
from agent.tree.flush import close_all_tails, unfinished
from agent.worker.kinds import KIND_NAMES
from tests.naive.builder import grow_memory, sha256


@dataclass
class Memory:
    """A home with sources, driven in the test's own process."""

    context: LocalContext
    folder: Path
    run_limit: int = 2_000
    ingested: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def connection(self) -> Connection:
        return self.context.connection

    @property
    def registry(self) -> Registry:
        def ingest(context: Any, job: Any) -> Any:
            payload = job.payload(IngestFilePayload)
            leaving = job.input_hash == REMOVAL
            (self.removed if leaving else self.ingested).append(payload.item_key)
            return plan_ingest(context, payload)

        return Registry.of(
            [
                JobSpec(
                    "sync_source",
                    lambda context, job: plan_sync(context, job.payload(SyncSourcePayload), run_limit=self.run_limit),
                    sweep=sweep_sync,
                ),
                JobSpec("ingest_file", ingest, sweep=sweep_ingest),
                # Never claimed here: nothing in this room may need a model.
            ]
        )

    def add(self, source_id: str, kind: str, *paths: Path, **more: Any) -> None:
        source = SourceIntent(source_id, kind, source_id, tuple(map(str, paths)), **more)
        others = tuple(other for other in self.context.intent.sources if other.id != source_id)
        self.context.intent = replace(self.context.intent, sources=(*others, source))

    def sync(self, *source_ids: str) -> int:
        """Look at the sources and ingest what changed; return how many items were ingested."""
        before = len(self.ingested)
        for source_id in source_ids or [source.id for source in self.context.intent.sources]:
            enqueue(self.connection, NewJob.sync_source(source_id), self.context.clock.now_ms())
        drain_until_idle(self.context, self.registry)
        return len(self.ingested) - before

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def chunks(self, source_id: str | None = None, item_key: str | None = None) -> list[dict[str, Any]]:
        """Return the chunks in the order of their items and places."""
        columns = (
            "seq, chunk_id, source_id, item_key, position, order_key, time_ms, author, reference, title, heading_path,"
            " locator, tokens, text, lifecycle, break_key"
        )
        rows = self.connection.all(
            f"SELECT {columns} FROM mem_tree_chunks"
            " WHERE (?1 IS NULL OR source_id = ?1) AND (?2 IS NULL OR item_key = ?2) ORDER BY sort_key, order_key",
            (source_id, item_key),
        )
        found = [dict(zip(columns.replace(" ", "").split(","), row, strict=True)) for row in rows]
        for row in found:
            row["locator"] = json.loads(row["locator"])
        return found

    def items(self, source_id: str | None = None) -> dict[str, str]:
        """Return the state of each item by its key."""
        rows = self.connection.all(
            "SELECT item_key, state FROM mem_tree_items WHERE ?1 IS NULL OR source_id = ?1 ORDER BY sort_key",
            (source_id,),
        )
        return dict(rows)

    def jobs(self, kind: str, status: str = "ready") -> list[str]:
        rows = self.connection.all(
            "SELECT dedupe_key FROM mem_tree_jobs WHERE kind = ? AND status = ? ORDER BY id", (kind, status)
        )
        return [row[0] for row in rows]

    def sweep_context(self, limit: int = 500) -> SweepContext:
        return SweepContext(self.connection, self.context.intent, self.context.clock.now_ms(), limit)

    def dump(self) -> list[Any]:
        """Return every row that ingesting writes, for comparisons."""
        return [
            self.connection.all(f"SELECT * FROM {table} ORDER BY 1, 2")
            for table in ("mem_tree_items", "mem_tree_chunks", "mem_tree_score", "mem_tree_files")
        ] + self.connection.all("SELECT count(*) FROM mem_tree_text")


@pytest.fixture
def memory(database: Database, paths: Paths, clock: FakeClock, tmp_path: Path) -> Memory:
    folder = tmp_path / "source"
    folder.mkdir()
    return Memory(LocalContext(database.connection, clock, Intent(), paths), folder)


class Grown(Memory):
    """A memory with every kind of job and the built-in models: what a look starts is carried through to the trees."""

    def grow(self, *source_ids: str) -> None:
        """Look at the sources and let everything grow that follows, lost work found by the sweeps."""
        for source_id in source_ids or [source.id for source in self.context.intent.sources]:
            enqueue(self.connection, NewJob.sync_source(source_id), self.context.clock.now_ms())
        self.settle_down()

    def settle_down(self) -> None:
        """Let everything grow that any job or any row asks for."""
        registry = Registry.load(KIND_NAMES)
        for _ in range(20):
            drain_until_idle(self.context, registry, flush=close_all_tails)
            if not sweep(self.connection, registry, self.context.intent, self.context.clock.now_ms()):
                break
        assert unfinished(self.connection) == []
        self.assert_as_naive()

    def assert_as_naive(self) -> None:
        """The trees are those of the naive builder over what is held, and no invariant is broken."""
        naive = grow_memory(self.connection, open_profile(self.context.intent, {}).summariser)
        rows = self.connection.all("SELECT summary_id, text FROM mem_tree_summaries")
        assert {(summary, sha256(text)) for summary, text in rows} == naive.fingerprints()
        roots = self.connection.all("SELECT tree_id, root_id FROM mem_tree_trees WHERE root_id IS NOT NULL")
        assert dict(roots) == naive.roots
        assert problems(self.connection) == []

    def count(self, table: str, where: str = "1") -> int:
        found: int = self.connection.value(f"SELECT count(*) FROM {table} WHERE {where}")
        return found


@pytest.fixture
def grown(memory: Memory) -> Grown:
    return Grown(memory.context, memory.folder)


@pytest.fixture
def mail_bytes() -> Callable[..., bytes]:
    def make(number: int = 1, body: str = "Hello there, this is a mail.", **headers: str) -> bytes:
        fields = {
            "From": "Ada Lovelace <ada@example.org>",
            "To": "john_doe@example.com",
            "Subject": f"Mail {number}",
            "Date": f"Mon, 01 Jan 2024 10:{number % 60:02d}:00 +0000",
            "Message-ID": f"<m{number}@example.org>",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
        return f"{head}\n{body}\n".encode()

    return make


def paragraphs(count: int, *, seed: int = 1, words: int = 60) -> list[str]:
    """Return so many paragraphs of made-up words, always the same for a seed."""
    import random

    chance = random.Random(seed)
    vocabulary = [
        "".join(chance.choice("abcdefghijklmnoprstuv") for _ in range(chance.randint(2, 9))) for _ in range(900)
    ]
    return [
        " ".join(chance.choice(vocabulary) for _ in range(chance.randint(words // 3, words * 2))).capitalize() + "."
        for _ in range(count)
    ]
