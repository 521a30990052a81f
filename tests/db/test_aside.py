"""A memory is moved aside only while nobody is in the middle of opening it, and few copies are kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.db import Database, connect
from agent.db.aside import (
    BEFORE_RESTORE,
    DAMAGED,
    Damage,
    copies,
    copy_name,
    move_aside,
    note_damage,
    opening,
    read_damage,
)
from agent.db.state import set_state
from agent.paths import Paths

NOON_MS = 1_750_000_000_000
HOUR_MS = 3_600_000


def _memory(paths: Paths) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{paths.database}{suffix}").write_bytes(suffix.encode() or b"memory")


def test_side_files_go_along(paths: Paths) -> None:
    _memory(paths)
    moved = move_aside(paths.database, NOON_MS)
    assert moved.name == "chunks.db.damaged-20250615T150640Z"
    assert [Path(f"{moved}{suffix}").read_bytes() for suffix in ("", "-wal", "-shm")] == [b"memory", b"-wal", b"-shm"]
    assert not list(paths.data_dir.glob("chunks.db")) + list(paths.data_dir.glob("chunks.db-*"))


def test_two_copies_are_kept_of_each_mark(paths: Paths) -> None:
    other = copy_name(paths.database, BEFORE_RESTORE, NOON_MS)
    other.touch()
    for hour in range(4):
        _memory(paths)
        move_aside(paths.database, NOON_MS + hour * HOUR_MS)
    assert [copy.at_ms for copy in copies(paths.database, DAMAGED)] == [NOON_MS + 3 * HOUR_MS, NOON_MS + 2 * HOUR_MS]
    assert len(list(paths.data_dir.glob("*damaged*"))) == 6, "with their side files, and nobody else's"
    assert other.exists()


def test_two_in_one_second_have_two_names(paths: Paths) -> None:
    _memory(paths)
    first = move_aside(paths.database, NOON_MS)
    _memory(paths)
    assert move_aside(paths.database, NOON_MS) != first
    assert len(copies(paths.database, DAMAGED)) == 2


def test_who_moves_waits_for_who_opens(paths: Paths, wait_until: Callable[..., None]) -> None:
    _memory(paths)
    mover = threading.Thread(target=move_aside, args=(paths.database, NOON_MS))
    with opening(paths.database), opening(paths.database):
        mover.start()
        mover.join(0.1)
        assert paths.database.exists(), "moved away under somebody who opens it"
    mover.join(10)
    assert not paths.database.exists()


def test_connection_from_before_leaves_the_new_memory_alone(paths: Paths) -> None:
    old = connect(paths.database)
    set_state(old, "who", "old")
    moved = move_aside(paths.database, NOON_MS)
    new = connect(paths.database)
    set_state(new, "who", "new")
    set_state(old, "more", "of the old")
    old.close()
    assert Path(f"{paths.database}-wal").stat().st_size > 0, "its log was taken from it"
    set_state(new, "more", "of the new")
    new.close()
    again = connect(paths.database)
    assert again.all("SELECT key, value FROM mem_tree_state ORDER BY 1") == [("more", "of the new"), ("who", "new")]
    again.close()
    kept = Database(moved)
    assert kept.connection.value("SELECT value FROM mem_tree_state WHERE key = 'who'") == "old"
    kept.close()


def test_nothing_to_move_is_an_error_of_the_system(paths: Paths) -> None:
    with pytest.raises(FileNotFoundError):
        move_aside(paths.database, NOON_MS)


def test_damage_is_told_for_seven_days(database: Database, tmp_path: Path) -> None:
    connection = database.connection
    assert read_damage(connection, NOON_MS) is None
    kept = tmp_path / "chunks.db.damaged-1"
    kept.touch()
    note_damage(connection, Damage(NOON_MS, "page 7 is zero", str(kept)))
    told = read_damage(connection, NOON_MS + 7 * 24 * HOUR_MS - 1)
    assert told is not None
    assert "page 7 is zero" in told.words
    assert str(kept) in told.words
    kept.unlink()  # as forgetting does
    assert str(kept) not in told.words
    assert read_damage(connection, NOON_MS + 7 * 24 * HOUR_MS) is None
    set_state(connection, "damage", "not what was written")
    assert read_damage(connection, NOON_MS) is None
