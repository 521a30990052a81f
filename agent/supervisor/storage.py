"""The database as the supervisor sees it: opened (which migrates) before any worker starts, and allowed to be broken.

The supervisor's connection waits 300 ms at most, since a stop must never wait for another writer. A condition is
logged once per episode, not once per poll (openhuman 3909: one machine wrote 95,000 error events).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import apsw

from agent.clock import SYSTEM_CLOCK
from agent.db import Connection, connect
from agent.db.aside import Damage, move_aside, note_damage, read_damage
from agent.db.faults import PAUSE_S, FaultClass, classify
from agent.db.integrity import damage
from agent.db.state import PAUSE_KEY, get_state, set_state
from agent.errors import DatabaseCorrupt, SapwoodError
from agent.supervisor.stopping import BUSY_TIMEOUT_MS

if TYPE_CHECKING:
    from agent.paths import Paths

REOPEN_S = 30.0
BUSY_AGAIN_S = 0.25
BUSY_PATIENCE_S = 10.0
OPEN_TIMEOUT_MS = 1_000
"""A stop must not wait behind another process's migration for longer than this."""
FOUND_SHOWN = 160
EMPTY_FOR_S = 1.0
CHECKING = (
    "a damaged page was met; the memory file is being looked at, nobody works meanwhile. "
    "If it is damaged it is moved aside and the memory grows anew: see `sapwood status`"
)
AGAIN = "it is tried again by itself within five minutes"
FULL = f"the disk of the memory is full: make room on it; nothing is lost, and {AGAIN}"

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
        """Nothing is to use the file until it was looked at. Set from other threads too."""
        self.damage: Damage | None = None
        """What an owner is still to be told: this memory was begun anew after one."""
        self.found = ""
        self.begun_anew_after = ""
        """The words of a damage of this very run."""
        self.retry_at = 0.0
        self._owed: tuple[Damage, str | None] | None = None
        self._episode: FaultClass | None = None
        self._busy_since: float | None = None

    def open(self, now: float) -> bool:
        """Open and migrate where that is not done yet; return whether there is a connection. Never raises for a
        database that refuses: ``problem`` then says why, and the next try is due at ``retry_at``.
        """
        if self.connection is not None:
            return True
        if self.is_corrupt or now < self.retry_at:
            return False
        was_emptied = self._is_emptied()
        try:
            connection = connect(self._paths.database, self._paths.write_turn, busy_timeout_ms=OPEN_TIMEOUT_MS)
        except DatabaseCorrupt as error:
            self.problem, self.found = _in_words(error), _short(str(error.__cause__ or error))
            self.suspect_corruption()
            return False
        except (SapwoodError, OSError) as error:
            if classify(error) is FaultClass.BUSY and self._is_worth_waiting(now):
                self.retry_at = now + BUSY_AGAIN_S
            else:
                self._refused(error, now)
            return False
        connection.raw.set_busy_timeout(BUSY_TIMEOUT_MS)
        self.connection, self.problem, self.is_corrupt = connection, None, False
        if was_emptied:
            self._owe(Damage(SYSTEM_CLOCK.now_ms(), "it was empty", ""), None)
        return True

    def _is_emptied(self) -> bool:
        """Return whether the file holds nothing: SQLite takes it for a new one, which it is for a moment only."""
        try:
            found = os.stat(self._paths.database)
        except OSError:
            return False
        return found.st_size == 0 and time.time() - found.st_mtime > EMPTY_FOR_S

    def _owe(self, damage: Damage, pause: str | None) -> None:
        self._owed, self.begun_anew_after = (damage, pause), damage.words
        moved_to = damage.moved_to or "nowhere: there was nothing in it"
        _log.critical("the memory file was damaged (%s); it was moved to %s", damage.found, moved_to)

    def read_notice(self, connection: Connection, wall_ms: int) -> None:
        """Write down what a move aside owes to the new memory, and read what an owner is to be told."""
        if self._owed is not None:
            owed, pause = self._owed
            with connection.write(turn=False):
                note_damage(connection, owed)
                if pause is not None:
                    set_state(connection, PAUSE_KEY, pause)
            self._owed = None
        self.damage = read_damage(connection, wall_ms)

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
            self.problem = FULL if fault is FaultClass.DISK_FULL else f"the memory cannot be used: {error}; {AGAIN}"

    def suspect_corruption(self) -> None:
        """A worker, a command or a statement met a damaged page: nothing is to use the file until it was looked at."""
        self.problem = self.problem or CHECKING
        self.is_corrupt = True

    def confirm_corruption(self, is_to_stop: Callable[[], bool]) -> bool | None:
        """Look at the whole file and return whether it is damaged; ``None`` where the look was broken off.

        Every row is held against every index only where each page by itself is well. Blocks for as long as reading the
        file takes, but ends soon after ``is_to_stop()`` says so. Changes nothing. Raises what is no damage.
        """
        connection = self.connection
        if connection is None:
            return self.is_corrupt
        # What this connection read before may be well in its cache and damaged on the disk.
        connection.raw.release_memory()
        found = damage(connection, is_to_stop, deep=False) or damage(connection, is_to_stop, deep=True)
        if found is None or is_to_stop():
            return None
        self.is_corrupt = bool(found)
        if found:
            self.found = _short(found[0])
        else:
            self.retry_at, self._episode, self.problem = 0.0, None, None
            _log.warning("a process met a damaged page, but the whole file reads well: going on")
        return self.is_corrupt

    def begin_anew(self, wall_ms: int) -> None:
        """Move the damaged file aside and open a new memory that knows of it. The owner's pause goes along.

        The connection is closed without a checkpoint: the damaged file is kept as it is. Raises ``OSError`` where the
        file cannot be moved, what ``connect`` raises where no new one can be made; then it is to be called again.
        """
        if self.is_corrupt:
            pause = self._pause_if_readable()
            self.close(checkpoint=False)
            moved_to = ""
            if self._paths.database.exists():
                moved_to = str(move_aside(self._paths.database, wall_ms))
            self._owe(Damage(wall_ms, self.found or "as its owner said", moved_to), pause)
            self.is_corrupt = False
        self.retry_at, self._episode, self.problem = 0.0, None, None

    def _pause_if_readable(self) -> str | None:
        if self.connection is None:
            return None
        try:
            return get_state(self.connection, PAUSE_KEY)
        except apsw.Error:
            return None

    def notice(self, wall_ms: int) -> str | None:
        """Return what an owner is still to be told, or ``None``."""
        return self.damage.words if self.damage is not None and self.damage.is_shown(wall_ms) else None

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


def _short(found: str) -> str:
    return " ".join(found.split())[:FOUND_SHOWN]
