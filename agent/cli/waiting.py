"""The line that says how far something is while one waits for it: on stderr, once it takes longer than a second.

In place on a terminal, where nothing of it stays; a line now and then in a pipe. Nothing here ever raises: an answer is
not lost because nobody reads how far it was.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

SILENT_S = 1.0
TERMINAL_EVERY_S = 0.2
PIPE_EVERY_S = 5.0


class WaitingLine:
    """One line, from the second second on. What it says is given as words, counts or a share."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self.is_terminal = self._stream.isatty()
        self._due = monotonic() + SILENT_S
        self._drawn = False

    def __enter__(self) -> WaitingLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wipe()

    def say(self, words: str) -> None:
        """Say how far it is now, unless that was said a moment ago."""
        now = self._monotonic()
        if now >= self._due:
            self._due = now + (TERMINAL_EVERY_S if self.is_terminal else PIPE_EVERY_S)
            self._draw(words)

    def counted(self, what: str) -> Callable[[int], None]:
        """Return what takes in how many items there are so far; ``what`` begins the line."""
        return lambda count: self.say(f"{what}: {count:,} items so far")

    def counted_of(self, what: str) -> Callable[[int, int], None]:
        """Return what takes in how many of how many are done."""
        return lambda done, total: self.say(f"{done:,} of {total:,} {what}")

    def share(self, what: str) -> Callable[[int, int], None]:
        """Return what takes in how many of how many are done, for people who want to know the share only."""
        return lambda done, total: self.say(f"{what}: {100 * done // max(1, total)} %")

    def lasting(self, what: str) -> Callable[[], None]:
        """Return what is called now and then while something goes on of which nobody knows how far it is."""
        begun = self._monotonic()
        return lambda: self.say(f"{what}: {self._monotonic() - begun:.0f} s so far")

    def wipe(self) -> None:
        """Take the line off the terminal; what is said next begins with a silent second again."""
        if self._drawn:
            self._write("\r\x1b[K")
            self._drawn = False
        self._due = max(self._due, self._monotonic() + SILENT_S)

    def _draw(self, words: str) -> None:
        if self.is_terminal:
            self._drawn = True
            self._write(f"\r{words[: max(0, shutil.get_terminal_size((80, 24)).columns - 1)]}\x1b[K")
        else:
            self._write(f"{words}\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._drawn = False
            self._due = float("inf")  # nobody reads it any more
