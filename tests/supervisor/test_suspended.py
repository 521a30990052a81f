"""The machine sleeps with work in hand: the work goes on afterwards, once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.supervisor.sleepgap import GAP_SECONDS
from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of

LEASE_S = 6


@pytest.mark.slow
def test_work_in_hand_is_not_started_twice_after_sleep(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(
        workers=1,
        env={"SAPWOOD_QUEUE__LEASE_SECONDS": str(LEASE_S), "SAPWOOD_SUPERVISOR__TICK_BUSY_SECONDS": "0.2"},
    )
    left = tmp_path / "left"
    job = put(job_of("t_nap", left, "nap", number=GAP_SECONDS + LEASE_S))
    wait_until(lambda: lines(left), what="the job")
    family = [agent.pid, *agent.family()]

    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    slept = time.monotonic() + GAP_SECONDS + 1.5
    wait_until(lambda: time.monotonic() >= slept, GAP_SECONDS + 5, "the night")
    # The supervisor wakes first and sees a lease that ended long ago.
    os.kill(agent.pid, signal.SIGCONT)
    wait_until(lambda: agent.status()["workers"], what="the supervisor")
    end = time.monotonic() + 0.7
    wait_until(lambda: time.monotonic() >= end, what="some ticks")
    for pid in family:
        os.kill(pid, signal.SIGCONT)

    wait_until(lambda: rows.status(job) == "done", 30.0, "the job's end")
    row = rows.row(job)
    assert (row["attempts"], row["crashes"], len(lines(left))) == (1, 0, 1)
