"""Every command, started by what closes stdin, stdout and stderr: it does the same, and crashes nowhere."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.agents import COMMAND, grown
from tests.cli.test_json import CASES
from tests.conftest import REPOSITORY

CLOSED = 'exec "$0" "$@" 0<&- 1>&- 2>&-'
EMPTY = 'exec "$0" "$@" 0</dev/null 1>/dev/null 2>&1'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors the POSIX way"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grown(tmp_path_factory.mktemp("grown")).config_dir.parent


@pytest.fixture
def code_of(home: Path, tmp_path: Path) -> Callable[..., int]:
    def run(streams: str, *words: str) -> int:
        """Run a command in a copy of a grown home and return its exit code."""
        own = tmp_path / ("closed" if streams == CLOSED else "empty")
        shutil.copytree(home, own / "home")
        (own / "place").mkdir()
        filled = [word.format(tmp=own / "place", node="none", job="1") for word in words]
        return subprocess.run(
            ["/bin/sh", "-c", streams, *COMMAND, *filled],
            cwd=REPOSITORY,
            env={**os.environ, "SAPWOOD_HOME": str(own / "home")},
            timeout=60,
            check=False,
        ).returncode

    return run


@pytest.mark.parametrize("name", sorted(CASES))
def test_a_command_does_the_same_without_streams(name: str, code_of: Callable[..., int]) -> None:
    words = shlex.split(CASES[name][0])
    expected = code_of(EMPTY, *words)
    assert expected in (0, 1, 2, 3)
    assert code_of(CLOSED, *words) == expected


@pytest.mark.parametrize("words", ["", "--help", "--version", "no-such-command", "_key", "_notify"])
def test_the_program_itself_does_the_same_without_streams(words: str, code_of: Callable[..., int]) -> None:
    assert code_of(CLOSED, *words.split()) == code_of(EMPTY, *words.split())
