"""What holds a key shows it to no core dump, and is still a process like any other to the agent around it."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agent.system.memory import SystemMemory
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="dumps are looked for where Linux puts them")

CODE = """
import os, resource, signal, subprocess, sys, time, faulthandler
from agent.system.core_dumps import forbid_core_dumps
if sys.argv[1] == "dumps":
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
os.chdir(sys.argv[2])
held = "".join(["zz-quince-", "0123456789"])
if sys.argv[3] == "forbidden":
    forbid_core_dumps()
    forbid_core_dumps()
    faulthandler.enable(open("crash.log", "w"))
    assert subprocess.run(["/bin/true"]).returncode == 0
    assert os.listdir("/proc/self/fd")
    child = subprocess.run(["/bin/sh", "-c", "grep -c . /proc/self/limits && cat /proc/self/environ | wc -c"])
    assert child.returncode == 0
print("ready", flush=True)
sys.stdin.read()
"""


def ordinary() -> list[str]:
    """Return what a program is started by so that it has no powers of root: those see into everything."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root cannot do without its powers here: apt-get install util-linux")
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--securebits=+noroot,+noroot_locked"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a process that waits, as somebody who is not root where the tests are."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*ordinary(), sys.executable, "-c", CODE, words[0], str(tmp_path), words[1]],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # A core that is left is left in tmp_path alone.
            preexec_fn=lambda: (
                resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY)) if words[0] != "dumps" else None
            ),
        )
        started.append(process)
        assert process.stdout is not None
        while (line := process.stdout.readline()) != "ready\n":
            assert line, "it ended"
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def cores(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith("core")]


def _can_dump() -> bool:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return "/" not in pattern and not pattern.startswith("|")


def test_what_holds_a_key_leaves_no_core_although_its_owner_allows_them(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    if not _can_dump() or resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        pytest.skip("this machine writes no core files: sysctl kernel.core_pattern=core")
    careless = start("dumps", "allowed")
    careless.send_signal(signal.SIGABRT)
    careless.wait()
    (left,) = cores(tmp_path)
    assert b"zz-quince-0123456789" in left.read_bytes(), "the test itself could see one"
    left.unlink()
    careful = start("dumps", "forbidden")
    careful.send_signal(signal.SIGABRT)
    assert careful.wait() == -signal.SIGABRT
    assert not cores(tmp_path)
    assert "Fatal Python error: Aborted" in (tmp_path / "crash.log").read_text(), "our own record of a crash stays"
    assert "zz-quince" not in (tmp_path / "crash.log").read_text()


def test_the_agent_still_sees_such_a_process_and_others_do_not_see_into_it(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start("none", "forbidden")
    code = (
        "import sys, os\n"
        "pid = sys.argv[1]\n"
        "def opened(name):\n"
        "    try:\n"
        "        return bool(open(f'/proc/{pid}/{name}', 'rb').read(20))\n"
        "    except OSError:\n"
        "        return False\n"
        "print(*[opened(name) for name in ('stat', 'statm', 'status', 'environ', 'maps')])\n"
    )
    ran = subprocess.run(
        [*ordinary(), sys.executable, "-c", code, str(process.pid)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert ran.stdout.split() == ["True", "True", "True", "False", "False"], ran.stderr
    assert SystemMemory().rss_bytes(process.pid)
    seen = psutil.Process(process.pid)
    assert seen.create_time() > 0
    assert seen.cpu_times().user >= 0
    assert seen.status() != psutil.STATUS_ZOMBIE
    process.terminate()
    assert process.wait() == -signal.SIGTERM
