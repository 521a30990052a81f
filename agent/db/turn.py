"""The writers' turn: an advisory kernel lock around each write transaction.

Four drainers on SQLite's busy timeout alone shared the work 1 : 15 : 1 : 1186 (``numbers.md``). The turn is polled
every millisecond for half a second at most and then done without, so that a stopped process freezes nobody; SQLite's
own lock stays the one that protects the data.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

POLL_S = 0.001
PATIENCE_S = 0.5

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class WriteTurn:
    """One connection's place in the queue of writers. Not shared between threads: each connection has its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self, patience_s: float = PATIENCE_S) -> bool:
        """Block until the turn is ours or patience has run out; return whether it is ours. Never raises."""
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError:
            # A full or read-only disk must not stop a write that SQLite may still be able to make.
            return False
        if _try_lock(self._descriptor):
            return True
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            time.sleep(POLL_S)
            if _try_lock(self._descriptor):
                return True
        return False

    def give(self) -> None:
        """Let the next writer go."""
        if self._descriptor is not None:
            _unlock(self._descriptor)
