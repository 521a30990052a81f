"""What passes between the supervisor and the processes beside its workers: the tray and the page.

Each is given a ``CompanionArgs`` and one end of a two-way ``multiprocessing.Pipe``, which is its life line too: its end
of file means *the supervisor is gone: exit at once*. A message is one JSON object whose ``say`` is its word. Nothing is
unpickled, and an unknown word is passed over, so that the two sides may differ by a version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from agent.paths import Paths

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


class Say(StrEnum):
    """The words of the line."""

    # supervisor → companion
    STOP = "stop"  # end, within a second
    STATE = "state"  # what the agent does has changed: ``state``, ``reason``
    # companion → supervisor
    UP = "up"  # it serves: ``detail`` says how (a back end's name, an address)
    IMPOSSIBLE = "impossible"  # it cannot serve here for now: ``reason``; it stays, or exits with EXIT_IMPOSSIBLE
    BYE = "bye"  # it ends by itself, and is not to be started again until it is asked for


EXIT_IMPOSSIBLE = 84
"""It cannot serve on this desktop; to be tried again later, and no failure."""


@dataclass(frozen=True)
class CompanionArgs:
    """How a companion is started. Pickled to the child, so it holds plain values only."""

    paths: Paths
    role: str
    """``tray`` or ``gateway``; the name of its log."""
    parent_pid: int
    log_level: str = "INFO"


class CompanionLine:
    """One end of the line. Not for several threads at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """Return what becomes readable when there is a message, or the other side is gone."""
        return self._connection.fileno()

    def send(self, word: Say, **more: Any) -> bool:
        """Send a message; return whether the other side could take it. Does not raise."""
        try:
            self._connection.send_bytes(json.dumps({"say": str(word), **more}).encode())
        except (OSError, ValueError):
            return False
        return True

    def receive(self) -> dict[str, Any] | None:
        """Return the next message; blocks until there is one. ``None``: the other side is gone."""
        while True:
            try:
                message = json.loads(self._connection.recv_bytes(1 << 20))
            except (OSError, EOFError):
                return None
            except ValueError:
                continue
            if isinstance(message, dict) and "say" in message:
                return message

    def poll(self, timeout_s: float = 0.0) -> bool:
        """Return whether a message, or the end, is there within so many seconds."""
        try:
            return self._connection.poll(timeout_s)
        except (OSError, EOFError):
            return True

    def close(self) -> None:
        """Let go of the line."""
        self._connection.close()
