"""A memory that an earlier version wrote opens, keeps every row, and is brought up in one transaction."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent.db import Connection, connect
from agent.db.integrity import findings
from agent.db.migrations import migrate
from agent.db.schema import MIGRATIONS, SCHEMA_VERSION
from agent.paths import Paths
from tests.db.earlier import earlier_schemas, unpack

pytestmark = pytest.mark.parametrize("schema", earlier_schemas())


def rows_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every row of every table, by the columns that the table has now, read without our own opening."""
    raw = apsw.Connection(str(path))
    try:
        names = [
            row[0]
            for row in raw.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY 1"
            ).fetchall()
        ]
        return {name: sorted(raw.execute(f"SELECT * FROM {name}").fetchall(), key=repr) for name in names}
    finally:
        raw.close()


def columns_of(path: Path) -> dict[str, list[str]]:
    raw = apsw.Connection(str(path))
    try:
        return {
            # Columns that are computed too; not the hidden ones of the full text.
            name: [row[1] for row in raw.execute(f"PRAGMA table_xinfo({name})").fetchall() if row[6] != 1]
            for name in rows_of(path)
        }
    finally:
        raw.close()


FOUND = """
SELECT rowid, round(bm25(mem_tree_text), 6)
  FROM mem_tree_text
 WHERE mem_tree_text MATCH 'greenhouse'
 ORDER BY 2, 1
"""


def test_it_opens_and_every_row_is_kept(schema: int, paths: Paths) -> None:
    unpack(schema, paths.database)
    before, columns = rows_of(paths.database), columns_of(paths.database)
    raw = apsw.Connection(str(paths.database))
    found = raw.execute(FOUND).fetchall()
    raw.close()

    connection = connect(paths.database, paths.write_turn)
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION
    assert findings(connection, deep=True) == []
    assert connection.all(FOUND) == found != [], "the same words are found in the same order"
    connection.close()

    after, columns_now = rows_of(paths.database), columns_of(paths.database)
    serving = [row for row in after["mem_tree_state"] if row[0] == "serving_signature"]
    assert len(serving) == bool(before["mem_tree_vectors"]), "what was embedded serves searches"
    after["mem_tree_state"] = [row for row in after["mem_tree_state"] if row not in serving]
    assert set(before) <= set(after)
    for table, rows in before.items():
        kept = [columns_now[table].index(name) for name in columns[table]]
        assert sorted((tuple(row[at] for at in kept) for row in after[table]), key=repr) == rows, table


def test_it_has_the_schema_of_a_new_memory(schema: int, paths: Paths, tmp_path: Path) -> None:
    unpack(schema, paths.database)
    sql = "SELECT type, name, tbl_name FROM sqlite_schema ORDER BY 1, 2"
    old, new = connect(paths.database), connect(tmp_path / "new.db")
    assert old.all(sql) == new.all(sql)
    for (table,) in new.all("SELECT name FROM sqlite_schema WHERE type = 'table'"):
        shape = f"SELECT name, type, \"notnull\", dflt_value, pk FROM pragma_table_info('{table}') ORDER BY 1"
        assert old.all(shape) == new.all(shape), table
    old.close()
    new.close()


def _killed_in_between(path: str) -> None:
    connection = _bare(path)
    connection.raw.create_scalar_function("die", lambda: os.kill(os.getpid(), signal.SIGKILL), 0)
    migrate(connection, Path(path), (*MIGRATIONS, "SELECT die()"))


def _bare(path: str) -> Connection:
    raw = apsw.Connection(path)
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    return Connection(raw, None)


def test_killed_in_between_it_is_what_it_was(schema: int, paths: Paths) -> None:
    unpack(schema, paths.database)
    before = rows_of(paths.database)
    process = multiprocessing.get_context("spawn").Process(target=_killed_in_between, args=(str(paths.database),))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert rows_of(paths.database) == before
    raw = apsw.Connection(str(paths.database))
    assert raw.execute("PRAGMA user_version").fetchall() == [(schema,)]
    raw.close()
    connection = connect(paths.database)
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION
    connection.close()


def _open(path: str, barrier: Any, results: Any) -> None:
    barrier.wait(30)
    try:
        connection = connect(Path(path))
        results.put((connection.value("PRAGMA user_version"), connection.value("SELECT count(*) FROM mem_tree_chunks")))
        connection.close()
    except Exception as error:
        results.put(repr(error))


def test_two_processes_bring_it_up_at_once(schema: int, paths: Paths) -> None:
    unpack(schema, paths.database)
    chunks = len(rows_of(paths.database)["mem_tree_chunks"])
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(2), spawn.Queue()
    processes = [spawn.Process(target=_open, args=(str(paths.database), barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [results.get(timeout=60) for _ in processes] == [(SCHEMA_VERSION, chunks)] * 2
    for process in processes:
        process.join(30)
