"""What an error of SQLite or of the disk means: the one place that reads result codes.

The four classifiers of the seed and host I/O, each with the pause it asks for. Codes: https://sqlite.org/rescode.html
"""

from __future__ import annotations

import errno
from enum import StrEnum
from pathlib import Path

import apsw

from agent.errors import BreakerOpen, DatabaseCorrupt, DatabaseRefused, SapwoodError

_ERROR, _BUSY, _LOCKED, _READONLY, _CORRUPT, _FULL, _CANTOPEN, _NOTADB = 1, 5, 6, 8, 11, 13, 14, 26
# IOERR_TRUNCATE, the -shm family (SHMOPEN, SHMSIZE, SHMMAP), IOERR_IN_PAGE (openhuman 2206: they pass by themselves).
_TRANSIENT_EXTENDED = frozenset({1546, 4618, 4874, 5386, 8714})
_IOERR = 10
_HOST_ERRNO = frozenset({errno.ENOSPC, errno.EIO, errno.EROFS, getattr(errno, "EDQUOT", errno.ENOSPC)})


class FaultClass(StrEnum):
    """What to do about an error of the database."""

    BUSY = "busy"  # normal contention: 1 s with jitter
    IO_TRANSIENT = "io_transient"  # 30 s
    DISK_FULL = "disk_full"  # 300 s, one notification
    HOST_IO = "host_io"  # 300 s, one notification
    CORRUPT = "corrupt"  # all workers stop
    OTHER = "other"


PAUSE_S = {
    FaultClass.BUSY: 1.0,
    FaultClass.IO_TRANSIENT: 30.0,
    FaultClass.DISK_FULL: 300.0,
    FaultClass.HOST_IO: 300.0,
    FaultClass.CORRUPT: 300.0,
    FaultClass.OTHER: 1.0,
}

REBUILD_HINT = (
    "`sapwood rebuild` puts it aside and grows the memory anew from its sources; a running agent does so itself"
)


def extended_code(error: BaseException) -> int | None:
    """Return the extended result code of an SQLite error, or ``None`` for anything else."""
    if isinstance(error, apsw.Error):
        code = getattr(error, "extendedresult", None)
        if code is None or code <= 0:
            code = getattr(error, "result", None)
        return int(code) if code is not None and code > 0 else None
    return None


def _primary(error: BaseException) -> int | None:
    code = extended_code(error)
    return None if code is None else code & 0xFF


def is_sqlite_busy(error: BaseException) -> bool:
    """Return whether another connection is in the way (``SQLITE_BUSY``, ``SQLITE_LOCKED`` and their kin)."""
    return _primary(error) in (_BUSY, _LOCKED)


def is_sqlite_io_transient(error: BaseException) -> bool:
    """Return whether the file system may be well again soon (the seed's list, an open breaker included)."""
    if isinstance(error, BreakerOpen):
        return True
    code = extended_code(error)
    return code is not None and (code & 0xFF == _CANTOPEN or code in _TRANSIENT_EXTENDED)


def is_sqlite_disk_full(error: BaseException) -> bool:
    """Return whether SQLite found no space (``SQLITE_FULL``)."""
    return _primary(error) == _FULL


def is_sqlite_corrupt(error: BaseException) -> bool:
    """Return whether SQLite calls the file damaged or no database."""
    return isinstance(error, DatabaseCorrupt) or _primary(error) in (_CORRUPT, _NOTADB)


def is_sqlite_schema_lost(error: BaseException) -> bool:
    """Return whether a table that every version has cannot be found: the page that lists them was overwritten."""
    return _primary(error) == _ERROR and "no such table" in str(error)


def is_host_io(error: BaseException) -> bool:
    """Return whether the machine's storage refuses: full, failing or read-only, seen by SQLite or by the system."""
    if isinstance(error, OSError):
        return error.errno in _HOST_ERRNO
    code = extended_code(error)
    if code is None:
        return False
    return code & 0xFF == _READONLY or (code & 0xFF == _IOERR and code not in _TRANSIENT_EXTENDED)


def classify(error: BaseException) -> FaultClass:
    """Return the class of an error; the chain of causes is looked through."""
    seen: BaseException | None = error
    while seen is not None:
        for check, found in (
            (is_sqlite_busy, FaultClass.BUSY),
            (is_sqlite_io_transient, FaultClass.IO_TRANSIENT),
            (is_sqlite_disk_full, FaultClass.DISK_FULL),
            (is_sqlite_corrupt, FaultClass.CORRUPT),
            (is_host_io, FaultClass.HOST_IO),
        ):
            if check(seen):
                return found
        seen = seen.__cause__
    return FaultClass.OTHER


def is_database_fault(error: BaseException) -> bool:
    """Return whether an error is about the database or the disk, not about the work that met it."""
    return classify(error) is not FaultClass.OTHER


def refusal(error: apsw.Error, path: Path) -> SapwoodError:
    """Return what opening the database should raise for an SQLite error: our own words and what to do."""
    if is_sqlite_corrupt(error):
        return DatabaseCorrupt(
            "the memory file is damaged or is not a database",
            f"{path}: {error}",
            REBUILD_HINT,
        )
    if is_sqlite_disk_full(error) or (is_host_io(error) and _primary(error) == _IOERR):
        return DatabaseRefused(
            "the disk does not take the memory", f"{path}: {error}", "make room or mend the disk, then try again"
        )
    if _primary(error) in (_BUSY, _LOCKED):
        return DatabaseRefused(
            "the memory is busy", f"{path}: {error}", "another program holds it; close it, then try again"
        )
    if _primary(error) == _READONLY or is_sqlite_io_transient(error):
        return DatabaseRefused(
            "the memory cannot be opened for writing",
            f"{path}: {error}",
            f"check that the folder {path.parent} exists, is yours and is not read-only",
        )
    return DatabaseRefused("the memory cannot be opened", f"{path}: {error}", "run `sapwood doctor`")


def no_wal(path: Path, mode: str) -> DatabaseRefused:
    """Return the refusal of a folder in which several processes cannot share a database."""
    return DatabaseRefused(
        "this folder cannot hold a shared database",
        f"{path.parent} (write-ahead log refused, journal mode is {mode})",
        "network and synchronised folders often cannot; set SAPWOOD_HOME to a folder on this machine's own disk",
    )
