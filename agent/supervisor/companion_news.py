"""What tray and page are told of the agent, and how often: when it changes, and now and then while the memory grows.

No process and no clock here. Nothing is due while nothing changes: an idle agent wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.states import AgentState

APART_S = 0.5
GROWING_S = 2.0


@dataclass(frozen=True)
class News:
    """What companions are told of the agent. ``about``: whatever else they show; another value is news too."""

    state: AgentState
    reason: str
    about: tuple[object, ...] = ()


class Pace:
    """Numbers the news. Times are monotonic seconds, handed in."""

    def __init__(self) -> None:
        self.latest: News | None = None
        self.serial = 0
        """Rises with each piece of news; who was told a smaller one is behind."""
        self._told_at: float | None = None

    def note(self, news: News, now: float) -> None:
        """Take in how things are now."""
        is_growth_due = self._is_growing and self._told_at is not None and now - self._told_at >= GROWING_S
        if news != self.latest or is_growth_due:
            self.serial += 1
        self.latest = news

    def may_tell(self, now: float) -> bool:
        """Return whether it is long enough since somebody was told something."""
        return self._told_at is None or now - self._told_at >= APART_S

    def told(self, now: float) -> None:
        """Somebody was told."""
        self._told_at = now

    def next_moment(self, *, is_behind: bool) -> float | None:
        """Return when there is something to tell; ``is_behind``: somebody does not know the latest yet."""
        if self._told_at is None:
            return None
        if is_behind:
            return self._told_at + APART_S
        return self._told_at + GROWING_S if self._is_growing else None

    @property
    def _is_growing(self) -> bool:
        return self.latest is not None and self.latest.state is AgentState.GROWING
