"""The database as the supervisor sees it: opened (which migrates) before any worker starts, and allowed to be broken.

The supervisor's connection waits 300 ms at most, since a stop must never wait for another writer. A condition is
logged once per episode, not once per poll (openhuman 3909: one machine wrote 95,000 error events).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import apsw

from agent.db import Connection, connect
from agent.db.faults import PAUSE_S, FaultClass, classify
from agent.errors import DatabaseCorrupt, SapwoodError
from agent.supervisor.stopping import BUSY_TIMEOUT_MS

if TYPE_CHECKING:
    from agent.paths import Paths

REOPEN_S = 30.0
BUSY_AGAIN_S = 0.25
BUSY_PATIENCE_S = 10.0
OPEN_TIMEOUT_MS = 1_000
"""A stop must not wait behind another process's migration for longer than this."""
_STEPS_BETWEEN_LOOKS = 20_000

Result = TypeVar("Result")
_log = logging.getLogger("sapwood.supervisor")


class Storage:
    """Holds the connection or the reason why there is none. Times are monotonic seconds, handed in."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.connection: Connection | None = None
        self.problem: str | None = None
        """Why the memory cannot be used, in an owner's words with what to do; ``None`` while it can."""
        self.is_corrupt = False
        self.retry_at = 0.0
        self._episode: FaultClass | None = None
        self._busy_since: float | None = None

    def open(self, now: float) -> bool:
        """Open and migrate where that is not done yet; return whether there is a connection. Never raises for a
        database that refuses: ``problem`` then says why, and the next try is due at ``retry_at``.
        """
        if self.connection is not None:
            return True
        if now < self.retry_at:
            return False
        try:
            connection = connect(self._paths.database, self._paths.write_turn, busy_timeout_ms=OPEN_TIMEOUT_MS)
        except DatabaseCorrupt as error:
            self._refused(error, now)
            self.is_corrupt = True
            return False
        except (SapwoodError, OSError) as error:
            if classify(error) is FaultClass.BUSY and self._is_worth_waiting(now):
                self.retry_at = now + BUSY_AGAIN_S
            else:
                self._refused(error, now)
            return False
        connection.raw.set_busy_timeout(BUSY_TIMEOUT_MS)
        self.connection, self.problem, self.is_corrupt = connection, None, False
        return True

    def _is_worth_waiting(self, now: float) -> bool:
        """Return whether another process may just be migrating. Whoever holds the file for ever is told about."""
        if self._busy_since is None:
            self._busy_since = now
        return now - self._busy_since < BUSY_PATIENCE_S

    def _refused(self, error: BaseException, now: float) -> None:
        said = _in_words(error)
        if said != self.problem:
            _log.error("the memory cannot be used: %s", said)
        self.problem, self.retry_at = said, now + REOPEN_S

    def attempt(self, what: str, work: Callable[[Connection], Result], now: float) -> Result | None:
        """Do some work on the connection; return ``None`` where there is no connection or the database was in the way.

        After a fault nothing is attempted until its pause is over. Errors that are not the database's are raised.
        """
        if self.connection is None or self.is_corrupt or now < self.retry_at:
            return None
        try:
            result = work(self.connection)
        except Exception as error:
            fault = classify(error)
            if fault is FaultClass.OTHER:
                raise
            self._note(what, fault, error, now)
            return None
        if self._episode is not None:
            _log.info("the memory answers again")
            self._episode, self.problem = None, None
        return result

    def _note(self, what: str, fault: FaultClass, error: BaseException, now: float) -> None:
        if fault is FaultClass.BUSY:
            # Normal contention; the next look does it.
            self.retry_at = now + BUSY_AGAIN_S
            return
        self.retry_at = now + PAUSE_S[fault]
        if fault is not self._episode:
            _log.error("%s met %s: %s", what, fault, error)
            self._episode = fault
        if fault is FaultClass.CORRUPT:
            self.suspect_corruption()
        else:
            self.problem = f"{what}: {error} (tried again every {PAUSE_S[fault]:.0f} s)"

    def suspect_corruption(self) -> None:
        """A worker or a statement met a damaged page: nothing is to use the file until it was looked at."""
        self.is_corrupt = True

    def confirm_corruption(self, is_to_stop: Callable[[], bool]) -> bool | None:
        """Look at the whole file and return whether it is damaged; ``None`` where the look was broken off.

        Blocks for as long as reading the file takes, but ends soon after ``is_to_stop()`` says so. Changes nothing.
        """
        connection = self.connection
        if connection is None:
            return self.is_corrupt
        connection.raw.set_progress_handler(is_to_stop, _STEPS_BETWEEN_LOOKS)
        try:
            verdict = connection.value("PRAGMA quick_check(1)")
        except Exception as error:
            if is_to_stop():
                return None
            if classify(error) is not FaultClass.CORRUPT:
                raise
            verdict = str(error)
        finally:
            connection.raw.set_progress_handler(None, 0)
        self.is_corrupt = verdict != "ok"
        if self.is_corrupt:
            self.problem = (
                f"the memory file is damaged ({str(verdict).splitlines()[0][:200]}); nothing was changed. "
                f"Stop the agent, move {self._paths.database} and its -wal and -shm away, then start again: "
                "the memory grows anew from its sources"
            )
            _log.critical("the memory file is damaged: %s", verdict)
        else:
            self.retry_at, self._episode, self.problem = 0.0, None, None
            _log.warning("a process met a damaged page, but the whole file reads well: going on")
        return self.is_corrupt

    def close(self, *, checkpoint: bool = True) -> None:
        """Let the connection go. ``checkpoint=False``: leave the files as they are (no time left, or damaged)."""
        if self.connection is not None:
            if not checkpoint:
                self.connection.raw.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self.connection.close()
            self.connection = None


def _in_words(error: BaseException) -> str:
    if isinstance(error, SapwoodError):
        return f"{error}; {error.hint}" if error.hint else str(error)
    return str(error)
