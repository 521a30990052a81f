"""The queue in its owner's hands."""

from __future__ import annotations

import pytest

from agent.actions.home import Home
from agent.actions.jobs import COLUMNS, cancel, jobs, retry
from agent.errors import UsageFault
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
from agent.states import JobKind, JobStatus


def put(home: Home, number: int) -> int:
    found = enqueue(home.connection, NewJob.extract_chunk(f"chunk {number}"), home.clock.now_ms())
    assert found is not None
    return found


def fail(home: Home, job_id: int, failure_class: str = "transient") -> None:
    with home.connection.write():
        home.connection.run(
            "UPDATE mem_tree_jobs SET status = 'failed', failure_class = ? WHERE id = ?", (failure_class, job_id)
        )


def test_every_column_is_listed_but_what_the_job_is_about(home: Home) -> None:
    put(home, 1)
    columns = {row[1] for row in home.connection.all("PRAGMA table_info(mem_tree_jobs)")}
    hidden = {"payload_json", "rerun_payload", "rerun_input_hash"}
    assert set(COLUMNS) == columns - hidden
    assert set(jobs(home).jobs[0]) == set(COLUMNS)


def test_newest_is_first_and_filters_hold(home: Home) -> None:
    ids = [put(home, number) for number in range(5)]
    fail(home, ids[1])
    assert [row["id"] for row in jobs(home).jobs] == ids[::-1]
    assert [row["id"] for row in jobs(home, status="failed").jobs] == [ids[1]]
    assert jobs(home, kind=JobKind.SEAL).jobs == ()
    cut = jobs(home, limit=2)
    assert [row["id"] for row in cut.jobs] == ids[:2:-1]
    assert cut.total == 5


def test_retry_makes_failed_jobs_ready(home: Home) -> None:
    ids = [put(home, number) for number in range(3)]
    for job_id in ids:
        fail(home, job_id, "unrecoverable")
    assert retry(home, ids[0]).requeued == 1
    assert retry(home).requeued == 2
    assert {row["status"] for row in jobs(home).jobs} == {"ready"}


def test_cancelled_job_can_be_taken_back(home: Home) -> None:
    job_id = put(home, 1)
    assert cancel(home, job_id).was is JobStatus.READY
    assert jobs(home).jobs[0]["status"] == "cancelled"
    retry(home, job_id)
    assert jobs(home).jobs[0]["status"] == "ready"


def test_done_job_is_neither_cancelled_nor_tried_again(home: Home) -> None:
    job_id = put(home, 1)
    with home.connection.write():
        home.connection.run("UPDATE mem_tree_jobs SET status = 'done' WHERE id = ?", (job_id,))
    for verb in (cancel, retry):
        with pytest.raises(UsageFault, match="done"):
            verb(home, job_id)


def test_unknown_job_is_said_to_be_unknown(home: Home) -> None:
    for verb in (cancel, retry):
        with pytest.raises(UsageFault, match="no such job"):
            verb(home, 77)
