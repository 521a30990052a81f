"""What passes between the supervisor and the processes beside its workers: the tray and the page.

Each is given a ``CompanionArgs`` and one end of a two-way ``multiprocessing.Pipe``, which is its life line too: its end
of file means *the supervisor is gone: exit at once*. A message is one JSON object whose ``say`` is its word. Nothing is
unpickled, and an unknown word is passed over, so that the two sides may differ by a version.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from agent.paths import Paths

if TYPE_CHECKING:
    # What a socket pair and a named pipe of Windows have in common.
    from multiprocessing.connection import _ConnectionBase

    Connection = _ConnectionBase[Any, Any]


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
    """One end of the line. One thread may send while another receives, no two do the same at once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def fileno(self) -> int:
        """Return what becomes readable when there is a message, or the other side is gone."""
        return self._connection.fileno()

    @property
    def waitable(self) -> Any:
        """Return what to give to ``multiprocessing.connection.wait``."""
        return self._connection

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


class CompanionSender:
    """Sends on a line from a thread of its own, so that who does not read keeps nobody waiting.

    Of several messages with one word that wait only the newest is sent: a late reader learns how things are, not how
    they were. ``STOP`` goes before the others.
    """

    def __init__(self, line: CompanionLine) -> None:
        self._line = line
        self._waiting: dict[Say, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._send, name="companion line", daemon=True)
        self._thread.start()

    def post(self, word: Say, **more: Any) -> None:
        """Have a message sent as soon as the other side takes it. Never blocks, never raises."""
        with self._changed:
            self._waiting[word] = more
            self._changed.notify()

    def close(self, patience_s: float = 0.5) -> None:
        """Let go of the line; waits until nothing is being sent any more, which the other side's end brings about."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(patience_s)
        if not self._thread.is_alive():
            # Otherwise a number that is in use would become free for another file.
            self._line.close()

    def _send(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    return
                word = Say.STOP if Say.STOP in self._waiting else next(iter(self._waiting))
                more = self._waiting.pop(word)
            if not self._line.send(word, **more):
                return
