"""Forgetting a large source is one transaction, and may be longer than anybody's patience: who works just waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.db import Database
from agent.db.connection import BUSY_TIMEOUT_MS
from agent.queue.types import DEFAULT_LOCK_DURATION_MS
from tests.supervisor.conftest import StartAgent
from tests.supervisor.kinds import job_of

LONGER_S = BUSY_TIMEOUT_MS / 1000 + 2


@pytest.mark.slow
def test_workers_wait_for_a_write_that_outlasts_their_patience_and_burn_nothing(
    start_agent: StartAgent,
    database: Database,
    put: Callable[..., int],
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    connection = database.connection
    for number in range(400):
        put(job_of("t_nap", tmp_path / "left", str(number), number=0.02))
    agent = start_agent(workers=2)
    done = "SELECT count(*) FROM mem_tree_jobs WHERE status = 'done'"
    wait_until(lambda: connection.value(done) > 20, 20.0, "the first jobs")
    pids = sorted(worker["pid"] for worker in agent.workers())
    assert len(pids) == 2
    connection.raw.set_busy_timeout(30_000)
    with connection.write(full=True):
        begun = time.monotonic()
        connection.run("INSERT INTO mem_tree_state VALUES ('long', '1')")
        before = connection.value(done)
        # Who only reads is not held up: the agent answers, and so does the memory.
        wait_until(lambda: time.monotonic() - begun > LONGER_S and agent.status()["ok"], LONGER_S + 5)
        assert connection.value(done) == before < 400
    wait_until(lambda: connection.value(done) == 400, 30.0, "the rest")
    assert connection.all("SELECT max(attempts), max(crashes), max(last_error) FROM mem_tree_jobs") == [(1, 0, None)]
    assert sorted(worker["pid"] for worker in agent.workers()) == pids
    assert len(set((tmp_path / "left").read_text().splitlines())) == 400, "each was done, and no other one"
    assert LONGER_S * 1000 < DEFAULT_LOCK_DURATION_MS
