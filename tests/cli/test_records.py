"""``sapwood logs``, ``bug-report``, ``usage`` and ``export`` as they are printed."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.paths import Paths
from tests.cli.conftest import Sapwood, widths

LINE = "2026-03-01T10:00:0{n}.000+00:00 {level} pid=7 worker-1 sapwood.x: " + "words " * 30 + "{n}\n"


@pytest.fixture
def logged(paths: Paths) -> Paths:
    levels = ("INFO", "WARNING", "ERROR")
    (paths.log_dir / "worker-1.log").write_text("".join(LINE.format(n=n, level=levels[n]) for n in range(3)))
    return paths


def test_lines_are_whole_in_a_pipe_and_filtered_by_level(sapwood: Sapwood, logged: Paths) -> None:
    text = (logged.log_dir / "worker-1.log").read_text()
    assert sapwood("logs").out == text
    assert sapwood("logs", "-n", "1", "--level", "WARNING").out == text.splitlines(keepends=True)[2]
    found = sapwood("logs", "--level", "error", "--json").document["lines"]
    assert [(line["level"], line["process"], line["pid"]) for line in found] == [("ERROR", "worker-1", 7)]


def test_logs_need_neither_memory_nor_sound_settings(sapwood: Sapwood, logged: Paths) -> None:
    logged.database.write_bytes(b"no database" * 1000)
    logged.config_file.write_text("[")
    assert len(sapwood("logs").out.splitlines()) == 3


def test_where_logs_would_be_is_said_where_there_are_none(sapwood: Sapwood, paths: Paths) -> None:
    ran = sapwood("logs")
    assert (ran.code, ran.err) == (0, "")
    assert str(paths.log_dir) in ran.out.replace("\n", "")
    (paths.log_dir / "a.log").write_text("")
    assert "are empty" in " ".join(sapwood("logs").out.split())
    assert "nothing of that level" in sapwood("logs", "--level", "error").out


def test_following_is_no_one_json_document(sapwood: Sapwood, logged: Paths) -> None:
    ran = sapwood("logs", "--follow", "--json")
    assert ran.code == 2
    assert ran.document["error"]["hint"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT to send to one process")
def test_following_prints_what_comes_and_ends_quietly_at_ctrl_c(
    logged: Paths, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    with (
        (tmp_path / "out").open("wb") as out,
        subprocess.Popen(
            [sys.executable, "-m", "agent.cli.main", "logs", "--follow", "-n", "1"],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            # A shell that starts the tests in the background has them ignore SIGINT, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as process,
    ):
        assert process.stderr is not None
        lines = (tmp_path / "out").read_text
        try:
            wait_until(lambda: lines().count("\n") == 1, 20, "the last line")
            log = logged.log_dir / "worker-1.log"
            log.rename(logged.log_dir / "worker-1.log.1")
            log.write_text(LINE.format(n=5, level="INFO"))
            wait_until(lambda: lines().count("\n") == 2, 20, "the new line")
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
        finally:
            process.kill()  # where it failed, leaving the block would wait for it for ever
        assert process.stderr.read() == ""
    assert lines().splitlines()[1].endswith(" 5")


def test_a_report_is_listed_first_and_saved_where_it_was_asked_for(
    sapwood: Sapwood, logged: Paths, tmp_path: Path
) -> None:
    ran = sapwood("bug-report", "-o", str(tmp_path / "r.zip"))
    assert (ran.code, ran.err) == (0, "")
    assert max(widths(ran.out)) <= max(80, len(f"saved: {tmp_path / 'r.zip'}"))
    listed, _, saved = ran.out.partition("saved: ")
    assert saved.startswith(str(tmp_path / "r.zip"))
    for name in ("report.md", "logs/worker-1.log", "manifest.json"):
        assert name in listed
    with zipfile.ZipFile(tmp_path / "r.zip") as held:
        assert held.namelist() == ["report.md", "logs/worker-1.log", "manifest.json"]


def test_a_report_as_json_names_its_files(sapwood: Sapwood, logged: Paths, tmp_path: Path) -> None:
    found = sapwood("bug-report", "-o", str(tmp_path), "--json").document
    assert Path(found["path"]).parent == tmp_path
    assert Path(found["path"]).stat().st_size == found["bytes"]
    assert [file["name"] for file in found["files"]] == ["report.md", "logs/worker-1.log", "manifest.json"]
    assert all(set(file) == {"name", "bytes", "about", "masked"} for file in found["files"])


@pytest.mark.parametrize(("answer", "is_saved"), [("y\n", True), ("n\n", False), ("\n", False)])
def test_on_a_terminal_nothing_is_saved_without_a_yes(
    answer: str, is_saved: bool, sapwood: Sapwood, logged: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    ran = sapwood("bug-report", "-o", str(tmp_path / "r.zip"))
    assert "report.md" in ran.out
    assert (tmp_path / "r.zip").exists() is is_saved
    assert ran.code == (0 if is_saved else 130)
    assert sapwood("bug-report", "-o", str(tmp_path / "yes.zip"), "--yes").code == 0


def test_a_report_needs_neither_memory_nor_sound_settings(sapwood: Sapwood, logged: Paths, tmp_path: Path) -> None:
    logged.database.write_bytes(b"no database" * 1000)
    logged.config_file.write_text("[")
    assert sapwood("bug-report", "-o", str(tmp_path / "r.zip")).code == 0
    ran = sapwood("bug-report", "-o", str(tmp_path / "none" / "r.zip"))
    assert ran.code == 1
    assert "-o FILE" in ran.err


def test_status_and_doctor_name_the_newest_crash_dump_for_some_days(sapwood: Sapwood, logged: Paths) -> None:
    assert "crashed" not in sapwood("status").out
    old, new = (logged.log_dir / f"worker-{n}-{n}.crash.log" for n in (1, 2))
    old.write_text("Fatal Python error: Aborted\n")
    os.utime(old, (1_000_000, 1_000_000))
    assert "crashed" not in sapwood("status").out
    new.write_text("Fatal Python error: Aborted\n")
    assert "crashed    worker-2 on " in sapwood("status").out
    assert sapwood("status", "--json").document["crashed"].startswith("worker-2 on ")
    assert "worker-2 on " in " ".join(sapwood("doctor").out.split())


def test_usage_says_that_nothing_was_sent_and_nothing_spent(sapwood: Sapwood, paths: Paths) -> None:
    ran = sapwood("usage", "--days", "7")
    assert "Nothing was sent to any model and nothing was spent in the last 7 days." in ran.out
    assert sapwood("usage", "--json").document["rows"] == []
    assert not paths.database.exists()


def test_an_export_says_what_it_did_and_where(sapwood: Sapwood, grown: Path, tmp_path: Path) -> None:
    ran = sapwood("export", str(tmp_path / "out"))
    assert ran.code == 0
    assert max(widths(ran.out)) <= 80
    assert "66 passages" in ran.out
    assert "0 removed" in ran.out
    again = sapwood("export", str(tmp_path / "out"), "--json").document
    assert (again["written"], again["removed"], again["path"]) == (0, 0, str(tmp_path / "out"))
    assert len(list((tmp_path / "out").rglob("*.md"))) == again["files"]


def test_an_export_into_a_strange_folder_says_what_to_do(sapwood: Sapwood, grown: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    ran = sapwood("export", str(tmp_path))
    assert ran.code == 2
    assert "not empty" in ran.err
    assert "new or an empty folder" in " ".join(ran.err.split())


def test_what_was_forgotten_leaves_the_export_too(
    sapwood: Sapwood, grown_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_HOME", str(shutil.copytree(grown_home, tmp_path / "home", dirs_exist_ok=True)))
    out = tmp_path / "out"

    def holding(word: str) -> list[str]:
        files = [path for path in out.rglob("*") if path.is_file()]
        return [path.name for path in files if word in path.name.lower() or word in path.read_text("utf-8").lower()]

    sapwood("export", str(out))
    assert len(holding("hydrant")) > 5
    assert sapwood("forget", "--mentions", "hydrant", "--yes").code == 0
    assert sapwood("export", str(out), "--json").document["removed"] > 5
    assert holding("hydrant") == []
    assert holding("greenhouse"), "and nothing else left"
