"""The Windows installer: what it says, and what it does under Wine.

Compiling and running it takes minutes and a folder of 2 GB, so that is slow, and done where the folder is:
``make installer-check`` makes it (``build/i386``), and SAPWOOD_WINE_ROOT names another one.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

from agent.system.autostart import AT_LOGIN, NAME, WINDOWLESS
from agent.system.autostart_registry import APPROVED_KEY, RUN_KEY
from tests.conftest import REPOSITORY

SCRIPT = (REPOSITORY / "installer.iss").read_text("utf-8")
# Read before any test: the isolation of homes takes such names away.
WINE_ROOT = Path(os.environ.get("SAPWOOD_WINE_ROOT", REPOSITORY / "build" / "i386"))


def load_check() -> ModuleType:
    folder = REPOSITORY / "packaging"
    spec = importlib.util.spec_from_file_location("sapwood_installer_check", folder / "installer_check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module


def test_it_installs_for_one_user_without_an_administrator() -> None:
    assert "\nPrivilegesRequired=lowest\n" in SCRIPT
    assert "HKLM" not in SCRIPT
    assert "HKEY_LOCAL_MACHINE" not in SCRIPT


def test_it_writes_the_login_entry_as_the_program_does_and_only_when_asked() -> None:
    assert f'#define RunKey "{RUN_KEY}"' in SCRIPT
    assert f'#define ApprovedKey "{APPROVED_KEY}"' in SCRIPT
    assert f'ValueName: "{NAME}"; ValueData: """{{app}}\\{WINDOWLESS}"" run {AT_LOGIN}"; Tasks: login' in SCRIPT
    task = re.search(r'^Name: "login";.*$', SCRIPT, re.MULTILINE)
    assert task is not None
    assert "Flags: unchecked" in task[0]
    assert "UsePreviousTasks=no" in SCRIPT, "an answer from last time would make again what was taken away"


def test_it_asks_the_agent_to_end_by_its_own_command_before_it_replaces_or_removes() -> None:
    assert "'stop --wait'" in SCRIPT
    for event in ("InitializeSetup", "PrepareToInstall", "InitializeUninstall"):
        body = SCRIPT[SCRIPT.index(f"function {event}") :].partition("\nend;")[0]
        assert "HasEnded(" in body, event


def test_it_removes_nothing_of_the_owners() -> None:
    """The memory lies in the folder that is named to them, beside that of the program."""
    removed = [line for line in SCRIPT.splitlines() if line.startswith("Type:") or "DelTree" in line]
    assert removed
    assert all('Name: "{app}\\_internal"' in line for line in removed)


@pytest.mark.slow
def test_it_compiles_installs_updates_and_removes_under_wine(capsys: pytest.CaptureFixture[str]) -> None:
    if sys.platform != "linux" or shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("the installer is tried in a root of its own, which takes Linux, unshare and root")
    if not (WINE_ROOT / "inno.done").exists():
        pytest.skip(f"no Wine in {WINE_ROOT}: `make installer-check` makes it (apt-get install debootstrap npm)")
    check = load_check()
    figures = check.check(WINE_ROOT)
    with capsys.disabled():
        print(f"\n  installer: {figures}")
    assert figures["setup_bytes"] > 1_000_000
    assert {f"{step.__name__}_s" for step in check.STEPS} < set(figures)
