"""The frozen build as its owner has it: alone, without Python, wherever it lies, started by whatever."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.supervisor.control import call
from tests.desktop.panel import Panel, private_bus
from tests.frozen.test_self_test import PARTS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors and ends processes the POSIX way"),
]

WITHOUT_STREAMS = 'exec "$0" "$@" 0<&- 1>&- 2>&-'
SIZE_LIMIT_MB = 200


def ended(pids: list[int]) -> bool:
    """Nothing of these lives; one that nobody has reaped yet is dead all the same."""
    for pid in pids:
        with suppress(psutil.NoSuchProcess):
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return False
    return True


@contextmanager
def agent(frozen: Path, environment: dict[str, str], wait_until: Callable[..., None], *words: str) -> Iterator[int]:
    """Hold an agent of the build that was started with closed streams; it is ended whatever happens."""
    paths = paths_under(Path(environment["SAPWOOD_HOME"]))
    process = subprocess.Popen(["/bin/sh", "-c", WITHOUT_STREAMS, str(frozen), "run", *words], cwd="/", env=environment)
    try:
        wait_until(lambda: said(paths).get("state") not in (None, "starting"), 30, "an agent")
        yield process.pid
    finally:
        with suppress(SapwoodError):
            call(paths, "stop", 5.0)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def said(paths: Paths) -> dict[str, Any]:
    with suppress(SapwoodError, OSError):
        return call(paths, "status", 5.0)
    return {}


def tree_of(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


@pytest.fixture
def home(tmp_path: Path, bare: dict[str, str]) -> dict[str, str]:
    """The bare environment, with a memory of its own that works on battery too."""
    more = {"SAPWOOD_POWER__ENABLED": "false", "SAPWOOD_DESKTOP__NOTIFICATIONS": "false"}
    return {**bare, "SAPWOOD_HOME": str(tmp_path / "память 1"), **more}


def test_it_passes_its_own_test_on_a_desktop_with_closed_streams(frozen: Path, bare: dict[str, str]) -> None:
    """The streams of the program are closed, but for the one that its answer goes to."""
    folder = Path(tempfile.mkdtemp(prefix="sapwood-bus-"))
    try:
        with private_bus(folder) as bus:
            panel = Panel(bus.address).start()
            try:
                began = time.monotonic()
                done = subprocess.run(
                    ["/bin/sh", "-c", 'exec "$0" "$@" 0<&- 2>&-', str(frozen), "self-test", "--json"],
                    cwd="/",
                    env={**bare, "DBUS_SESSION_BUS_ADDRESS": bus.address, "TMPDIR": bare["HOME"]},
                    stdout=subprocess.PIPE,
                    timeout=180,
                    check=False,
                )
            finally:
                panel.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found = json.loads(done.stdout)
    assert [check for check in found["checks"] if not check["ok"]] == []
    assert done.returncode == 0
    assert [check["name"] for check in found["checks"]] == PARTS
    tray = next(check for check in found["checks"] if check["name"] == "tray")
    assert "up" in tray["detail"], "there is a panel: the icon must be in it"
    assert list(Path(bare["HOME"]).iterdir()) == [], "it leaves nothing"
    print(f"self-test of the frozen build: {time.monotonic() - began:.0f} s")


def test_it_passes_its_own_test_with_all_streams_closed_and_no_desktop(frozen: Path, bare: dict[str, str]) -> None:
    code = subprocess.run(
        ["/bin/sh", "-c", WITHOUT_STREAMS, str(frozen), "self-test"], cwd="/", env=bare, timeout=180, check=False
    ).returncode
    assert code == 0


def test_its_size_is_kept_in_check(frozen_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = sum(path.lstat().st_size for path in frozen_folder.rglob("*") if not path.is_symlink()) / 1e6
    with capsys.disabled():
        print(f"\n  the frozen build: {size:.0f} MB")
    assert size < SIZE_LIMIT_MB


def test_it_carries_nothing_of_tests_and_no_second_sqlite(frozen_folder: Path) -> None:
    names = {path.name.lower() for path in frozen_folder.rglob("*")}
    assert not [name for name in names if name.startswith(("_tkinter", "libtcl", "_sqlite3", "libsqlite3"))]
    assert not names & {"pytest", "hypothesis", "mypy", "playwright", "pip"}


def test_killing_its_supervisor_leaves_no_process(
    frozen: Path, home: dict[str, str], wait_until: Callable[..., None]
) -> None:
    with agent(frozen, home, wait_until, "--headless") as pid:
        paths = paths_under(Path(home["SAPWOOD_HOME"]))
        call(paths, "open", 5.0)
        wait_until(lambda: said(paths)["gateway"]["state"] == "up", 30, "the page")
        pids = tree_of(pid)
        # Without the first line of the entry each child would start the program anew (pyinstaller 4865).
        assert 3 <= len(pids) <= 6, "supervisor, page, a worker or two, what counts their semaphores"
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: ended(pids[1:]), 3, "the end of all of them")


def test_what_it_opens_gets_the_environment_of_its_owner(
    frozen: Path, home: dict[str, str], tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    """The libraries of the build break the browser that it opens (pyinstaller 1759, 3668)."""
    tools = tmp_path / "tools"
    tools.mkdir()
    dump = tmp_path / "dump"
    opener = tools / "xdg-open"
    opener.write_text(f'#!/bin/sh\nenv > "{dump}.part"\necho "opened $1" >> "{dump}.part"\nmv "{dump}.part" "{dump}"\n')
    opener.chmod(0o755)
    owners = {**home, "PATH": f"{tools}:{home['PATH']}", "LD_LIBRARY_PATH": "/owners/own"}
    with agent(frozen, owners, wait_until, "--headless"):
        done = subprocess.run([frozen, "open"], env=owners, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        wait_until(dump.exists, 10, "the stand-in of xdg-open")
    lines = dump.read_text().splitlines()
    assert any(line.startswith("opened http://127.0.0.1:") for line in lines)
    assert "LD_LIBRARY_PATH=/owners/own" in lines
    assert not [line for line in lines if line.startswith(("_PYI", "_MEIPASS", "SAPWOOD_", "PYTHON"))]


def test_its_hidden_children_are_itself(frozen: Path, bare: dict[str, str]) -> None:
    question = {"op": "look", "names": [], "parent": os.getpid(), "limit_s": 5, "per_name": False}
    done = subprocess.run(
        [frozen, "_key"], env=bare, input=json.dumps(question) + "\n", capture_output=True, text=True, timeout=30
    )
    assert json.loads(done.stdout)["state"] == "unavailable", "this login has no keyring, and that is an answer"
    told = {"title": "Sapwood", "body": "tried", "parent": os.getpid(), "limit_s": 1}
    done = subprocess.run(
        [frozen, "_notify"], env=bare, input=json.dumps(told) + "\n", capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1, "this login has no bus"
