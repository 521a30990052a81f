"""From a damaged page to a new memory: workers end, the file is looked at and moved aside, growing begins again.

A memory that is damaged twice within an hour is not begun anew a third time: whatever does that will do it again, and
who grows on such a disk wastes its owner's machine. An owner who says `sapwood rebuild` is obeyed all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum, auto
from typing import TYPE_CHECKING

from agent.db.aside import DAMAGED, copies
from agent.db.faults import FaultClass, classify
from agent.supervisor.slots import Exit

if TYPE_CHECKING:
    from agent.paths import Paths
    from agent.supervisor.storage import Storage
    from agent.supervisor.workforce import Workforce

AGAIN_WITHIN_MS = 3_600_000
LOOK_S = 0.05
TRY_AGAIN_S = 5.0
REST_S = 60.0
BELIEVED_AGAIN_S = 60.0
"""After a false alarm of a command the next one is believed this much later: a look stops everybody."""

_log = logging.getLogger("sapwood.supervisor")


class Outcome(Enum):
    """What a turn came to."""

    WAIT = auto()
    SOUND = auto()
    MOVED = auto()
    """The file is out of the way: the next thing is to open a new one."""
    STUCK = auto()
    """Nothing more is done before the owner says so."""


class DamageControl:
    """The state between a suspicion and a new memory. Times are monotonic seconds and UTC ms, handed in."""

    def __init__(self, paths: Paths, storage: Storage, workforce: Workforce, is_to_stop: Callable[[], bool]) -> None:
        self._paths = paths
        self._storage = storage
        self._workforce = workforce
        self._is_to_stop = is_to_stop
        self._is_confirmed = False
        self._is_asked = False
        self._try_at = 0.0
        self._is_stuck = False
        self._believed_at = 0.0

    # -- from other threads -------------------------------------------------------------------------------------------

    def suspect(self, now: float) -> None:
        """A command met a damaged page. Only sets flags."""
        if now >= self._believed_at:
            self._storage.suspect_corruption()

    def ask(self) -> None:
        """The owner wants this memory moved aside, however often that happened. Only sets flags."""
        self._is_asked = True
        self._storage.suspect_corruption()

    # -- the main loop's ----------------------------------------------------------------------------------------------

    @property
    def needs_owner(self) -> bool:
        """Whether nothing is done before the owner says so."""
        return self._is_stuck

    def turn(self, now: float, wall_ms: int) -> Outcome:
        """Do the next step. Blocks for as long as reading the whole file takes, once, and ends early for a stop."""
        if self._is_stuck and not self._is_asked:
            return Outcome.STUCK
        if now < self._try_at and not self._is_asked:
            return Outcome.WAIT
        for child in self._workforce.children:
            child.tell_to_stop(Exit.FRESH, now)
        if len(self._workforce.children):
            return Outcome.WAIT
        if not self._is_confirmed and not self._is_asked:
            verdict = self._confirm(now)
            if verdict is not True:
                return Outcome.WAIT if verdict is None else Outcome.SOUND
        return self._move(now, wall_ms)

    def _confirm(self, now: float) -> bool | None:
        try:
            verdict = self._storage.confirm_corruption(self._is_to_stop)
        except Exception as error:
            if classify(error) is FaultClass.OTHER:
                raise
            # The disk cannot be read just now: that says nothing about the file.
            self._storage.problem = f"the memory cannot be looked at: {error} (tried again every {TRY_AGAIN_S:.0f} s)"
            self._try_at = now + TRY_AGAIN_S
            return None
        if verdict is False:
            self._believed_at = now + BELIEVED_AGAIN_S
        self._is_confirmed = verdict is True
        return verdict

    def _move(self, now: float, wall_ms: int) -> Outcome:
        last = next(iter(copies(self._paths.database, DAMAGED)), None)
        if last is not None and 0 <= wall_ms - last.at_ms < AGAIN_WITHIN_MS and not self._is_asked:
            self._is_stuck = True
            self._storage.problem = (
                f"the memory file is damaged again within an hour ({self._storage.found}): the disk may be failing. "
                "Nobody works on it until you say so: check the disk, then `sapwood rebuild`"
            )
            _log.critical("the memory file is damaged again within an hour: nothing more is done by itself")
            return Outcome.STUCK
        try:
            self._storage.begin_anew(wall_ms)
        except OSError as error:
            self._storage.is_corrupt = True
            self._storage.problem = (
                f"the memory file is damaged and cannot be moved aside: {error.strerror or error}; "
                "close other programs that have it open (tried again every 5 s)"
            )
            self._try_at = now + TRY_AGAIN_S
            return Outcome.WAIT
        self._is_confirmed = self._is_asked = self._is_stuck = False
        self._try_at = 0.0
        return Outcome.MOVED

    def next_moment(self, now: float) -> float:
        """Return when the next step is due (monotonic)."""
        if self._is_stuck and not self._is_asked:
            return now + REST_S
        return max(self._try_at, now + LOOK_S)
