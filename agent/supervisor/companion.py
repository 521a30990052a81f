"""The tray or the page as the supervisor sees it: when its process is to start or to end. No process and no clock here.

It crashes by the same rules as a worker (``slots``), and never takes the agent with it. Where it cannot serve, on a
desktop without a place for icons for one, that is a normal state with a reason, and it is tried again later. What ended
by itself stays away until it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from agent.config import SupervisorIntent
from agent.states import CompanionState, WorkerState
from agent.supervisor.result import CompanionSpec
from agent.supervisor.slots import Exit, Slot
from agent.system.companion import EXIT_IMPOSSIBLE, Say

IMPOSSIBLE_AGAIN_S = 60.0
IMPOSSIBLE_AGAIN_AT_MOST_S = 600.0
ASK_AGAIN_S = 5.0
"""Whoever asks is tried for at once, but one who asks ten times a second starts no ten processes a second."""
START_PATIENCE_S = 60.0
"""A process that has not said by then whether it serves will not."""
REASON_SHOWN = 300


class Do(Enum):
    """What this moment asks for."""

    NOTHING = auto()
    START = auto()
    END = auto()


@dataclass(frozen=True)
class CompanionView:
    """What others are told: ``detail`` says how it serves (a back end, an address), ``reason`` why it does not."""

    state: CompanionState
    reason: str = ""
    detail: str = ""


class Companion:
    """One of them. Times are monotonic seconds, handed in; ``jitter()`` returns a number in −1 … 1."""

    def __init__(self, spec: CompanionSpec, jitter: Callable[[], float]) -> None:
        self.spec = spec
        self._jitter = jitter
        self.slot = Slot(0, jitter)
        self.try_at: float | None = None
        """When one that could not serve is tried again."""
        self._try_after_s = IMPOSSIBLE_AGAIN_S
        self._off = spec.off
        self._is_over = spec.on_demand
        self._over_reason = "nobody has asked for it" if spec.on_demand else ""
        self._is_impossible = False
        self._reason = ""
        self._detail = ""
        self._failure = ""
        self._was_late = False
        self._started_at: float | None = None
        self._ended_at: float | None = None

    # -- what is wanted -----------------------------------------------------------------------------------------------

    @property
    def is_wanted(self) -> bool:
        """Whether there is to be a process."""
        return not self._off and not self._is_over

    def allow(self, off: str) -> None:
        """Take in whether its owner wants it at all: ``off`` is why not, ``""`` where they do."""
        off = self.spec.off or off
        if off != self._off and not off:
            self._is_over = self.spec.on_demand
            self._forgive()
        self._off = off

    def ask(self, now: float) -> None:
        """Somebody wants it now: what ended by itself, failed or could not serve is tried at once."""
        if self._may_try(now):
            self._forgive()
        self._is_over = False

    def _may_try(self, now: float) -> bool:
        return not self.slot.has_process and (self._ended_at is None or now - self._ended_at >= ASK_AGAIN_S)

    def _forgive(self) -> None:
        self.try_at, self._try_after_s = None, IMPOSSIBLE_AGAIN_S
        if not self.slot.has_process:
            generation = self.slot.generation
            self.slot = Slot(0, self._jitter)
            self.slot.generation = generation
            self._is_impossible, self._failure = False, ""

    def next_step(self, now: float, *, may_start: bool) -> Do:
        """Return what is to be done with its process. ``may_start``: it would be in nobody's way."""
        slot = self.slot
        if slot.has_process:
            if slot.state is WorkerState.STOPPING:
                return Do.NOTHING
            self._was_late = self._is_late(now)
            return Do.NOTHING if self.is_wanted and not self._was_late else Do.END
        if not self.is_wanted:
            slot.put_away()
            self.try_at = None
            return Do.NOTHING
        due_at = slot.start_at if slot.start_at is not None else self.try_at
        is_due = (may_start or self.spec.on_demand) if due_at is None else due_at <= now
        return Do.START if is_due else Do.NOTHING

    def _is_late(self, now: float) -> bool:
        since = self._started_at
        return self.slot.state is WorkerState.STARTING and since is not None and now - since >= START_PATIENCE_S

    def next_moment(self) -> float | None:
        """Return when something here is due (monotonic), or ``None``."""
        slot = self.slot
        if slot.state is WorkerState.STARTING and self._started_at is not None:
            return self._started_at + START_PATIENCE_S
        if slot.has_process or not self.is_wanted:
            return None
        return slot.start_at if slot.start_at is not None else self.try_at

    # -- what happens -------------------------------------------------------------------------------------------------

    def started(self, now: float) -> None:
        """A process was started."""
        self.slot.started()
        self.try_at = None
        self._started_at = now
        self._is_impossible, self._detail = False, ""

    def said(self, message: Mapping[str, Any], now: float) -> None:
        """The process says something; an unknown word is passed over."""
        word, reason = message.get("say"), _short(message.get("reason"))
        if word == Say.UP:
            self.slot.ready(now)
            self._is_impossible, self._reason, self._failure = False, "", ""
            self._detail = _short(message.get("detail"))
            self._try_after_s = IMPOSSIBLE_AGAIN_S
        elif word == Say.IMPOSSIBLE:
            # A process that waits for a panel by itself is as well as one that has found it.
            self.slot.ready(now)
            self._is_impossible, self._reason = True, reason or "it cannot serve here"
        elif word == Say.BYE:
            self._is_over, self._over_reason = True, reason or "it ended by itself"
            self.slot.stopping()

    def ending(self) -> None:
        """The process was told to end."""
        self.slot.stopping()

    def exited(self, code: int | None, now: float, intent: SupervisorIntent) -> bool:
        """Take in that the process is gone; return whether it has just been given up (it is then tried slowly)."""
        was_late, self._was_late = self._was_late, False
        self._started_at, self._ended_at, self._detail = None, now, ""
        if (self.slot.state is WorkerState.STOPPING or not self.is_wanted) and not was_late:
            self.slot.exited(Exit.ORDERED, now, intent)
            return False
        if code == EXIT_IMPOSSIBLE or (code == 0 and self._is_impossible):
            self._reason = self._reason or "it cannot serve here"
            self._is_impossible = True
            self.slot.exited(Exit.ORDERED, now, intent)
            self.try_at = now + self._try_after_s
            self._try_after_s = min(self._try_after_s * 2, IMPOSSIBLE_AGAIN_AT_MOST_S)
            return False
        self._failed("it did not come up in time" if was_late else exit_words(code))
        return self.slot.exited(Exit.FAILURE, now, intent)

    def not_started(self, problem: str, now: float, intent: SupervisorIntent) -> bool:
        """Take in that no process could be started; return whether that was given up just now."""
        self._ended_at = now
        self._failed(problem)
        return self.slot.exited(Exit.FAILURE, now, intent)

    def _failed(self, words: str) -> None:
        self._is_impossible, self._reason, self._failure = False, "", words

    # -- what is told -------------------------------------------------------------------------------------------------

    def view(self) -> CompanionView:
        """Return how it is. May be called from another thread."""
        state = self.slot.state
        if self._off or self._is_over:
            return CompanionView(CompanionState.OFF, self._off or self._over_reason)
        if self._is_impossible:
            return CompanionView(CompanionState.IMPOSSIBLE, self._reason)
        if state is WorkerState.RUNNING:
            return CompanionView(CompanionState.UP, detail=self._detail)
        if state is WorkerState.FAILED:
            again = f"it ends again and again ({self._failure}) and is tried again later; see `sapwood logs`"
            return CompanionView(CompanionState.FAILED, again)
        return CompanionView(CompanionState.STARTING, f"the last one ended: {self._failure}" if self._failure else "")

    def view_when_asked(self, now: float) -> CompanionView:
        """Return what one who asks for it is told at once. May be called from another thread."""
        view = self.view()
        if self._off:
            return CompanionView(CompanionState.IMPOSSIBLE, self._off)
        if view.state is CompanionState.OFF or (view.state is not CompanionState.UP and self._may_try(now)):
            return CompanionView(CompanionState.STARTING)
        return view


def exit_words(code: int | None) -> str:
    """Return the end of a process as a person would read it."""
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def _short(said: object) -> str:
    return "" if said is None else str(said)[:REASON_SHOWN]
