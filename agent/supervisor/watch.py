"""Sources are looked at when something in them changes, not only now and then.

``SourceWatch`` is what the supervisor holds: a thread collects what the system says, the main loop asks for the looks.
What is decided is decided in objects without threads: ``Keeper`` (what is watched), ``Pace`` (when a look is due).
The look every ``sync_seconds`` stays beneath all this: a source that the system does not watch is no worse off than
without watching.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent.config import stamp_of
from agent.supervisor.keeper import Keeper, targets_of

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.system.watching import Watching

QUIET_S = 0.5
"""A burst is over when nothing came for so long."""
LONGEST_BURST_STEPS = 5
LOOKS_SHARE = 20
"""A source that changes all the time is looked at for a twentieth of the time at most."""
AWAKE_S = 60.0
"""For so long after a change we collect at every step, then at every other one: it halves what idling costs."""
LONGEST_STEP_S = 60.0
FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 1.0, 60.0
JOIN_S = 1.0

_log = logging.getLogger("sapwood.supervisor")


class Pace:
    """When the sources that have changed are to be looked at. All times monotonic, in seconds."""

    def __init__(self) -> None:
        self._first: dict[str, float] = {}
        self._last: dict[str, float] = {}
        self._asked: dict[str, float] = {}

    @property
    def pending(self) -> frozenset[str]:
        """The sources with changes that no look was asked for yet."""
        return frozenset(self._first)

    def changed(self, source_id: str, at: float) -> None:
        """Take in that something in a source changed."""
        self._first.setdefault(source_id, at)
        self._last[source_id] = max(at, self._last.get(source_id, at))

    def asked(self, source_id: str, at: float) -> None:
        """Take in that a look was asked for, by whomever: it sees all changes until then."""
        self._asked[source_id] = at
        if self._last.get(source_id, at + 1) <= at:
            self.drop(source_id)

    def drop(self, source_id: str) -> None:
        """Forget the changes of a source."""
        self._first.pop(source_id, None)
        self._last.pop(source_id, None)

    def due_at(self, source_id: str, step_s: float, look_s: float) -> float:
        """Return when a source with changes is to be looked at, given how long its last look took."""
        quiet = self._last[source_id] + QUIET_S
        latest = self._first[source_id] + LONGEST_BURST_STEPS * step_s
        asked = self._asked.get(source_id)
        earliest = 0.0 if asked is None else asked + max(step_s, LOOKS_SHARE * look_s)
        return max(min(quiet, latest), earliest)


class SourceWatch:
    """Watches the sources of one supervisor. ``nudge`` ends the main loop's sleep, from any thread."""

    def __init__(self, paths: Paths, watching: Watching, clock: Clock, nudge: Callable[[], None]) -> None:
        self._paths = paths
        self._clock = clock
        self._nudge = nudge
        self._keeper = Keeper(watching)
        self._pace = Pace()
        self._lock = threading.Lock()
        self._news: dict[str, float] = {}
        self._ended = threading.Event()
        self._poke = threading.Event()
        self._thread: threading.Thread | None = None
        self._intent: Intent | None = None
        self._asked_ms: dict[str, int] = {}
        self._next: float | None = None

    # -- the main loop's side -----------------------------------------------------------------------------------------

    def follow(self, intent: Intent) -> None:
        """Watch what this intent names from now on; cheap where it is the same as before."""
        if intent is self._intent:
            return
        self._intent = intent
        self._keeper.want(targets_of(intent, self._paths) if intent.schedule.watch else {})
        if self._thread is None and intent.schedule.watch:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()
        self._poke.set()

    def collect(self, asked_ms: Mapping[str, int], now: float) -> bool:
        """Take in what changed, given when looks were asked for so far; return whether there is anything to ask for.

        ``now`` is from before those looks were asked for: a change that came later is not one that they saw.
        """
        with self._lock:
            news, self._news = self._news, {}
        for source_id, at in news.items():
            self._pace.changed(source_id, at)
        for source_id, moment in asked_ms.items():
            if self._asked_ms.get(source_id) != moment:
                self._asked_ms[source_id] = moment
                self._pace.asked(source_id, now)
        if not self._pace.pending:
            self._next = None
        return bool(self._pace.pending) and (bool(news) or self._next is None or self._next <= now)

    def ask(self, connection: Connection, ask: Callable[[Connection, str], object], now: float, wall_ms: int) -> bool:
        """Ask for the looks that are due: ``ask`` asks for one, and notes ``wall_ms`` as the time of it."""
        looks: dict[str, int] = dict(
            connection.all("SELECT source_id, look_ms FROM mem_tree_sources WHERE look_ms IS NOT NULL")
        )
        moments = []
        for source_id in sorted(self._pace.pending):
            at = self._pace.due_at(source_id, self._step_s, looks.get(source_id, 0) / 1000)
            if at <= now:
                ask(connection, source_id)
                self._asked_ms[source_id] = wall_ms
                self._pace.drop(source_id)
                self._pace.asked(source_id, now)
            else:
                moments.append(at)
        self._next = min(moments, default=None)
        return True

    def next_moment(self) -> float | None:
        """Return when the next look is due (monotonic), or ``None``."""
        return self._next

    def hows(self, intent: Intent) -> list[dict[str, str]]:
        """Return how each source is noticed: ``source``, ``how``, and the ``reason`` where it is not watched."""
        minutes = max(1, round(intent.schedule.sync_seconds / 60))
        periodic = f"looked at every {minutes} min"
        found = []
        for source in intent.sources:
            reason = "watching is switched off" if not intent.schedule.watch else self._keeper.reason(source.id)
            found.append(
                {"source": source.id, "how": "watched" if reason is None else periodic, "reason": reason or ""}
            )
        return found

    def stop(self) -> None:
        """Begin to end; does not block."""
        self._ended.set()
        self._poke.set()

    def join(self) -> None:
        """Wait until the thread has ended, a second at most."""
        if self._thread is not None:
            self._thread.join(JOIN_S)

    # -- the thread ---------------------------------------------------------------------------------------------------

    @property
    def _step_s(self) -> float:
        return min(2.0 if self._intent is None else self._intent.schedule.watch_seconds, LONGEST_STEP_S)

    def _run(self) -> None:
        backoff = FIRST_BACKOFF_S
        while not self._ended.is_set():
            began = self._clock.monotonic()
            try:
                self._collect()
            except Exception:
                # Whatever it is: the periodic look goes on, and so does the agent.
                _log.exception("watching failed, it begins again in %.0f s", backoff)
            if self._clock.monotonic() - began > LONGEST_BACKOFF_S:
                backoff = FIRST_BACKOFF_S
            with contextlib.suppress(Exception):
                self._keeper.close()
            self._ended.wait(backoff)
            backoff = min(2 * backoff, LONGEST_BACKOFF_S)

    def _collect(self) -> None:
        config = str(self._paths.config_file)
        stamp = stamp_of(config)
        woken_at = self._clock.monotonic()
        while not self._ended.is_set():
            now = self._clock.monotonic()
            found = self._keeper.turn(now)
            if found:
                woken_at = now
                with self._lock:
                    is_first = not self._news
                    self._news.update(dict.fromkeys(found, now))
                if is_first:
                    self._nudge()
            seen = stamp_of(config)
            if seen != stamp:
                # An owner's own edit counts at once, not with the next tick.
                stamp = seen
                self._nudge()
            step = self._step_s
            if found:
                step = QUIET_S
            elif now - woken_at > AWAKE_S:
                step *= 2
            self._poke.wait(step)
            self._poke.clear()
        self._keeper.close()
