"""What the supervisor before this one left behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from agent.clock import FakeClock
from agent.db import Connection
from agent.paths import Paths
from agent.queue.claim import claim_next
from agent.queue.enqueue import enqueue
from agent.queue.handling import HandlingFile, handling_path
from agent.queue.registry import JobContext, JobSpec, Registry
from agent.queue.rows import get_job
from agent.queue.types import NOTHING_TO_DO, Job, NewJob, Plan
from agent.queue.wake import register_worker
from agent.supervisor.ending import release_all
from agent.supervisor.leftovers import Leftovers, clear_workers_dir
from agent.supervisor.storage import Storage
from agent.supervisor.workforce import Fallen, Workforce


def _nothing(context: JobContext, job: Job) -> Plan:
    return NOTHING_TO_DO


REGISTRY = Registry.of([JobSpec("t_any", _nothing)])


def _worker(connection: Connection, paths: Paths, worker_id: str, pid: int, now_ms: int, *keys: str) -> list[Job]:
    register_worker(connection, worker_id, 1, now_ms, pid=pid)
    jobs = []
    for key in keys:
        enqueue(connection, NewJob("t_any", "{}", key), now_ms)
        job = claim_next(connection, registry=REGISTRY, worker_id=worker_id, now_ms=now_ms)
        assert job is not None
        jobs.append(job)
    file = HandlingFile.create(paths, worker_id, pid=pid, process_started_s=now_ms / 1000)
    if jobs:
        file.begin(jobs[0].id, "t_any", started_ms=now_ms, limit_ms=1000)
    file.close()
    return jobs


def _as_now(connection: Connection, job: Job) -> tuple[str, int, int]:
    row = get_job(connection, job.id)
    assert row is not None
    return str(row.status), row.attempts, row.crashes


def test_rows_of_the_dead_are_given_back_and_only_the_handled_one_counts(
    connection: Connection, paths: Paths, clock: FakeClock
) -> None:
    handled, claimed = _worker(connection, paths, "dead", 11, clock.now_ms(), "a", "b")
    (other,) = _worker(connection, paths, "living", 12, clock.now_ms(), "c")

    leftovers = Leftovers(paths, connection, is_alive=lambda pid, started: pid == 12)
    assert len(leftovers) == 2
    assert leftovers.settle(connection, clock.now_ms(), crash_limit=3) == 1

    assert _as_now(connection, handled) == ("ready", 0, 1)
    assert _as_now(connection, claimed) == ("ready", 0, 0)
    assert _as_now(connection, other) == ("running", 1, 0)
    assert connection.all("SELECT worker_id FROM mem_tree_workers") == [("living",)]
    assert not handling_path(paths, "dead").exists()


def test_whoever_ends_later_is_settled_then(connection: Connection, paths: Paths, clock: FakeClock) -> None:
    (job,) = _worker(connection, paths, "slow", 13, clock.now_ms(), "a")
    alive = {13}
    leftovers = Leftovers(paths, connection, is_alive=lambda pid, started: pid in alive)
    assert leftovers.settle(connection, clock.now_ms(), crash_limit=1) == 1
    alive.clear()
    assert leftovers.settle(connection, clock.now_ms(), crash_limit=1) == 0
    assert _as_now(connection, job) == ("failed", 0, 1), "a job that ends the machine again and again is parked"


def test_half_made_files_are_removed(paths: Paths) -> None:
    file = handling_path(paths, "x").with_suffix(".new")
    file.parent.mkdir(parents=True)
    file.touch()
    clear_workers_dir(paths)
    assert not file.exists()


def test_a_stop_right_after_a_crash_counts_it_by_the_owners_limit(
    connection: Connection, paths: Paths, clock: FakeClock
) -> None:
    (job,) = _worker(connection, paths, "dead", 11, clock.now_ms(), "a")
    storage = Storage(paths)
    storage.open(0.0)
    workforce = SimpleNamespace(fallen=[Fallen("dead", job.id)])
    assert release_all(paths, storage, cast("Workforce", workforce), [], clock.now_ms(), crash_limit=1)
    storage.close()
    assert _as_now(connection, job) == ("failed", 0, 1)
    assert not handling_path(paths, "dead").exists()
