"""An embedding model in this process: each word has a direction of its own, and it refuses what it is told to."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent, SourceIntent
from agent.db import Connection
from agent.db.serving import serving_signature, signature_number
from agent.errors import JobFailure
from agent.models.keys import FakeKeys
from agent.models.profiles import open_profile
from agent.models.providers.protocol import EmbedAnswer, Endpoint
from agent.models.surroundings import KEYS_KEY, OPENER_KEY
from agent.paths import Paths
from agent.profile_intent import ProfileIntent
from agent.queue import LocalContext
from agent.queue.enqueue import enqueue, enqueue_many_tx
from agent.queue.registry import Registry, SweepContext
from agent.queue.run import run_once
from agent.queue.types import NewJob
from agent.worker.handlers.reembed_backfill import SPEC
from agent.worker.reembed_sweep import sweep_reembed

DIMENSIONS = 256
LOCAL = ProfileIntent("box", "ollama", "small", embedding_model="words", embedding_dimensions=DIMENSIONS)
SECOND = ProfileIntent("second", "ollama", "small", embedding_model="letters", embedding_dimensions=DIMENSIONS)
CLOUD = ProfileIntent(
    *("far", "openai", "large", "cloudy", DIMENSIONS),
    consent="api.openai.com",
    key="",
    base_url="https://api.openai.com/v1",
)
PROFILES = (LOCAL, SECOND, CLOUD)
NOTES = SourceIntent("notes", "folder", "notes", ("/nowhere",))
DIARY = SourceIntent("diary", "folder", "diary", ("/nowhere-else",), private=True)


def vector(text: str, model: str, dimensions: int = DIMENSIONS) -> list[float]:
    """Return the sum of the directions of a text's words in the space of one model."""
    total = [0.0] * dimensions
    for word in text.casefold().replace(".", " ").split():
        chance = random.Random(zlib.crc32(f"{model} {word}".encode()))
        total = [have + chance.gauss(0, 1) for have in total]
    return total


@dataclass
class EmbeddingServer:
    """A provider. ``refuses``: words whose text it answers with that failure; ``silent``: with a vector of NaN."""

    asked: list[tuple[str, ...]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)
    silent: set[str] = field(default_factory=set)
    out: JobFailure | None = None
    dimensions: int = DIMENSIONS

    def open(self, endpoint: Endpoint) -> _Opened:
        return _Opened(self, endpoint.embedding_model)

    @property
    def texts(self) -> list[str]:
        return [text for each in self.asked for text in each]


@dataclass
class _Opened:
    server: EmbeddingServer
    model: str

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        server = self.server
        server.asked.append(tuple(texts))
        server.models.append(self.model)
        if server.out is not None:
            raise server.out
        for word, code in server.refuses.items():
            if any(word in text for text in texts):
                make = JobFailure.unrecoverable if code == "context_overflow" else JobFailure.transient
                raise make(code, title=f"it says {code}")
        found = [
            [math.nan] * server.dimensions
            if any(word in text for word in server.silent)
            else vector(text, self.model, server.dimensions)
            for text in texts
        ]
        return EmbedAnswer(found, sum(len(text.split()) for text in texts))

    async def close(self) -> None:
        """Nothing is open."""


@dataclass
class Switching:
    """A memory whose owner changes the embedding model. ``turn`` runs one job of the back-fill, settled."""

    context: LocalContext
    clock: FakeClock
    server: EmbeddingServer

    @property
    def connection(self) -> Connection:
        return self.context.connection

    @property
    def wanted(self) -> str:
        return open_profile(self.context.intent, {}).embedder.signature

    @property
    def serving(self) -> str:
        return serving_signature(self.connection, "")

    def use(self, name: str, *sources: SourceIntent) -> None:
        self.context.intent = Intent(
            models=ModelsIntent(active=name), profiles=PROFILES, sources=sources or (NOTES, DIARY)
        )

    def sweep(self) -> bool:
        now_ms = self.clock.now_ms()
        found = list(sweep_reembed(SweepContext(self.connection, self.context.intent, now_ms, 10)))
        with self.connection.write():
            return bool(enqueue_many_tx(self.connection, found, now_ms))

    def arm(self) -> None:
        enqueue(self.connection, NewJob.reembed_backfill(self.wanted), self.clock.now_ms())

    def turn(self) -> bool:
        self.clock.advance(0.751)
        return run_once(self.connection, Registry.of([SPEC]), self.context)

    def finish(self, most: int = 200) -> int:
        """Sweep and run until nothing is due; return how many jobs ran."""
        ran = 0
        while True:
            self.sweep()
            if not self.turn():
                return ran
            ran += 1
            assert ran < most, self.row()

    def row(self) -> tuple[object, ...]:
        return self.connection.all(
            """
            SELECT status, attempts, failure_reason, last_error, progress_at_ms
              FROM mem_tree_jobs
             ORDER BY id DESC
             LIMIT 1
            """
        )[0]

    def nodes_at(self, signature: str) -> list[int]:
        """Which nodes have vectors at a signature."""
        number = signature_number(self.connection, signature)
        sql = "SELECT node FROM mem_tree_vectors WHERE signature_id = ? AND windows <> x'' ORDER BY node"
        return [node for (node,) in self.connection.all(sql, (number,))]

    def refused(self) -> list[int]:
        return [n for (n,) in self.connection.all("SELECT node FROM mem_tree_vectors WHERE windows = x''")]

    def held(self) -> list[int | None]:
        """``embedded_signature`` of all chunks."""
        return [held for (held,) in self.connection.all("SELECT embedded_signature FROM mem_tree_chunks ORDER BY seq")]


def switching(connection: Connection, clock: FakeClock, paths: Paths) -> Switching:
    """Return a memory with nothing in it whose owner uses the built-in table."""
    server = EmbeddingServer()
    shared = {OPENER_KEY: server.open, KEYS_KEY: FakeKeys(openai="not-a-real-key")}
    found = Switching(LocalContext(connection, clock, Intent(), paths, shared), clock, server)
    found.use("builtin")
    return found
