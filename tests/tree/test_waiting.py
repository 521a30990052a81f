"""A group waits while something inside it is pending, and for nothing else."""

from __future__ import annotations

import pytest

from agent.db.nodes import remove_chunk
from agent.ids import tree_id
from agent.queue.types import NewJob
from agent.states import ItemState, Lifecycle, SourceKind
from agent.tree.flush import close_all_tails, unfinished
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import T0, Garden, body


def _closed_leaves(garden: Garden) -> int:
    found: int = garden.connection.value("SELECT count(*) FROM mem_tree_edges WHERE level = 0")
    return found


def test_a_pending_chunk_inside_holds_its_group_only(garden: Garden) -> None:
    late = garden.mail("post", 3, lifecycle=Lifecycle.PENDING_EXTRACTION)
    for at in range(60):
        if at != 3:
            garden.mail("post", at)
    garden.drain()
    closed = {row[0] for row in garden.connection.all("SELECT sort_key FROM mem_tree_edges WHERE level = 0")}
    first = min(closed)
    time_ms = int.from_bytes(first[:8], "big") - 2**62
    assert time_ms > T0 + 3_000
    assert len(closed) > 20
    garden.decide("post", late, admitted=False)
    garden.drain()
    first = garden.connection.value("SELECT min(sort_key) FROM mem_tree_edges WHERE level = 0")
    assert int.from_bytes(first[:8], "big") - 2**62 == T0
    garden.finish()
    assert_as_naive(garden)


def test_a_group_above_waits_for_the_hole_below_it(garden: Garden) -> None:
    late = garden.mail("post", 30, lifecycle=Lifecycle.PENDING_EXTRACTION)
    for at in range(600):
        if at != 30:
            garden.mail("post", at, f"Line {at}.")
    garden.drain()
    covered = [key for (key,) in garden.connection.all("SELECT sort_key FROM mem_tree_summaries WHERE level = 2")]
    hole = garden.connection.value("SELECT sort_key FROM mem_tree_items WHERE item_key = 'mail-000030'")
    assert covered
    assert min(covered) > hole
    garden.decide("post", late, admitted=True)
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("state", [ItemState.QUEUED, ItemState.FOUND])
def test_an_item_on_its_way_holds_its_group_one_merely_found_does_not(garden: Garden, state: ItemState) -> None:
    time_ms = T0 + 2_500
    garden.item("post", "late", SourceKind.EMAIL, (time_ms + 2**62).to_bytes(8, "big") + b"late", state)
    for at in range(40):
        garden.mail("post", at)
    garden.drain()
    first = garden.connection.value("SELECT min(sort_key) FROM mem_tree_edges WHERE level = 0")
    begins_first = int.from_bytes(first[:8], "big") - 2**62 == T0
    assert begins_first == (state is ItemState.FOUND)


def test_what_is_pending_behind_a_group_does_not_hold_it(garden: Garden) -> None:
    for at in range(40):
        garden.mail("post", at)
    garden.mail("post", 100, lifecycle=Lifecycle.PENDING_EXTRACTION)
    garden.mail("other", 3, lifecycle=Lifecycle.PENDING_EXTRACTION)
    garden.drain()
    closed = _closed_leaves(garden)
    assert closed > 0
    for at in range(40):
        garden.mail("twin", at)
    garden.drain()
    assert _closed_leaves(garden) == closed + garden.connection.value(
        "SELECT count(*) FROM mem_tree_edges AS e JOIN mem_tree_trees AS t USING (tree_seq)"
        " WHERE t.source_id = 'twin' AND level = 0"
    )


def test_a_document_that_is_not_finished_holds_its_group_of_the_folder(garden: Garden) -> None:
    for at in range(40):
        garden.document("notes", f"n{at:02d}", [body(at)])
    held = garden.jobs.pop(next(key for key in garden.jobs if "n02" in key))
    garden.drain()
    first = garden.connection.value(
        "SELECT min(sort_key) FROM mem_tree_edges AS e JOIN mem_tree_trees AS t USING (tree_seq)"
        " WHERE t.kind = 'source' AND level = 0"
    )
    assert first is not None
    assert first > b"n02"
    garden.enqueue(held)
    garden.finish()
    assert_as_naive(garden)


def test_a_tail_with_something_pending_inside_is_not_closed(garden: Garden) -> None:
    garden.mail("post", 0)
    late = garden.mail("post", 1, lifecycle=Lifecycle.PENDING_EXTRACTION)
    garden.mail("post", 2)
    garden.drain()
    assert close_all_tails(garden.connection, garden.clock.now_ms()) == []
    assert unfinished(garden.connection) == [tree_id("source", "post")]
    garden.decide("post", late, admitted=True)
    garden.finish()
    assert_as_naive(garden)


def test_an_edit_makes_its_group_again_once_not_twice(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(60)]
    garden.finish()
    garden.summariser.requests.clear()
    # Ingest takes the old chunk out and puts the new one in as pending, then asks for a seal.
    with garden.connection.write():
        remove_chunk(garden.connection, chunks[20])
    new = garden.mail("post", 20, "Another text altogether. " * 30, lifecycle=Lifecycle.PENDING_EXTRACTION)
    garden.enqueue(NewJob.seal(tree_id("source", "post"), 0))
    garden.drain()
    assert garden.summariser.requests == []
    garden.decide("post", new, admitted=True)
    garden.finish()
    depth = garden.connection.value("SELECT max_level FROM mem_tree_trees")
    assert len(garden.summariser.requests) <= depth + 4
    assert_as_naive(garden)
