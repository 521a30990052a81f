"""Which kinds exist in this process: the seam that the seeds call ``QueueDelegates``.

The queue knows no handler. A process is given dotted names (``package.module:ATTRIBUTE``) of ``JobSpec`` objects by
whoever starts it; a test brings kinds of its own the same way. Only registered kinds are claimed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agent.errors import AgentFault
from agent.queue.types import DEFAULT_MAX_ATTEMPTS, Job, NewJob, Plan

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths


class JobContext(Protocol):
    """What a handler may use while it runs, outside any transaction."""

    connection: Connection
    clock: Clock
    intent: Intent
    paths: Paths
    shared: dict[str, Any]
    """Whatever is costly to make and good for the life of the process (a loaded model), by name."""

    @property
    def intent_now(self) -> Intent:
        """The intent as of now; ``intent`` stays that of the run's start."""
        ...

    @property
    def intent_problem(self) -> str | None:
        """Why ``config.toml`` cannot be read, or ``None``: its owner may be withdrawing consent in it."""
        ...

    def check(self) -> None:
        """Raise ``LeaseLost`` if the lease is gone or the worker is to stop. Cheap; call it in every loop."""
        ...

    def begin(self, job: Job) -> None:
        """Say which row of a batch is being handled from now on: a death counts against that one alone (point 6)."""
        ...


@dataclass(frozen=True)
class SweepContext:
    """What a sweep may use: a connection to read from, the time, and how many jobs it may ask for."""

    connection: Connection
    intent: Intent
    now_ms: int
    limit: int


Handler = Callable[[JobContext, Job], Plan]
BatchHandler = Callable[[JobContext, Sequence[Job]], "Sequence[Plan | Exception]"]
Sweep = Callable[[SweepContext], Iterable[NewJob]]


@dataclass(frozen=True)
class JobSpec:
    """One kind of job.

    ``rank`` orders claims (1 first); ``time_limit_s`` is after how long a run is killed; up to ``batch_size`` rows of
    this kind are claimed and settled together: ``batch`` handles them in one go, one plan for each, or the error that
    is that row's alone; without it ``handle`` is called row by row. ``sweep`` finds the kind's work again from domain
    state after the queue was lost.
    ``llm_bound`` kinds take a permit where the active profile has a resource.
    """

    kind: str
    handle: Handler
    llm_bound: bool = False
    rank: int = 4
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    time_limit_s: float = 300.0
    batch: BatchHandler | None = None
    batch_size: int = 1
    sweep: Sweep | None = None


@dataclass
class Registry:
    """The kinds of this process by name."""

    specs: dict[str, JobSpec] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Iterable[JobSpec]) -> Registry:
        """Return a registry of these kinds."""
        return cls({str(spec.kind): spec for spec in specs})

    @classmethod
    def load(cls, names: Iterable[str]) -> Registry:
        """Import ``module:ATTRIBUTE`` names and return a registry of what they hold. Raises ``AgentFault``."""
        found = []
        for name in names:
            module, _, attribute = name.partition(":")
            try:
                spec = getattr(importlib.import_module(module), attribute or "SPEC")
            except (ImportError, AttributeError) as error:
                raise AgentFault("a job kind cannot be loaded", f"{name}: {error}") from error
            found.append(spec)
        return cls.of(found)

    def __contains__(self, kind: str) -> bool:
        return kind in self.specs

    def __iter__(self) -> Iterator[JobSpec]:
        return iter(self.specs.values())

    def __getitem__(self, kind: str) -> JobSpec:
        return self.specs[kind]
