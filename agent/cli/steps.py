"""How far a look of several steps has come, on the line that everything uses that one waits for (``waiting.py``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from agent.cli.waiting import WaitingLine

if TYPE_CHECKING:
    from types import TracebackType

_BAR_WIDTH = 24


class Steps:
    """A bar on a terminal, a line now and then in a pipe; nothing of it stays on a terminal."""

    def __init__(self, stream: TextIO | None = None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._line = WaitingLine(stream, monotonic)

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._line.wipe()

    def say(self, name: str, step: int, steps: int) -> None:
        """Tell that a step begins: its name, its number, how many there are. Never raises."""
        words = f"{step} of {steps}: {name}"
        if self._line.is_terminal:
            full = (step - 1) * _BAR_WIDTH // max(1, steps)
            words = f"{'━' * full}{'─' * (_BAR_WIDTH - full)} {words}"
        self._line.say(words)
