"""What must be done before the first worker starts, and again for each memory that was begun anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.supervisor.leftovers import Leftovers, clear_workers_dir

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.paths import Paths
    from agent.supervisor.storage import Storage

LEFTOVERS_PATIENCE_S = 3.0


class Beginning:
    """Leftovers of the supervisor before this one first, then ``begin``, which returns true when it is done."""

    def __init__(self, paths: Paths, storage: Storage, begin: Callable[[Connection, int], bool]) -> None:
        self._paths = paths
        self._storage = storage
        self._begin = begin
        self._leftovers: Leftovers | None = None
        self._until = 0.0
        self.is_done = False

    def again(self) -> None:
        """The memory is another one."""
        self._leftovers, self.is_done = None, False

    def turn(self, now: float, wall_ms: int, *, crash_limit: int) -> bool:
        """Do what can be done by now and return whether that is all. Monotonic seconds and UTC ms are handed in."""
        if self.is_done:
            return True
        if self._leftovers is None:
            clear_workers_dir(self._paths)
            self._leftovers = self._storage.attempt("a start", lambda it: Leftovers(self._paths, it), now)
            self._until = now + LEFTOVERS_PATIENCE_S
            if self._leftovers is None:
                return False
        leftovers = self._leftovers
        alive = self._storage.attempt("a start", lambda it: leftovers.settle(it, wall_ms, crash_limit=crash_limit), now)
        if alive is None or (alive and now < self._until):
            return False
        self.is_done = bool(self._storage.attempt("a start", lambda it: self._begin(it, wall_ms), now))
        return self.is_done
