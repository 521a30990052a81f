from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from agent.actions.log_reading import LINE_BYTES, Follower, follow, last_lines
from agent.logs import start_logging, stop_logging
from agent.paths import Paths


def line(second: int, text: str, level: str = "INFO", process: str = "worker-1", job: str = "") -> str:
    return (
        f"2026-03-01T10:{second // 60:02}:{second % 60:02}.000+00:00 {level} pid=7 {process} {job}sapwood.x: {text}\n"
    )


def texts(paths: Paths, count: int = 50, level: str | None = None) -> list[str]:
    return [each.text for each in last_lines(paths, count, level).lines]


def test_a_line_that_was_logged_is_read_back_with_all_that_it_has(paths: Paths) -> None:
    from agent.logs import job_scope

    start_logging(paths, "worker-1")
    with job_scope(17, "seal"):
        logging.getLogger("sapwood.worker").warning("lease lost")
        try:
            raise ValueError("unsaid")
        except ValueError:
            logging.getLogger("sapwood.worker").exception("the sweep failed")
    stop_logging()
    first, second = last_lines(paths).lines
    assert (first.level, first.process, first.pid) == ("WARNING", "worker-1", os.getpid())
    assert (first.job, first.kind, first.logger, first.text) == (17, "seal", "sapwood.worker", "lease lost")
    assert first.time is not None
    assert first.time.endswith("+00:00")
    assert second.text.startswith("the sweep failed\n    ValueError\n      test_log_reading.py:")
    assert second.raw.startswith(second.time or "?")


def test_logs_of_all_processes_and_their_rotated_files_are_one_by_time(paths: Paths) -> None:
    (paths.log_dir / "worker-1.log.2").write_text(line(1, "a"))
    (paths.log_dir / "worker-1.log.1").write_text(line(2, "b") + line(5, "e"))
    (paths.log_dir / "worker-1.log").write_text(line(6, "f"))
    (paths.log_dir / "supervisor.log").write_text(line(3, "c") + line(4, "d") + line(7, "g"))
    (paths.log_dir / "notes.txt").write_text("not a log\n")
    assert texts(paths) == list("abcdefg")
    assert texts(paths, 3) == list("efg")
    assert [each.file for each in last_lines(paths, 2).lines] == ["worker-1.log", "supervisor.log"]


def test_a_level_leaves_out_what_is_below_it(paths: Paths) -> None:
    levels = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    (paths.log_dir / "a.log").write_text("".join(line(at, level, level) for at, level in enumerate(levels)))
    assert texts(paths, level="warning") == ["WARNING", "ERROR", "CRITICAL"]
    assert texts(paths, 1, level="error") == ["CRITICAL"]


def test_what_is_no_line_of_ours_is_shown_as_it_is_where_it_stands(paths: Paths) -> None:
    broken = "Fatal Python error: Segmentation fault\n2026-03-01T10:00 cut sho\n"
    (paths.log_dir / "a.log").write_bytes(line(1, "one").encode() + broken.encode() + b"\xff\xfe\n")
    (paths.log_dir / "b.log").write_text(line(2, "two"))
    crash = paths.log_dir / "worker-1.crash.log"
    crash.write_text("    indented\nThread 0x1 (most recent call first):\n  File x\n")
    os.utime(crash, (4e9, 4e9))
    found = last_lines(paths).lines
    assert [each.text for each in found] == [
        *("one", *broken.splitlines(), "\ufffd\ufffd", "two"),
        *("    indented", "Thread 0x1 (most recent call first):", "  File x"),
    ]
    assert found[1].time is None
    assert found[1].raw == found[1].text
    assert "Fatal Python error: Segmentation fault" in texts(paths, level="error")


def test_a_missing_folder_has_no_lines(paths: Paths) -> None:
    paths.log_dir.rmdir()
    found = last_lines(paths)
    assert (found.files, found.lines) == (0, ())


def test_the_end_of_large_logs_is_read_at_once_and_a_line_without_an_end_fills_nothing(paths: Paths) -> None:
    row = line(1, "x" * 900).encode()
    with (paths.log_dir / "a.log").open("wb") as stream:
        for _ in range(100):
            stream.write(row * 1000)
        stream.write(line(2, "last").encode())
    with (paths.log_dir / "b.log").open("wb") as stream:
        stream.truncate(100_000_000)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n" + line(3, "really").encode())
    begun = time.perf_counter()
    assert texts(paths, 1) == ["really"]
    os.truncate(paths.log_dir / "b.log", 90_000_000)
    os.utime(paths.log_dir / "b.log", (0, 0))
    assert texts(paths, 1) == ["last"]
    os.utime(paths.log_dir / "b.log", (4e9, 4e9))
    found = last_lines(paths, 5).lines
    assert found[0].file == "b.log"
    assert time.perf_counter() - begun < 1.0
    assert max(len(each.raw) for each in found) <= LINE_BYTES + 100_000


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


def test_following_survives_rotation_new_logs_and_emptied_ones(paths: Paths) -> None:
    log = paths.log_dir / "a.log"
    log.write_text(line(1, "old"))
    follower = Follower(paths)
    assert follower.new_lines() == []
    append(log, line(2, "two") + line(3, "three")[:20])
    assert [each.text for each in follower.new_lines()] == ["two"]
    append(log, line(3, "three")[20:])
    log.rename(paths.log_dir / "a.log.1")
    log.write_text(line(4, "four") + "    below\n")
    (paths.log_dir / "b.log").write_text(line(5, "five", "ERROR"))
    assert [each.text for each in follower.new_lines()] == ["three", "four\n    below", "five"]
    (paths.log_dir / "a.log.1").rename(paths.log_dir / "a.log.2")
    append(log, line(6, "six"))
    log.rename(paths.log_dir / "a.log.1")
    log.write_text(line(7, "seven"))
    assert [each.text for each in follower.new_lines()] == ["six", "seven"]
    log.write_text(line(8, "8"))
    assert [each.text for each in follower.new_lines()] == ["8"]
    log.unlink()
    assert follower.new_lines() == []


def test_following_a_rotating_writer_loses_and_repeats_nothing(
    paths: Paths, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.logs.FILE_BYTES", 4_000)
    start_logging(paths, "worker-1")
    log = logging.getLogger("sapwood.test")
    follower = Follower(paths)
    seen: list[str] = []
    for number in range(300):
        # A template of its own each, or the same message would be collapsed.
        log.info(f"number {number}")
        if number % 40 == 0:
            seen += [each.text for each in follower.new_lines()]
    stop_logging()
    seen += [each.text for each in follower.new_lines()]
    assert (paths.log_dir / "worker-1.log.2").exists()
    assert seen == [f"number {number}" for number in range(300)]


def test_follow_begins_with_the_tail_and_says_nothing_twice(paths: Paths) -> None:
    log = paths.log_dir / "a.log"
    log.write_text("".join(line(at, f"{at}") for at in range(5)))
    came = iter(range(5, 8))

    def sleep(_: float) -> None:
        append(log, line(number := next(came), f"{number}"))

    found = [each.text for each in islice(follow(paths, 2, sleep=sleep), 5)]
    assert found == ["3", "4", "5", "6", "7"]


def test_a_line_that_comes_between_the_two_first_looks_is_said_once(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = paths.log_dir / "a.log"
    log.write_text(line(1, "one"))

    def late(*arguments: object) -> object:
        append(log, line(2, "two"))
        return last_lines(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("agent.actions.log_reading.last_lines", late)
    found = follow(paths, 5, sleep=lambda _: append(log, line(3, "three")))
    assert [each.text for each in islice(found, 3)] == ["one", "two", "three"]
