"""A report is made whatever is broken, says why what is missing is missing, and is saved where its owner finds it."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from multiprocessing.connection import Listener
from pathlib import Path

import pytest

from agent.actions import bug_facts, bug_report
from agent.actions.bug_report import FIRST, MANIFEST, Report, ReportFile, collect, save
from agent.actions.checks import process as process_checks
from agent.db import Database
from agent.errors import AgentFault, UsageFault
from agent.paths import Paths, paths_under
from agent.queue.handling import all_handling
from agent.supervisor.control import AgentAddress
from agent.system.identity import own_identity
from tests.permissions import ordinary_permissions

LINE = "2026-03-01T10:00:00.000+00:00 WARNING pid=7 worker-1 sapwood.worker: a lease could not be renewed (busy) {0}\n"
SMALL = Report((ReportFile(FIRST, "# x\n", "summary"), ReportFile(MANIFEST, "{}\n", "counts")), {}, 1_800_000_000_000)


def report_of(report: Report) -> str:
    return report.files[0].text


# -- whatever is broken -----------------------------------------------------------------------------------------------


def test_a_home_that_was_never_used_has_a_report(tmp_path: Path) -> None:
    report = collect(paths_under(tmp_path / "new"))
    assert [file.name for file in report.files] == [FIRST, MANIFEST]
    assert "there is no memory yet" in report_of(report)


@pytest.mark.skipif(sys.platform == "win32", reason="modes mean nothing there")
def test_a_home_that_cannot_be_made_has_a_report(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with ordinary_permissions():
            report = collect(paths_under(tmp_path / "new"))
    finally:
        tmp_path.chmod(0o700)
    assert "NOT OK config folder" in report_of(report)


def test_a_file_in_the_place_of_the_home_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    assert "NOT OK" in report_of(collect(paths_under(tmp_path / "home")))


def test_a_memory_that_another_program_keeps_for_itself_is_waited_for_briefly(
    database: Database, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.db.connection.BUSY_TIMEOUT_MS", 300)
    monkeypatch.setattr("agent.actions.checks.memory.BUSY_TIMEOUT_MS", 300)
    monkeypatch.setattr("agent.actions.bug_memory.BUSY_TIMEOUT_MS", 300)
    other = database.connection.raw
    other.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
    other.execute("BEGIN EXCLUSIVE").fetchall()
    other.execute("CREATE TABLE held (x)").fetchall()
    began = time.monotonic()
    text = report_of(collect(paths))
    assert "not to be had: BusyError" in text
    assert "NOT OK database" in text
    assert time.monotonic() - began < 20


def test_a_memory_is_looked_at_and_not_changed(database: Database, paths: Paths) -> None:
    database.connection.run("PRAGMA user_version = 99")
    database.close()
    before = paths.database.read_bytes()
    text = report_of(collect(paths))
    assert "schema 99, this build's" in text
    assert "newer than this build knows" in text
    assert paths.database.read_bytes() == before


def test_a_damaged_table_takes_only_its_own_look_away(database: Database, paths: Paths) -> None:
    connection = database.connection
    connection.run("DROP TABLE mem_tree_holds")
    database.close()
    text = report_of(collect(paths))
    assert "### Holds\n\n- not to be had: SQLError: no such table" in text
    assert "### Integrity (quick)\n\n- sound" in text


def test_an_agent_that_hangs_is_waited_for_briefly(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bug_facts, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(process_checks, "PATIENCE_S", 0.2)
    family = "AF_PIPE" if sys.platform == "win32" else "AF_UNIX"
    with Listener(None, family) as listener:
        paths.agent_file.write_text(AgentAddress(own_identity(), str(listener.address), b"k").to_json())
        text = report_of(collect(paths))
    assert "it runs and does not answer: AgentFault: the agent does not answer" in text
    assert "NOT OK agent: the agent does not answer" in text


@pytest.mark.parametrize("which", ["memory", "doctor"])
def test_what_hangs_is_not_waited_for_and_the_rest_is_told(
    which: str, database: Database, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert database.connection.in_transaction is False
    released = threading.Event()

    def hang(*_: object, **__: object) -> list[str]:
        released.wait(30)
        return []

    if which == "memory":
        monkeypatch.setattr(bug_report, "MEMORY_SECONDS", 0.3)
        monkeypatch.setattr("agent.actions.bug_memory.file_lines", lambda _paths: [])
        monkeypatch.setattr("agent.actions.bug_memory._integrity", hang)
    else:
        monkeypatch.setattr(bug_report, "DOCTOR_SECONDS", 0.3)
        monkeypatch.setattr("agent.actions.doctor.look_at_memory", hang)
    try:
        text = report_of(collect(paths))
    finally:
        released.set()
    assert "no answer in 0 s" in text
    assert "- schema 3" in text if which == "doctor" else "### Queue" in text
    assert "ok sqlite" in text


# -- bounded, and the same each time ----------------------------------------------------------------------------------


def test_a_report_stays_below_five_megabytes_and_keeps_the_newest(paths: Paths) -> None:
    for number in range(12):
        path = paths.log_dir / f"worker-{number}.log"
        path.write_text("".join(LINE.format(line) for line in range(10_000)) + LINE.format("the last"))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    report = collect(paths)
    assert report.bytes < 5_000_000
    names = [file.name for file in report.files]
    assert "logs/worker-11.log" in names
    assert "logs/worker-0.log" not in names
    newest = next(file for file in report.files if file.name == "logs/worker-11.log")
    assert newest.text.endswith("the last\n")
    assert newest.about == "log, its end"


def test_files_come_in_the_same_order_each_time(paths: Paths) -> None:
    for name in ("worker-2.log", "supervisor.log", "worker-1.log", "worker-1.log.1", "tray-77.crash.log"):
        (paths.log_dir / name).write_text(LINE.format(1))
    names = [file.name for file in collect(paths).files]
    assert names == [
        FIRST,
        "crashes/01-tray.txt",
        "logs/supervisor.log",
        "logs/worker-1.log",
        "logs/worker-1.log.1",
        "logs/worker-2.log",
        MANIFEST,
    ]
    assert names == [file.name for file in collect(paths).files]


def test_the_manifest_adds_up(paths: Paths) -> None:
    (paths.log_dir / "tray.log").write_text(LINE.format("anna@posta.example zu Hause"))
    report = collect(paths)
    manifest = json.loads(report.files[-1].text)
    assert manifest["masked"] == report.masked
    assert report.masked["e-mail addresses"] == 1
    for file, told in zip(report.files, manifest["files"], strict=False):
        assert told["name"] == file.name
        assert told["bytes"] == len(file.text.encode())
        assert sum(told["masked"].values()) == file.masked


# -- saving -----------------------------------------------------------------------------------------------------------


def test_it_is_saved_whole_for_its_owner_alone(tmp_path: Path) -> None:
    path = save(SMALL, tmp_path / "r.zip")
    with zipfile.ZipFile(path) as held:
        assert held.namelist() == [FIRST, MANIFEST]
        assert held.read(FIRST) == b"# x\n"
        assert held.testzip() is None
    assert list(tmp_path.iterdir()) == [path]
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0


def test_a_folder_gets_the_usual_name(tmp_path: Path) -> None:
    assert save(SMALL, tmp_path) == tmp_path / "sapwood-bug-report-20270115T080000Z.zip"


def test_without_a_name_it_goes_to_the_downloads_or_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_downloads_path", lambda: tmp_path / "Downloads")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert save(SMALL).parent == tmp_path
    (tmp_path / "Downloads").mkdir()
    assert save(SMALL).parent == tmp_path / "Downloads"


def test_an_earlier_report_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = save(SMALL, tmp_path / "r.zip")
    assert save(SMALL, path) == path
    path.write_text("my thesis")
    with pytest.raises(UsageFault) as refused:
        save(SMALL, path)
    assert "-o FILE" in refused.value.hint
    assert path.read_text() == "my thesis"
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as mine:
        mine.writestr("thesis.txt", "words")
    with pytest.raises(UsageFault):
        save(SMALL, tmp_path / "mine.zip")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(AgentFault) as refused:
        save(SMALL, tmp_path / "none" / "r.zip")
    assert "-o FILE" in refused.value.hint


def test_a_full_disk_is_said_and_nothing_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(AgentFault) as refused:
        save(SMALL, tmp_path / "r.zip")
    assert "full" in refused.value.title
    assert refused.value.hint
    assert list(tmp_path.iterdir()) == []


# -- from a real process ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSEGV to send to one process")
def test_a_worker_that_a_library_brings_down_is_in_the_report(paths: Paths, wait_until: Callable[..., None]) -> None:
    environment = {**os.environ, "SAPWOOD_POOL__MAX_WORKERS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "run", "--headless"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as agent:
        try:
            wait_until(lambda: _worker_of(paths) is not None, 20, "a worker")
            worker = _worker_of(paths)
            assert worker is not None
            os.kill(worker, signal.SIGSEGV)
            wait_until(lambda: _worker_of(paths) not in (None, worker), 20, "another worker")
            report = collect(paths)
        finally:
            agent.terminate()
            assert agent.wait(20) == 0
    text = report_of(report)
    dump = next(file for file in report.files if file.name.startswith("crashes/"))
    assert dump.name.startswith("crashes/01-worker-")
    assert "Fatal Python error: Segmentation fault" in dump.text
    assert 'File "agent/worker/loop.py", line ' in dump.text
    assert "ended: signal 11" in text
    assert "- state: " in text
    assert "ok crash dumps: worker-" in text
    left = [path.name for path in paths.log_dir.glob("*.crash.log") if path.stat().st_size == 0]
    assert left == [], "what ends well leaves nothing"


def _worker_of(paths: Paths) -> int | None:
    return next((each.pid for each in all_handling(paths)), None)
