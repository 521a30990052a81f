"""What somebody hands in and waits for goes before what was found by itself, the first of a source too."""

from __future__ import annotations

from dataclasses import replace

from agent.actions.assistants_push import ingest
from agent.actions.home import open_home
from agent.ingest.push import DocumentContent
from agent.paths import Paths
from agent.queue import NOTHING_TO_DO, LocalContext, NewJob, Registry, claim_next, enqueue, run_once, settle
from agent.queue.types import AT_ONCE_MS
from agent.worker.kinds import KIND_NAMES


def push(paths: Paths, key: str) -> None:
    with open_home(paths) as home:
        ingest(home, "zoo", DocumentContent(text=f"The word is {key}.", key=key))


def test_a_first_push_is_looked_for_and_read_before_a_backlog(paths: Paths) -> None:
    registry = Registry.load(KIND_NAMES)
    with open_home(paths) as home:
        for number in range(50):
            enqueue(home.connection, NewJob.extract_chunk(f"{number:032x}"), home.clock.now_ms() - 60_000)
    push(paths, "okapi")
    with open_home(paths) as home:
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        for _ in range(2):
            run_once(home.connection, registry, context)
        assert home.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE text LIKE '%okapi%'") == 1
        assert home.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'done'") == 2


def test_a_push_that_meets_a_look_under_way_is_looked_for_at_once_again(paths: Paths) -> None:
    registry = Registry.load(KIND_NAMES)
    push(paths, "okapi")
    with open_home(paths) as home:
        job = claim_next(home.connection, registry=registry, worker_id="w", now_ms=home.clock.now_ms())
        assert job is not None
        push(paths, "tapir")
        settle(home.connection, job, NOTHING_TO_DO, home.clock.now_ms())
        again = home.connection.all("SELECT available_at_ms FROM mem_tree_jobs WHERE status = 'ready'")
        assert again == [(AT_ONCE_MS,)]


def test_a_push_pulls_a_look_that_was_asked_for_already_to_the_front_and_leaves_a_delayed_one(paths: Paths) -> None:
    push(paths, "okapi")
    with open_home(paths) as home:
        connection, now_ms = home.connection, home.clock.now_ms()
        for due_ms, then_ms in ((now_ms - 5, AT_ONCE_MS), (now_ms + 60_000, now_ms + 60_000)):
            connection.run("DELETE FROM mem_tree_jobs")
            enqueue(connection, replace(NewJob.sync_source("zoo"), available_at_ms=due_ms), now_ms)
            push(paths, "tapir")
            assert connection.all("SELECT available_at_ms FROM mem_tree_jobs") == [(then_ms,)]


def test_a_push_that_meets_a_look_of_the_watcher_under_way_is_looked_for_at_once(paths: Paths) -> None:
    registry = Registry.load(KIND_NAMES)
    push(paths, "okapi")
    with open_home(paths) as home:
        connection = home.connection
        connection.run("DELETE FROM mem_tree_jobs")
        enqueue(connection, NewJob.sync_source("zoo"), home.clock.now_ms())
        job = claim_next(connection, registry=registry, worker_id="w", now_ms=home.clock.now_ms())
        assert job is not None
        push(paths, "tapir")
        settle(connection, job, NOTHING_TO_DO, home.clock.now_ms())
        assert connection.all("SELECT available_at_ms FROM mem_tree_jobs WHERE status = 'ready'") == [(AT_ONCE_MS,)]
