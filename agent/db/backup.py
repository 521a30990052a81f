"""The memory as one file: SQLite's own online copy, and beside it the plain files that no source can give again.

A copy is made page by page from one view of the memory, so workers write on meanwhile and it never begins again. It is
a database in rollback mode: one file, that needs no log and no shared memory to be read. What lies beside the memory
(inbox, ledger, settings) stands in a table that the live memory never has.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from agent.db.faults import is_sqlite_corrupt, refusal
from agent.db.integrity import FINDINGS_NAMED
from agent.db.schema import APPLICATION_ID, SCHEMA_VERSION
from agent.errors import DatabaseCorrupt, DatabaseRefused

if TYPE_CHECKING:
    from agent.db.connection import Connection

Progress = Callable[[int, int], None]
"""``(pages done, pages in all)``, called now and then while a copy is made."""

PAGES_A_STEP = 1_000
BUSY_TIMEOUT_MS = 10_000
SWAP_PATIENCE_S = 30.0

_CARRIED = """
CREATE TABLE sapwood_files (
  path      TEXT PRIMARY KEY,
  mtime_ns  INTEGER NOT NULL,
  content   BLOB NOT NULL
) STRICT
"""


@dataclass(frozen=True)
class CarriedFile:
    """A plain file beside the memory: its name in the backup (with ``/``), when it was changed, what it holds."""

    path: str
    mtime_ns: int
    content: bytes


@dataclass(frozen=True)
class Verified:
    """What a file turned out to be: its schema, what is wrong with it (nothing where it is sound), its bytes."""

    schema: int
    findings: tuple[str, ...]
    bytes: int


def no_progress(done: int, total: int) -> None:
    """Tell nobody."""


# -- making one -------------------------------------------------------------------------------------------------------


def copy_memory(source: apsw.Connection, target: Path, progress: Progress = no_progress) -> None:
    """Copy a database into a new file, which only its owner can read; blocks for as long as that takes.

    The source may be damaged: pages are copied as they are. Raises ``FileExistsError``, ``OSError`` and apsw errors;
    what is there of the target then is the caller's to remove.
    """
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with _raw(target, apsw.SQLITE_OPEN_READWRITE) as copy:
        copy.execute("PRAGMA synchronous = FULL").fetchall()
        with contextlib.suppress(apsw.Error):
            # One view from the first page to the last: else every commit of a worker would begin the copy anew.
            source.execute("BEGIN").fetchall()
            source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        try:
            _copy_pages(source, copy, progress)
        finally:
            if source.in_transaction:
                source.execute("ROLLBACK").fetchall()
        _leave_wal(copy)


def _copy_pages(source: apsw.Connection, target: apsw.Connection, progress: Progress) -> None:
    end = time.monotonic() + SWAP_PATIENCE_S
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            try:
                backup.step(PAGES_A_STEP)
            except apsw.BusyError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.01)
                continue
            if backup.page_count:
                progress(backup.page_count - backup.remaining, backup.page_count)


def _leave_wal(copy: apsw.Connection) -> None:
    # The first page came from a memory with a write-ahead log and says so.
    with contextlib.suppress(apsw.CorruptError, apsw.NotADBError):
        copy.execute("PRAGMA journal_mode = DELETE").fetchall()


def carry(target: Path, files: Iterable[CarriedFile]) -> int:
    """Put plain files into a backup and return how many. Raises apsw errors."""
    count = 0
    with _raw(target, apsw.SQLITE_OPEN_READWRITE) as copy:
        copy.execute("PRAGMA synchronous = FULL").fetchall()
        copy.execute("BEGIN IMMEDIATE").fetchall()
        copy.execute("DROP TABLE IF EXISTS sapwood_files").fetchall()
        copy.execute(_CARRIED).fetchall()
        for file in files:
            row = (file.path, file.mtime_ns, file.content)
            copy.execute("INSERT INTO sapwood_files (path, mtime_ns, content) VALUES (?, ?, ?)", row).fetchall()
            count += 1
        copy.execute("COMMIT").fetchall()
    return count


def carried(backup: Path) -> Iterator[CarriedFile]:
    """Yield the plain files that a backup holds, one at a time; none of a copy that was not made by ``backup``."""
    with _raw(backup, apsw.SQLITE_OPEN_READONLY) as held:
        if not held.execute("SELECT 1 FROM sqlite_schema WHERE name = 'sapwood_files'").fetchall():
            return
        for (path,) in held.execute("SELECT path FROM sapwood_files ORDER BY path").fetchall():
            rows = held.execute("SELECT mtime_ns, content FROM sapwood_files WHERE path = ?", (path,)).fetchall()
            mtime_ns, content = rows[0]
            if isinstance(mtime_ns, int) and isinstance(content, bytes):
                yield CarriedFile(str(path), mtime_ns, content)


# -- looking at one ---------------------------------------------------------------------------------------------------


def verify(path: Path) -> Verified:
    """Read a whole backup and return what it is; blocks for as long as that takes. Changes nothing.

    Raises ``DatabaseRefused`` for a file that is not ours or newer than this build, ``DatabaseCorrupt`` for one that is
    no database at all.
    """
    try:
        with _raw(path, apsw.SQLITE_OPEN_READONLY) as held:
            ours = held.execute("PRAGMA application_id").fetchall()[0][0]
            schema = int(str(held.execute("PRAGMA user_version").fetchall()[0][0]))
            _refuse_others(path, ours, schema)
            try:
                rows = held.execute(f"PRAGMA integrity_check({FINDINGS_NAMED})").fetchall()
                found = [str(row[0]) for row in rows]
            except apsw.Error as error:
                if not is_sqlite_corrupt(error):
                    raise
                found = [str(error)]
    except apsw.Error as error:
        raise _unreadable(path, error) from error
    return Verified(schema, () if found == ["ok"] else tuple(found), os.stat(path).st_size)


def _refuse_others(path: Path, ours: object, schema: int) -> None:
    if ours != APPLICATION_ID or schema == 0:
        raise DatabaseRefused("this file is not a Sapwood memory", str(path), "name a file that `sapwood backup` made")
    if schema > SCHEMA_VERSION:
        raise DatabaseRefused(
            "this backup was written by a newer Sapwood",
            f"{path} has schema {schema}, this build knows {SCHEMA_VERSION}",
            "update Sapwood, then try again; nothing was changed",
        )


def _unreadable(path: Path, error: apsw.Error) -> DatabaseRefused | DatabaseCorrupt:
    if is_sqlite_corrupt(error):
        return DatabaseCorrupt(
            "this file is damaged or is not a Sapwood memory", f"{path}: {error}", "name another backup"
        )
    found = refusal(error, path)
    return DatabaseRefused("this file cannot be read", f"{path}: {error}", getattr(found, "hint", ""))


# -- putting one back -------------------------------------------------------------------------------------------------


def swap_in(staged: Connection, live: Connection, progress: Progress = no_progress) -> None:
    """Make the live memory equal to a staged copy, in one transaction that waits for the disk.

    Whoever reads goes on seeing what was there before until its transaction ends; whoever writes waits. Raises apsw
    errors: then nothing was changed. Blocks for the copying and 30 s at most for other writers.
    """
    live.run("PRAGMA synchronous = FULL")
    try:
        # SQLite keeps the write lock from the first page to the last, however many steps there are.
        _copy_pages(staged.raw, live.raw, progress)
    finally:
        live.run("PRAGMA synchronous = NORMAL")


@contextmanager
def _raw(path: Path, flags: int) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        yield connection
    finally:
        connection.close()


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Connection]:
    """Hold a bare connection to a backup, which may lie on a disk that takes no writing."""
    with _raw(path, apsw.SQLITE_OPEN_READONLY) as connection:
        yield connection


@contextmanager
def open_damaged(path: Path) -> Iterator[apsw.Connection]:
    """Hold a bare connection to a memory that ``connect`` refuses as damaged: to copy what is there, nothing else."""
    with _raw(path, apsw.SQLITE_OPEN_READWRITE) as connection:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        yield connection
