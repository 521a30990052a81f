"""A provider that answers as told, and calls on top of it whose clock moves only when told to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent, ScheduleIntent, SourceIntent
from agent.db import Connection
from agent.errors import JobFailure
from agent.models.calls import calls_for
from agent.models.keys import FakeKeys
from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, Message, ModelFacts
from agent.models.surroundings import KEYS_KEY, MEMORY_KEY, OPENER_KEY
from agent.paths import Paths
from agent.profile_intent import ProfileIntent
from agent.system.memory import FakeMemory

LOCAL = ProfileIntent("box", "ollama", "small:1b", embedding_model="tiny-embed", embedding_dimensions=2)
CLOUD = ProfileIntent(
    "far", "openai", "large", consent="api.openai.com", price_in=2.0, price_out=10.0, embedding_model="embed"
)
NOTES = SourceIntent("notes", "folder", "notes", ("/n",))
ASK = ChatAsk((Message("system", "Answer in one word."), Message("user", "What is the kettle for?")), 20, 30)

Outcome = Exception | ChatAnswer | EmbedAnswer | Callable[[], Any]


@dataclass
class FakeProvider:
    """One server for all who open it: takes the next outcome for each call, the last one for ever."""

    outcomes: list[Outcome] = field(default_factory=lambda: [ChatAnswer("tea", 11, 3)])
    facts_said: ModelFacts = field(default_factory=lambda: ModelFacts("small:1b", 1_000_000_000, 8_192, True))
    asked: list[ChatAsk | tuple[str, ...]] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)
    closed: int = 0
    facts_asked: int = 0
    during: Callable[[], None] = lambda: None

    def open(self, endpoint: Endpoint) -> FakeProvider:
        self.endpoints.append(endpoint)
        return self

    async def chat(self, ask: ChatAsk) -> ChatAnswer:
        answer = await self._next(ask)
        assert isinstance(answer, ChatAnswer)
        return answer

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        answer = await self._next(tuple(texts))
        if isinstance(answer, ChatAnswer):
            return EmbedAnswer([[0.1, 0.2] for _ in texts], answer.tokens_in, answer.counted)
        assert isinstance(answer, EmbedAnswer)
        return answer

    async def _next(self, asked: ChatAsk | tuple[str, ...]) -> Any:
        self.asked.append(asked)
        self.during()
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if outcome is SILENCE:
            await asyncio.sleep(3_600)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def models(self) -> tuple[ModelFacts, ...]:
        return (self.facts_said,)

    async def facts(self) -> ModelFacts:
        self.facts_asked += 1
        return self.facts_said

    async def close(self) -> None:
        self.closed += 1


def SILENCE() -> None:  # noqa: N802
    """Stands for a server that never answers."""


def failure(code: str, **more: Any) -> JobFailure:
    """Return a failure as providers raise it."""
    transient = code in ("rate_limited", "unreachable", "bad_output", "low_memory")
    make = JobFailure.transient if transient else JobFailure.unrecoverable
    return make(code, title=f"it says {code}", **more)


@dataclass
class Money:
    """A home whose models are faked: ``calls`` makes the calls of a profile, as a job of a kind would have them."""

    connection: Connection
    paths: Paths
    clock: FakeClock
    provider: FakeProvider
    keys: FakeKeys
    memory: FakeMemory
    profiles: dict[str, ProfileIntent]
    active: str = "box"
    timezone: str = "UTC"
    sources: tuple[SourceIntent, ...] = (NOTES,)
    local_hosts: tuple[str, ...] = ()
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def intent(self) -> Intent:
        return Intent(
            models=ModelsIntent(active=self.active, local_hosts=self.local_hosts),
            schedule=ScheduleIntent(timezone=self.timezone),
            profiles=tuple(self.profiles.values()),
            sources=self.sources,
        )

    def calls(self, profile: ProfileIntent = LOCAL, kind: str = "seal", guard: Any = None) -> Any:
        self.profiles[profile.name] = profile
        self.shared |= {OPENER_KEY: self.provider.open, KEYS_KEY: self.keys, MEMORY_KEY: self.memory}
        return calls_for(
            self.connection,
            self.paths,
            self.clock,
            lambda: self.intent,
            profile,
            kind,
            guard,
            shared=self.shared,
            limit_s=285.0,
        )

    def usage(self) -> list[tuple[Any, ...]]:
        return self.connection.all(
            "SELECT profile, model, kind, calls, invalid, tokens_in, tokens_out FROM mem_tree_usage ORDER BY 1, 2, 3"
        )

    def hold(self, scope: str = "box") -> Any:
        from agent.queue.holds import read_hold

        return read_hold(self.connection, scope)


@pytest.fixture
def money(paths: Paths, connection: Connection, clock: FakeClock) -> Money:
    keys, memory = FakeKeys(openai="a-key"), FakeMemory(available=8_000_000_000)
    return Money(connection, paths, clock, FakeProvider(), keys, memory, {"box": LOCAL, "far": CLOUD})
