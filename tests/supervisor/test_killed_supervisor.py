"""After ``kill -9`` of the supervisor nothing is left in three seconds, and a new start goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.supervisor.conftest import Rows, StartAgent, is_there, lines
from tests.supervisor.kinds import job_of


def test_nothing_is_left_and_a_new_start_continues(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(env={"SAPWOOD_POOL__MIN_WORKERS": "2"})
    held, deaf = tmp_path / "held", tmp_path / "deaf"
    job = put(job_of("t_hold", held))
    put(job_of("t_deaf", deaf, "locked"))
    wait_until(lambda: lines(held) and lines(deaf), 15.0, "two busy workers")
    family = agent.family()
    assert len(family) >= 3, "two workers and multiprocessing's own process"

    os.kill(agent.pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in family if is_there(pid)], 3.0, "the end of all of them")
    assert rows.status(job) == "running", "nobody was left to give the lease back"

    start_agent(workers=1)
    # The lease is good for five minutes: whoever waits for its end does not get here.
    wait_until(lambda: rows.status(job) == "done", 10.0, "the job's second run")
    assert rows.row(job)["attempts"] == 1
