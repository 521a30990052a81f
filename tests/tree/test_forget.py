"""Forgetting takes every ancestor at once, and no other summary is ever made again."""

from __future__ import annotations

import random

import pytest

from agent.db.items import remove_item
from agent.queue.types import NewJob
from agent.states import SourceKind
from agent.tree.check import problems
from agent.tree.forget import take_out
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Garden, body


def rows(garden: Garden) -> dict[str, int]:
    return dict(garden.connection.all("SELECT summary_id, seq FROM mem_tree_summaries"))


def ancestors(garden: Garden, nodes: set[str]) -> set[str]:
    found: set[str] = set()
    waiting = set(nodes)
    while waiting:
        node = waiting.pop()
        for (parent,) in garden.connection.all("SELECT parent_id FROM mem_tree_edges WHERE node_id = ?", (node,)):
            if parent not in ("", node) and parent not in found:
                found.add(parent)
                waiting.add(parent)
    return found


def forget(garden: Garden, chunks: set[str]) -> None:
    with garden.connection.write():
        taken = take_out(garden.connection, chunks, (), garden.clock.now_ms())
    garden.enqueue(*taken.jobs)


def assert_only_ancestors_anew(garden: Garden, before: dict[str, int], above: set[str]) -> None:
    after = rows(garden)
    assert not above & after.keys()
    again = {one for one in before.keys() & after.keys() if before[one] != after[one]}
    assert not again


@pytest.mark.parametrize("seed", range(2))
def test_a_stream_forgets_leaf_by_leaf_and_in_runs(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    there = {at: garden.mail("post", at, break_key=at // 13) for at in range(400)}
    garden.finish()
    for _ in range(12):
        low = chance.randrange(400)
        chosen = {at for at in range(low, low + chance.choice([1, 1, 3, 30])) if at in there}
        chunks = {there.pop(at) for at in chosen}
        before, above = rows(garden), ancestors(garden, chunks)
        forget(garden, chunks)
        assert not above & rows(garden).keys()
        assert problems(garden.connection) == []
        # As workers do, without a flush: a finished tree closes its tails by itself.
        garden.drain()
        assert problems(garden.connection) == []
        assert_as_naive(garden)
        assert_only_ancestors_anew(garden, before, above)


@pytest.mark.parametrize("seed", range(2))
def test_a_folder_forgets_paragraphs(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    fresh = iter(range(100_000))
    for number in range(30):
        garden.document(
            "notes", f"part{number % 4}/n{number:02}.md", [body(next(fresh)) for _ in range(chance.randrange(1, 40))]
        )
    garden.finish()
    for _ in range(8):
        held = garden.connection.all("SELECT chunk_id FROM mem_tree_chunks ORDER BY seq")
        at = chance.randrange(len(held))
        chunks = {chunk for (chunk,) in held[at : at + chance.choice([1, 2, 9])]}
        before, above = rows(garden), ancestors(garden, chunks)
        forget(garden, chunks)
        assert problems(garden.connection) == []
        # A root that comes back at the very end waits there as any new leaf does.
        garden.finish()
        assert_as_naive(garden)
        assert_only_ancestors_anew(garden, before, above)


def test_a_document_goes_with_its_tree_and_its_place(garden: Garden) -> None:
    for number in range(60):
        garden.document("notes", f"n{number:02}.md", [body(number * 100 + at) for at in range(number % 12 + 1)])
    garden.finish()
    for key in ("n07.md", "n00.md", "n11.md", "n59.md"):
        connection = garden.connection
        item = connection.value("SELECT item_seq FROM mem_tree_items WHERE item_key = ?", (key,))
        chunks = {
            chunk for (chunk,) in connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ?", (item,))
        }
        before, above = rows(garden), ancestors(garden, chunks)
        with connection.write():
            taken = take_out(connection, chunks, (), garden.clock.now_ms())
            remove_item(connection, item)
        assert not above & rows(garden).keys()
        garden.enqueue(*taken.jobs)
        garden.drain()
        assert_as_naive(garden)
        assert_only_ancestors_anew(garden, before, above)


@pytest.mark.parametrize("seed", range(2))
def test_forgetting_while_the_tree_grows(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    there: dict[int, str] = {}
    for step in range(60):
        for _ in range(chance.randrange(8)):
            at = chance.randrange(3_000)
            if at not in there:
                there[at] = garden.mail("post", at, break_key=at // 40)
        if there and chance.random() < 0.5:
            at = chance.choice(sorted(there))
            forget(garden, {there.pop(at)})
        if chance.random() < 0.4:
            garden.scramble(chance)
            assert problems(garden.connection) == []
        if step % 20 == 19:
            garden.finish()
            assert_as_naive(garden)
    garden.finish()
    assert_as_naive(garden)


def test_a_seal_in_flight_brings_nothing_back(garden: Garden) -> None:
    chunks = [garden.mail("post", at, f"Word{at}. " + body(at)) for at in range(60)]
    garden.run_appends()
    seal = NewJob.seal("source:post@1", 0)
    plan = garden.plan(seal)
    forget(garden, {chunks[5], chunks[17]})
    garden.settle(seal, plan)
    garden.finish()
    assert_as_naive(garden)
    held = garden.connection.all("SELECT text FROM mem_tree_chunks UNION ALL SELECT text FROM mem_tree_summaries")
    assert not [text for (text,) in held if "Word5." in text or "Word17." in text]


def test_a_document_in_flight_brings_nothing_back(garden: Garden) -> None:
    garden.document("notes", "a.md", [f"Word{at}. " + body(at) for at in range(30)])
    job = next(job for job in garden.jobs.values() if job.kind == "seal_document")
    plan = garden.plan(job)
    chunk = garden.connection.value("SELECT chunk_id FROM mem_tree_chunks WHERE text LIKE 'Word7.%'")
    forget(garden, {chunk})
    assert not garden.settle(job, plan)
    garden.finish()
    assert_as_naive(garden)


def test_what_left_a_leaf_earlier_goes_from_the_summaries_that_are_not_made_anew_yet(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(80)]
    garden.finish()
    garden.drop_mail("post", chunks[3])
    garden.jobs.clear()
    stale = garden.connection.all("SELECT summary_id FROM mem_tree_summaries WHERE stale = 1")
    assert stale
    forget(garden, {chunks[70]})
    assert not garden.connection.all("SELECT summary_id FROM mem_tree_summaries WHERE stale = 1")
    garden.drain()
    assert_as_naive(garden)


def test_an_append_in_flight_brings_nothing_back(garden: Garden) -> None:
    chunk = garden.mail("post", 1)
    job = next(iter(garden.jobs.values()))
    plan = garden.plan(job)
    garden.item("post", "x", SourceKind.EMAIL, b"x")
    forget(garden, {chunk})
    garden.settle(job, plan)
    assert garden.connection.all("SELECT node_id FROM mem_tree_buffers") == []
