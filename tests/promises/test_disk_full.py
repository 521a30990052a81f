"""The disk gets full under a working agent: it waits, says so once, loses nothing and goes on by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.promises.small_disk import FULL_FOR_S, NOTES, PAUSE_S

pytestmark = pytest.mark.slow


def _run(tmp_path: Path, which: str) -> tuple[dict[str, Any], str]:
    """Run the agent on a small disk and return what was seen, and what its processes said on stderr."""
    # A mount namespace of one's own needs no rights where user namespaces are allowed.
    prefix = ["unshare", "--user", "--map-root-user", "--mount"]
    (tmp_path / "try").mkdir()
    if shutil.which("unshare") is None:
        pytest.skip("no unshare, so no small disk can be mounted: apt-get install util-linux")
    tried = subprocess.run([*prefix, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "try")], capture_output=True)
    if tried.returncode:
        pytest.skip(f"a small disk cannot be mounted without rights here: {tried.stderr.decode().strip()}")
    ran = subprocess.run(
        [*prefix, sys.executable, "-m", "tests.promises.small_disk", str(tmp_path), which],
        cwd=REPOSITORY,
        env={**os.environ, "SAPWOOD_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    seen: dict[str, Any] = json.loads(ran.stdout)
    return seen, ran.stderr


@pytest.mark.parametrize("which", ["data", "home"])
def test_a_full_disk_is_waited_for_and_nothing_is_lost_or_blamed(tmp_path: Path, which: str) -> None:
    seen, said = _run(tmp_path, which)
    assert seen["alive"], "the supervisor stayed"
    assert seen["workers"], "and the worker waits instead of ending and being started again and again"
    assert seen["workers_after"] == seen["workers"]
    assert (seen["items"], seen["integrity"], seen["problems"]) == (NOTES, "ok", [])
    assert seen["jobs"].keys() == {"done"}
    assert (seen["crashes"], seen["attempts"]) == (0, 1), "no job was blamed for the disk"
    assert "Traceback" not in said, "a log that cannot be written is no reason to shout"


def test_a_full_disk_is_told_once_however_often_it_was_tried(tmp_path: Path) -> None:
    seen, _ = _run(tmp_path, "data")
    assert FULL_FOR_S / PAUSE_S >= 10, "tried so often"
    assert seen["while_full"]["refuses"] == 1
    assert seen["while_full"]["loud"] == 1
    assert seen["told"] == {"refuses": 1, "answers": 1, "loud": 2}
