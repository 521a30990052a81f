"""Whether work may start now (the seed's ``wait_for_capacity``): the owner's pause; the power policy joins it later."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.db.state import PAUSE_KEY, get_state

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.db import Connection

LOOK_EVERY_S = 0.1  # a pause takes hold well within a second and costs a busy worker next to nothing


class Capacity:
    """The answer for one worker. ``allowed`` is asked for every kind before every claim."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._looked_at: float | None = None
        self._paused_until_ms: int | None = None

    def allowed(self, kind: str) -> bool:
        """Return whether a job of this kind may start now. Reads the database ten times a second at most."""
        del kind  # a pause holds for all of them
        return self.paused_until_ms is None

    def limits(self) -> Callable[[str], bool] | None:
        """Return ``allowed``, or ``None`` where nothing is limited now: the usual case costs a busy worker one look."""
        return None if self.paused_until_ms is None else self.allowed

    @property
    def paused_until_ms(self) -> int | None:
        """The end of the owner's pause (UTC ms), or ``None`` where there is none or it is over."""
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._paused_until_ms = read_pause(self._connection)
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
