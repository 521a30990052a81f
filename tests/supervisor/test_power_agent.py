"""A real supervisor with real workers on a machine whose battery a test plugs and unplugs."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from agent.actions.home import open_home
from agent.actions.pausing import pause, resume
from agent.db import Database
from agent.db.power_row import read_power
from agent.paths import Paths
from tests.supervisor.conftest import Agent, Rows, StartAgent, lines
from tests.supervisor.kinds import job_of
from tests.supervisor.power_signals import FROM_FILE, PLACE, say

MAINS = {"on_battery": False, "battery": 0.63}
LOW = {"on_battery": True, "battery": 0.63}
ON_BATTERY = {"on_battery": True, "battery": 0.91}
QUICK = {"POWER__ENABLED": "true", "POWER__SAMPLE_SECONDS": "0.2", "QUEUE__POLL_SECONDS": "60"}


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    return tmp_path / "machine.json"


@pytest.fixture
def start(start_agent: StartAgent, machine: Path) -> Callable[..., Agent]:
    """Return a function that starts an agent on the machine. No worker polls by itself: only a wake helps."""

    def start(workers: int = 1, **options: object) -> Agent:
        sizes = {"POOL__MIN_WORKERS": str(workers), "POOL__MAX_WORKERS": str(workers)}
        env = {f"SAPWOOD_{name}": value for name, value in {**QUICK, **sizes}.items()}
        return start_agent(env={**env, PLACE: str(machine)}, power_signals=FROM_FILE, **options)

    return start


def test_on_battery_what_is_cheap_is_done_and_what_loads_the_machine_waits_for_its_owner_or_the_mains(
    start: Callable[..., Agent],
    put: Callable[..., int],
    rows: Rows,
    database: Database,
    paths: Paths,
    machine: Path,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    say(machine, **LOW)
    agent = start()
    wait_until(lambda: read_power(database.connection), what="the policy's word")
    heavy, cheap = put(job_of("t_think", tmp_path / "heavy")), put(job_of("t_mark", tmp_path / "cheap"))
    wait_until(lambda: rows.status(cheap) == "done", what="what is cheap")
    wait_until(lambda: agent.status()["power"]["held"], what="the row that waits")
    status = agent.status()
    assert (status["state"], status["reason"]) == ("paused", "on battery, 63 % (below 80 %)")
    assert rows.status(heavy) == "ready"
    assert rows.row(heavy)["attempts"] == 0

    with open_home(paths) as home:
        began = time.monotonic()
        assert resume(home).in_spite_of == "on battery, 63 % (below 80 %)"
    wait_until(lambda: rows.status(heavy) == "done", what="the owner's word")
    assert time.monotonic() - began < 1.5
    assert agent.status()["power"]["in_spite_of"] == ["battery_low"]

    say(machine, **MAINS)
    wait_until(lambda: agent.status()["power"]["in_spite_of"] == [], what="the mains")
    say(machine, **LOW)
    wait_until(lambda: read_power(database.connection), what="the battery again")
    again = put(job_of("t_think", tmp_path / "again"))
    wait_until(lambda: agent.status()["power"]["held"], what="the next row that waits")
    assert rows.status(again) == "ready"
    say(machine, **MAINS)
    wait_until(lambda: rows.status(again) == "done", what="the mains again")


def test_a_pool_on_battery_shrinks_to_one_and_throws_no_job_away(
    start: Callable[..., Agent],
    put: Callable[..., int],
    rows: Rows,
    machine: Path,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    say(machine, **MAINS)
    agent = start(workers=3)
    wait_until(lambda: len(agent.running()) == 3, 20, "three workers")
    left = tmp_path / "left"
    jobs = [put(job_of("t_burn", left, f"{number}", number=1.5)) for number in range(3)]
    wait_until(lambda: len(lines(left)) == 3, what="three busy workers")
    say(machine, **ON_BATTERY)
    wait_until(lambda: all(rows.status(job) == "done" for job in jobs), 20, "what was under way")
    wait_until(lambda: len(agent.workers()) == 1, what="one worker")
    assert len(lines(left)) == 6, "each was begun once"
    assert agent.status()["power"]["mode"] == "throttled"

    more = [put(job_of("t_burn", left, f"more{number}", number=0.2)) for number in range(3)]
    wait_until(lambda: all(rows.status(job) == "done" for job in more), what="one after the other")
    later = lines(left)[6:]
    assert len({line[1] for line in later}) == 1, "by one worker"
    ends = [int(line[2]) for line in later if ":end" in line[0]]
    begins = [int(line[2]) for line in later if ":end" not in line[0]]
    assert all(begin - end > 0.15e9 for end, begin in zip(ends, begins[1:], strict=False)), "with a rest between"
    assert all(earlier < later for earlier, later in pairwise(ends))
    say(machine, **MAINS)
    wait_until(lambda: len(agent.running()) == 3, what="three workers again")


def test_pause_and_resume_take_hold_within_a_second(
    start: Callable[..., Agent],
    put: Callable[..., int],
    rows: Rows,
    paths: Paths,
    machine: Path,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    say(machine, **MAINS)
    agent = start(workers=2)
    wait_until(lambda: len(agent.running()) == 2, 20, "two workers")
    left = tmp_path / "left"
    jobs = [put(job_of("t_burn", left, f"{number}", number=0.05)) for number in range(300)]
    wait_until(lambda: len(lines(left)) > 10, what="busy workers")
    with open_home(paths) as home:
        pause(home)
        paused_ns = time.time_ns()
    wait_until(lambda: not any(rows.status(job) == "running" for job in jobs), what="rest")
    begins = [int(line[2]) for line in lines(left) if ":end" not in line[0]]
    count = len(begins)
    pause_ms = (max(begins) - paused_ns) / 1e6
    assert pause_ms <= 1_000
    with open_home(paths) as home:
        resume(home)
        resumed_ns = time.time_ns()
    wait_until(lambda: len([1 for line in lines(left) if ":end" not in line[0]]) > count, what="work again")
    resume_ms = (int([line for line in lines(left) if ":end" not in line[0]][count][2]) - resumed_ns) / 1e6
    print(f"pause_ms {pause_ms:.0f}, resume_ms {resume_ms:.0f}")
    assert resume_ms <= 1_000


def test_run_once_on_an_empty_battery_grows_all_the_same(
    start: Callable[..., Agent], put: Callable[..., int], rows: Rows, machine: Path, tmp_path: Path
) -> None:
    say(machine, **LOW)
    job = put(job_of("t_think", tmp_path / "left"))
    assert start(once=True).wait(20)["ended"] == "finished"
    assert rows.status(job) == "done"
