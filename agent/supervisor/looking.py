"""What the supervisor reads of the queue between two waits. Reads only, flat in the number of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.db.state import PAUSE_KEY, get_state
from agent.queue.claim import Claim, count_due, next_due_ms
from agent.queue.counts import count_running
from agent.supervisor.pool import Claimable

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.db import Connection
    from agent.queue.claim import Allowed
    from agent.queue.registry import Registry


@dataclass(frozen=True)
class QueueLook:
    """The queue at one moment. Times in UTC ms."""

    claimable: Claimable = field(default_factory=Claimable)
    running: int = 0
    next_due_ms: int | None = None
    """When the earliest ready row is due, maybe past; ``None`` without ready rows."""
    paused_until_ms: int | None = None
    """The end of a pause that holds now."""


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
        due_ms = next_due_ms(connection, registry)
        free = bound = 0
        if paused is None and due_ms is not None and due_ms <= now_ms:
            free = count_due(connection, Claim(registry, "", allowed=allowed, with_permit=False), now_ms, limit)
            bound = count_due(connection, Claim(registry, "", allowed=allowed), now_ms, free + limit) - free
    permits = free_permits() if bound else None
    return QueueLook(Claimable(free, bound, permits), running, due_ms, paused)


def _pause(connection: Connection, now_ms: int) -> int | None:
    stored = get_state(connection, PAUSE_KEY)
    try:
        until = None if stored is None else int(stored)
    except ValueError:
        return None
    return until if until is not None and until > now_ms else None
