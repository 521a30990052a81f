"""The import rule of the house, held by import-linter, and a few rules that it cannot see."""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def test_rooms_call_downwards_only() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_is_called_utils() -> None:
    banned = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
    assert not [path for path in (REPOSITORY / "agent").rglob("*.py") if path.stem in banned]


def test_nobody_kills_by_name() -> None:
    for path in (REPOSITORY / "agent").rglob("*.py"):
        assert not re.search(r"\b(pkill|killall|taskkill)\b", path.read_text("utf-8")), path
