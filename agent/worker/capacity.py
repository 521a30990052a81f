"""Whether work may start now (the seed's ``wait_for_capacity``): the owner's pause, the power policy, and what holds a
model back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.db.power_row import read_power
from agent.db.state import PAUSE_KEY, get_state
from agent.queue.holds import read_hold
from agent.states import PowerMode

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.db import Connection

LOOK_EVERY_S = 0.1  # a pause takes hold well within a second and costs a busy worker next to nothing
SHORTEST_REST_S, LONGEST_REST_S = 0.1, 5.0
"""A throttled worker rests after a job that loads the machine for as long as that took, within these bounds."""


class Capacity:
    """The answer for one worker. ``allowed`` is asked for every kind before every claim.

    ``heavy``: the kinds that load the machine, whichever profile is active.
    """

    def __init__(self, connection: Connection, clock: Clock, heavy: frozenset[str] = frozenset()) -> None:
        self._connection = connection
        self._clock = clock
        self._heavy = heavy
        self._looked_at: float | None = None
        self._paused_until_ms: int | None = None
        self._power: PowerMode | None = None
        self._rests_until = 0.0
        self._scope: str | None = None
        self._bound: frozenset[str] = frozenset()
        self._barred = False
        self._held_until_ms: int | None = None

    def watch(self, scope: str | None, bound: frozenset[str], *, barred: bool = False) -> None:
        """Say whose models the next jobs would call, and by which kinds; ``barred``: they are not to be called at all.

        Costs nothing while that stays the same.
        """
        self._barred = barred
        if scope != self._scope or bound != self._bound:
            self._scope, self._bound = scope, bound
            self.look_again()

    def allowed(self, kind: str) -> bool:
        """Return whether a job of this kind may start now. Reads the database ten times a second at most."""
        if self.paused_until_ms is not None:
            return False  # a pause holds for all of them
        if kind in self._heavy and self._holds_heavy():
            return False
        return kind not in self._bound or not self._holds_bound()

    def limits(self) -> Callable[[str], bool] | None:
        """Return ``allowed``, or ``None`` where nothing is limited now: the usual case costs a busy worker one look."""
        if self.paused_until_ms is None and not self._holds_heavy() and not self._holds_bound():
            return None
        return self.allowed

    def handled(self, kind: str, took_s: float) -> None:
        """Take in that a job of this kind has ended; a throttled worker rests after one that loads the machine."""
        if self._power is PowerMode.THROTTLED and kind in self._heavy:
            self._rests_until = self._clock.monotonic() + min(max(took_s, SHORTEST_REST_S), LONGEST_REST_S)

    @property
    def rest_s(self) -> float:
        """For how many seconds a throttled worker still rests."""
        if self._power is not PowerMode.THROTTLED:
            return 0.0
        return max(self._rests_until - self._clock.monotonic(), 0.0)

    def _holds_heavy(self) -> bool:
        return self._power is PowerMode.PAUSED or self.rest_s > 0

    def _holds_bound(self) -> bool:
        if self._barred:
            return True
        return self._held_until_ms is not None and self._clock.now_ms() < self._held_until_ms

    @property
    def paused_until_ms(self) -> int | None:
        """The end of the owner's pause (UTC ms), or ``None`` where there is none or it is over."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._paused_until_ms = read_pause(self._connection)
            power = read_power(self._connection)
            self._power = None if power is None else power.mode
            hold = None if self._scope is None else read_hold(self._connection, self._scope)
            self._held_until_ms = None if hold is None else hold.until_ms
        if self._paused_until_ms is not None and self._clock.now_ms() >= self._paused_until_ms:
            return None
        return self._paused_until_ms

    def look_again(self) -> None:
        """Forget what was read: something woke us, and it may be the owner's resume."""
        self._looked_at = None


def read_pause(connection: Connection) -> int | None:
    """Return the stored end of the pause (UTC ms), past or not; ``None`` where none or no number is stored."""
    stored = get_state(connection, PAUSE_KEY)
    try:
        return None if stored is None else int(stored)
    except ValueError:
        return None
