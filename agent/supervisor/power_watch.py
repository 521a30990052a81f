"""The power policy at work: sampled, decided, and pushed to the workers through their database.

It has no wake-ups of its own while nothing is to do, and writes only what changes for a worker that has work.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.db.power_row import ALL_THERE_IS, parse_override, put_override_tx, put_power_tx
from agent.profile_intent import is_loopback
from agent.queue.wake import wake_workers
from agent.states import PowerCause
from agent.supervisor.power import Decision, PowerPolicy
from agent.system.entry import find
from agent.system.power import Signals

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.supervisor.looking import QueueLook
    from agent.supervisor.result import SupervisorArgs
    from agent.system.power import PowerSignals

SAMPLED_JUST_NOW_S = 1.0
_OF_THE_BATTERY = frozenset({PowerCause.BATTERY, PowerCause.BATTERY_LOW})


class PowerWatch:
    """The policy of one supervisor. Times are monotonic seconds, handed in.

    Whoever types ``run --once`` asks for the work now: it is never held.
    """

    def __init__(self, args: SupervisorArgs) -> None:
        self._signals: PowerSignals | None = None if args.once else find(args.power_signals)()
        self._policy = PowerPolicy()
        self._seen = Signals()
        self._sampled_at: float | None = None
        self._was_resting = True
        self._every_s = 0.0
        self._look: QueueLook | None = None
        self.decision = Decision()

    def look(self, look: QueueLook, intent: Intent, now: float, *, is_resting: bool) -> None:
        """Take in a look at the queue, sample where that is due, and decide. Takes some milliseconds then."""
        self._look, self._every_s = look, intent.power.sample_seconds
        if self._signals is None or not intent.power.enabled:
            self._sampled_at = None
        elif self._is_due(look, now, is_resting):
            self._seen, self._sampled_at = self._signals.sample(), now
            if _works_for_us(intent) and not self._was_resting:
                # A model server of this machine may be what keeps it busy, with our own questions.
                self._seen = replace(self._seen, cpu_others=None)
        asked = look.power_override
        self.decision = self._policy.decide(
            self._seen,
            intent.power,
            now,
            is_paused=look.paused_until_ms is not None,
            in_spite_of=None if asked == ALL_THERE_IS else parse_override(asked),
        )
        self._was_resting = is_resting

    def _is_due(self, look: QueueLook, now: float, is_resting: bool) -> bool:
        if self._sampled_at is None:
            return True
        age = now - self._sampled_at
        # What began while nobody looked, and what the owner asks for, is not decided from an old sample.
        is_news = look.power_override == ALL_THERE_IS or (self._was_resting and not is_resting)
        return age >= (min(SAMPLED_JUST_NOW_S, self._every_s) if is_news else self._every_s)

    def next_moment(self) -> float | None:
        """Return when the next sample is due; ``None`` while nobody waits for one: the tick's turn takes it then."""
        if self._sampled_at is None or self._look is None:
            return None
        return None if self._was_resting and not self._look.is_held else self._sampled_at + self._every_s

    # -- what is written ----------------------------------------------------------------------------------------------

    def owes(self) -> bool:
        """Return whether the rows of the last look are to be changed."""
        return self._row_is_owed() or self._override_owed() is not None

    def push(self, connection: Connection) -> bool:
        """Write what is owed and wake the workers."""
        override = self._override_owed()
        with connection.write():
            if self._row_is_owed():
                put_power_tx(connection, self.decision.row)
            if override is not None:
                put_override_tx(connection, override)
        wake_workers(connection)
        return True

    def _row_is_owed(self) -> bool:
        look, row = self._look, self.decision.row
        if look is None or look.paused_until_ms is not None:
            return False  # nobody works, whatever the policy says
        stored = look.power
        if stored is row or (row is not None and row.is_same(stored)):
            return False
        if not self._was_resting or look.is_held:
            return True
        # At rest others come and go unwritten. A battery does not change often, and its first job would be too many.
        return any(each is not None and each.cause in _OF_THE_BATTERY for each in (stored, row))

    def _override_owed(self) -> frozenset[PowerCause] | None:
        """Return what the stored override is to become, ``None`` where it is right: what is over is taken out."""
        look = self._look
        if look is None or look.power_override is None or (self._signals is not None and self._sampled_at is None):
            return None
        if look.power_override == ALL_THERE_IS:
            return self.decision.present
        held = parse_override(look.power_override)
        left = held & self.decision.present
        return left if left != held or not held else None

    # -- what is said -------------------------------------------------------------------------------------------------

    def holds_work(self) -> bool:
        """Return whether a row that is due is held by the policy."""
        return self.decision.holds and self._look is not None and self._look.is_held

    def view(self) -> dict[str, Any]:
        """Return the policy's state as ``status`` shows it. May be called from another thread."""
        decision = self.decision
        return {
            "mode": str(decision.mode),
            "cause": None if decision.cause is None else str(decision.cause),
            "reason": decision.reason,
            "held": self.holds_work(),
            "in_spite_of": sorted(map(str, decision.present)) if decision.cause is None else [],
        }


def _works_for_us(intent: Intent) -> bool:
    profile = intent.active_profile
    return profile is not None and is_loopback(profile.host)
