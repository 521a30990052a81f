"""Moving a memory file out of the way, and what its owner is told about it.

Renaming a database while others open it is how two files come to share one write-ahead log. So whoever opens holds a
lock of our own, shared, until its connection has all of its files, and whoever moves holds it alone. A connection that
was open before the move keeps the old files, and SQLite leaves what now has their names alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from agent.clock import iso
from agent.db.state import DAMAGE_KEY, get_state, set_state

if TYPE_CHECKING:
    from agent.db.connection import Connection

DAMAGED = "damaged"
BEFORE_RESTORE = "before-restore"
KEPT_COPIES = 2
"""Of each mark. A damaged disk must not be filled with what it damaged."""
SHOWN_FOR = timedelta(days=7)

_SIDE_FILES = ("-wal", "-shm")
_LOCK_NAME = "opening.lock"
_OPEN_PATIENCE_S = 2.0
_MOVE_PATIENCE_S = 5.0
_POLL_S = 0.002
_STAMP = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Copy:
    """A memory that was put aside: where it is, and when that was (UTC ms)."""

    path: Path
    at_ms: int


@dataclass(frozen=True)
class Damage:
    """A damage that the memory was grown again after: when (UTC ms), what was found, where the file is now."""

    at_ms: int
    found: str
    moved_to: str

    def is_shown(self, now_ms: int) -> bool:
        """Return whether an owner is still to be told of it: for seven days."""
        return now_ms - self.at_ms < SHOWN_FOR.total_seconds() * 1000

    @property
    def words(self) -> str:
        """What an owner is told."""
        kept = ""
        if self.moved_to:
            # Forgetting deletes what was put aside: it may hold what is to be forgotten.
            kept = (
                f"; the damaged file is kept as {self.moved_to}"
                if os.path.exists(self.moved_to)
                else "; the damaged file is deleted by now"
            )
        return (
            f"the memory file was damaged ({self.found}) on {iso(self.at_ms)} and the memory was begun anew from its "
            f"sources{kept}. Shown for {SHOWN_FOR.days} days: if it happens again, check the disk"
        )


# -- moving -----------------------------------------------------------------------------------------------------------


def copy_name(database: Path, mark: str, now_ms: int) -> Path:
    """Return a name beside the memory that is free: ``chunks.db.<mark>-<UTC time>``."""
    stamp = datetime.fromtimestamp(now_ms / 1000, UTC).strftime(_STAMP)
    path = database.with_name(f"{database.name}.{mark}-{stamp}")
    number = 2
    while path.exists():
        path = database.with_name(f"{database.name}.{mark}-{stamp}.{number}")
        number += 1
    return path


def copies(database: Path, mark: str) -> list[Copy]:
    """Return the memories put aside under a mark, the newest first."""
    found = []
    before = f"{database.name}.{mark}-"
    with suppress(OSError):
        for entry in os.scandir(database.parent):
            name = entry.name.removeprefix(before)
            if name == entry.name or name.endswith(_SIDE_FILES):
                continue
            with suppress(ValueError):
                moment = datetime.strptime(name.partition(".")[0], _STAMP).replace(tzinfo=UTC)
                found.append(Copy(Path(entry.path), round(moment.timestamp() * 1000)))
    return sorted(found, key=lambda copy: (copy.at_ms, copy.path.name), reverse=True)


def drop_copies(
    database: Path, mark: str, keep: int, *, spare: Path | None = None, until_ms: int | None = None
) -> None:
    """Remove all but the newest copies under a mark. Raises ``OSError``.

    ``spare``, in use just now, stays too, and so does what was put aside after ``until_ms`` (UTC).
    """
    for copy in copies(database, mark)[keep:]:
        if spare is not None and copy.path.samefile(spare):
            continue
        if until_ms is not None and copy.at_ms > until_ms:
            continue
        for suffix in ("", *_SIDE_FILES):
            Path(f"{copy.path}{suffix}").unlink(missing_ok=True)


def move_aside(database: Path, now_ms: int, mark: str = DAMAGED) -> Path:
    """Move the memory with its side files away, keep two such copies at most, and return where it is now.

    The caller has closed its connection without a checkpoint and holds the supervisor's lock. Blocks for five seconds
    at most. Raises ``OSError``: on Windows while any program has the file open.
    """
    drop_copies(database, mark, KEPT_COPIES - 1)
    target = copy_name(database, mark, now_ms)
    with _alone(database.parent):
        # The file first: a log without its file is thrown away by the next opener, a file without its log is not whole.
        os.replace(database, target)
        for suffix in _SIDE_FILES:
            with suppress(FileNotFoundError):
                os.replace(f"{database}{suffix}", f"{target}{suffix}")
    return target


@contextmanager
def opening(database: Path) -> Iterator[None]:
    """Hold off whoever would move the memory, until a connection has all of its files. Never raises."""
    with _locked(database.parent, alone=False, patience_s=_OPEN_PATIENCE_S):
        yield


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with _locked(folder, alone=True, patience_s=_MOVE_PATIENCE_S) as has_it:
        if not has_it:
            raise TimeoutError(f"a program is just opening the memory in {folder}, and does not come to an end")
        yield


if sys.platform == "win32":

    @contextmanager
    def _locked(folder: Path, *, alone: bool, patience_s: float) -> Iterator[bool]:
        # There a file that anybody has open cannot be renamed at all.
        del folder, alone, patience_s
        yield True

else:
    import fcntl

    @contextmanager
    def _locked(folder: Path, *, alone: bool, patience_s: float) -> Iterator[bool]:
        try:
            descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            # A full or read-only disk: SQLite says what there is to say about it.
            yield not alone
            return
        try:
            yield _take(descriptor, fcntl.LOCK_EX if alone else fcntl.LOCK_SH, patience_s)
        finally:
            os.close(descriptor)

    def _take(descriptor: int, how: int, patience_s: float) -> bool:
        end = time.monotonic() + patience_s
        while True:
            try:
                fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            except BlockingIOError:
                # A process that was stopped in the middle of it must not freeze the others.
                if time.monotonic() >= end:
                    return False
                time.sleep(_POLL_S)
            except OSError:
                return True
            else:
                return True


# -- telling ----------------------------------------------------------------------------------------------------------


def note_damage(connection: Connection, damage: Damage) -> None:
    """Keep what an owner is to be told in the new memory, inside the caller's transaction."""
    value = json.dumps({"at_ms": damage.at_ms, "found": damage.found, "moved_to": damage.moved_to})
    set_state(connection, DAMAGE_KEY, value)


def read_damage(connection: Connection, now_ms: int) -> Damage | None:
    """Return the last damage while an owner is to be told of it."""
    value = get_state(connection, DAMAGE_KEY)
    if value is None:
        return None
    try:
        held = json.loads(value)
        damage = Damage(int(held["at_ms"]), str(held["found"]), str(held["moved_to"]))
    except (ValueError, KeyError, TypeError):
        return None
    return damage if damage.is_shown(now_ms) else None
