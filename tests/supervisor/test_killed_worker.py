"""A worker that dies costs its job a moment and nothing else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of


def test_killed_worker_is_replaced_and_its_job_finished_within_a_second(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(workers=1)
    held = tmp_path / "held"
    job = put(job_of("t_hold", held))
    wait_until(lambda: len(lines(held)) == 1, what="the job's first run")
    first = int(lines(held)[0][0])

    killed = time.monotonic()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: rows.status(job) == "done", 5.0, "the job's second run")
    took = time.monotonic() - killed

    second = int(lines(held)[1][0])
    assert second != first
    assert took < 1.0
    row = rows.row(job)
    assert (row["attempts"], row["crashes"]) == (1, 1), "the crash gave its attempt back and was counted"
    wait_until(lambda: [worker["pid"] for worker in agent.running()] == [second], what="one worker again")


def test_another_worker_takes_the_job_at_once(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(env={"SAPWOOD_POOL__MIN_WORKERS": "2", "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "60"})
    wait_until(lambda: len(agent.running()) == 2, what="two workers")
    held = tmp_path / "held"
    put(job_of("t_hold", held))
    wait_until(lambda: len(lines(held)) == 1, what="the job's first run")

    killed = time.time_ns()
    os.kill(int(lines(held)[0][0]), signal.SIGKILL)
    wait_until(lambda: len(lines(held)) == 2, 5.0, "the job's second run")

    assert (int(lines(held)[1][1]) - killed) / 1e9 < 1.0


def test_ordered_death_counts_no_crash_and_burns_no_attempt(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(workers=1)
    held = tmp_path / "held"
    job = put(job_of("t_hold", held))
    wait_until(lambda: len(lines(held)) == 1, what="the job's first run")

    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait()["code"] == 0

    row = rows.row(job)
    assert (row["status"], row["attempts"], row["crashes"], row["locked_by"]) == ("ready", 0, 0, None)
