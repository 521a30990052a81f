"""Pausing the work. A pause is a UTC deadline in the database: it survives restarts and sleep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.actions.times import FOREVER_MS, pause_end_ms
from agent.db.state import PAUSE_KEY, set_state

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.db import Connection


@dataclass(frozen=True)
class Paused:
    """Until when the work is paused (UTC ms); ``None`` where it is not. ``indefinite``: until the owner resumes."""

    paused_until_ms: int | None
    indefinite: bool = False


def pause(home: Home, until: str | None = None) -> Paused:
    """Pause all work for a span (``1h``), until ``tomorrow`` at six, or until resume (``None``).

    What runs at this moment comes to its end. Raises ``UsageFault`` for a time that cannot be read.
    """
    end_ms = pause_end_ms(until, home.clock.now_ms())
    _store(home, end_ms)
    return Paused(end_ms, indefinite=end_ms == FOREVER_MS)


def resume(home: Home) -> Paused:
    """Let the work go on, at once."""
    _store(home, None)
    return Paused(None)


def read_paused(connection: Connection, now_ms: int) -> Paused:
    """Return the pause that is in force at that moment."""
    from agent.worker.capacity import read_pause

    end_ms = read_pause(connection)
    if end_ms is None or end_ms <= now_ms:
        return Paused(None)
    return Paused(end_ms, indefinite=end_ms >= FOREVER_MS)


def _store(home: Home, end_ms: int | None) -> None:
    from agent.queue.wake import wake_workers

    with home.connection.write():
        set_state(home.connection, PAUSE_KEY, None if end_ms is None else str(end_ms))
    # Idle workers sleep; those that wake look at the pause anew.
    wake_workers(home.connection)
