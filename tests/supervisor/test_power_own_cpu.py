"""Workers that keep every processor busy are no pressure; a stranger who does is, until it ends (openhuman, by reading:
its own inference counted as pressure and paused itself).
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.supervisor.conftest import Agent, StartAgent
from tests.supervisor.kinds import job_of
from tests.supervisor.power_signals import FEW_PROCESSES, PLACE

SAMPLE_S, DWELL_S = 0.4, 1.0
SPIN = "while True: sum(range(10_000))"
QUICK = {
    "POWER__ENABLED": "true",
    "POWER__SAMPLE_SECONDS": str(SAMPLE_S),
    "POWER__DWELL_SECONDS": str(DWELL_S),
    # On this machine of a few processes whatever a stranger uses is a lot, and what we use is nothing to speak of.
    "POWER__CPU_BUSY": "0.2",
    "POWER__MEMORY_BYTES": "0",
    "POOL__MIN_WORKERS": "2",
    "POOL__MAX_WORKERS": "2",
}


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """The file with the pids of the strangers on the machine."""
    return tmp_path / "strangers.json"


@pytest.fixture
def start(start_agent: StartAgent, strangers: Path) -> Callable[..., Agent]:
    def start(**options: str) -> Agent:
        env = {f"SAPWOOD_{name}": value for name, value in QUICK.items()}
        return start_agent(env={**env, PLACE: str(strangers)}, **options)

    return start


@pytest.fixture
def spin() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Return a function that starts a busy process, no child of the agent; all are ended."""
    started: list[subprocess.Popen[bytes]] = []

    def spin() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", SPIN]))
        return started[-1]

    yield spin
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def modes_for(agent: Agent, seconds: float) -> set[str]:
    end, seen = time.monotonic() + seconds, set()
    while time.monotonic() < end:
        seen.add(agent.status()["power"]["mode"])
        time.sleep(0.05)
    return seen


def mode(agent: Agent) -> str:
    return str(agent.status()["power"]["mode"])


def keep_busy(put: Callable[..., int], tmp_path: Path, count: int = 400) -> None:
    for number in range(count):
        put(job_of("t_burn", tmp_path / "left", f"{number}", number=0.3))


@pytest.mark.slow
def test_its_own_work_holds_nobody_back_and_a_strangers_does_until_it_ends(
    start: Callable[..., Agent],
    spin: Callable[[], subprocess.Popen[bytes]],
    put: Callable[..., int],
    strangers: Path,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    agent = start(power_signals=FEW_PROCESSES)
    wait_until(lambda: len(agent.running()) == 2, 20, "two workers")
    keep_busy(put, tmp_path)
    wait_until(lambda: agent.status()["state"] == "growing", what="busy workers")
    spent = cpu_s(agent)
    assert modes_for(agent, 4 * (SAMPLE_S + DWELL_S)) <= {"normal", "aggressive"}
    assert cpu_s(agent) - spent > 1.0, "they did work meanwhile"

    stranger = spin()
    strangers.write_text(json.dumps([stranger.pid]))
    wait_until(lambda: mode(agent) == "throttled", 20, "the stranger")
    throttled_at = time.monotonic()
    assert agent.status()["power"]["cause"] == "cpu"
    wait_until(lambda: len(agent.workers()) == 1, 20, "one worker")
    assert modes_for(agent, 2 * DWELL_S) == {"throttled"}
    stranger.send_signal(signal.SIGKILL)
    stranger.wait(10)
    wait_until(lambda: mode(agent) == "normal", 20, "the end of the stranger")
    assert time.monotonic() - throttled_at >= DWELL_S
    wait_until(lambda: len(agent.running()) == 2, 20, "two workers again")


@pytest.mark.slow
def test_on_the_real_machine_its_own_work_holds_nobody_back(
    start: Callable[..., Agent], put: Callable[..., int], wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start()
    wait_until(lambda: len(agent.running()) == 2, 20, "two workers")
    keep_busy(put, tmp_path)
    wait_until(lambda: agent.status()["state"] == "growing", what="busy workers")
    others, seen = [], set()
    for _ in range(6):
        before = others_s(agent)
        seen |= modes_for(agent, SAMPLE_S + DWELL_S)
        others.append((others_s(agent) - before) / (SAMPLE_S + DWELL_S) / (psutil.cpu_count() or 1))
    if max(others) > 0.1:
        pytest.skip(f"other programs use {max(others):.0%} of this machine: run it on one with nothing else to do")
    assert seen <= {"normal", "aggressive"}


def cpu_s(agent: Agent) -> float:
    total = 0.0
    for pid in [agent.pid, *agent.family()]:
        with suppress(psutil.Error):
            total += sum(psutil.Process(pid).cpu_times()[:2])
    return total


def others_s(agent: Agent) -> float:
    """Return what everybody else used, this test too."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system - cpu_s(agent)
