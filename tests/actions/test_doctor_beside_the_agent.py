"""The deep doctor looks at a memory that real processes grow: what still grows is no fault."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.actions.doctor import doctor
from tests.actions.deep_home import home_in

pytestmark = pytest.mark.slow


def test_nothing_that_two_workers_are_in_the_middle_of_is_a_fault(tmp_path: Path) -> None:
    with home_in(tmp_path, notes=120, mails=200) as paths:
        agent = subprocess.Popen(
            [sys.executable, "-m", "agent.cli.main", "run", "--once", "--workers", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        looks = 0
        try:
            while agent.poll() is None:
                assert [check for check in doctor(paths, deep=True).checks if not check.ok] == []
                looks += 1
            assert agent.returncode == 0
        finally:
            if agent.poll() is None:
                agent.terminate()
                agent.wait(10)
    assert looks > 3
    found = doctor(paths, deep=True)
    assert found.ok, [check for check in found.checks if not check.ok]
