"""Since when nobody is at work, and since when rows are left over that nobody has hands for. Pure.

Times are monotonic seconds, handed in.
"""

from __future__ import annotations

SHRINK_AFTER_S = 3.0
"""After so long a rest the memory is tidied, once."""


class Rest:
    """What the looks at the queue add up to."""

    def __init__(self) -> None:
        self.since: float | None = None
        self.left_over_since: float | None = None
        self._is_shrunk = False

    @property
    def is_on(self) -> bool:
        """Whether nobody is at work."""
        return self.since is not None

    def note(self, now: float, *, is_busy: bool, is_left_over: bool) -> None:
        """Take in one look."""
        if is_busy:
            self.since, self._is_shrunk = None, False
        elif self.since is None:
            self.since = now
        if not is_left_over:
            self.left_over_since = None
        elif self.left_over_since is None:
            self.left_over_since = now

    def shrink_at(self) -> float | None:
        """Return when the memory is to be tidied, or ``None``."""
        return None if self.since is None or self._is_shrunk else self.since + SHRINK_AFTER_S

    def is_to_shrink(self, now: float) -> bool:
        """Return whether it is to be tidied now; true once in a rest, and once more after each ``shrink_again``."""
        at = self.shrink_at()
        if at is None or now < at:
            return False
        self._is_shrunk = True
        return True

    def shrink_again(self) -> None:
        """Take in that there is more to tidy, at the next look."""
        self._is_shrunk = False
