"""A seal writes what it read, once, whatever happens beside it."""

from __future__ import annotations

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.ids import tree_id
from agent.paths import Paths
from agent.queue.types import NewJob, StalePlan
from agent.states import Lifecycle
from agent.tree.check import problems
from agent.tree.regroup import GROUPS_A_RUN
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Digest, Garden, body

POST = tree_id("source", "post")


def test_appends_during_a_seal_survive(garden: Garden) -> None:
    for at in range(0, 60, 2):
        garden.mail("post", at)
    garden.run_appends()
    plan = garden.plan(NewJob.seal(POST, 0))
    for at in range(1, 61, 2):
        garden.mail("post", at)
    garden.mail("post", 200)
    garden.run_appends()
    try:
        with garden.connection.write():
            assert plan.writes is not None
            plan.writes(garden.connection)
    except StalePlan:
        pass
    standing = garden.connection.value(
        "SELECT (SELECT count(*) FROM mem_tree_buffers WHERE level = 0)"
        " + (SELECT count(*) FROM mem_tree_edges WHERE level = 0)"
    )
    assert standing == 61
    assert problems(garden.connection) == []
    garden.enqueue(NewJob.seal(POST, 0))
    garden.finish()
    assert_as_naive(garden)


def test_an_append_behind_the_groups_does_not_undo_the_seal(garden: Garden) -> None:
    for at in range(60):
        garden.mail("post", at)
    garden.run_appends()
    plan = garden.plan(NewJob.seal(POST, 0))
    garden.mail("post", 70)
    garden.run_appends()
    assert garden.settle(NewJob.seal(POST, 0), plan)
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries") > 0


def test_a_seal_run_twice_leaves_one(garden: Garden) -> None:
    for at in range(60):
        garden.mail("post", at)
    garden.run_appends()
    first, second = garden.plan(NewJob.seal(POST, 0)), garden.plan(NewJob.seal(POST, 0))
    assert garden.settle(NewJob.seal(POST, 0), first)
    before = garden.fingerprints()
    # The second was planned from the same rows and settles after them: it finds that they are gone.
    assert not garden.settle(NewJob.seal(POST, 0), second)
    assert garden.fingerprints() == before
    garden.finish()
    assert_as_naive(garden)


def test_a_child_that_goes_before_settling_makes_the_plan_stale(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(24)]
    garden.run_appends()
    garden.jobs.clear()
    plan = garden.plan(NewJob.seal(POST, 0))
    with garden.connection.write():
        for chunk in chunks[:20]:
            remove_chunk(garden.connection, chunk)
    assert plan.writes is not None
    with garden.connection.write() as settling, pytest.raises(StalePlan):
        plan.writes(settling)
    assert garden.fingerprints() == set()


def test_a_group_that_changed_is_left_for_the_next_run_the_others_are_written(garden: Garden) -> None:
    for at in range(0, 200, 2):
        garden.mail("post", at)
    garden.run_appends()
    garden.jobs.clear()
    plan = garden.plan(NewJob.seal(POST, 0))
    garden.mail("post", 1)
    garden.run_appends()
    garden.jobs.clear()
    assert garden.settle(NewJob.seal(POST, 0), plan)
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries") > 3
    assert garden.connection.value("SELECT min(sort_key) FROM mem_tree_buffers") is not None
    assert NewJob.seal(POST, 0).dedupe_key in garden.jobs
    garden.finish()
    assert_as_naive(garden)


def test_one_run_makes_a_bounded_number_of_groups(garden: Garden) -> None:
    for at in range(900):
        garden.mail("post", at, f"Line {at}.")
    garden.run_appends()
    garden.jobs.clear()
    garden.run(NewJob.seal(POST, 0))
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries") == GROUPS_A_RUN
    assert list(garden.jobs) == [NewJob.seal(POST, 0).dedupe_key]


def test_one_run_makes_at_most_one_call_of_a_model(connection: Connection, clock: FakeClock, paths: Paths) -> None:
    model = Digest("cloud:model@1", calls_model=True)
    garden = Garden(connection, clock, paths, model, Digest())
    for at in range(120):
        garden.mail("post", at)
    garden.run_appends()
    while garden.jobs:
        before = len(model.requests)
        garden.run(next(iter(garden.jobs.values())))
        assert len(model.requests) - before <= 1
    assert len(model.requests) > 5


def test_a_slow_summariser_is_left_after_two_seconds(connection: Connection, clock: FakeClock, paths: Paths) -> None:
    class Slow(Digest):
        def summarise(self, request):  # type: ignore[no-untyped-def]
            clock.advance(1.5)
            return super().summarise(request)

    garden = Garden(connection, clock, paths, Slow())
    for at in range(120):
        garden.mail("post", at)
    garden.run_appends()
    garden.jobs.clear()
    garden.run(NewJob.seal(POST, 0))
    assert len(garden.summariser.requests) == 2
    garden.finish()
    assert_as_naive(garden)


def test_a_lost_lease_applies_nothing(garden: Garden) -> None:
    for at in range(60):
        garden.mail("post", at)
    garden.run_appends()
    garden.plan(NewJob.seal(POST, 0))
    assert garden.fingerprints() == set()
    assert garden.connection.value("SELECT count(*) FROM mem_tree_edges") == 0


def test_the_root_moves_down_when_leaves_go(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(200)]
    garden.finish()
    heights = [garden.connection.value("SELECT max_level FROM mem_tree_trees")]
    for keep in (60, 12, 2, 1, 0):
        for chunk in chunks[keep:]:
            garden.drop_mail("post", chunk)
        del chunks[keep:]
        garden.finish()
        assert_as_naive(garden)
        heights.append(garden.connection.value("SELECT max_level FROM mem_tree_trees WHERE root_id IS NOT NULL"))
    assert heights[:5] == sorted(heights[:5], reverse=True)
    assert heights[0] > heights[3] > heights[4] == 0
    assert heights[5] is None


def test_lifecycle_follows_the_leaf(garden: Garden) -> None:
    def count(state: Lifecycle) -> int:
        found: int = garden.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = ?", (state,))
        return found

    for at in range(40):
        garden.mail("post", at)
    assert count(Lifecycle.ADMITTED) == 40
    garden.run_appends()
    assert count(Lifecycle.BUFFERED) == 40
    garden.drain()
    assert count(Lifecycle.BUFFERED) == garden.connection.value("SELECT count(*) FROM mem_tree_buffers WHERE level = 0")
    assert 0 < count(Lifecycle.SEALED) < 40
    garden.finish()
    assert count(Lifecycle.SEALED) == 40


def test_children_are_given_whole_with_title_and_time(garden: Garden) -> None:
    long = body(7, 900)
    for at in range(30):
        garden.mail("post", at, long + str(at))
    garden.finish()
    first = garden.summariser.requests[0]
    assert first.children[0].text == long + "0"
    assert first.children[0].title == "Mail 0"
    assert first.children[0].time_ms is not None
    assert first.level == 1
    upper = next(request for request in garden.summariser.requests if request.level == 2)
    assert upper.children[0].time_ms == first.children[0].time_ms
    assert upper.children[0].last_time_ms == first.children[-1].time_ms
    row = garden.connection.one("SELECT leaves, first_time_ms FROM mem_tree_summaries ORDER BY level DESC LIMIT 1")
    assert row == (30, first.children[0].time_ms)
