"""An append puts a node in its place, once."""

from __future__ import annotations

from agent.ids import tree_id
from agent.queue.types import NewJob, NodeRef
from agent.states import Lifecycle
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Garden, body


def _rows(garden: Garden) -> list[tuple[object, ...]]:
    return garden.connection.all("SELECT * FROM mem_tree_buffers") + garden.connection.all(
        "SELECT * FROM mem_tree_edges"
    )


def test_appending_again_changes_nothing(garden: Garden) -> None:
    chunk = garden.mail("post", 1)
    garden.drain()
    before = _rows(garden)
    garden.clock.advance(60)
    garden.run(NewJob.append_buffer("source", "post", NodeRef.leaf(chunk)))
    assert _rows(garden) == before
    garden.finish()
    sealed = _rows(garden)
    garden.run(NewJob.append_buffer("source", "post", NodeRef.leaf(chunk)))
    assert _rows(garden) == sealed
    assert garden.jobs == {}


def test_what_is_gone_dropped_or_pending_is_left_out(garden: Garden) -> None:
    dropped = garden.mail("post", 1, lifecycle=Lifecycle.DROPPED)
    pending = garden.mail("post", 2, lifecycle=Lifecycle.PENDING_EXTRACTION)
    for node in (dropped, pending, "0" * 32):
        garden.run(NewJob.append_buffer("source", "post", NodeRef.leaf(node)))
    garden.run(NewJob.append_buffer("source", "post", NodeRef.summary("0" * 32)))
    assert _rows(garden) == []


def test_a_seal_is_asked_for_when_a_group_has_closed(garden: Garden) -> None:
    seal = NewJob.seal(tree_id("source", "post"), 0).dedupe_key
    asked = []
    for at in range(24):
        garden.mail("post", at)
        (append,) = garden.jobs.values()
        garden.run(append)
        asked.append(garden.jobs.pop(str(seal), None) is not None)
    assert asked[:3] == [False, False, False]
    assert asked[-1]
    assert asked == sorted(asked)


def test_a_leaf_between_others_asks_for_a_seal(garden: Garden) -> None:
    for at in range(0, 60, 2):
        garden.mail("post", at)
    garden.finish()
    garden.mail("post", 11)
    garden.run(next(iter(garden.jobs.values())))
    assert list(garden.jobs) == [NewJob.seal(tree_id("source", "post"), 0).dedupe_key]


def test_a_document_takes_the_place_of_its_older_version(garden: Garden) -> None:
    for at in range(30):
        garden.document("notes", f"n{at:02d}", [body(at), body(at + 500)])
    garden.finish()
    garden.document("notes", "n29", [body(29), body(9_000)])
    garden.finish()
    places = garden.connection.value(
        "SELECT count(*) FROM mem_tree_edges AS e JOIN mem_tree_trees AS t USING (tree_seq)"
        " WHERE t.kind = 'source' AND level = 0"
    )
    assert places == 30
    assert_as_naive(garden)


def test_an_outdated_root_is_not_appended(garden: Garden) -> None:
    garden.document("notes", "a", [body(1), body(2)])
    garden.drain()
    old = garden.connection.value("SELECT root_id FROM mem_tree_trees WHERE kind = 'document'")
    garden.document("notes", "a", [body(3), body(4)])
    garden.run(NewJob.append_buffer("source", "notes", NodeRef.summary(old)))
    garden.finish()
    assert_as_naive(garden)


def test_a_leaf_that_moved_stands_in_its_new_place_only(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(40)]
    garden.finish()
    with garden.connection.write():
        garden.connection.run("UPDATE mem_tree_chunks SET order_key = order_key * 3 WHERE chunk_id = ?", (chunks[9],))
    garden.detach(chunks[9])
    with garden.connection.write():
        garden.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'admitted' WHERE chunk_id = ?", (chunks[9],))
    garden.enqueue(NewJob.append_buffer("source", "post", NodeRef.leaf(chunks[9])))
    garden.finish()
    assert_as_naive(garden)
