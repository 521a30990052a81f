"""What is promised about processes, with real ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import Counter
from typing import Any

import pytest

from agent.clock import SYSTEM_CLOCK
from agent.db import Connection, Database
from agent.paths import Paths
from agent.queue import (
    NOTHING_TO_DO,
    Job,
    JobContext,
    JobSpec,
    LocalContext,
    NewJob,
    Plan,
    Registry,
    claim_next,
    enqueue,
    enqueue_tx,
    reclaim_worker,
    run_due,
)

SPAWN = multiprocessing.get_context("spawn")
ROWS = 400


def _registry(seen: list[int]) -> Registry:
    def handle(context: JobContext, job: Job) -> Plan:
        seen.append(job.id)
        key = f"ran:{job.id}"
        return Plan(writes=lambda connection: _count(connection, key))

    return Registry.of([JobSpec("count", handle)])


def _count(connection: Connection, key: str) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_state (key, value) VALUES (?, '1')
        ON CONFLICT (key) DO UPDATE SET value = value + 1
        """,
        (key,),
    )


def _claimer(paths: Paths, barrier: Any, pipe: Any, number: int) -> None:
    from agent.config import Intent

    connection = Database(paths.database, paths.write_turn).connection
    seen: list[int] = []
    barrier.wait(60)
    run_due(
        connection,
        _registry(seen),
        LocalContext(connection, SYSTEM_CLOCK, Intent(), paths),
        worker_id=f"claimer{number}",
    )
    pipe.send(seen)


@pytest.mark.parametrize("processes", [2, 4])
def test_claimers_from_a_barrier_get_no_row_twice_and_lose_none(
    connection: Connection, paths: Paths, processes: int
) -> None:
    now = SYSTEM_CLOCK.now_ms()
    with connection.write():
        for number in range(ROWS):
            enqueue_tx(connection, NewJob("count", "{}", f"k{number}"), now)
    barrier = SPAWN.Barrier(processes)
    pipes, children = [], []
    for number in range(processes):
        ours, theirs = SPAWN.Pipe(duplex=False)
        children.append(SPAWN.Process(target=_claimer, args=(paths, barrier, theirs, number)))
        children[-1].start()
        pipes.append(ours)
    seen = [pipe.recv() for pipe in pipes]
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    handled = Counter(job_id for each in seen for job_id in each)
    assert sorted(handled.values()) == [1] * ROWS
    effects = connection.all("SELECT value FROM mem_tree_state WHERE key LIKE 'ran:%'")
    assert effects == [("1",)] * ROWS
    assert connection.all("SELECT DISTINCT status FROM mem_tree_jobs") == [("done",)]


def _hold(paths: Paths, pipe: Any) -> None:
    connection = Database(paths.database, paths.write_turn).connection

    def handle(context: JobContext, job: Job) -> Plan:
        pipe.send(job.id)
        pipe.recv()
        return Plan(writes=lambda connection: _count(connection, "effect"))

    from agent.config import Intent

    context = LocalContext(connection, SYSTEM_CLOCK, Intent(), paths)
    run_due(connection, Registry.of([JobSpec("count", handle)]), context, worker_id="holder")
    pipe.send("over")


def test_a_worker_that_lost_its_lease_to_another_process_applies_nothing(connection: Connection, paths: Paths) -> None:
    enqueue(connection, NewJob("count", "{}", "k"), SYSTEM_CLOCK.now_ms())
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=_hold, args=(paths, theirs))
    child.start()
    job_id = ours.recv()
    registry = Registry.of([JobSpec("count", lambda context, job: NOTHING_TO_DO)])
    now = SYSTEM_CLOCK.now_ms()
    reclaim_worker(connection, "holder", job_id, ordered=False, now_ms=now)
    newer = claim_next(connection, registry=registry, worker_id="newer", now_ms=now)
    assert newer is not None
    ours.send("go on")
    assert ours.recv() == "over"
    child.join(30)
    assert connection.value("SELECT count(*) FROM mem_tree_state") == 0
    assert connection.one("SELECT status, locked_by FROM mem_tree_jobs") == ("running", "newer")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_killed_workers_job_is_neither_lost_nor_half_done(connection: Connection, paths: Paths) -> None:
    enqueue(connection, NewJob("count", "{}", "k"), SYSTEM_CLOCK.now_ms())
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=_hold, args=(paths, theirs))
    child.start()
    job_id = ours.recv()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    child.join(30)
    found = reclaim_worker(connection, "holder", job_id, ordered=False, now_ms=SYSTEM_CLOCK.now_ms())
    assert found.ready == (job_id,)
    assert connection.value("SELECT count(*) FROM mem_tree_state") == 0
    assert connection.one("SELECT status, attempts, crashes FROM mem_tree_jobs") == ("ready", 0, 1)


def _enqueue_often(paths: Paths, barrier: Any) -> None:
    connection = Database(paths.database, paths.write_turn).connection
    barrier.wait(60)
    for number in range(100):
        enqueue(connection, NewJob("count", "{}", f"k{number % 10}"), SYSTEM_CLOCK.now_ms())


def test_producers_in_many_processes_never_make_two_active_rows_of_one_key(
    connection: Connection, paths: Paths
) -> None:
    barrier = SPAWN.Barrier(3)
    children = [SPAWN.Process(target=_enqueue_often, args=(paths, barrier)) for _ in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert connection.value("SELECT count(*) FROM mem_tree_jobs") == 10
