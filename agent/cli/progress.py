"""The progress line of ``run`` and ``demo``: drawn in place on a terminal, said now and then in a pipe.

It stands on stderr and reads the memory on a connection of its own. It lives as long as the agent in the foreground
does, so it is written by hand: rich would stay in memory for it, and it looks only where something was committed.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from agent.actions.growth import Growth, growing_words, growth
from agent.clock import SYSTEM_CLOCK
from agent.errors import SapwoodError

if TYPE_CHECKING:
    from types import TracebackType

    from agent.db import Connection
    from agent.paths import Paths

TERMINAL_EVERY_S = 0.25
PIPE_EVERY_S = 5.0
# Nothing was committed for a while: look less often, so that an idle agent stays idle.
IDLE_EVERY_S = 2.0
# There a damaged file cannot be moved aside while anybody has it open, this very process included.
LETS_GO = sys.platform == "win32"
# However large the memory is, looking takes a twentieth of one core at most.
SHARE_OF_TIME = 20
BAR_WIDTHS = (24, 12, 6)


class Progress:
    """Follows one memory from a thread of its own until the block ends. Never raises into it."""

    def __init__(self, paths: Paths, stream: TextIO | None = None, *, greeting: str = "") -> None:
        self._paths = paths
        self._greeting = greeting
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self._ended = threading.Event()
        self._drawn = False
        self._last = ""
        self._thread = threading.Thread(target=self._follow, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        if self._greeting:
            self._write(f"{self._greeting}\n")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(2.0)
        self._wipe()

    def _follow(self) -> None:
        from agent.db.connection import connect
        from agent.db.faults import is_database_fault

        while not self._ended.is_set():
            # The supervisor makes the memory; a second maker would only be in its way.
            while not _is_made(self._paths):
                if self._ended.wait(0.1):
                    return
            connection: Connection | None = None
            try:
                made = _identity(self._paths)
                connection = connect(self._paths.database, create=False)
                self._draw(connection, made)
            except (SapwoodError, OSError):
                pass  # the agent meets the same, says so, and may make a new memory
            except Exception as error:
                if not is_database_fault(error):
                    raise
            finally:
                if connection is not None:
                    connection.close()
            self._ended.wait(IDLE_EVERY_S)

    def _draw(self, connection: Connection, made: object) -> None:
        """Draw until the end, or until the memory is another file: a damaged one is moved aside."""
        seen: int | None = None
        every = TERMINAL_EVERY_S if self._terminal else PIPE_EVERY_S
        wait = 0.1
        while not self._ended.wait(wait):
            version = int(connection.value("PRAGMA data_version"))
            if version == seen:
                if _identity(self._paths) != made:
                    return
                wait = max(every, IDLE_EVERY_S)
                continue
            seen = version
            begun = time.monotonic()
            found = growth(connection, SYSTEM_CLOCK.now_ms())
            wait = max(every, SHARE_OF_TIME * (time.monotonic() - begun))
            self._say(found)
            if LETS_GO:
                return

    def _say(self, found: Growth) -> None:
        if self._terminal:
            self._drawn = True
            self._write(f"\r{bar_line(found, self._columns())}\x1b[K")
        else:
            line = words(found)
            if line == self._last:
                return
            self._last = line
            self._write(f"{line}\n")

    def _columns(self) -> int:
        return shutil.get_terminal_size((80, 24)).columns

    def _wipe(self) -> None:
        if self._drawn:
            self._drawn = False
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._ended.set()  # nobody reads it any more


def _is_made(paths: Paths) -> bool:
    try:
        return os.stat(paths.database).st_size > 0
    except OSError:
        return False


def _identity(paths: Paths) -> object:
    """Return what tells one file from another of the same name. Asked of the folder: the file is SQLite's alone."""
    found = os.stat(paths.database)
    return (found.st_dev, found.st_ino)


def words(found: Growth) -> str:
    """Return the state of growth as one line."""
    if not found.jobs:
        return f"grown: {found.chunks} chunks, {found.summaries} summaries"
    return f"{'growing' if found.chunks else 'looking'}: {growing_words(found)}"


def bar_line(found: Growth, columns: int) -> str:
    """Return the same with a bar in front, as wide as the terminal leaves room for, cut to its width."""
    said = words(found)
    width = next((width for width in BAR_WIDTHS if width + 1 + len(said) < columns), 0)
    if not width:
        return said[: max(0, columns - 1)]
    full = width if not found.jobs else min(width - 1, int(found.share * width))
    return f"{'━' * full}{'─' * (width - full)} {said}"
