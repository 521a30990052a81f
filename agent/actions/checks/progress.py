"""Telling how far a look has come, to whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str, int, int], None]
"""Told the name of the step that begins, its number and how many there are."""


@dataclass
class Told:
    """Counts the steps of one look and tells of each."""

    steps: int
    say: Say | None = None
    done: int = 0

    def step(self, name: str) -> None:
        """Tell that a step begins."""
        self.done += 1
        if self.say is not None:
            self.say(name, min(self.done, self.steps), self.steps)
