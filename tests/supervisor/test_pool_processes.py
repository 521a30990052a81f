"""The pool grows with the work, shrinks without it, and does not keep what it loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of


def test_pool_grows_and_shrinks(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(env={"SAPWOOD_POOL__IDLE_SECONDS": "0.3", "SAPWOOD_POOL__MAX_WORKERS": "3"})
    wait_until(lambda: len(agent.running()) == 1, what="one worker")
    left = tmp_path / "left"
    jobs = [put(job_of("t_nap", left, f"nap{number}", number=0.7)) for number in range(9)]

    wait_until(lambda: len(agent.running()) == 3, what="three workers")
    assert agent.status()["state"] == "growing"
    wait_until(lambda: all(rows.status(job) == "done" for job in jobs), 15.0, "all naps")
    assert len({line[1] for line in lines(left)}) == 3, "all three had work"
    wait_until(lambda: len(agent.workers()) == 1, what="one worker again")
    wait_until(lambda: agent.status()["state"] == "idle", what="rest")


def test_worker_that_grew_is_replaced_by_a_fresh_one_when_idle(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(workers=1, env={"SAPWOOD_POOL__IDLE_SECONDS": "0.2"})
    wait_until(agent.running, what="a worker")
    left = tmp_path / "left"
    job = put(job_of("t_grow", left, number=40_000_000))
    wait_until(lambda: rows.status(job) == "done", what="the job")

    heavy = int(lines(left)[0][0])
    wait_until(lambda: [w["pid"] for w in agent.running()] not in ([], [heavy]), what="a fresh worker")
    assert agent.status()["state"] in ("idle", "growing"), "that was no failure"
