"""The power policy's word to the workers, and the owner's answer to it: two rows of ``mem_tree_state``.

Apart from the owner's pause, which is another row and beats both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.state import POWER_KEY, POWER_OVERRIDE_KEY, get_state, set_state
from agent.states import PowerCause, PowerMode

if TYPE_CHECKING:
    from agent.db.connection import Connection

ALL_THERE_IS = "*"
"""An override by who does not know what there is: the supervisor puts the causes of the moment in its place."""


@dataclass(frozen=True)
class PowerRow:
    """A restriction: ``THROTTLED`` or ``PAUSED``, why, and the same in words. Two are the same whatever the words."""

    mode: PowerMode
    cause: PowerCause
    reason: str

    def is_same(self, other: PowerRow | None) -> bool:
        """Return whether another asks for the same; a battery that falls by a percent is no news to a worker."""
        return other is not None and (self.mode, self.cause) == (other.mode, other.cause)


def read_power(connection: Connection) -> PowerRow | None:
    """Return the restriction that is stored, ``None`` where there is none or it cannot be read. Reads one row."""
    return parse_power(get_state(connection, POWER_KEY))


def parse_power(stored: str | None) -> PowerRow | None:
    """Return the restriction of a stored text; one of another version restricts nothing."""
    if stored is None:
        return None
    try:
        held = json.loads(stored)
        return PowerRow(PowerMode(held["mode"]), PowerCause(held["cause"]), str(held["reason"]))
    except (ValueError, KeyError, TypeError):
        return None


def put_power_tx(connection: Connection, row: PowerRow | None) -> None:
    """Store a restriction inside the caller's transaction, or that there is none."""
    text = None
    if row is not None:
        text = json.dumps({"mode": str(row.mode), "cause": str(row.cause), "reason": row.reason})
    set_state(connection, POWER_KEY, text)


def read_override(connection: Connection) -> str | None:
    """Return the owner's override as it is stored: ``ALL_THERE_IS`` or causes with commas between."""
    return get_state(connection, POWER_OVERRIDE_KEY)


def parse_override(stored: str | None) -> frozenset[PowerCause]:
    """Return the causes that a stored override names; words of another version name none."""
    known = {str(cause): cause for cause in PowerCause}
    return frozenset(known[word] for word in (stored or "").split(",") if word in known)


def put_override_tx(connection: Connection, causes: Iterable[PowerCause] | None) -> None:
    """Store inside the caller's transaction what to work on in spite of; ``None``: all there is at the moment."""
    if causes is None:
        set_state(connection, POWER_OVERRIDE_KEY, ALL_THERE_IS)
        return
    set_state(connection, POWER_OVERRIDE_KEY, ",".join(sorted(map(str, causes))) or None)
