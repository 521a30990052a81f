"""The doctor finds what is not well, says what helps, and is never ill itself."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agent.actions.checks import machine
from agent.actions.checks.machine import file_system_of
from agent.actions.doctor import Check, doctor, size_words
from agent.clock import SYSTEM_CLOCK
from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.db import Connection, connect
from agent.ledger import append_answer
from agent.paths import Paths, paths_under
from agent.states import Answer

FAILED_JOB = """
INSERT INTO mem_tree_jobs
       (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
        failure_reason, failure_class, last_error)
VALUES ('seal', '{}', 'failed', 5, 0, 0, 'crash_loop', 'unrecoverable', 'it died three times')
"""
STALE_JOB = """
INSERT INTO mem_tree_jobs
       (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms, locked_until_ms, locked_by)
VALUES ('seal', '{}', 'running', 5, 0, 0, 1, 'nobody')
"""


def find(paths: Paths, name: str) -> Check:
    return next(check for check in doctor(paths).checks if check.name == name)


def test_ledger_with_an_answer_alone_is_whole_and_one_without_its_salt_is_not(paths: Paths) -> None:
    append_answer(paths.make(), 0, "q", Answer.REFUSE, "notes")
    assert find(paths, "ledger").ok
    with paths.ledger.open("a") as stream:
        stream.write('{"forgotten":"2026-01-01T00:00:00+00:00","items":["a"]}\n')
    assert "first line is lost" in find(paths, "ledger").detail


def test_full_disk_is_no_question_of_whose_folder_it_is(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(path: Path, _: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fill)
    (found, *_) = machine.look_at_folders(paths)
    assert (found.ok, found.remedy) == (False, f"make room on the disk of {paths.config_dir}")
    assert [path for path in paths.config_dir.iterdir() if path.name.startswith(".doctor")] == []


def test_fresh_home_is_well(paths: Paths) -> None:
    found = doctor(paths)
    assert found.ok, [check for check in found.checks if not check.ok]
    assert len({check.name for check in found.checks}) == len(found.checks)


def test_used_home_is_well_and_nothing_is_left_of_looking(paths: Paths, connection: Connection) -> None:
    before = {path for folder in (paths.config_dir, paths.data_dir, paths.runtime_dir) for path in folder.iterdir()}
    found = doctor(paths)
    assert found.ok, [check for check in found.checks if not check.ok]
    after = {path for folder in (paths.config_dir, paths.data_dir, paths.runtime_dir) for path in folder.iterdir()}
    assert after == before
    assert {"schema", "integrity", "log size", "queue", "leases"} <= {check.name for check in found.checks}


def test_damaged_memory_is_found_and_left_alone(paths: Paths) -> None:
    paths.database.write_bytes(b"no database " * 1000)
    check = find(paths, "database")
    assert not check.ok
    assert "sapwood rebuild" in check.remedy
    assert paths.database.read_bytes() == b"no database " * 1000


def test_damage_inside_is_found(paths: Paths) -> None:
    connection = connect(paths.database)
    with connection.write():
        connection.many(
            "INSERT INTO mem_tree_state (key, value) VALUES (?, ?)", [(f"key {n}", "x" * 500) for n in range(200)]
        )
    connection.one("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    raw = bytearray(paths.database.read_bytes())
    raw[-40_000:-20_000] = b"\xff" * 20_000
    paths.database.write_bytes(raw)
    check = find(paths, "integrity")
    assert not check.ok
    assert check.remedy


def test_newer_memory_is_refused_with_what_to_do(paths: Paths) -> None:
    connection = connect(paths.database)
    connection.run("PRAGMA user_version = 999")
    connection.close()
    check = find(paths, "database")
    assert not check.ok
    assert "update" in check.remedy


def test_failed_job_comes_with_its_remedy(paths: Paths, connection: Connection) -> None:
    with connection.write():
        connection.run(FAILED_JOB)
    check = find(paths, "failed seal")
    assert not check.ok
    assert "it died three times" in check.detail
    assert "retry" in check.remedy


def test_lease_past_its_end_is_found(paths: Paths, connection: Connection) -> None:
    assert find(paths, "leases").ok
    with connection.write():
        connection.run(STALE_JOB)
    assert not find(paths, "leases").ok
    with connection.write():
        connection.run("UPDATE mem_tree_jobs SET locked_until_ms = ?", (SYSTEM_CLOCK.now_ms() + 60_000,))
    assert find(paths, "leases").ok


def test_broken_settings_are_found_with_and_without_a_good_copy(paths: Paths) -> None:
    paths.config_file.write_text("[pool\n")
    check = find(paths, "config")
    assert not check.ok
    assert check.remedy
    paths.last_good_config.write_text("")
    assert "last good copy" in find(paths, "config").detail


def test_source_that_is_not_there_is_found(paths: Paths, tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    add_source(paths, SourceIntent("disk", "folder", "disk", (str(folder),)))
    assert find(paths, "source disk").ok
    folder.rmdir()
    check = find(paths, "source disk")
    assert not check.ok
    assert str(folder) in check.detail


def test_folder_that_cannot_be_written_is_found(tmp_path: Path) -> None:
    # A file in its place: root can write anywhere else.
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "data").write_text("in the way")
    paths = paths_under(tmp_path / "home")
    found = doctor(paths)
    assert not found.ok
    assert not next(check for check in found.checks if check.name == "data folder").ok


def test_network_disk_is_found(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "file_system_of", lambda _: "nfs4")
    check = find(paths, "local disk")
    assert not check.ok
    assert "SAPWOOD_HOME" in check.remedy


def test_full_disk_is_found(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))  # type: ignore[attr-defined]
    assert not find(paths, "free space").ok


def test_check_that_fails_is_a_finding(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> str:
        raise RuntimeError("psutil is broken here")

    monkeypatch.setattr(machine, "file_system_of", fail)
    found = doctor(paths)
    assert not found.ok
    assert any("psutil is broken here" in check.detail for check in found.checks)
    assert any(check.name == "agent" for check in found.checks)


def test_every_finding_has_a_remedy(paths: Paths, connection: Connection) -> None:
    with connection.write():
        connection.run(FAILED_JOB)
        connection.run(STALE_JOB)
    paths.config_file.write_text("[pool\n")
    bad = [check for check in doctor(paths).checks if not check.ok]
    assert len(bad) >= 3
    assert all(check.remedy for check in bad)


def test_file_system_of_a_folder_is_named() -> None:
    assert file_system_of(Path("/proc")) in ("proc", "")


def test_sizes_are_said_in_one_unit() -> None:
    assert [size_words(size) for size in (12, 1_500, 2_400_000, 7_200_000_000)] == [
        *("12 bytes", "1.5 KB", "2.4 MB", "7.2 GB"),
    ]
