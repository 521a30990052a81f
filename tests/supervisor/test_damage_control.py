"""What is taken for damage and what is not, and how often a memory is begun anew: told without processes."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import apsw
import pytest

from agent.db import Database
from agent.db import connection as opening
from agent.db.aside import DAMAGED, copies, move_aside
from agent.paths import Paths, paths_under
from agent.supervisor import storage as storing
from agent.supervisor.damage import BELIEVED_AGAIN_S, TRY_AGAIN_S, DamageControl, Outcome
from agent.supervisor.storage import Storage
from agent.supervisor.workforce import Workforce
from tests.permissions import ordinary_permissions

NOON_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
NOBODY = cast(Workforce, SimpleNamespace(children=[]))


@pytest.fixture
def storage(paths: Paths):
    storage = Storage(paths)
    assert storage.open(0.0)
    yield storage
    storage.close()


def control(paths: Paths, storage: Storage, workforce: Any = NOBODY) -> DamageControl:
    return DamageControl(paths, storage, workforce, lambda: False)


def garble(paths: Paths) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{paths.database}{suffix}").unlink(missing_ok=True)
    paths.database.write_bytes(b"no database " * 1_000)


def test_sound_file_goes_on(paths: Paths, storage: Storage) -> None:
    damage = control(paths, storage)
    storage.suspect_corruption()
    assert damage.turn(0.0, NOON_MS) is Outcome.SOUND
    assert not storage.is_corrupt
    assert storage.problem is None
    # A command that goes on crying wolf does not stop everybody each time.
    damage.suspect(1.0)
    assert not storage.is_corrupt
    damage.suspect(BELIEVED_AGAIN_S)
    assert storage.is_corrupt


def test_a_full_disk_is_told_as_what_to_do_about_it(storage: Storage) -> None:
    def fill(_: object) -> None:
        raise apsw.exceptionfor(apsw.SQLITE_FULL)

    storage.attempt("asking for looks", fill, 0.0)
    assert str(storage.problem).startswith("the disk of the memory is full: make room on it; nothing is lost")


def test_nothing_is_moved_while_a_worker_lives(paths: Paths) -> None:
    garble(paths)
    told: list[object] = []
    workers = SimpleNamespace(children=[SimpleNamespace(tell_to_stop=lambda how, now: told.append(how))])
    storage = Storage(paths)
    assert not storage.open(0.0)
    damage = control(paths, storage, workers)
    assert damage.turn(0.0, NOON_MS) is Outcome.WAIT
    assert told
    assert paths.database.exists()
    workers.children.clear()
    assert damage.turn(0.1, NOON_MS) is Outcome.MOVED
    assert storage.open(0.2)
    storage.close()


@pytest.mark.parametrize(
    "error",
    [
        apsw.IOError("disk I/O error"),
        apsw.BusyError("database is locked"),
        apsw.FullError("database or disk is full"),
        apsw.CantOpenError("unable to open database file"),
        OSError(errno.EIO, "Input/output error"),
    ],
)
def test_disk_that_cannot_be_read_is_no_damage(
    error: Exception, paths: Paths, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> list[str]:
        raise error

    if isinstance(error, apsw.Error):
        codes = {"IOError": 10, "BusyError": 5, "FullError": 13, "CantOpenError": 14}
        error.result = error.extendedresult = codes[type(error).__name__]
    monkeypatch.setattr(storing, "damage", refuse)
    damage = control(paths, storage)
    storage.suspect_corruption()
    assert damage.turn(0.0, NOON_MS) is Outcome.WAIT
    assert "cannot be looked at" in str(storage.problem)
    assert damage.next_moment(0.1) == TRY_AGAIN_S, "it does not spin"
    monkeypatch.undo()
    assert damage.turn(TRY_AGAIN_S, NOON_MS) is Outcome.SOUND
    assert copies(paths.database, DAMAGED) == []


def test_locked_missing_and_forbidden_are_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = Storage(paths_under(tmp_path / "nowhere"))
    assert not missing.open(0.0)
    assert not missing.is_corrupt

    paths = paths_under(tmp_path / "forbidden").make()
    Database(paths.database).connection.close()
    paths.data_dir.chmod(0o500)
    paths.database.chmod(0o400)
    with ordinary_permissions():
        forbidden = Storage(paths)
        assert not forbidden.open(0.0)
        assert not forbidden.is_corrupt
    paths.data_dir.chmod(0o700)
    paths.database.chmod(0o600)

    locked = Storage(paths)
    holder = apsw.Connection(str(paths.database))
    holder.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    holder.execute("BEGIN EXCLUSIVE").fetchall()
    monkeypatch.setattr(opening, "BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr(storing, "OPEN_TIMEOUT_MS", 50)
    assert not locked.open(0.0)
    assert not locked.is_corrupt
    holder.close()
    assert copies(paths.database, DAMAGED) == []


def test_other_peoples_database_is_no_damage(paths: Paths) -> None:
    other = apsw.Connection(str(paths.database))
    other.execute("CREATE TABLE photos (id)").fetchall()
    other.close()
    storage = Storage(paths)
    assert not storage.open(0.0)
    assert not storage.is_corrupt
    assert "not a Sapwood memory" in str(storage.problem)


def test_file_that_cannot_be_moved_is_tried_again(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    garble(paths)
    storage = Storage(paths)
    assert not storage.open(0.0)

    def refuse(*_: object) -> Path:
        raise PermissionError(errno.EACCES, "used by another process")

    monkeypatch.setattr(storing, "move_aside", refuse)
    damage = control(paths, storage)
    assert damage.turn(0.0, NOON_MS) is Outcome.WAIT
    assert "cannot be moved aside" in str(storage.problem)
    assert damage.turn(TRY_AGAIN_S / 2, NOON_MS) is Outcome.WAIT
    monkeypatch.undo()
    assert damage.turn(TRY_AGAIN_S, NOON_MS) is Outcome.MOVED


def test_twice_within_an_hour_is_for_the_owner(paths: Paths) -> None:
    garble(paths)
    move_aside(paths.database, NOON_MS)
    garble(paths)
    storage = Storage(paths)
    storage.open(0.0)
    damage = control(paths, storage)
    assert damage.turn(0.0, NOON_MS + HOUR_MS - 1) is Outcome.STUCK
    assert damage.needs_owner
    assert "the disk may be failing" in str(storage.problem)
    assert damage.turn(9_999.0, NOON_MS + 9 * HOUR_MS) is Outcome.STUCK, "it does not go on by itself later"
    damage.ask()
    assert damage.turn(9_999.0, NOON_MS + HOUR_MS) is Outcome.MOVED
    assert not damage.needs_owner
    assert storage.open(10_000.0)
    connection = storage.connection
    assert connection is not None
    storage.read_notice(connection, NOON_MS + HOUR_MS)
    assert "was damaged" in str(storage.notice(NOON_MS + HOUR_MS))
    storage.close()


def test_a_later_one_is_begun_anew_again(paths: Paths) -> None:
    garble(paths)
    move_aside(paths.database, NOON_MS)
    garble(paths)
    storage = Storage(paths)
    storage.open(0.0)
    assert control(paths, storage).turn(0.0, NOON_MS + HOUR_MS) is Outcome.MOVED
