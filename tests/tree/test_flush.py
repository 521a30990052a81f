"""Tails are closed by the time they waited, for now, by the built-in summariser; and again when they grow."""

from __future__ import annotations

from agent.clock import FakeClock
from agent.db import Connection
from agent.ids import tree_id
from agent.paths import Paths
from agent.queue.types import NewJob
from agent.states import Lifecycle
from agent.tree.flush import close_all_tails, flush_is_due, unfinished
from agent.tree.shape import ShapeNode, whole_shape
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Digest, Garden

HOUR = 3_600


def _summaries(garden: Garden) -> list[tuple[int, int, str]]:
    return garden.connection.all(
        "SELECT level, provisional, signature FROM mem_tree_summaries ORDER BY level, sort_key"
    )


def _flush(garden: Garden) -> None:
    garden.enqueue(NewJob.flush_stale(garden.clock.now_ms()))
    garden.drain()


def test_a_tail_is_closed_after_an_hour_in_the_buffer_not_by_the_age_of_the_mail(garden: Garden) -> None:
    for at in range(3):
        garden.mail("post", at)  # mail of years ago
    garden.drain()
    garden.clock.advance(HOUR - 60)
    assert not flush_is_due(garden.connection, garden.context.intent, garden.clock.now_ms())
    _flush(garden)
    assert _summaries(garden) == []
    garden.clock.advance(120)
    assert flush_is_due(garden.connection, garden.context.intent, garden.clock.now_ms())
    _flush(garden)
    assert [row[:2] for row in _summaries(garden)] == [(1, 1)]
    assert not flush_is_due(garden.connection, garden.context.intent, garden.clock.now_ms())
    assert garden.connection.all("SELECT DISTINCT lifecycle FROM mem_tree_chunks") == [(Lifecycle.SEALED,)]


def test_nodes_above_the_leaves_wait_for_a_day(garden: Garden) -> None:
    for at in range(40):
        garden.mail("post", at)
    garden.drain()
    garden.clock.advance(HOUR + 60)
    _flush(garden)
    levels = {level for level, _, _ in _summaries(garden)}
    assert levels == {1}
    assert unfinished(garden.connection) == [tree_id("source", "post")]
    garden.clock.advance(24 * HOUR)
    _flush(garden)
    assert {level for level, _, _ in _summaries(garden)} == {1, 2}
    assert unfinished(garden.connection) == []
    assert_as_naive(garden)


def test_nothing_above_is_decided_on_a_provisional_node(garden: Garden) -> None:
    """The tail's summary is the last of a group that would end with it; but it will be another one."""
    at = 0
    while not _ends_with_its_tail(garden):
        garden.mail("post", at, f"Line {at}.")
        at += 1
    garden.drain()
    garden.clock.advance(HOUR + 60)
    _flush(garden)
    tail = garden.connection.value("SELECT summary_id FROM mem_tree_summaries WHERE level = 1 AND provisional = 1")
    assert tail is not None
    garden.run(NewJob.seal(tree_id("source", "post"), 1))
    assert garden.connection.all("SELECT parent_id FROM mem_tree_edges WHERE node_id = ?", (tail,)) == []
    garden.finish()
    assert_as_naive(garden)


def _ends_with_its_tail(garden: Garden) -> bool:
    leaves = [
        ShapeNode(chunk, chunk, 3, 0, 0)
        for (chunk,) in garden.connection.all("SELECT chunk_id FROM mem_tree_chunks ORDER BY sort_key")
    ]
    shape = whole_shape(tree_id("source", "post"), leaves)
    return len(shape.grouped) > 2 and not shape.grouped[0][-1].final and shape.grouped[1][-1].final


def test_a_provisional_summary_lives_until_its_group_ends(garden: Garden) -> None:
    for at in range(3):
        garden.mail("post", at)
    garden.finish()
    (first,) = [row[0] for row in garden.connection.all("SELECT summary_id FROM mem_tree_summaries")]
    garden.mail("post", 3)
    garden.drain()
    assert garden.connection.value("SELECT summary_id FROM mem_tree_summaries") == first
    for at in range(4, 30):
        garden.mail("post", at)
    garden.drain()
    assert garden.connection.one("SELECT 1 FROM mem_tree_summaries WHERE summary_id = ?", (first,)) is None
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE level = 1 AND provisional = 0") > 0
    garden.finish()
    assert_as_naive(garden)


def test_a_grown_tail_is_closed_anew_by_the_next_flush(garden: Garden) -> None:
    for at in range(2):
        garden.mail("post", at)
    garden.finish()
    garden.mail("post", 2)
    garden.drain()
    garden.clock.advance(HOUR + 60)
    _flush(garden)
    assert _summaries(garden) == [(1, 1, garden.summariser.signature)]
    assert unfinished(garden.connection) == []
    assert_as_naive(garden)


def test_a_model_never_sees_a_tail(connection: Connection, clock: FakeClock, paths: Paths) -> None:
    model, built_in = Digest("cloud:model@1", calls_model=True), Digest()
    garden = Garden(connection, clock, paths, model, built_in)
    for at in range(40):
        garden.mail("post", at)
    garden.finish()
    for level, provisional, signature in _summaries(garden):
        assert signature == (built_in.signature if provisional else model.signature), level
    assert any(provisional for _, provisional, _ in _summaries(garden))
    made = len(model.requests)
    assert made == sum(1 for _, provisional, _ in _summaries(garden) if not provisional)
    # The tail's group ends: now the model makes it, once.
    for at in range(40, 80):
        garden.mail("post", at)
    garden.finish()
    assert len(model.requests) - made <= sum(1 for _, provisional, _ in _summaries(garden) if not provisional)


def test_a_finished_tree_keeps_a_root_while_it_grows(garden: Garden) -> None:
    for at in range(40):
        garden.mail("post", at)
    garden.finish()
    for at in range(40, 120):
        garden.mail("post", at)
        garden.drain()
        assert garden.connection.value("SELECT root_id FROM mem_tree_trees") is not None
    garden.finish()
    assert_as_naive(garden)


def test_closing_all_tails_asks_for_nothing_when_all_is_closed(garden: Garden) -> None:
    for at in range(30):
        garden.mail("post", at)
    garden.finish()
    assert close_all_tails(garden.connection, garden.clock.now_ms()) == []
    with garden.connection.write():
        assert close_all_tails(garden.connection, garden.clock.now_ms()) == []
    # What comes later is not closed at once: the flush of everything has ended.
    garden.mail("post", 31)
    garden.drain()
    assert garden.connection.value("SELECT count(*) FROM mem_tree_buffers") == 1


def test_a_single_leaf_is_the_root_of_a_closed_tree(garden: Garden) -> None:
    chunk = garden.mail("post", 1)
    garden.finish()
    assert garden.connection.all("SELECT root_id, root_kind, max_level FROM mem_tree_trees") == [(chunk, "leaf", 0)]
    assert garden.connection.value("SELECT lifecycle FROM mem_tree_chunks") == Lifecycle.SEALED
    garden.mail("post", 2)
    garden.finish()
    assert garden.connection.value("SELECT root_kind FROM mem_tree_trees") == "summary"
    assert_as_naive(garden)
