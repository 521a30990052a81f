"""Connections to ``chunks.db``.

One long-lived connection per thread, opened after the process was spawned, carrying its pid: it is never used, nor
closed, in a forked child. Nobody else opens the database's files: closing any descriptor of them would drop all of
this process's locks on them.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from agent.db import faults
from agent.db.aside import opening
from agent.db.migrations import migrate
from agent.db.turn import WriteTurn
from agent.errors import AgentFault, DatabaseRefused

Params = Sequence[Any]
Row = tuple[Any, ...]

MINIMUM_SQLITE = (3, 51, 3)  # before it, several processes checkpointing one WAL file could corrupt it
BUSY_TIMEOUT_MS = 10_000
WAL_SIZE_LIMIT = 16 * 1024 * 1024
# As many pages as fit that limit: each checkpoint waits for the disk twice, and the default of 1,000 would have a busy
# queue do so every 300 jobs.
WAL_CHECKPOINT_PAGES = 4_000
CACHE_KIB = 4 * 1024


def sqlite_version() -> tuple[int, ...]:
    """Return the version of the SQLite that apsw carries."""
    return tuple(int(part) for part in apsw.sqlite_lib_version().split(".")[:3])


class Connection:
    """One thread's connection. All rows are read to their end before a method returns.

    An unread cursor keeps its snapshot, or worse the write lock (``numbers.md``), so no cursor leaves this class.
    """

    def __init__(self, raw: apsw.Connection, turn: WriteTurn | None) -> None:
        self.raw = raw
        self._execute: Callable[..., apsw.Cursor] = raw.execute
        self._turn = turn
        self._pid = os.getpid()
        self._synchronous = "NORMAL"
        _open_connections.add(self)

    def all(self, sql: str, params: Params = ()) -> list[Row]:
        """Return every row. Raises apsw errors as they are; ``faults.classify`` reads them."""
        return self._execute(sql, params).fetchall()

    def one(self, sql: str, params: Params = ()) -> Row | None:
        """Return the first row, or ``None``."""
        rows = self._execute(sql, params).fetchall()
        return rows[0] if rows else None

    def value(self, sql: str, params: Params = ()) -> Any:
        """Return the first column of the first row, or ``None``."""
        rows = self._execute(sql, params).fetchall()
        return rows[0][0] if rows else None

    def run(self, sql: str, params: Params = ()) -> int:
        """Carry out one statement and return how many rows it changed."""
        self._execute(sql, params).fetchall()
        return self.raw.changes()

    def many(self, sql: str, rows: Iterable[Params]) -> None:
        """Carry out one statement for each tuple of parameters."""
        self.raw.executemany(sql, rows).fetchall()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open on this connection."""
        return self.raw.in_transaction

    @property
    def last_id(self) -> int:
        """The rowid of the last row inserted on this connection."""
        return self.raw.last_insert_rowid()

    def write(self, *, full: bool = False, turn: bool = True) -> WriteTransaction:
        """Hold one ``BEGIN IMMEDIATE`` transaction; commit at the end, roll back on any exception.

        ``full`` waits for the disk (what an owner or a wallet would miss); ``turn=False`` does not queue behind other
        writers (stop, recovery, heartbeats). Blocks for the writers' turn and SQLite's busy timeout at most.
        Transactions do not nest.
        """
        return WriteTransaction(self, full, turn)

    def _set_synchronous(self, level: str) -> None:
        # SQLite ignores the change inside a transaction, so it is made around one.
        self.run(f"PRAGMA synchronous = {level}")
        self._synchronous = level

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Hold one read transaction: all reads inside see the same state. Keep it short, it pins the WAL."""
        self._execute("BEGIN").fetchall()
        try:
            yield self
        finally:
            self._roll_back()

    def _roll_back(self) -> None:
        # After SQLITE_FULL and some I/O errors SQLite has rolled back by itself.
        if self.raw.in_transaction:
            self._execute("ROLLBACK").fetchall()

    def close(self) -> None:
        """Close it, in the process that opened it; elsewhere do nothing (that would drop the opener's locks)."""
        if os.getpid() == self._pid:
            self.raw.close()
            if self._turn is not None:
                self._turn.close()


class WriteTransaction:
    """What ``Connection.write`` gives: a class, because a generator costs a job of the queue 2 of its 40 µs."""

    __slots__ = ("_connection", "_full", "_taken", "_turn")

    def __init__(self, connection: Connection, full: bool, turn: bool) -> None:
        self._connection = connection
        self._full = full
        self._turn = connection._turn if turn else None
        self._taken = False

    def __enter__(self) -> Connection:
        connection = self._connection
        if self._full != (connection._synchronous == "FULL"):
            connection._set_synchronous("FULL" if self._full else "NORMAL")
        if self._turn is not None:
            self._taken = self._turn.take()
        try:
            connection._execute("BEGIN IMMEDIATE").fetchall()
        except BaseException:
            self._end()
            raise
        return connection

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        connection = self._connection
        try:
            if kind is not None:
                connection._roll_back()
                return
            try:
                connection._execute("COMMIT").fetchall()
            except BaseException:
                connection._roll_back()
                raise
        finally:
            self._end()

    def _end(self) -> None:
        if self._taken and self._turn is not None:
            self._turn.give()
        if self._full and not self._connection.raw.in_transaction:
            self._connection._set_synchronous("NORMAL")


_open_connections: weakref.WeakSet[Connection] = weakref.WeakSet()
_left_open: list[apsw.Connection] = []


def _refuse_after_fork(*_: object) -> Any:
    raise AgentFault(
        "a database connection crossed a fork",
        f"used by process {os.getpid()}, which did not open it",
        "start processes with the spawn method and connect after the start",
    )


def _disarm_in_child() -> None:
    # The parent's connections must be neither used nor closed here (honker 80), not even by the garbage collector.
    for connection in list(_open_connections):
        connection._execute = _refuse_after_fork
        _left_open.append(connection.raw)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disarm_in_child)


class Database:
    """The database file of one agent, handing each thread its connection."""

    def __init__(self, path: Path, turn_path: Path | None = None, *, busy_timeout_ms: int = BUSY_TIMEOUT_MS) -> None:
        self.path = path
        self._turn_path = turn_path
        self._busy_timeout_ms = busy_timeout_ms
        self._local = threading.local()

    @property
    def connection(self) -> Connection:
        """The calling thread's connection, opened at the first use. Raises ``DatabaseRefused`` or apsw errors."""
        held: Connection | None = getattr(self._local, "connection", None)
        if held is None or held._pid != os.getpid():
            held = connect(self.path, self._turn_path, busy_timeout_ms=self._busy_timeout_ms)
            self._local.connection = held
        return held

    def close(self) -> None:
        """Close the calling thread's connection."""
        held: Connection | None = getattr(self._local, "connection", None)
        if held is not None:
            held.close()
            self._local.connection = None


def connect(
    path: Path,
    turn_path: Path | None = None,
    *,
    busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    create: bool = True,
) -> Connection:
    """Open, check and, where needed, migrate the database; return a connection of this thread.

    Raises ``DatabaseRefused`` where it cannot be safe (SQLite too old, newer schema, a folder without shared memory),
    ``DatabaseCorrupt`` where the file is no sound database. Blocks up to the busy timeout behind another migration.
    """
    refuse_old_sqlite(sqlite_version())
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    # Until the connection has the log and the shared memory too, nobody may move the file away under it.
    with opening(path):
        raw = _open(path, flags, busy_timeout_ms)
    try:
        connection = Connection(raw, WriteTurn(turn_path) if turn_path is not None else None)
        migrate(connection, path)
    except apsw.Error as error:
        raw.close()
        raise faults.refusal(error, path) from error
    except BaseException:
        raw.close()
        raise
    return connection


def _open(path: Path, flags: int, busy_timeout_ms: int) -> apsw.Connection:
    if flags & apsw.SQLITE_OPEN_CREATE:
        _create_for_owner_alone(path)
    try:
        raw = apsw.Connection(str(path), flags=flags)
    except apsw.Error as error:
        raise faults.refusal(error, path) from error
    try:
        raw.set_busy_timeout(busy_timeout_ms)
        _set_pragmas(raw, path)
    except apsw.Error as error:
        raw.close()
        raise faults.refusal(error, path) from error
    except BaseException:
        raw.close()
        raise
    return raw


def _create_for_owner_alone(path: Path) -> None:
    # Before any connection exists, so that closing this descriptor can drop no lock. SQLite gives its side files the
    # same mode as the database.
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return


def refuse_old_sqlite(version: tuple[int, ...]) -> None:
    """Raise ``DatabaseRefused`` for an SQLite with the WAL-reset race."""
    if version < MINIMUM_SQLITE:
        raise DatabaseRefused(
            "this SQLite is too old to share a database safely",
            f"found {'.'.join(map(str, version))}, needed {'.'.join(map(str, MINIMUM_SQLITE))} or newer",
            "install a current apsw: pip install --upgrade apsw",
        )


def _switch_to_wal(raw: apsw.Connection) -> str:
    # The switch of a fresh file reports busy at once, whatever the timeout, when two processes make it together.
    end = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            return str(raw.execute("PRAGMA journal_mode = WAL").fetchall()[0][0])
        except apsw.BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def _set_pragmas(raw: apsw.Connection, path: Path) -> None:
    # One pragma a call, each read to its end: apsw runs a statement's rows lazily, and a list of pragmas in one call
    # silently ran only the first (numbers.md).
    def pragma(text: str) -> Any:
        rows = raw.execute(f"PRAGMA {text}").fetchall()
        return rows[0][0] if rows else None

    mode = _switch_to_wal(raw)
    if mode != "wal":
        raise faults.no_wal(path, str(mode))
    for text, read_back, wanted in (
        ("synchronous = NORMAL", "synchronous", 1),
        ("foreign_keys = ON", "foreign_keys", 1),
        ("secure_delete = ON", "secure_delete", 1),
        ("mmap_size = 0", "mmap_size", 0),
        (f"cache_size = -{CACHE_KIB}", "cache_size", -CACHE_KIB),
        (f"journal_size_limit = {WAL_SIZE_LIMIT}", "journal_size_limit", WAL_SIZE_LIMIT),
        (f"wal_autocheckpoint = {WAL_CHECKPOINT_PAGES}", "wal_autocheckpoint", WAL_CHECKPOINT_PAGES),
        ("temp_store = MEMORY", "temp_store", 2),
    ):
        pragma(text)
        took = pragma(read_back)
        if took is not None and took != wanted:
            raise DatabaseRefused("a database setting did not take", f"{text}: {took}", "please report this")
