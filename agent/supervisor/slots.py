"""One place in the pool and its life: what is to happen after each exit. No process, no clock, no chance of its own.

STOPPED → STARTING → RUNNING → STOPPING, and on an exit BACKOFF → STARTING. The first restart is immediate, then
min(60 s, 1 s × 2ⁿ) ± 20 %, n reset after ten healthy minutes; five failures in ten minutes → FAILED, where a slow retry
goes on and the other slots work. All figures come from the intent (``SupervisorIntent``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum, auto

from agent.config import SupervisorIntent
from agent.states import WorkerState

JITTER = 0.2


class Exit(Enum):
    """Why a worker process is no more, as far as its slot is concerned."""

    ORDERED = auto()  # the supervisor wanted it: stop, shrink
    FRESH = auto()  # asked to be replaced, or ended by a limit that its row answers for
    FAILURE = auto()  # anything else


class Slot:
    """The state of one slot. Times are monotonic seconds, handed in; ``jitter()`` returns a number in −1 … 1."""

    def __init__(self, index: int, jitter: Callable[[], float]) -> None:
        self.index = index
        self.state = WorkerState.STOPPED
        self.generation = 0
        self.start_at: float | None = None
        """When the next process is due (BACKOFF, FAILED), else ``None``."""
        self._jitter = jitter
        self._restarts = 0
        self._given_up = False
        self._running_since: float | None = None
        self._failures: deque[float] = deque()

    @property
    def has_process(self) -> bool:
        """Whether a process belongs to this slot now."""
        return self.state in (WorkerState.STARTING, WorkerState.RUNNING, WorkerState.STOPPING)

    @property
    def serves(self) -> bool:
        """Whether its process takes work, or will once it is up."""
        return self.state in (WorkerState.STARTING, WorkerState.RUNNING)

    def is_due(self, now: float) -> bool:
        """Return whether a process that was put off may start now."""
        return self.start_at is not None and self.start_at <= now

    def started(self) -> None:
        """A process was started."""
        self.state = WorkerState.STARTING
        self.generation += 1
        self.start_at = None

    def ready(self, now: float) -> None:
        """The process says that it is up."""
        if self.state is WorkerState.STARTING:
            self.state = WorkerState.RUNNING
            self._running_since = now

    def stopping(self) -> None:
        """The process was told to end."""
        if self.has_process:
            self.state = WorkerState.STOPPING

    def put_away(self) -> None:
        """The slot is not wanted any more: it has no process and none is due."""
        self.state = WorkerState.STOPPED
        self.start_at = None

    def exited(self, how: Exit, now: float, intent: SupervisorIntent) -> bool:
        """Take in that the process is gone; return whether the slot has just become FAILED.

        Afterwards either ``start_at`` says when the next process is due, or the slot is STOPPED.
        """
        healthy_since, self._running_since = self._running_since, None
        if how is Exit.ORDERED:
            self.put_away()
            return False
        if how is Exit.FRESH:
            self.state, self.start_at = WorkerState.BACKOFF, now
            return False
        if healthy_since is not None and now - healthy_since >= intent.healthy_seconds:
            self._restarts, self._given_up = 0, False
            self._failures.clear()
        self._failures.append(now)
        while self._failures[0] <= now - intent.failure_window_seconds:
            self._failures.popleft()
        # The slow retry of a slot that was given up ends that state by being healthy, not by failing more slowly.
        if self._given_up or len(self._failures) >= intent.failure_limit:
            is_news, self._given_up = not self._given_up, True
            self.state = WorkerState.FAILED
            self.start_at = now + intent.slow_retry_seconds
            return is_news
        self.state = WorkerState.BACKOFF
        self.start_at = now + self._delay(intent)
        self._restarts += 1
        return False

    def _delay(self, intent: SupervisorIntent) -> float:
        if self._restarts == 0:
            return 0.0
        # The exponent is bounded so that a slot that fails for weeks does not compute a number of a thousand digits.
        exponent = min(self._restarts - 1, 30)
        delay = min(intent.backoff_cap_seconds, intent.backoff_base_seconds * 2**exponent)
        return float(delay * (1 + JITTER * self._jitter()))
