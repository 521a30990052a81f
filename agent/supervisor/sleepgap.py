"""The machine slept: seen as a gap of the wall clock between two looks.

After one, workers that are alive get a renewal period before any lease is called stale (mecatl 1333, solid_queue 778:
work was started twice after sleep), and catching up begins once, after the network had time to come back (vorta 1815).
"""

from __future__ import annotations

GAP_SECONDS = 10.0
"""How much later than it meant to be a look must come to count as a gap; a busy machine is late by less."""


class SleepGap:
    """Watches the wall clock. Wall times in UTC ms, monotonic times in seconds, both handed in."""

    def __init__(self, wall_ms: int, *, renewal_seconds: float, catch_up_seconds: float) -> None:
        self._last_ms = wall_ms
        self._renewal_seconds = renewal_seconds
        self._catch_up_seconds = catch_up_seconds
        self._lease_grace_until = 0.0
        self._catch_up_at: float | None = None

    def look(self, wall_ms: int, monotonic: float, meant_to_wait_s: float) -> float:
        """Take in a look; return the seconds slept, 0 where there was no gap.

        A turn of the loop that took very long counts too: it costs some patience and no more.
        """
        gap = (wall_ms - self._last_ms) / 1000 - meant_to_wait_s
        self._last_ms = wall_ms
        if gap < GAP_SECONDS:
            return 0.0
        self._lease_grace_until = monotonic + self._renewal_seconds
        # A second gap before the catch-up moves it on: it is done once, not once per lid that was opened.
        self._catch_up_at = monotonic + self._catch_up_seconds
        return gap

    def leases_are_trusted(self, monotonic: float) -> bool:
        """Return whether a lease that has run out may be called stale."""
        return monotonic >= self._lease_grace_until

    def may_catch_up(self, monotonic: float) -> bool:
        """Return whether scheduled work may go on: always, but for the first seconds after a gap."""
        if self._catch_up_at is not None and monotonic >= self._catch_up_at:
            self._catch_up_at = None
        return self._catch_up_at is None

    @property
    def catch_up_at(self) -> float | None:
        """When scheduled work goes on (monotonic), or ``None`` where nothing holds it."""
        return self._catch_up_at
