"""The line that says how far a look of several steps has come: on stderr, once it takes longer than a second."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from types import TracebackType

QUIET_S = 1.0
PIPE_EVERY_S = 5.0
_BAR_WIDTH = 24


class Steps:
    """Redrawn in place on a terminal, a line now and then in a pipe; nothing of it stays on a terminal."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._monotonic = monotonic
        self._begun = monotonic()
        self._said: float | None = None
        self._terminal = self._stream.isatty()
        self._drawn = False

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._write("\r\x1b[K")

    def say(self, name: str, step: int, steps: int) -> None:
        """Tell that a step begins: its name, its number, how many there are. Never raises."""
        now = self._monotonic()
        if now - self._begun < QUIET_S:
            return
        if self._terminal:
            full = (step - 1) * _BAR_WIDTH // max(1, steps)
            line = f"{'━' * full}{'─' * (_BAR_WIDTH - full)} {step} of {steps}: {name}"
            self._drawn = True
            self._write(f"\r{line[: shutil.get_terminal_size((80, 24)).columns - 1]}\x1b[K")
        elif self._said is None or now - self._said >= PIPE_EVERY_S:
            self._write(f"{step} of {steps}: {name}\n")
            self._said = now

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._terminal = self._drawn = False  # nobody reads it any more
