"""What the policy costs while nothing may be done: rows that wait for the mains keep nobody awake."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agent.db import Database
from agent.db.power_row import read_power
from agent.paths import Paths
from tests.bench.bench_idle import Cost, _cost, _family
from tests.supervisor.conftest import Agent, StartAgent
from tests.supervisor.kinds import job_of
from tests.supervisor.power_signals import FROM_FILE, PLACE, say

MEASURED_S = 8.0
REST_S = 5.0
"""The memory is tidied three seconds after the last work."""


def cost_of(agent: Agent) -> tuple[float, Cost]:
    """Return for how many seconds was measured, and what all processes of the agent used meanwhile."""
    family = _family(agent.process)
    before, began = _cost(family), time.monotonic()
    time.sleep(MEASURED_S)
    after, took = _cost(_family(agent.process)), time.monotonic() - began
    return took, Cost(
        after.cpu_ns - before.cpu_ns, after.wakeups - before.wakeups, after.bytes_written - before.bytes_written
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells wake-ups and bytes on Linux alone")
@pytest.mark.parametrize("is_low", [True, False])
def test_an_agent_that_waits_is_as_quiet_as_one_that_rests(
    is_low: bool,
    start_agent: StartAgent,
    put: Callable[..., int],
    database: Database,
    paths: Paths,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    machine = tmp_path / "machine.json"
    say(machine, on_battery=is_low, battery=0.3, available_bytes=8_000_000_000, cpu_others=0.5)
    # Sampled fifteen times as often as it is, so that this counts.
    env = {"SAPWOOD_POWER__ENABLED": "true", "SAPWOOD_POWER__SAMPLE_SECONDS": "2", PLACE: str(machine)}
    agent = start_agent(env=env, power_signals=FROM_FILE)
    wait_until(agent.running, what="a worker")
    if is_low:
        wait_until(lambda: read_power(database.connection), what="the policy's word")
        for number in range(40):
            put(job_of("t_think", tmp_path / "left", f"{number}"))
        wait_until(lambda: agent.status()["power"]["held"], what="the rows that wait")
    database.close()
    time.sleep(REST_S)
    took, cost = cost_of(agent)
    print(
        f"{cost.wakeups / took:.2f} wake-ups/s, {cost.cpu_ns / took / 1e7:.3f} % of a processor, {cost.bytes_written} B"
    )
    assert cost.bytes_written == 0
    assert cost.wakeups / took <= 4
    assert psutil.pid_exists(agent.pid)
