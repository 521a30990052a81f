"""A run that takes too long or too much is ended; its row answers for it, nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of

PARKED = {"status": "failed", "failure_reason": "crash_loop", "failure_class": "unrecoverable", "crashes": 3}


@pytest.mark.slow
@pytest.mark.parametrize("poison", ["hang", "eat", "die"])
def test_poison_is_parked_at_three_crashes_and_all_batch_mates_are_done(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, tmp_path: Path, poison: str
) -> None:
    left = tmp_path / "left"
    names = [*(f"good{number}" for number in range(6)), poison, *(f"more{number}" for number in range(6))]
    jobs = {name: put(job_of("t_many", left, name)) for name in names}

    agent = start_agent(once=True, workers=2, env={"SAPWOOD_LIMITS__WORKER_RSS_BYTES": "150000000"})
    said = agent.wait(60)

    assert (said["ended"], said["code"], said["failed"]) == ("finished", 0, 1)
    parked = rows.row(jobs.pop(poison))
    assert {key: parked[key] for key in PARKED} == PARKED
    for name, job in jobs.items():
        row = rows.row(job)
        assert (row["status"], row["crashes"], row["attempts"]) == ("done", 0, 1), name


def test_hung_and_eating_handlers_are_ended(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    hung, eaten = tmp_path / "hung", tmp_path / "eaten"
    jobs = [put(job_of("t_hang", hung)), put(job_of("t_eat", eaten))]
    start_agent(
        env={
            "SAPWOOD_POOL__MIN_WORKERS": "2",
            "SAPWOOD_QUEUE__CRASH_LIMIT": "1",
            "SAPWOOD_LIMITS__WORKER_RSS_BYTES": "150000000",
        }
    )
    wait_until(lambda: [rows.status(job) for job in jobs] == ["failed", "failed"], 15.0, "both parked")
    assert [rows.row(job)["crashes"] for job in jobs] == [1, 1]
    assert (len(lines(hung)), len(lines(eaten))) == (1, 1)
