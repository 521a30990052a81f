"""The queue may be lost: what domain state asks for comes back, and only that."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import apsw
import pytest

from agent.config import Intent, SweepIntent
from agent.db import Connection
from agent.errors import JobFailure
from agent.queue import (
    JobContext,
    JobSpec,
    LocalContext,
    NewJob,
    Plan,
    Registry,
    SweepContext,
    drain_until_idle,
    retry,
    settle,
    sweep,
)
from agent.queue.types import Job
from tests.queue.conftest import Queue


@pytest.fixture
def domain(connection: Connection) -> Connection:
    """Things to be done, in state of their own: an item is finished when it says so."""
    with connection.write():
        connection.raw.execute("CREATE TABLE things (name TEXT PRIMARY KEY, input TEXT, finished INTEGER)").fetchall()
        connection.many("INSERT INTO things VALUES (?, 'v1', 0)", [(f"thing-{n:03}",) for n in range(30)])
    return connection


def unfinished(context: SweepContext) -> Iterable[NewJob]:
    rows = context.connection.all("SELECT name, input FROM things WHERE finished = 0 LIMIT ?", (context.limit,))
    return [NewJob("thing", f'"{name}"', f"thing:{name}", input_hash=text) for name, text in rows]


def finish(context: JobContext, job: Job) -> Plan:
    name = job.payload(str)
    return Plan(writes=lambda connection: one(connection, name))


def one(connection: Connection, name: str) -> None:
    connection.run("UPDATE things SET finished = finished + 1 WHERE name = ?", (name,))


REGISTRY = Registry.of([JobSpec("thing", finish, sweep=unfinished)])


def run_sweep(queue: Queue, batch: int = 500, registry: Registry = REGISTRY) -> int:
    intent = Intent(sweep=SweepIntent(batch=batch))
    return sum(sweep(queue.connection, registry, intent, queue.now).values())


def test_a_sweep_finds_everything_again(queue: Queue, domain: Connection) -> None:
    assert run_sweep(queue) == 30
    assert run_sweep(queue) == 0
    with domain.write():
        domain.run("DELETE FROM mem_tree_jobs")
    assert run_sweep(queue) == 30


def test_a_sweep_is_bounded(queue: Queue, domain: Connection) -> None:
    assert run_sweep(queue, batch=7) == 7


def test_deleting_every_row_at_any_moment_costs_only_time(
    queue: Queue, domain: Connection, context: LocalContext
) -> None:
    chance = random.Random(3)
    for _ in range(200):
        if chance.random() < 0.3:
            with domain.write():
                domain.run("DELETE FROM mem_tree_jobs")
        run_sweep(queue, batch=4)
        from agent.queue import run_once

        run_once(domain, REGISTRY, context)
        if domain.value("SELECT min(finished) FROM things") == 1:
            break
    # Everything was done, and nothing twice: the effect and the row's end commit together.
    assert domain.all("SELECT DISTINCT finished FROM things") == [(1,)]


@pytest.mark.parametrize("status", ["ready", "running"])
def test_what_is_being_worked_on_is_not_asked_for_again(queue: Queue, domain: Connection, status: str) -> None:
    run_sweep(queue)
    with domain.write():
        domain.run("UPDATE mem_tree_jobs SET status = ?", (status,))
    assert run_sweep(queue) == 0
    assert domain.value("SELECT sum(rerun) FROM mem_tree_jobs") == 0


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_parked_key_is_skipped_until_its_input_changes(queue: Queue, domain: Connection, status: str) -> None:
    run_sweep(queue)
    with domain.write():
        domain.run("UPDATE mem_tree_jobs SET status = ?, completed_at_ms = 0", (status,))
    assert run_sweep(queue) == 0
    with domain.write():
        domain.run("UPDATE things SET input = 'v2' WHERE name = 'thing-003'")
    assert run_sweep(queue) == 1
    assert domain.value("SELECT dedupe_key FROM mem_tree_jobs WHERE status = 'ready'") == "thing:thing-003"


def test_retry_opens_a_parked_key_again(queue: Queue, domain: Connection) -> None:
    run_sweep(queue, batch=1)
    queue.registry = REGISTRY
    job = queue.take()
    settle(domain, job, JobFailure.unrecoverable("broken"), queue.now)
    run_sweep(queue, batch=1)
    assert queue.statuses() == ["failed", "ready"]
    assert retry(domain, job.id, queue.now)
    assert queue.statuses() == ["ready", "ready"]


def test_the_newest_row_of_a_key_speaks_for_it(queue: Queue, domain: Connection) -> None:
    parked = queue.add(NewJob("thing", '"thing-000"', "thing:thing-000", input_hash="v1"))
    queue.change(parked, status="failed", completed_at_ms=0)
    newer = queue.add(NewJob("thing", '"thing-000"', "thing:thing-000", input_hash="v1"))
    queue.change(newer, status="done", completed_at_ms=0)
    run_sweep(queue)
    assert domain.value("SELECT count(*) FROM mem_tree_jobs WHERE dedupe_key = 'thing:thing-000'") == 3


def test_parked_keys_do_not_crowd_out_the_rest(queue: Queue, domain: Connection) -> None:
    for _ in range(4):
        assert run_sweep(queue, batch=5) == 5
        with domain.write():
            domain.run("UPDATE mem_tree_jobs SET status = 'failed', completed_at_ms = 0")
    assert run_sweep(queue, batch=50) == 10


def test_a_sweep_that_fails_stops_none_of_the_others(queue: Queue, domain: Connection) -> None:
    def broken(context: SweepContext) -> Iterable[NewJob]:
        raise KeyError("a bug")

    registry = Registry.of([JobSpec("broken", finish, sweep=broken), *REGISTRY])
    assert run_sweep(queue, registry=registry) == 30


def test_a_fault_of_the_database_ends_the_sweep(queue: Queue, domain: Connection) -> None:
    def busy(context: SweepContext) -> Iterable[NewJob]:
        error = apsw.BusyError("busy")
        error.result, error.extendedresult = 5, 5
        raise error

    with pytest.raises(apsw.BusyError):
        run_sweep(queue, registry=Registry.of([JobSpec("busy", finish, sweep=busy)]))


def test_a_kind_without_a_sweep_and_a_finished_domain_write_nothing(
    queue: Queue, domain: Connection, context: LocalContext, changes: Callable[[], int]
) -> None:
    run_sweep(queue)
    assert drain_until_idle(context, REGISTRY) == 30
    changes()
    assert run_sweep(queue, registry=Registry.of([*REGISTRY, JobSpec("other", finish)])) == 0
    assert changes() == 0


def test_the_sweep_gives_its_kinds_attempts(queue: Queue, domain: Connection) -> None:
    registry = Registry.of([replace(REGISTRY["thing"], max_attempts=2)])
    run_sweep(queue, batch=1, registry=registry)
    assert queue.row(1)["max_attempts"] == 2
