"""Whether the database file is sound: SQLite's own checks, on a connection that may be damaged."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import apsw

from agent.db.faults import is_sqlite_corrupt, is_sqlite_schema_lost

if TYPE_CHECKING:
    from agent.db.connection import Connection

FINDINGS_NAMED = 20
"""More faults than this say nothing that the first ones did not."""
STEPS_BETWEEN_LOOKS = 20_000


def findings(connection: Connection, deep: bool) -> list[str]:
    """Return what is wrong with the file, in SQLite's words; empty where it is sound.

    Not deep: every page is read and the structure of every table and index looked at (``quick_check``). Deep: each row
    against each index as well, the full-text index by its own check, and foreign keys. Raises what is no damage (a
    lock, a disk that cannot be read). Writes nothing and holds nobody up. Blocks for as long as reading the file takes.
    """
    found = damage(connection, _never, deep=deep) or []
    return found or (_foreign_keys(connection) if deep else [])


def _never() -> bool:
    return False


def damage(connection: Connection, is_to_stop: Callable[[], bool], *, deep: bool) -> list[str] | None:
    """Return the findings that mean a damaged file, ``None`` where ``is_to_stop()`` broke the look off.

    Raises what is no damage: an unreadable disk and a lock say nothing about the file. Changes nothing.
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


@contextlib.contextmanager
def _index_read_anew(connection: Connection) -> Iterator[None]:
    """Hold one snapshot in which FTS5 checks the index as it is now.

    SQLite asks the index for its own check, so nobody has to give the command for that, which takes the write lock.
    FTS5 keeps an outline of the index, which its own check does not refresh: after another connection wrote, it called
    a sound index corrupt (24 of 40 looks). Opening a cursor on the table makes it read the outline anew.
    """
    with contextlib.nullcontext() if connection.in_transaction else connection.snapshot():
        with contextlib.suppress(apsw.Error):  # what is damaged is the check's to find
            connection.all("SELECT rowid FROM mem_tree_text WHERE mem_tree_text MATCH 'sapwood' LIMIT 1")
        yield


def _foreign_keys(connection: Connection) -> list[str]:
    rows = connection.all('SELECT "table", rowid, parent FROM pragma_foreign_key_check LIMIT ?', (FINDINGS_NAMED,))
    return [f"row {rowid} of {table} names a row of {parent} that is not there" for table, rowid, parent in rows]
