"""A group waits while something inside it is pending, and for nothing else."""

from __future__ import annotations

import pytest

from agent.config import Intent
from agent.db.nodes import remove_chunk
from agent.ids import tree_id
from agent.queue.registry import SweepContext
from agent.queue.types import NewJob, NodeRef
from agent.states import ItemState, Lifecycle, SourceKind
from agent.tree.flush import close_all_tails, unfinished
from agent.tree.sweeps import sweep_seal_document
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


def _row(garden: Garden, job: NewJob, status: str) -> None:
    """Put a row of a job into the queue as it ended, or as it still waits."""
    garden.connection.run(
        """
        INSERT INTO mem_tree_jobs (
          kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, created_at_ms
        ) VALUES (?, ?, ?, ?, 5, 0, 0)
        """,
        (job.kind, job.payload_json, job.dedupe_key, status),
    )


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        (["failed"], False),
        (["cancelled"], False),
        (["done", "failed"], False),
        (["ready"], True),
        (["running"], True),
        (["failed", "ready"], True),
        (["done"], True),
        ([], True),
    ],
)
def test_an_item_holds_its_group_unless_its_job_is_parked(garden: Garden, rows: list[str], holds: bool) -> None:
    time_ms = T0 + 2_500
    garden.item("post", "late", SourceKind.EMAIL, (time_ms + 2**62).to_bytes(8, "big") + b"late", ItemState.QUEUED)
    for status in rows:
        _row(garden, NewJob.ingest_file("post", "late"), status)
    for at in range(40):
        garden.mail("post", at)
    garden.drain()
    garden.enqueue(*close_all_tails(garden.connection, garden.clock.now_ms()))
    garden.drain()
    first = garden.connection.value("SELECT min(sort_key) FROM mem_tree_edges WHERE level = 0")
    assert (int.from_bytes(first[:8], "big") - 2**62 > T0) == holds
    assert unfinished(garden.connection) == ([tree_id("source", "post")] if holds else [])


def test_what_was_parked_and_is_read_after_all_stands_in_its_place(garden: Garden) -> None:
    time_ms = T0 + 2_500
    sort_key = (time_ms + 2**62).to_bytes(8, "big") + b"late"
    garden.item("post", "late", SourceKind.EMAIL, sort_key, ItemState.QUEUED)
    _row(garden, NewJob.ingest_file("post", "late"), "failed")
    for at in range(40):
        garden.mail("post", at)
    garden.finish()
    garden.connection.run("UPDATE mem_tree_jobs SET status = 'ready'")
    garden.item("post", "late", SourceKind.EMAIL, sort_key)
    chunk = garden.chunk("post", "late", body(1_000), 1 << 20, time_ms=time_ms)
    garden.enqueue(NewJob.append_buffer("source", "post", NodeRef.leaf(chunk)))
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@pytest.mark.parametrize("had_root", [False, True])
def test_a_parked_document_holds_its_folder_only_until_it_is_parked(
    garden: Garden, status: str, had_root: bool
) -> None:
    for at in range(40):
        if at != 2 or had_root:
            garden.document("notes", f"n{at:02d}", [body(at * 100 + part) for part in range(8)])
    garden.finish()
    garden.clock.sleep(1)
    garden.document("notes", "n02", [body(200 + part) for part in range(8) if part != 3] + [body(9_000)])
    seal = garden.jobs.pop(next(key for key in garden.jobs if "n02" in key))
    garden.document("notes", "n01", [body(101), body(9_001)])
    garden.drain()
    garden.enqueue(*close_all_tails(garden.connection, garden.clock.now_ms()))
    garden.drain()
    assert unfinished(garden.connection) != []
    _row(garden, seal, status)
    # Asserts that nothing is unfinished.
    garden.finish()
    assert garden.connection.value("SELECT count(*) FROM mem_tree_buffers") == 0
    garden.enqueue(seal)
    garden.connection.run("UPDATE mem_tree_jobs SET status = 'done'")
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("status", ["failed", "cancelled", "ready", None])
def test_a_held_version_whose_newer_one_is_parked_is_sealed_by_the_sweep(garden: Garden, status: str | None) -> None:
    garden.document("notes", "n01", [body(1)])
    garden.jobs.clear()
    garden.connection.run("UPDATE mem_tree_items SET state = 'queued'")
    if status is not None:
        _row(garden, NewJob.ingest_file("notes", "n01"), status)
    found = list(sweep_seal_document(SweepContext(garden.connection, Intent(), garden.clock.now_ms(), 100)))
    assert bool(found) == (status in ("failed", "cancelled"))
