"""The mutex by which an installer sees the agent. By a fake of the system."""

from __future__ import annotations

import re
import sys

import pytest

from agent.actions import running
from agent.paths import Paths
from agent.system import instance_mutex
from agent.system.instance_mutex import MUTEX_NAME, FakeMutexes, show_that_it_runs, system_mutexes
from tests.conftest import REPOSITORY


def test_the_agent_holds_the_mutex_that_the_installer_looks_for() -> None:
    mutexes = FakeMutexes()
    assert show_that_it_runs(mutexes)
    script = (REPOSITORY / "installer.iss").read_text("utf-8")
    looked_for = re.search(r"^AppMutex=(.+)$", script, re.MULTILINE)
    assert looked_for is not None
    assert mutexes.held == [looked_for[1].replace("{#Mutex}", MUTEX_NAME)]
    assert f'#define Mutex "{MUTEX_NAME}"' in script


def test_an_agent_that_cannot_have_it_runs_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    assert not show_that_it_runs(FakeMutexes(OSError("access denied")))
    assert "access denied" in caplog.text


@pytest.mark.skipif(sys.platform == "win32", reason="there it is real")
def test_other_systems_have_none() -> None:
    assert system_mutexes() is None
    assert not show_that_it_runs()


def test_a_start_of_the_agent_shows_that_it_runs(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    mutexes = FakeMutexes()
    monkeypatch.setattr(instance_mutex, "system_mutexes", lambda: mutexes)
    from agent import supervisor
    from agent.supervisor.result import Ended, SupervisorResult

    def supervise(_args: object) -> SupervisorResult:
        assert mutexes.held == [MUTEX_NAME], "before anything is started"
        return SupervisorResult(Ended.STOPPED)

    monkeypatch.setattr(supervisor, "supervise", supervise)
    assert running.run_agent(paths).ended == "stopped"
