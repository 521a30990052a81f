"""Time as an argument, so that leases, backoffs and schedules are tested without waiting.

Rows hold wall-clock UTC milliseconds (they must mean something to the next process); waiting and measuring in one
process uses the monotonic clock, which no one can set back.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where a component gets its time from."""

    def now_ms(self) -> int:
        """Return the wall clock as UTC milliseconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block for that long."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class FakeClock:
    """A clock that moves only when told to; sleeping moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 1_000.0
        self.slept: list[float] = []

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let both clocks go on by so many seconds."""
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds

    def set_wall(self, now_ms: int) -> None:
        """Set the wall clock alone, as an owner or a time server would."""
        self._now_ms = now_ms


SYSTEM_CLOCK = SystemClock()


def iso(ms: int | None) -> str | None:
    """Return UTC milliseconds as ISO 8601 with the local offset, or ``None`` for ``None``."""
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):
        return None
