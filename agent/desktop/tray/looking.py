"""What the tray knows: a look at the memory, the intent and the login, and what to say where that fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.actions.glance import Glance, glance
from agent.actions.home import open_home
from agent.desktop.tray.menu import Facts
from agent.errors import SapwoodError
from agent.profile_intent import BUILTIN
from agent.states import AgentState

if TYPE_CHECKING:
    from agent.paths import Paths

STARTING = Glance(AgentState.STARTING, "starting", "starting", None, BUILTIN, (), None)
"""What is shown before the first look."""

_log = logging.getLogger("sapwood.tray")


class Looking:
    """Looks from any thread, one at a time."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._before: Glance | None = None

    def look(self, said: Mapping[str, Any] | None) -> Facts:
        """Return what there is to show; ``said`` is what the agent said of itself last. Blocks, never raises."""
        try:
            # Opened for each look: a memory that was moved aside meanwhile must not be the one that is shown.
            with open_home(self._paths) as home:
                self._before = glance(home, said)
        except Exception as error:
            if not isinstance(error, SapwoodError):
                _log.warning("the memory could not be looked at", exc_info=error)
            self._before = without_a_memory(said, error, self._before)
        return Facts(self._before, starts_at_login=self._starts_at_login())

    def _starts_at_login(self) -> bool | None:
        from agent.actions.autostart import autostart_status

        try:
            return autostart_status(self._paths).enabled
        except Exception as error:
            _log.warning("the start at login could not be looked at", exc_info=error)
            return None


def without_a_memory(said: Mapping[str, Any] | None, error: Exception, before: Glance | None) -> Glance:
    """Return what is shown while nothing can be read: the agent's own word, else the error. Pure."""
    state, reason = AgentState.ERROR, str(error) if isinstance(error, SapwoodError) else "the memory cannot be read"
    said = said or {}
    with_word = said.get("state")
    if with_word in (AgentState.ERROR, AgentState.ATTENTION, AgentState.STARTING):
        state, reason = AgentState(with_word), str(said.get("reason") or reason)
    return Glance(
        state=state,
        reason=reason,
        words=reason,
        share=None,
        profile=BUILTIN if before is None else before.profile,
        profiles=() if before is None else before.profiles,
        paused_until_ms=None,
    )
