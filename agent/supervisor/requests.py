"""What others ask of the running agent, taken in by the threads that answer them: flags for the main loop, no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.supervisor.companions import GATEWAY

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.supervisor.companions import Companions
    from agent.supervisor.damage import DamageControl
    from agent.supervisor.nudge import Nudge


class Requests:
    """Answers the control channel. ``answer`` runs in the callers' threads; the flags are the main loop's to read."""

    def __init__(
        self,
        clock: Clock,
        nudge: Nudge,
        damage: DamageControl,
        companions: Companions,
        status: Callable[[], dict[str, Any]],
    ) -> None:
        self._clock = clock
        self._nudge = nudge
        self._damage = damage
        self._companions = companions
        self._status = status
        self.stop_asked_at: float | None = None
        """When somebody asked for the end (monotonic seconds), or ``None``."""
        self.is_reload_asked = False
        """Whether the memory is to be looked at anew. The main loop sets it back."""

    def ask_to_stop(self) -> None:
        """Have the agent end. From any thread; the four seconds of a stop count from the first call."""
        if self.stop_asked_at is None:
            self.stop_asked_at = self._clock.monotonic()
        self._nudge.nudge()

    def answer(self, verb: str) -> dict[str, Any]:
        """Do what a verb of the control channel asks and return the answer. Does not block."""
        answer: dict[str, Any] = {"ok": True}
        if verb == "status":
            return {**answer, **self._status()}
        if verb == "stop":
            self.ask_to_stop()
        elif verb == "open":
            answer[GATEWAY] = self._companions.ask(GATEWAY, self._clock.monotonic())
        elif verb == "reload":
            self.is_reload_asked = True
        elif verb == "rebuild":
            self._damage.ask()
        elif verb == "examine":
            self._damage.suspect(self._clock.monotonic())
        if verb != "ping":
            # The turn that follows reads the intent again too: all that ``look`` asks for.
            self._nudge.nudge()
        return answer
