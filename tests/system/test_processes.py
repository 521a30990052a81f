"""Which process is meant, what it uses, and that a child does not outlive its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from agent.system.entry import EXIT_UNCAUGHT, find
from agent.system.identity import ProcessIdentity, identify, is_alive, own_identity, was_running_at
from agent.system.memory import FakeMemory, SystemMemory
from agent.system.parent import FakeGroup, child_group
from agent.system.priority import FakePriority, SystemPriority
from tests.conftest import REPOSITORY


def _python(code: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *args],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_is_itself_and_nobody_else() -> None:
    me = own_identity()
    assert me.pid == os.getpid()
    assert is_alive(me)
    assert identify(os.getpid()) == me
    assert not is_alive(ProcessIdentity(me.pid, "another start"))


def test_a_dead_process_is_none_even_before_it_is_reaped(wait_until: Callable[..., None]) -> None:
    with _python("pass") as process:
        identity = identify(process.pid)
        wait_until(lambda: identify(process.pid) is None, what="the end")
        assert identity is None or not is_alive(identity)
        assert SystemMemory().rss_bytes(process.pid) in (None, 0)
        process.wait()
        assert SystemMemory().rss_bytes(process.pid) is None, "unknown, not an error"


def test_was_running_at_an_instant() -> None:
    now = time.time_ns() // 1_000_000
    assert was_running_at(os.getpid(), now)
    assert not was_running_at(os.getpid(), now - 24 * 3_600_000 * 365), "that was somebody else with this pid"
    assert not was_running_at(2**22 + 1, now)


def test_memory_is_told_in_bytes() -> None:
    found = SystemMemory().rss_bytes(os.getpid())
    assert found is not None
    assert 5_000_000 < found < 10**10
    assert FakeMemory({7: 3}).rss_bytes(7) == 3
    assert FakeMemory().rss_bytes(7) is None


@pytest.mark.skipif(sys.platform != "linux", reason="the scheduler's values are read the Linux way")
def test_priority_is_low_for_processor_and_disk() -> None:
    code = (
        "from agent.system.priority import SystemPriority; SystemPriority().lower(); print('low', flush=True); input()"
    )
    with _python(code) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = psutil.Process(process.pid)
        assert found.nice() >= 10
        assert found.ionice() == (psutil.IOPRIO_CLASS_BE, 7)
        process.communicate("\n")


def test_fakes_stand_in() -> None:
    priority, group = FakePriority(), FakeGroup()
    priority.lower()
    group.adopt(5)
    assert (priority.lowered, group.adopted) == (1, [5])
    SystemPriority()
    child_group().adopt(2**22 + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own tie")
def test_child_ends_with_its_parent(wait_until: Callable[..., None]) -> None:
    code = """
import os, subprocess, sys, time
child = "from agent.system.parent import die_with_parent; import sys, time; die_with_parent(int(sys.argv[1]));"
child += "print('tied', flush=True); time.sleep(60)"
process = subprocess.Popen([sys.executable, '-c', child, str(os.getpid())], stdout=subprocess.PIPE, text=True)
process.stdout.readline()
print(process.pid, flush=True)
time.sleep(60)
"""
    with _python(code) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert identify(child) is not None
        parent.kill()
        wait_until(lambda: identify(child) is None, 3.0, "the child's end")


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's own tie")
def test_child_whose_parent_is_already_gone_ends_at_once() -> None:
    with _python("from agent.system.parent import die_with_parent; die_with_parent(1); print('lives')") as process:
        said, _ = process.communicate(timeout=10)
        assert (said, process.returncode) == ("", 1)


def test_dotted_names_are_found() -> None:
    assert find("agent.system.entry:find") is find
    with pytest.raises(AttributeError):
        find("agent.system.entry:nothing")
    with pytest.raises(ImportError):
        find("agent.nothing:find")


def test_error_nobody_caught_is_an_exit_code() -> None:
    code = (
        "import os; from agent.system.entry import enter;"
        "enter('tests.system.test_processes:fail', os.getppid(), None, None)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY, stderr=subprocess.PIPE, text=True) as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == EXIT_UNCAUGHT
    assert said == "", "what it says may quote the owner; its name and place go to the log and the crash file"


def fail(args: object, life_line: object) -> None:
    """Run by the test above in a process of its own."""
    raise RuntimeError("on purpose")
