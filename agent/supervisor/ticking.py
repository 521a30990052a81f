"""When housekeeping is due, and when sources that changed are asked for: by the clock, by a request, by the watcher."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.supervisor.requests import Requests
    from agent.supervisor.sleepgap import SleepGap
    from agent.supervisor.storage import Storage
    from agent.supervisor.tick import Housekeeping, TickReport
    from agent.supervisor.watch import SourceWatch

_log = logging.getLogger("sapwood.supervisor")


class Ticking:
    """The tick's place in the loop. Times are monotonic seconds (``now``) and UTC ms (``wall_ms``), handed in."""

    def __init__(self, housekeeping: Housekeeping, storage: Storage, gap: SleepGap, requests: Requests) -> None:
        self._housekeeping = housekeeping
        self._storage = storage
        self._gap = gap
        self._requests = requests
        self._at: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there was one in this memory."""
        return self._at is not None

    def again(self) -> None:
        """The memory is another one."""
        self._at = None
        self._housekeeping.begin_anew()

    def next_at(self, now: float, intent: Intent, *, is_resting: bool) -> float:
        """Return when the next tick is due."""
        if self._at is None or self._requests.is_reload_asked:
            return now
        timing = intent.supervisor
        at = self._at + (timing.tick_idle_seconds if is_resting else timing.tick_busy_seconds)
        # The first tick after a sleep waits for the network, and is not put off to the next round.
        return min(at, max(self._gap.catch_up_at, now)) if self._gap.catch_up_at is not None else at

    def turn(self, now: float, wall_ms: int, intent: Intent, *, is_resting: bool) -> None:
        """Tick where that is due."""
        if now < self.next_at(now, intent, is_resting=is_resting):
            return
        if self._requests.is_reload_asked:
            # Whoever asks may have emptied or replaced the memory.
            self._housekeeping.begin_anew()
        self._at, self._requests.is_reload_asked = now, False

        def tick(connection: Connection) -> TickReport:
            return self._housekeeping.tick(
                connection,
                intent,
                wall_ms,
                trust_leases=self._gap.leases_are_trusted(now),
                catch_up=self._gap.may_catch_up(now),
            )

        try:
            self._storage.attempt("a tick", tick, now)
        except Exception:
            # Housekeeping that fails must not take the workers with it, nor the way to stop us.
            _log.exception("a tick failed")

    def look_at_changes(self, watch: SourceWatch, now: float, wall_ms: int) -> None:
        """Ask for the sources in which something changed; after a sleep the tick does that, later."""
        if not watch.collect(self._housekeeping.asked_ms, now) or self._gap.catch_up_at is not None:
            return

        def ask(connection: Connection, source_id: str) -> bool:
            return self._housekeeping.ask_source(connection, source_id, wall_ms)

        self._storage.attempt("asking for looks", lambda it: watch.ask(it, ask, now, wall_ms), now)
