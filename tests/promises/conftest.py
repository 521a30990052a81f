"""A whole memory driven in the test's own process: every kind of job, with a profile that counts its calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, SourceIntent
from agent.db import Connection
from agent.models.profiles import open_profile
from agent.models.protocol import Extraction, Profile, SummaryRequest, SummaryText
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.registry import Registry
from agent.queue.run import LocalContext, drain_until_idle
from agent.queue.types import NewJob
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES
from agent.worker.profile import OPENER_KEY
from tests.supervisor.conftest import put, rows, start_agent

__all__ = ["put", "rows", "start_agent"]  # real supervisors, for the tests here too


class _Counted:
    """One model of the built-in profile; calls are counted and passed on, everything else is its own."""

    def __init__(self, model: Any, calls: Counter[str]) -> None:
        self._model = model
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def embed(self, texts: Sequence[str]) -> Any:
        self._calls["embed"] += len(texts)
        return self._model.embed(texts)

    def summarise(self, request: SummaryRequest) -> SummaryText:
        self._calls["summarise"] += 1
        found: SummaryText = self._model.summarise(request)
        return found

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        self._calls["extract"] += 1
        found: Extraction = self._model.extract(text, title=title, author=author)
        return found


class Grower:
    """Sources, the real kinds of job, and what the models were asked."""

    def __init__(self, context: LocalContext) -> None:
        self.context = context
        self.registry = Registry.load(KIND_NAMES)
        self.calls: Counter[str] = Counter()
        builtin = open_profile(Intent(), {})
        self._profile = Profile(
            builtin.name,
            _Counted(builtin.embedder, self.calls),
            _Counted(builtin.summariser, self.calls),
            _Counted(builtin.extractor, self.calls),
        )
        context.shared[OPENER_KEY] = lambda intent, shared: self._profile

    @property
    def connection(self) -> Connection:
        return self.context.connection

    @property
    def intent(self) -> Intent:
        return self.context.intent

    def add(self, source_id: str, kind: str, *paths: Path) -> None:
        source = SourceIntent(source_id, kind, source_id, tuple(map(str, paths)))
        self.context.intent = replace(self.context.intent, sources=(*self.context.intent.sources, source))

    def grow(self) -> int:
        """Look at every source, run everything, close every tail; return how many jobs that took."""
        for source in self.intent.sources:
            enqueue(self.connection, NewJob.sync_source(source.id), self.context.clock.now_ms())
        return self.drain()

    def drain(self) -> int:
        """Run what there is and close every tail."""
        return drain_until_idle(self.context, self.registry, flush=close_all_tails)


@pytest.fixture
def grower(paths: Paths, connection: Connection, clock: FakeClock) -> Grower:
    return Grower(LocalContext(connection, clock, Intent(), paths))
