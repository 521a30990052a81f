"""Damage of bytes, locks, other versions: the deep doctor says so and still looks at everything else."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from agent.actions.checks import memory
from agent.actions.doctor import Check, doctor
from agent.paths import Paths
from tests.permissions import ordinary_permissions

ELSEWHERE = {"python", "sqlite", "data folder", "free space", "file locks", "clock", "config", "ledger", "agent"}
PAGE = 4096


def look(paths: Paths) -> dict[str, Check]:
    found = doctor(paths, deep=True)
    assert all(one.remedy for one in found.checks if not one.ok), [one for one in found.checks if not one.ok]
    # Whatever an error of ours or of Python looks like, it is not what an owner reads.
    assert not [one for one in found.checks if "Traceback" in one.detail or "Error:" in one.detail]
    return {one.name: one for one in found.checks}


def pages_of(paths: Paths, table: str) -> list[int]:
    """Return the numbers of a table's pages in the file, the first of them its root."""
    with closing(apsw.Connection(str(paths.database))) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return [row[0] for row in raw.execute("SELECT pageno FROM dbstat WHERE name = ? ORDER BY path", (table,))]


def overwrite(paths: Paths, page: int) -> None:
    with paths.database.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(random.Random(page).randbytes(PAGE))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no database at all " * 2000, id="something else"),
        pytest.param(b"SQLite format 3\x00" + b"\xff" * 9000, id="a head without a body"),
    ],
)
def test_a_file_that_is_no_memory_stops_no_other_look(copy: Paths, content: bytes) -> None:
    for suffix in ("-wal", "-shm"):
        Path(f"{copy.database}{suffix}").unlink(missing_ok=True)
    copy.database.write_bytes(content)
    found = look(copy)
    # An empty file is what SQLite begins a memory with.
    assert content == b"" or not found["database"].ok
    assert found.keys() >= ELSEWHERE
    assert content == b"" or copy.database.read_bytes() == content


def test_no_memory_at_all_is_said(copy: Paths) -> None:
    copy.database.unlink()
    found = look(copy)
    assert found["database"].ok
    assert "none yet" in found["database"].detail
    assert not copy.database.exists()


def test_a_memory_that_was_cut_short_is_found(copy: Paths) -> None:
    size = copy.database.stat().st_size
    os.truncate(copy.database, size // PAGE // 2 * PAGE)
    found = look(copy)
    assert not (found["database"].ok and found["integrity"].ok)
    assert found.keys() >= ELSEWHERE


@pytest.mark.parametrize(
    "table",
    [
        "mem_tree_chunks",
        "mem_tree_summaries",
        "mem_tree_edges",
        "mem_tree_trees",
        "mem_tree_items",
        "mem_tree_files",
        "mem_tree_jobs",
        "mem_tree_jobs_line",
        "mem_tree_text_data",
        "mem_tree_text_docsize",
        "mem_tree_vectors",
        "mem_tree_score",
        "mem_tree_entity_index",
        "mem_tree_sources",
    ],
)
def test_a_damaged_page_is_found_and_stops_no_other_look(copy: Paths, table: str) -> None:
    for page in pages_of(copy, table)[:1]:
        overwrite(copy, page)
    found = look(copy)
    assert not found["integrity"].ok
    assert "sapwood rebuild" in found["integrity"].remedy
    assert found.keys() >= ELSEWHERE
    from agent.actions.checks.deep import LOOKS

    assert found.keys() >= {name for name, _ in LOOKS}
    # What stands in other tables is looked at all the same.
    assert sum(one.ok for one in found.values()) > 30


def test_a_memory_of_a_newer_version_is_left_alone(copy: Paths) -> None:
    with closing(apsw.Connection(str(copy.database))) as raw:
        raw.execute("PRAGMA user_version = 999").fetchall()
    found = look(copy)
    assert not found["database"].ok
    assert "update" in found["database"].remedy
    assert not found["invariants"].ok


@contextmanager
def held(paths: Paths) -> Iterator[None]:
    with closing(apsw.Connection(str(paths.database))) as raw:
        raw.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        raw.execute("BEGIN EXCLUSIVE").fetchall()
        yield


def test_a_memory_that_another_program_holds_is_said(copy: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "BUSY_TIMEOUT_MS", 50)
    monkeypatch.setattr("agent.db.connection.BUSY_TIMEOUT_MS", 50)
    with held(copy):
        found = look(copy)
    bad = [one for one in found.values() if not one.ok]
    assert bad
    assert any("busy" in one.detail or "locked" in one.detail for one in bad)
    assert found.keys() >= ELSEWHERE


def test_settings_that_cannot_be_read_leave_the_memory_to_be_looked_at(copy: Paths) -> None:
    copy.config_file.write_text("[pool\n")
    copy.last_good_config.unlink(missing_ok=True)
    found = look(copy)
    assert [one.name for one in found.values() if not one.ok] == ["config"]
    assert "not compared" in found["files"].detail
    assert found["reach"].ok


def test_what_others_may_read_is_named_with_its_command(copy: Paths) -> None:
    copy.database.chmod(0o644)
    copy.config_dir.chmod(0o755)
    found = look(copy)["permissions"]
    assert not found.ok
    assert f"`chmod 600 '{copy.database}'`" in found.remedy
    assert f"`chmod 700 '{copy.config_dir}'`" in found.remedy


def test_a_ledger_with_a_broken_line_is_told_with_how_many(copy: Paths) -> None:
    copy.ledger.write_text('{"salt": "s", "version": 1}\n{"forgotten": "2024", "items": ["a\n{"items":["b"]}\n')
    copy.ledger.chmod(0o600)
    found = look(copy)["ledger"]
    assert not found.ok
    assert found.detail.startswith("1 lines cannot be read")


def test_a_ledger_that_cannot_be_opened_is_told(copy: Paths) -> None:
    copy.ledger.write_text('{"salt": "s"}\n')
    copy.ledger.chmod(0o000)
    with ordinary_permissions():
        found = look(copy)
    assert not found["ledger"].ok
    assert "not compared" in found["forgotten"].detail


def test_a_disk_without_room_for_the_memory_once_more_is_told(copy: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    free = 500_000_000 + copy.database.stat().st_size // 2
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(free * 2, free, free))  # type: ignore[attr-defined]
    assert not look(copy)["free space"].ok


def test_a_clock_of_another_age_is_told(copy: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.actions.checks import machine
    from agent.clock import FakeClock

    assert look(copy)["clock"].ok
    monkeypatch.setattr(machine, "SYSTEM_CLOCK", FakeClock(1_000))
    assert not look(copy)["clock"].ok


def test_a_damaged_file_that_was_put_aside_is_told_and_is_no_fault(copy: Paths) -> None:
    aside = copy.database.with_name("chunks.db.damaged-20240102T030405Z")
    aside.write_bytes(b"x" * 2_000)
    found = look(copy)["put aside"]
    assert found.ok
    assert "chunks.db.damaged-20240102T030405Z (2.0 KB)" in found.detail


def test_a_log_that_grows_without_end_is_told(copy: Paths) -> None:
    with closing(apsw.Connection(str(copy.database))) as raw:
        raw.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
        raw.execute("UPDATE mem_tree_sources SET synced_items = synced_items").fetchall()
        os.truncate(f"{copy.database}-wal", memory.LARGE_WAL_BYTES + PAGE)
        assert not look(copy)["log size"].ok
