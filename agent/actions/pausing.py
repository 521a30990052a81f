"""Pausing the work. A pause is a UTC deadline in the database: it survives restarts and sleep.

The power policy's own pause is another state; the owner's word beats it until what it was said about has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.actions.times import FOREVER_MS, pause_end_ms
from agent.db.power_row import put_override_tx, read_power
from agent.db.state import PAUSE_KEY, set_state

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.db import Connection


@dataclass(frozen=True)
class Paused:
    """Until when the work is paused (UTC ms); ``None`` where it is not. ``indefinite``: until the owner resumes.

    ``in_spite_of``: why the power policy held the work back, which it does no more.
    """

    paused_until_ms: int | None
    indefinite: bool = False
    in_spite_of: str = ""


def pause(home: Home, until: str | None = None) -> Paused:
    """Pause all work for a span (``1h``), until ``tomorrow`` at six, or until resume (``None``).

    A call to a model of this machine ends within a second and its job is put off; what else runs at this moment comes
    to its end. Raises ``UsageFault`` for a time that cannot be read.
    """
    end_ms = pause_end_ms(until, home.clock.now_ms())
    with home.connection.write():
        set_state(home.connection, PAUSE_KEY, str(end_ms))
        # The owner's last word counts: once this pause is over the policy decides again.
        put_override_tx(home.connection, ())
    _wake(home)
    return Paused(end_ms, indefinite=end_ms == FOREVER_MS)


def resume(home: Home) -> Paused:
    """Let the work go on, at once, and in spite of what the power policy holds it back for now.

    That lasts until the cause is gone: on battery until the machine has been on mains again.
    """
    held = read_power(home.connection) if home.running else None
    with home.connection.write():
        set_state(home.connection, PAUSE_KEY, None)
        if held is not None:
            put_override_tx(home.connection, None)
    _wake(home)
    return Paused(None, in_spite_of="" if held is None else held.reason)


def read_paused(connection: Connection, now_ms: int) -> Paused:
    """Return the pause that is in force at that moment."""
    from agent.worker.capacity import read_pause

    end_ms = read_pause(connection)
    if end_ms is None or end_ms <= now_ms:
        return Paused(None)
    return Paused(end_ms, indefinite=end_ms >= FOREVER_MS)


def _wake(home: Home) -> None:
    from agent.queue.wake import wake_workers

    # Idle workers sleep, the supervisor too; those that wake look at the pause anew.
    wake_workers(home.connection)
