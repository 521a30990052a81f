"""What the supervisor reads of the queue between two waits. Reads only, flat in the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.db.power_row import PowerRow, read_override, read_power
from agent.db.state import PAUSE_KEY, get_state
from agent.queue.claim import Claim, count_due, next_due_ms
from agent.queue.counts import count_running
from agent.queue.registry import Registry
from agent.supervisor.pool import Claimable

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.db import Connection
    from agent.queue.claim import Allowed


@dataclass(frozen=True)
class QueueLook:
    """The queue at one moment. Times in UTC ms."""

    claimable: Claimable = field(default_factory=Claimable)
    running: int = 0
    next_due_ms: int | None = None
    """When the earliest ready row is due, maybe past; ``None`` without ready rows."""
    next_claimable_ms: int | None = None
    """The same of the rows that may be claimed."""
    is_held: bool = False
    """Whether a row is due that may not be claimed."""
    paused_until_ms: int | None = None
    """The end of a pause that holds now."""
    power: PowerRow | None = None
    power_override: str | None = None
    """What the database holds of the power policy (``agent/db/power_row.py``)."""


def look_at_queue(
    connection: Connection,
    registry: Registry,
    now_ms: int,
    *,
    limit: int,
    free_permits: Callable[[], int | None],
    allowed: Allowed | None = None,
) -> QueueLook:
    """Return one consistent picture; rows that are due are counted to ``limit`` at most.

    ``free_permits`` is asked only where a row that may need one is due; kinds that are not ``allowed`` are not counted.
    """
    # One snapshot: a row that is claimed between two reads would be seen neither as ready nor as running.
    with connection.snapshot():
        paused = _pause(connection, now_ms)
        running = count_running(connection)
        is_held, due_ms = False, next_due_ms(connection, registry)
        claimable_ms = due_ms
        if allowed is not None and due_ms is not None and due_ms <= now_ms:
            held = Registry.of(spec for spec in registry if not allowed(str(spec.kind)))
            held_ms = next_due_ms(connection, held)
            is_held = held_ms is not None and held_ms <= now_ms
            claimable_ms = next_due_ms(connection, Registry.of(spec for spec in registry if allowed(str(spec.kind))))
        power, override = read_power(connection), read_override(connection)
        free = bound = 0
        if paused is None and due_ms is not None and due_ms <= now_ms:
            free = count_due(connection, Claim(registry, "", allowed=allowed, with_permit=False), now_ms, limit)
            bound = count_due(connection, Claim(registry, "", allowed=allowed), now_ms, free + limit) - free
    permits = free_permits() if bound else None
    claimable = Claimable(free, bound, permits)
    return QueueLook(claimable, running, due_ms, claimable_ms, is_held, paused, power, override)


def _pause(connection: Connection, now_ms: int) -> int | None:
    stored = get_state(connection, PAUSE_KEY)
    try:
        until = None if stored is None else int(stored)
    except ValueError:
        return None
    return until if until is not None and until > now_ms else None
