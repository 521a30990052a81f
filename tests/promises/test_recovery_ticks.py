"""Recovery is not a matter of starts: an agent that simply goes on gives ended leases back at its next tick."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from agent.db import Database
from tests.supervisor.conftest import Rows, StartAgent
from tests.supervisor.kinds import job_of


def test_an_ended_lease_is_given_back_by_a_tick_of_an_agent_that_goes_on(
    start_agent: StartAgent,
    put: Callable[..., int],
    database: Database,
    rows: Rows,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    # A row that runs makes it busy, whoever holds it.
    soon = {"SAPWOOD_SUPERVISOR__TICK_IDLE_SECONDS": "0.2", "SAPWOOD_SUPERVISOR__TICK_BUSY_SECONDS": "0.2"}
    agent = start_agent(workers=1, env=soon)
    wait_until(lambda: agent.running(), what="a worker")
    job = put(job_of("t_mark", tmp_path / "left", "x", available_at_ms=(time.time_ns() // 1_000_000) + 3_600_000))
    with database.connection.write():
        # A worker of another machine's copy, say: nobody here will ever settle it.
        database.connection.run(
            """
            UPDATE mem_tree_jobs
               SET status = 'running', attempts = 1, locked_by = 'nobody', lease_token = 'x', locked_until_ms = ?,
                   available_at_ms = 0
             WHERE id = ?
            """,
            (time.time_ns() // 1_000_000 + 300, job),
        )
    wait_until(lambda: rows.status(job) == "done", 15.0, "the job after its lease ended")
    assert (rows.row(job)["attempts"], rows.row(job)["crashes"]) == (1, 1)
