"""The tray and the page in the loop: when they may be started, and what is news to them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.states import AgentState
from agent.supervisor.companion_news import News
from agent.supervisor.status import Facts, state_of

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.supervisor.companions import Companions
    from agent.supervisor.storage import Storage

SETTLED_AFTER_S = 10.0
"""After so long a tray is started even where no worker is up: it tells its owner why."""

_log = logging.getLogger("sapwood.supervisor")


class CompanionWatch:
    """Nobody waits for them, so workers and memory come first. Times are monotonic seconds, handed in."""

    def __init__(self, companions: Companions, storage: Storage, now: float) -> None:
        self._companions = companions
        self._storage = storage
        self._settled_by = now + SETTLED_AFTER_S

    def turn(
        self, facts: Callable[[], Facts], about: tuple[object, ...], intent: Intent, now: float, *, is_up: bool
    ) -> None:
        """Start, end and tell them. ``about``: what else they show; ``is_up``: whether a worker is. Never raises."""
        if is_up or self._storage.problem is not None:
            self._settled_by = min(self._settled_by, now)
        try:
            self._companions.turn(now, intent, may_start=now >= self._settled_by)
            if len(self._companions):
                self._companions.tell(self._news(facts(), (intent, *about), now), now)
        except Exception:
            _log.exception("the tray and the page could not be looked after; the agent works on without")

    def _news(self, facts: Facts, about: tuple[object, ...], now: float) -> News:
        state, reason = state_of(facts)
        version = None
        if state is not AgentState.GROWING:
            # Whatever somebody writes may be shown; while the memory grows they look at it every two seconds anyway.
            version = self._storage.attempt("looking for news", lambda it: it.value("PRAGMA data_version"), now)
        return News(state, reason, (*about, version))
