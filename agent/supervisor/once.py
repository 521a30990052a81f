"""When ``run --once`` is over.

It ends when no row is running or ready, due or delayed, and every tree is finished; if all that is left is due in over
ten minutes it says so instead of waiting (``cli.md``). Failed rows do not keep it: they are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

PATIENCE_MS = 10 * 60 * 1000
SAME_ROUNDS = 5
"""After so many rounds in which the tails asked for the very same jobs nothing is getting on."""


class Step(Enum):
    """What to do in a quiet moment."""

    WAIT = auto()
    SEARCH = auto()
    """Run the sweeps, then ask for open tails, then whether everything is finished."""
    GIVE_UP = auto()


@dataclass(frozen=True)
class Quiet:
    """The queue at a moment: rows in flight, and when the earliest ready row is due (UTC ms)."""

    running: int
    next_due_ms: int | None
    paused_until_ms: int | None = None


class OnceGuard:
    """Decides from one moment to the next; remembers whether rounds repeat themselves."""

    def __init__(self) -> None:
        self._asked: tuple[str, ...] = ()
        self._same = 0
        self.reason = ""

    def judge(self, quiet: Quiet, now_ms: int, *, anyone_busy: bool) -> Step:
        """Return what this moment asks for. ``reason`` says why after ``GIVE_UP``."""
        if quiet.paused_until_ms is not None and quiet.paused_until_ms - now_ms > PATIENCE_MS:
            self.reason = "the work is paused: `sapwood resume`, then run again"
            return Step.GIVE_UP
        if anyone_busy or quiet.running:
            return Step.WAIT
        if quiet.next_due_ms is None or quiet.next_due_ms - now_ms > PATIENCE_MS:
            return Step.SEARCH
        return Step.WAIT

    def verdict(self, quiet: Quiet, now_ms: int, unfinished: Sequence[str]) -> str:
        """Return why not all is done after a search that found nothing more, or ``""`` where all is."""
        if quiet.next_due_ms is not None:
            minutes = round((quiet.next_due_ms - now_ms) / 60_000)
            return f"what is left is due in {minutes} minutes; run again then, or leave the agent running"
        if unfinished:
            more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
            return f"not finished: {'; '.join(unfinished[:3])}{more}"
        return ""

    def is_stuck(self, asked: Sequence[str]) -> bool:
        """Take in what the open tails asked for this time; return whether it is the same as ever."""
        key = tuple(sorted(asked))
        self._same = self._same + 1 if key and key == self._asked else 0
        self._asked = key
        if self._same >= SAME_ROUNDS:
            self.reason = f"the same {len(key)} jobs are asked for again and again: {key[0]}"
            return True
        return False
