"""What a handler may use in a worker process (``JobContext``), and how the end of its run reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.errors import LeaseLost
from agent.queue.worker_args import EXIT_STOPPED

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent, IntentWatcher
    from agent.db import Connection
    from agent.paths import Paths
    from agent.queue.handling import HandlingFile
    from agent.queue.registry import Registry
    from agent.queue.types import Job
    from agent.worker.heartbeat import Heartbeat


class StopFlag:
    """Whether the worker is to end, and with which exit code; the first reason counts. For signals and threads.

    Plain attributes: a signal handler that took a lock could meet it held by the very code that it interrupted.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._is_leaving = False
        self.exit_code = EXIT_STOPPED

    def set(self, exit_code: int = EXIT_STOPPED) -> None:
        """Ask the worker to end."""
        if not self._is_set:
            self.exit_code = exit_code
            self._is_set = True

    def is_set(self) -> bool:
        """Return whether the worker is to end."""
        return self._is_set

    def leave(self) -> None:
        """Ask the worker to end once it is done with the job in hand."""
        self._is_leaving = True

    @property
    def is_leaving(self) -> bool:
        """Whether the worker is to take no further job."""
        return self._is_set or self._is_leaving


@dataclass
class WorkerContext:
    """A ``JobContext``. ``shared`` lives as long as the process; ``intent`` is that of the job's start."""

    connection: Connection
    clock: Clock
    intent: Intent
    paths: Paths
    registry: Registry
    heartbeat: Heartbeat
    handling: HandlingFile
    stop: StopFlag
    shared: dict[str, Any] = field(default_factory=dict)
    intents: IntentWatcher | None = None
    _jobs: tuple[Job, ...] = ()

    @property
    def intent_now(self) -> Intent:
        """The intent as of now: one ``stat`` mostly."""
        return self.intent if self.intents is None else self.intents.current

    @property
    def intent_problem(self) -> str | None:
        """Why ``config.toml`` cannot be read, or ``None``."""
        return None if self.intents is None else self.intents.problem

    def start(self, jobs: Sequence[Job]) -> None:
        """Take freshly claimed jobs of one kind into hand."""
        self._jobs = tuple(jobs)
        self.heartbeat.hold(jobs)

    def begin(self, job: Job) -> None:
        """Say which row is being handled from now on; its time limit starts anew."""
        limit_s = getattr(self.intent.limits, job.kind, None) or self.registry[job.kind].time_limit_s
        self.handling.begin(job.id, job.kind, started_ms=self.clock.now_ms(), limit_ms=round(limit_s * 1000))

    def check(self) -> None:
        """Raise ``LeaseLost`` once the worker is to stop or no lease of these jobs is left.

        A batch goes on while one of its leases is good: settling leaves the lost ones out.
        """
        if self.stop.is_set():
            raise LeaseLost("the worker is to stop")
        if self.heartbeat.has_lost and all(self.heartbeat.is_lost(job) for job in self._jobs):
            raise LeaseLost("the lease is somebody else's by now", f"job {self._jobs[0].id}")

    def finish(self) -> None:
        """Let go of the jobs in hand."""
        self._jobs = ()
        self.heartbeat.let_go()
        self.handling.end()
