import asyncio
import gc
import logging
import os
import re
from pathlib import Path

import pytest

from agent.logs import Collapse, ForeignHandler, job_scope, start_logging, stop_logging, trim_logs
from agent.paths import Paths


@pytest.fixture
def log_file(paths: Paths):
    path = start_logging(paths, "worker-1")
    assert path is not None
    yield path
    stop_logging()


def test_a_line_carries_time_with_offset_level_pid_process_job_and_kind(log_file: Path) -> None:
    with job_scope(17, "seal"):
        logging.getLogger("sapwood.worker").warning("lease lost")
    line = log_file.read_text()
    assert re.match(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00 WARNING pid=\d+ worker-1 "
        r"job=17 kind=seal sapwood.worker: lease lost\n$",
        line,
    )


def test_a_message_with_newlines_stays_one_line(log_file: Path) -> None:
    logging.getLogger("sapwood.worker").error("first\nsecond\r\n")
    assert log_file.read_text().count("\n") == 1


def test_the_same_message_collapses_after_five_a_minute_and_is_counted() -> None:
    now = [0.0]
    collapse = Collapse(lambda: now[0])

    def passes(number: int) -> str | None:
        record = logging.LogRecord("sapwood", logging.ERROR, "", 0, "job %s failed", (number,), None)
        return record.getMessage() if collapse.filter(record) else None

    assert [passes(n) is not None for n in range(9)] == [True] * 5 + [False] * 4
    now[0] = 61.0
    assert passes(99) == "job 99 failed [4 like this were not written in the minute before]"


def test_all_logs_together_stay_under_the_limit(tmp_path: Path) -> None:
    for age, name in enumerate(("new.log", "mid.log.1", "old.log.2")):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    assert trim_logs(tmp_path, limit=200) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mid.log.1", "new.log"]


def test_a_log_folder_that_cannot_be_made_stops_nothing(paths: Paths) -> None:
    paths.log_dir.rmdir()
    paths.log_dir.write_text("a file in the way")
    assert start_logging(paths, "cli") is None
    logging.getLogger("sapwood").error("goes nowhere")
    stop_logging()


def test_an_error_is_logged_by_name_and_place_and_none_of_its_words(log_file: Path) -> None:
    try:
        try:
            raise ValueError("cannot parse: dear diary")
        except ValueError as error:
            raise RuntimeError("dear diary, again") from error
    except RuntimeError:
        logging.getLogger("sapwood.queue").exception("the sweep of %s failed", "seal")
    text = log_file.read_text()
    assert "diary" not in text
    assert "the sweep of seal failed\n    RuntimeError\n      test_logs.py:" in text
    assert "    caused by ValueError\n" in text
    assert all(line.startswith("    ") for line in text.splitlines()[1:])


def test_what_libraries_say_is_masked_and_only_from_warnings_on(log_file: Path) -> None:
    # None of those that models use: once one was asked in this process, these are silenced for good.
    library = logging.getLogger("some.library")
    library.info("HTTP Request: GET https://api.example/v1?key=quince")
    library.warning("retrying https://anna:pw@api.example/v1?key=%s for anna@posta.example\nsecond line", "quince")
    text = log_file.read_text()
    assert "WARNING" in text
    assert " some.library: retrying https://api.example/v1?[…] for [e-mail]\n" in text
    for word in ("quince", "anna", "second", "GET"):
        assert word not in text


def test_a_loop_that_tells_of_a_failed_task_tells_none_of_its_words(log_file: Path) -> None:
    async def fail() -> None:
        raise ValueError("dear diary")

    async def run() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        gc.collect()

    asyncio.run(run())
    text = log_file.read_text()
    assert "asyncio: Task exception was never retrieved" in text
    assert "ValueError" in text
    assert "diary" not in text


def test_a_librarys_flood_collapses_by_its_template(log_file: Path) -> None:
    for number in range(50):
        logging.getLogger("a.flooding.library").warning("connection %d was lost", number)
    assert log_file.read_text().count("\n") == 5


def test_a_librarys_message_that_cannot_be_made_stops_nothing(log_file: Path) -> None:
    ours = next(each for each in logging.getLogger().handlers if isinstance(each, ForeignHandler))
    ours.handle(logging.LogRecord("mcp", logging.WARNING, "", 0, "two %s of %s", ("words",), None))
    ours.handle(logging.LogRecord("mcp", logging.WARNING, "", 0, "another", (), None))
    assert log_file.read_text().count("\n") == 1


def test_a_log_that_is_closed_takes_nothing_from_libraries_any_more(paths: Paths) -> None:
    before = list(logging.getLogger().handlers)
    path = start_logging(paths, "tray")
    start_logging(paths, "gateway")
    stop_logging()
    assert logging.getLogger().handlers == before
    assert path is not None


def test_an_empty_crash_file_of_a_live_process_is_not_trimmed_away(tmp_path: Path) -> None:
    (tmp_path / "worker-1-7.crash.log").touch()
    os.utime(tmp_path / "worker-1-7.crash.log", (1, 1))
    (tmp_path / "new.log").write_bytes(b"x" * 300)
    trim_logs(tmp_path, limit=200)
    assert [path.name for path in tmp_path.iterdir()] == ["worker-1-7.crash.log"]
