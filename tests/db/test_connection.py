import multiprocessing
import os
import stat
import threading
from pathlib import Path

import apsw
import pytest

from agent.db import Connection, Database, connect
from agent.db.connection import MINIMUM_SQLITE, refuse_old_sqlite, sqlite_version
from agent.errors import AgentFault, DatabaseCorrupt, DatabaseRefused
from agent.paths import Paths


@pytest.mark.parametrize("version", [(3, 51, 2), (3, 40, 1), (3, 51)])
def test_an_sqlite_with_the_wal_reset_race_is_refused(version: tuple[int, ...]) -> None:
    with pytest.raises(DatabaseRefused) as caught:
        refuse_old_sqlite(version)
    assert "apsw" in caught.value.hint


def test_the_installed_sqlite_is_new_enough() -> None:
    assert sqlite_version() >= MINIMUM_SQLITE
    refuse_old_sqlite(sqlite_version())


@pytest.mark.parametrize(
    ("pragma", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 1),
        ("foreign_keys", 1),
        ("secure_delete", 1),
        ("mmap_size", 0),
        ("busy_timeout", 10_000),
    ],
)
def test_every_setting_of_the_design_took(connection: Connection, pragma: str, value: object) -> None:
    assert connection.value(f"PRAGMA {pragma}") == value


def test_full_is_set_before_begin_and_taken_back(connection: Connection) -> None:
    with connection.write(full=True):
        assert connection.value("PRAGMA synchronous") == 2
    with connection.write():
        assert connection.value("PRAGMA synchronous") == 1


def test_an_exception_inside_a_write_leaves_nothing(connection: Connection) -> None:

    def write_and_fail() -> None:
        with connection.write():
            connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('a', 'b')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert connection.value("SELECT count(*) FROM mem_tree_state") == 0
    assert not connection.in_transaction


def test_threads_have_connections_of_their_own(database: Database) -> None:
    found: list[Connection] = []

    def use() -> None:
        found.append(database.connection)
        database.close()

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert len({id(c) for c in (*found, database.connection)}) == 4
    assert database.connection is database.connection


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_connection_that_crossed_a_fork_is_refused_and_the_parent_is_unharmed(database: Database) -> None:
    connection = database.connection
    child = multiprocessing.get_context("fork").Process(target=_use_in_child, args=(connection,))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    with connection.write():
        connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('parent', 'well')")
    assert connection.value("PRAGMA quick_check") == "ok"


def _use_in_child(connection: Connection) -> None:
    try:
        with connection.write():
            pass
    except AgentFault:
        connection.close()  # must not drop the parent's locks
        os._exit(0)
    os._exit(1)


def test_a_file_that_is_no_database_is_called_corrupt_and_left_alone(paths: Paths) -> None:
    paths.database.write_bytes(b"this is a letter to my mother, not a database" * 100)
    before = paths.database.read_bytes()
    with pytest.raises(DatabaseCorrupt):
        connect(paths.database)
    assert paths.database.read_bytes() == before


def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseRefused) as caught:
        connect(tmp_path / "nowhere" / "chunks.db")
    assert "nowhere" in caught.value.hint


def test_a_folder_where_shared_memory_cannot_be_had_is_refused_by_name(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    # SQLite's dot-file VFS has no shared memory, which is how a network folder looks to it.
    real = apsw.Connection

    def on_network_folder(name: str, flags: int) -> apsw.Connection:
        return real(name, flags=flags, vfs="unix-dotfile")

    monkeypatch.setattr(apsw, "Connection", on_network_folder)
    with pytest.raises(DatabaseRefused) as caught:
        connect(paths.database)
    assert str(paths.data_dir) in caught.value.detail
    assert "SAPWOOD_HOME" in caught.value.hint


@pytest.mark.skipif(os.name == "nt", reason="file modes are POSIX's")
def test_the_memory_is_readable_by_its_owner_alone(database: Database, paths: Paths) -> None:
    with database.connection.write():
        pass
    for path in paths.data_dir.glob("chunks.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
