"""A process that ends by a fault leaves a file behind that says where, and none of what its owner wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import crash
from agent.logs import start_logging, stop_logging
from agent.paths import Paths

WORDS = "dear diary"
DYING = """
import asyncio, ctypes, os, sys, threading
from pathlib import Path
from agent import crash
from agent.paths import paths_under
path = crash.arm(paths_under(Path(sys.argv[1])), "worker-1")
assert path is not None and path.exists()
def fail():
    raise ValueError("dear diary")
async def fail_later():
    fail()
async def loop():
    asyncio.get_running_loop().set_exception_handler(crash.in_loop)
    task = asyncio.ensure_future(fail_later())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
class Left:
    def __del__(self):
        fail()
how = sys.argv[2]
if how == "segfault":
    ctypes.string_at(0)
elif how == "abort":
    os.abort()
elif how == "uncaught":
    fail()
elif how == "thread":
    thread = threading.Thread(target=fail, name="dear diary")
    thread.start()
    thread.join()
elif how == "unraisable":
    Left()
elif how == "task":
    asyncio.run(loop())
crash.disarm()
"""


@pytest.fixture(autouse=True)
def _nothing_armed() -> Iterator[None]:
    yield
    crash.disarm()


def die(paths: Paths, how: str) -> subprocess.CompletedProcess[str]:
    code = [sys.executable, "-c", DYING, str(paths.log_dir.parent), how]
    return subprocess.run(code, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("how", ["segfault", "abort", "uncaught", "thread", "unraisable", "task"])
def test_every_way_to_fail_leaves_a_dump_that_says_where_and_no_words(paths: Paths, how: str) -> None:
    done = die(paths, how)
    dumps = crash.dumps(paths.log_dir)
    assert [dump.process for dump in dumps] == ["worker-1"], done.stderr
    text = dumps[0].path.read_text()
    if how in ("segfault", "abort"):
        assert "Fatal Python error: " in text
        assert ", line " in text
    else:
        assert "ValueError" in text
        assert ":9 fail" in text
    assert WORDS not in text
    assert WORDS not in done.stdout + done.stderr


def test_a_clean_end_leaves_nothing(paths: Paths) -> None:
    assert die(paths, "not at all").returncode == 0
    assert list(paths.log_dir.iterdir()) == []


def test_an_owner_is_told_in_one_sentence_and_not_by_a_trace(paths: Paths) -> None:
    done = die(paths, "uncaught")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "sapwood bug-report" in done.stderr


def test_hooks_are_put_back(paths: Paths) -> None:
    before = (sys.excepthook, threading.excepthook, sys.unraisablehook)
    crash.arm(paths, "tray")
    assert sys.excepthook is not before[0]
    crash.arm(paths, "gateway")
    crash.disarm()
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook) == before
    assert list(paths.log_dir.iterdir()) == []


def test_without_a_folder_for_logs_none_is_made_and_nothing_fails(paths: Paths) -> None:
    paths.log_dir.rmdir()
    assert crash.arm(paths, "command") is None
    crash.write_down(ValueError(WORDS), "it failed")
    assert not paths.log_dir.exists()


def test_what_nobody_caught_is_in_the_log_of_the_process_too(paths: Paths) -> None:
    log = start_logging(paths, "tray")
    try:
        crash.arm(paths, "tray")
        crash.write_down(ValueError(WORDS), "this process ends by an error nobody caught")
    finally:
        stop_logging()
    assert log is not None
    assert "CRITICAL" in log.read_text()
    assert WORDS not in log.read_text()


def test_what_killed_processes_left_empty_goes_and_that_of_live_ones_stays(paths: Paths) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as other:
        mine = paths.log_dir / f"worker-2-{other.pid}.crash.log"
        mine.touch()
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        left = paths.log_dir / f"worker-3-{gone.pid}.crash.log"
        left.touch()
        crash.arm(paths, "worker-1")
        assert not left.exists()
        if sys.platform != "win32":
            assert mine.exists()
        other.communicate()


def test_dumps_are_bounded_in_number_and_size(paths: Paths) -> None:
    now = time.time()
    for age in range(30):
        path = paths.log_dir / f"worker-{age}-{10_000_000 + age}.crash.log"
        path.write_text("x" * 1000)
        os.utime(path, (now - age, now - age))
    crash.arm(paths, "worker-1")
    kept = crash.dumps(paths.log_dir)
    assert len(kept) == crash.KEPT_DUMPS - 1
    assert kept[0].process == "worker-0"
    crash.disarm()
    for dump in kept:
        dump.path.write_text("x" * 100_000)
    crash.arm(paths, "worker-1")
    assert sum(dump.size for dump in crash.dumps(paths.log_dir)) <= crash.KEPT_BYTES


def test_what_fails_again_and_again_fills_no_disk(paths: Paths) -> None:
    path = crash.arm(paths, "worker-1")
    assert path is not None
    for _ in range(5_000):
        crash.write_down(ValueError(WORDS), "a thread ends by an error nobody caught")
    assert path.stat().st_size <= crash.FILE_BYTES + 1_000


def test_a_link_in_the_log_folder_is_no_dump(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(WORDS)
    try:
        (paths.log_dir / "worker-1-1.crash.log").symlink_to(tmp_path / "secret.txt")
    except OSError:
        pytest.skip("this system makes no links for everybody")
    assert crash.dumps(paths.log_dir) == []
