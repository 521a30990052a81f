"""``sapwood self-test`` from its source: it finds all well, names what is broken, and leaves nothing running."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agent.actions import self_test, self_test_parts, self_test_trying
from agent.actions.checks.result import Check
from agent.actions.self_test_parts import look_at_data_files, look_at_keyring, look_at_modules
from agent.actions.self_test_processes import look_at_agent, look_at_growing, run_closed
from agent.actions.self_test_trying import Tried
from agent.paths import Paths, paths_under
from agent.states import KeyState
from agent.system.keyring import RingAnswer
from tests.conftest import REPOSITORY

ON_A_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
PARTS = [
    *("modules", "libraries", "data files", "built-in model", "sqlite", "keyring", "closed streams", "workers"),
    *("search", "agent", "page", "assistants", "tray", "end"),
]


@pytest.fixture
def tried(paths: Paths, tmp_path: Path) -> Tried:
    return Tried(paths, tmp_path)


def test_a_module_that_cannot_be_loaded_is_named(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def lacking(name: str, package: str | None = None) -> object:
        if name == "agent.tree.flush":
            raise ModuleNotFoundError("No module named 'array'", name="array")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", lacking)
    (check,) = look_at_modules(tried)
    assert not check.ok
    assert "agent.tree.flush" in check.detail
    assert "install" in check.remedy


def test_a_module_of_another_system_is_not_missed_here(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def elsewhere(name: str, package: str | None = None) -> object:
        if name == "agent.system.autostart_registry":
            raise ModuleNotFoundError("No module named 'winreg'", name="winreg")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", elsewhere)
    assert [check.ok for check in look_at_modules(tried)] == [sys.platform != "win32"]


def test_a_data_file_that_is_not_there_is_named(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [check.ok for check in look_at_data_files(tried)] == [True]
    monkeypatch.setattr(
        self_test_parts, "_FOLDERS", (("agent.models", "builtin/no-such.npz", 1), ("agent.models", "no", 2))
    )
    (check,) = look_at_data_files(tried)
    assert not check.ok
    assert "agent/models/builtin/no-such.npz" in check.detail
    assert "agent/models/no" in check.detail


@pytest.mark.parametrize(
    ("answer", "ok"),
    [
        (RingAnswer(KeyState.VALUE, backend="ring"), True),
        (RingAnswer(KeyState.TIMED_OUT, reason="it may wait"), True),
        (RingAnswer(KeyState.UNAVAILABLE, reason="this login has no keyring that could be used"), True),
        (RingAnswer(KeyState.UNAVAILABLE, reason="the keyring's library ended without an answer"), False),
        (RingAnswer(KeyState.UNAVAILABLE, reason="the keyring cannot be asked: no such file"), False),
    ],
)
def test_a_login_without_a_keyring_is_well_and_a_child_that_is_no_good_is_not(
    tried: Tried, monkeypatch: pytest.MonkeyPatch, answer: RingAnswer, ok: bool
) -> None:
    class Ring:
        def look(self) -> RingAnswer:
            return answer

    monkeypatch.setattr(self_test_parts, "SystemKeyring", Ring)
    assert [check.ok for check in look_at_keyring(tried)] == [ok]


@pytest.mark.skipif(sys.platform == "win32", reason="descriptors are closed there in another way")
def test_streams_are_closed_and_not_merely_empty(tmp_path: Path) -> None:
    script = "import os, sys\ntry: os.fstat(1)\nexcept OSError: sys.exit(7)"
    assert run_closed([sys.executable, "-c", script], {}, tmp_path) == 7


def test_a_look_that_raises_is_a_broken_part_and_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_tried: Tried) -> list[Check]:
        raise RuntimeError("no")

    monkeypatch.setattr(self_test, "_LOOKS", (("this", breaks), ("data files", look_at_data_files)))
    found = self_test.self_test()
    assert not found.ok
    assert [(check.name, check.ok) for check in found.checks] == [("this", False), ("data files", True)]


@pytest.mark.slow
def test_all_of_it_works_and_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ON_A_DESKTOP:
        monkeypatch.delenv(name, raising=False)
    # A name of its own for the throw-away home, to see that it is gone.
    folder = Path(tempfile.mkdtemp(prefix="sapwood-st-"))
    monkeypatch.setenv("TMPDIR", str(folder))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "agent.cli.main", "self-test", "--json"],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        found = json.loads(done.stdout)
        assert [check for check in found["checks"] if not check["ok"]] == []
        assert done.returncode == 0
        assert [check["name"] for check in found["checks"]] == PARTS
        assert list(folder.iterdir()) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM")
def test_one_that_is_ended_in_the_middle_leaves_nothing_either(
    monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="sapwood-st-"))
    monkeypatch.setenv("TMPDIR", str(folder))
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "self-test"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: any("run" in words for words in commands_below(process.pid)), 60, "an agent to try")
        pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        process.terminate()
        assert process.wait(30) == 130
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), 10, "the end of all of them")
        assert list(folder.iterdir()) == []
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def commands_below(pid: int) -> list[list[str]]:
    try:
        return [child.cmdline() for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return []


@pytest.mark.slow
def test_a_build_whose_workers_do_not_come_up_is_told_apart(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from agent.actions.demo import throwaway_home

    monkeypatch.setattr(self_test_trying, "program", lambda: [sys.executable, "-c", "import sys; sys.exit(9)"])
    with throwaway_home() as (paths, samples):
        broken = Tried(paths, samples)
        checks = [*look_at_growing(broken), *look_at_agent(broken)]
        broken.close()
    assert [(check.name, check.ok) for check in checks] == [("workers", False), ("agent", False)]
    assert "9" in checks[0].detail
    assert not paths_under(tmp_path / "home").database.exists()
