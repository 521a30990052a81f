"""The frozen build, made once for all tests that look at it, and ways to start it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

# Read before any test: the isolation of homes takes such names away.
GIVEN = os.environ.get("SAPWOOD_FROZEN_BUILD")
"""A folder with a build to look at instead of making one."""


@pytest.fixture(scope="session")
def frozen_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a build, away from the repository, with a space and a letter of another alphabet in its path."""
    if GIVEN:
        yield Path(GIVEN)
        return
    if importlib.util.find_spec("PyInstaller") is None:
        pytest.skip("nothing to freeze a build with: pip install pyinstaller")
    if sys.platform == "linux" and shutil.which("objdump") is None:
        pytest.skip("PyInstaller reads libraries with objdump: apt-get install binutils")
    work = tmp_path_factory.mktemp("frozen")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR"),
            *("--distpath", work / "прог рамма", "--workpath", work / "build"),
            REPOSITORY / "packaging" / "sapwood.spec",
        ],
        cwd=work,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        # What this process was told of warnings is not for the modules that are looked through there.
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shutil.rmtree(work / "build", ignore_errors=True)
    yield work / "прог рамма" / "sapwood"
    # Of what tests leave behind pytest keeps the last three, and this is large.
    shutil.rmtree(work, ignore_errors=True)


@pytest.fixture(scope="session")
def frozen(frozen_folder: Path) -> Path:
    """The program."""
    return frozen_folder / ("sapwood.exe" if sys.platform == "win32" else "sapwood")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a login that has nothing: no Python, no home of ours, no desktop, an odd home."""
    home = tmp_path / "дом mit Lücke"
    home.mkdir()
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
