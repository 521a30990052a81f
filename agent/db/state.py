"""Single values in the database: pause, schedule marks, cursors of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.db.connection import Connection

PAUSE_KEY = "pause_until_ms"
"""The owner's pause: its end in UTC ms. Workers obey it, the supervisor reports it."""

POWER_KEY = "power"
"""What the power policy allows (``power_row.py``). The supervisor writes it, workers obey it."""

POWER_OVERRIDE_KEY = "power_override"
"""What the owner said to work on in spite of (``power_row.py``)."""

DAMAGE_KEY = "damage"
"""What an owner is told of a damaged memory that was grown again (``aside.py``)."""

LEDGER_KEY = "ledger_applied"
"""How much of the ledger was applied to this memory; missing: none of it, the next start applies it."""

REGROWING_KEY = "regrowing_since_ms"
"""When the memory was emptied to be grown again (UTC ms): answers of models wait for their nodes to come back, until
all has grown and a day is over (``agent/models/mending.py``)."""

NOTICES_KEY = "notices"
"""Which notifications were shown, and whether the first memory has grown (``agent/supervisor/notices.py``)."""


def get_state(connection: Connection, key: str) -> str | None:
    """Return a value, or ``None`` where none was set."""
    value: str | None = connection.value("SELECT value FROM mem_tree_state WHERE key = ?", (key,))
    return value


def set_state(connection: Connection, key: str, value: str | None) -> None:
    """Set a value inside the caller's transaction; ``None`` removes it."""
    if value is None:
        connection.run("DELETE FROM mem_tree_state WHERE key = ?", (key,))
        return
    connection.run(
        """
        INSERT INTO mem_tree_state (key, value) VALUES (?, ?)
        ON CONFLICT (key) DO UPDATE SET value = excluded.value
        """,
        (key, value),
    )
