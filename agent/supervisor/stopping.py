"""The budget of a stop: under four seconds on every path, because a login session gives five.

0 s the flag and a wake, 1.5 s terminate, 2.5 s kill (a signal handler does not run inside a C call), then the leases of
the own workers are released without burning an attempt, or left to the next start.
"""

from __future__ import annotations

from enum import IntEnum

TERMINATE_AT_S = 1.5
KILL_AT_S = 2.5
RELEASE_BY_S = 3.2
CHECKPOINT_BY_S = 2.8
"""A checkpoint waits for readers and for the disk: it is begun only while there is time for it to be slow."""
BUSY_TIMEOUT_MS = 300


class Force(IntEnum):
    """What was done last to the children that still run."""

    NONE = 0
    ASKED = 1
    TERMINATED = 2
    KILLED = 3


class StopBudget:
    """Says when to use more force. Times are monotonic seconds, handed in."""

    def __init__(self, now: float) -> None:
        self.began = now
        self._force = Force.NONE

    def next_force(self, now: float) -> Force | None:
        """Return the step that is due now, each once and in order, or ``None``."""
        elapsed = now - self.began
        due = Force.KILLED if elapsed >= KILL_AT_S else Force.TERMINATED if elapsed >= TERMINATE_AT_S else Force.ASKED
        if due <= self._force:
            return None
        self._force = due
        return due

    def wait_s(self, now: float) -> float:
        """Return how long to wait for exits before asking again."""
        elapsed = now - self.began
        step = {Force.ASKED: TERMINATE_AT_S, Force.TERMINATED: KILL_AT_S}.get(self._force, RELEASE_BY_S)
        return max(0.0, step - elapsed)

    def is_over(self, now: float) -> bool:
        """Return whether children that are still there are not waited for any longer."""
        return now - self.began >= RELEASE_BY_S

    def has_time_for_checkpoint(self, now: float) -> bool:
        """Return whether a checkpoint may be begun."""
        return now - self.began < CHECKPOINT_BY_S
