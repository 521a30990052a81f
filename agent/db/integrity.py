"""Whether the database file is sound: SQLite's own checks, on a connection that may be damaged."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from agent.db.faults import is_sqlite_corrupt, is_sqlite_schema_lost

if TYPE_CHECKING:
    from agent.db.connection import Connection

FINDINGS_NAMED = 20
"""More faults than this say nothing that the first ones did not."""
STEPS_BETWEEN_LOOKS = 20_000


@dataclass(frozen=True)
class Sizes:
    """Pages of the file, bytes of a page, pages that hold nothing, and bytes of the write-ahead log."""

    pages: int
    page_bytes: int
    free_pages: int
    wal_bytes: int

    @property
    def bytes(self) -> int:
        """What the file takes once the log is in it."""
        return self.pages * self.page_bytes


def findings(connection: Connection, deep: bool) -> list[str]:
    """Return what is wrong with the file, in SQLite's words; empty where it is sound.

    Not deep: every page is read and the structure of every table and index looked at (``quick_check``). Deep: each row
    against each index as well, foreign keys, and the full-text index by its own command. Never raises for what it
    meets, damaged or locked: that is a finding. ``apsw.InterruptError`` is raised where a progress handler broke it
    off. Blocks for as long as reading the file takes.
    """
    found = _rows(connection, "PRAGMA integrity_check" if deep else "PRAGMA quick_check")
    if deep:
        found += _foreign_keys(connection)
        found += _full_text(connection)
    return found


def damage(connection: Connection, is_to_stop: Callable[[], bool], *, deep: bool) -> list[str] | None:
    """Return the findings that mean a damaged file, ``None`` where ``is_to_stop()`` broke the look off.

    Unlike ``findings`` it raises what is no damage: an unreadable disk and a lock say nothing about the file. Changes
    nothing.
    """
    connection.raw.set_progress_handler(is_to_stop, STEPS_BETWEEN_LOOKS)
    try:
        check = "integrity_check" if deep else "quick_check"
        with _index_read_anew(connection):
            rows = [str(row[0]) for row in connection.all(f"PRAGMA {check}({FINDINGS_NAMED})")]
    except apsw.InterruptError:
        return None
    except Exception as error:
        if is_to_stop():
            return None
        if not (is_sqlite_corrupt(error) or is_sqlite_schema_lost(error)):
            raise
        rows = [str(error)]
    finally:
        connection.raw.set_progress_handler(None, 0)
    return [] if rows == ["ok"] else rows


def sizes(connection: Connection) -> Sizes:
    """Return how large the file and its log are. Raises apsw errors; the log is asked of the file system only."""
    wal_bytes = 0
    with contextlib.suppress(OSError):
        # A stat: opening the side file here could drop SQLite's locks on it.
        wal_bytes = os.stat(f"{connection.raw.filename}-wal").st_size
    return Sizes(
        pages=int(connection.value("PRAGMA page_count")),
        page_bytes=int(connection.value("PRAGMA page_size")),
        free_pages=int(connection.value("PRAGMA freelist_count")),
        wal_bytes=wal_bytes,
    )


@contextlib.contextmanager
def _index_read_anew(connection: Connection) -> Iterator[None]:
    """Hold one snapshot in which FTS5 checks the index as it is now.

    It keeps an outline of the index, which its own check does not refresh: after another connection wrote, it called a
    sound index corrupt (24 of 40 looks). Opening a cursor on the table makes it read the outline anew.
    """
    with contextlib.nullcontext() if connection.in_transaction else connection.snapshot():
        with contextlib.suppress(apsw.Error):  # what is damaged is the check's to find
            connection.all("SELECT rowid FROM mem_tree_text WHERE mem_tree_text MATCH 'sapwood' LIMIT 1")
        yield


def _rows(connection: Connection, check: str) -> list[str]:
    try:
        with _index_read_anew(connection):
            rows = [str(row[0]) for row in connection.all(f"{check}({FINDINGS_NAMED})")]
    except apsw.InterruptError:
        raise
    except apsw.Error as error:
        return [f"{check.removeprefix('PRAGMA ')} could not be done: {error}"]
    return [] if rows == ["ok"] else rows


def _foreign_keys(connection: Connection) -> list[str]:
    try:
        rows = connection.all('SELECT "table", rowid, parent FROM pragma_foreign_key_check LIMIT ?', (FINDINGS_NAMED,))
    except apsw.InterruptError:
        raise
    except apsw.Error as error:
        return [f"foreign_key_check could not be done: {error}"]
    return [f"row {rowid} of {table} names a row of {parent} that is not there" for table, rowid, parent in rows]


def _full_text(connection: Connection) -> list[str]:
    try:
        connection.run("INSERT INTO mem_tree_text (mem_tree_text) VALUES ('integrity-check')")
    except apsw.InterruptError:
        raise
    except apsw.ReadOnlyError:
        return []  # integrity_check has asked the index for its own check already
    except apsw.Error as error:
        return [f"the full-text index is not sound: {error}"]
    return []
