"""Counting said aloud: a line on stderr for what takes over a second, wiped on a terminal when it is over."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

SILENT_S = 1.0
"""What is over by then needs no progress."""
TERMINAL_EVERY_S = 0.2
PIPE_EVERY_S = 5.0


class Counting:
    """Says how many items were counted so far, from the second second on. ``what`` begins the line."""

    def __init__(
        self, what: str, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._terminal = self._stream.isatty()
        self._due = monotonic() + SILENT_S
        self._drawn = False

    def __enter__(self) -> Counting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[K")

    def tell(self, count: int) -> None:
        """Take in how many items there are so far. Never raises."""
        now = self._monotonic()
        if now < self._due:
            return
        self._due = now + (TERMINAL_EVERY_S if self._terminal else PIPE_EVERY_S)
        line = f"{self._what}: {count:,} items so far"
        if self._terminal:
            self._drawn = True
            self._write(f"\r{line}\x1b[K")
        else:
            self._write(f"{line}\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._due = float("inf")  # nobody reads it any more
