"""A child that keeps its id and gets another title, author or date: every text made from it is made again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.ids import tree_id
from agent.models.protocol import SummaryRequest, SummaryText
from agent.paths import Paths
from agent.queue.types import NewJob, NodeRef
from agent.states import SourceKind
from agent.tokens import count_tokens
from agent.tree.check import problems
from agent.tree.flush import close_all_tails, unfinished
from agent.tree.forget import take_out
from agent.tree.regroup import regroup
from agent.tree.seal import above_gap_ms
from agent.tree.store import children_of, find_tree
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import T0, Digest, Garden, body

KEY = "plans/garden.md"
POST = tree_id("source", "post")


class Wordy(Digest):
    """Another title may make a longer text."""

    def summarise(self, request: SummaryRequest) -> SummaryText:
        said = super().summarise(request)
        text = f"{said.text} {'More words. ' * (len(str(request.children[0].title)) % 7)}"
        return SummaryText(text, said.title, count_tokens(text))


def anew(garden: Garden, chunk: str, *, same_version: bool = False, **changed: Any) -> None:
    """Take a chunk out and put it in again as ingest does where its title changed: the same id, another row."""
    row = garden.connection.one(
        "SELECT source_id, item_key, text, order_key, break_key, time_ms, title, source_kind FROM mem_tree_chunks"
        " WHERE chunk_id = ?",
        (chunk,),
    )
    assert row is not None
    source, key, text, order, break_key, time_ms, title, kind = row
    with garden.connection.write():
        remove_chunk(garden.connection, chunk)
    known = {"break_key": break_key, "time_ms": time_ms, "title": title} | changed
    assert garden.chunk(source, key, text, order, **known) == chunk
    if kind == SourceKind.DOCUMENT:
        sort_key = garden.connection.value("SELECT sort_key FROM mem_tree_items WHERE item_key = ?", (key,))
        if not same_version:
            garden.item(source, key, SourceKind.DOCUMENT, sort_key)
        version = garden.connection.value("SELECT version_ms FROM mem_tree_items WHERE item_key = ?", (key,))
        garden.enqueue(NewJob.seal_document(f"{source}/{key}", version))
    else:
        garden.enqueue(NewJob.append_buffer("source", source, NodeRef.leaf(chunk)))


def chunks_of(garden: Garden, key: str) -> list[str]:
    return [
        row[0]
        for row in garden.connection.all(
            "SELECT chunk_id FROM mem_tree_chunks WHERE item_key = ? ORDER BY order_key", (key,)
        )
    ]


def numbers(garden: Garden) -> dict[str, int]:
    return dict(garden.connection.all("SELECT summary_id, seq FROM mem_tree_summaries"))


def height(garden: Garden, tree: str) -> int:
    return int(garden.connection.value("SELECT max_level FROM mem_tree_trees WHERE tree_id = ?", (tree,)))


def shelf(garden: Garden) -> int:
    """Put in a long document among short ones; return how many summaries stand above one of its chunks."""
    garden.document("notes", KEY, [body(at) for at in range(120)])
    for at in range(60):
        garden.document("notes", f"plans/n{at:02d}.md", [body(1_000 + at)])
    garden.finish()
    return height(garden, tree_id("document", "notes", KEY)) + height(garden, tree_id("source", "notes"))


def test_another_title_of_a_chunk_makes_one_path_again_up_to_the_root_of_the_source(garden: Garden) -> None:
    above = shelf(garden)
    before = numbers(garden)
    garden.summariser.requests.clear()
    anew(garden, chunks_of(garden, KEY)[50], title="Wistaria")
    garden.drain()
    assert unfinished(garden.connection) == []
    assert len(garden.summariser.requests) == above
    after = numbers(garden)
    assert before.keys() == after.keys()
    # A text made again has another number: vectors on their way for the old one find nothing.
    assert len([one for one in before if before[one] != after[one]]) == above
    assert_as_naive(garden)


@pytest.mark.parametrize("change", [{"time_ms": T0}, {"title": None}])
def test_another_date_or_no_title_is_another_text(garden: Garden, change: dict[str, Any]) -> None:
    shelf(garden)
    before = garden.fingerprints()
    anew(garden, chunks_of(garden, KEY)[3], **change)
    garden.finish()
    assert garden.fingerprints() != before
    assert_as_naive(garden)


def test_the_title_of_a_document_of_one_chunk_is_heard_of_in_its_folder(garden: Garden) -> None:
    shelf(garden)
    garden.summariser.requests.clear()
    anew(garden, chunks_of(garden, "plans/n30.md")[0], title="Wistaria")
    garden.finish()
    assert len(garden.summariser.requests) == height(garden, tree_id("source", "notes"))
    assert_as_naive(garden)


def test_another_title_of_a_mail_makes_one_path_again(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(300)]
    garden.finish()
    garden.summariser.requests.clear()
    anew(garden, chunks[140], title="Wistaria")
    garden.finish()
    assert len(garden.summariser.requests) == height(garden, POST)
    assert_as_naive(garden)


def test_a_child_that_comes_back_as_it_was_costs_no_call_and_no_row(garden: Garden) -> None:
    shelf(garden)
    chunks = [garden.mail("post", at) for at in range(100)]
    garden.finish()
    before = numbers(garden)
    garden.summariser.requests.clear()
    for chunk in (chunks[40], chunks_of(garden, KEY)[50], chunks_of(garden, "plans/n30.md")[0]):
        anew(garden, chunk)
        garden.finish()
    assert garden.summariser.requests == []
    assert numbers(garden) == before
    assert_as_naive(garden)


def test_a_title_that_left_is_in_no_summary_no_index_and_no_vector(garden: Garden) -> None:
    garden.document("notes", KEY, [f"Line {at}." for at in range(9)])
    chunk = chunks_of(garden, KEY)[0]
    anew(garden, chunk, title="Wistaria")
    garden.finish()
    find = "SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'wistaria'"
    assert garden.connection.value(find) > 1
    with garden.connection.write() as connection:
        connection.run("INSERT INTO mem_tree_signatures (signature) VALUES ('test:s@1')")
        connection.run(
            "INSERT INTO mem_tree_vectors (signature_id, node, windows) SELECT 1, -seq, x'01' FROM mem_tree_summaries"
        )
        connection.run("UPDATE mem_tree_summaries SET embedded_signature = 1")
    anew(garden, chunk, title="Juniper")
    garden.finish()
    assert garden.connection.value(find) == 0
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE title LIKE '%wistaria%'") == 0
    assert garden.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE embedded_signature IS NULL") > 0
    lost = "SELECT count(*) FROM mem_tree_vectors WHERE -node NOT IN (SELECT seq FROM mem_tree_summaries)"
    assert garden.connection.value(lost) == 0
    assert_as_naive(garden)


def test_a_tree_half_made_hears_of_a_title_too(connection: Connection, clock: FakeClock, paths: Paths) -> None:
    """What was made for a version that does not stand yet has no row that says whose parent it is."""
    garden = Garden(connection, clock, paths, Digest(calls_model=True))
    garden.document("notes", KEY, [body(at) for at in range(100)])
    for _ in range(4):
        garden.run(next(iter(garden.jobs.values())))
    made = numbers(garden)
    assert len(made) == 4
    anew(garden, chunks_of(garden, KEY)[0], title="Wistaria")
    garden.finish()
    assert_as_naive(garden)
    again = {one for one, number in numbers(garden).items() if made.get(one, number) != number}
    assert len(again) == 1


def test_a_text_made_from_an_older_one_is_not_stored(garden: Garden) -> None:
    """A seal reads its children, another makes one of them again, then the first settles."""
    chunks = [garden.mail("post", at) for at in range(300)]
    garden.finish()
    lower, upper = (NewJob.seal(POST, level) for level in (0, 1))
    for title in ("Wistaria", "Juniper"):
        anew(garden, chunks[140], title=title)
        garden.run_appends()
        garden.run(lower)
        if title == "Wistaria":
            plan = garden.plan(upper)
    assert not garden.settle(upper, plan)
    garden.finish()
    assert_as_naive(garden)


def test_a_summary_that_became_stale_is_not_adopted(garden: Garden) -> None:
    """Closing a tail for good takes its summary unread; meanwhile a title below it changes."""
    adopted = 0
    for at in range(235):
        garden.mail("post", at, f"Line {at}.", break_key=at // 7)
    garden.finish()
    for at in range(235, 290):
        garden.mail("post", at, f"Line {at}.", break_key=at // 7)
        garden.run_appends()
        close_all_tails(garden.connection, garden.clock.now_ms())
        garden.run(NewJob.seal(POST, 0))
        tree = find_tree(garden.connection, POST)
        assert tree is not None
        found = regroup(garden.connection, tree, 1, above_gap_ms=above_gap_ms(garden.context.intent))
        adopting = [one for one in found.wanted if one.adopt is not None]
        if adopting:
            adopted += 1
            seal = NewJob.seal(POST, 1)
            plan = garden.plan(seal)
            below = children_of(garden.connection, tree.tree_seq, 0, adopting[0].rows[0].node_id)
            anew(garden, below[0].node_id, title=f"Wistaria {at}")
            garden.run_appends()
            garden.run(NewJob.seal(POST, 0))
            garden.settle(seal, plan)
        garden.finish()
        assert not adopting or problems(garden.connection) == []
    assert adopted > 0
    assert_as_naive(garden)


def test_a_path_that_another_model_makes_again_hears_of_it_up_to_the_root(
    connection: Connection, clock: FakeClock, paths: Paths
) -> None:
    """One call a run: between two runs a new summary waits beside the one whose place it is to take."""
    garden = Garden(connection, clock, paths, Digest(calls_model=True), Digest())
    garden.document("notes", KEY, [body(at) for at in range(120)])
    garden.finish()
    above = height(garden, tree_id("document", "notes", KEY))
    assert above > 1
    garden.summariser = Digest("test:other@2", calls_model=True)
    anew(garden, chunks_of(garden, KEY)[50], title="Wistaria")
    garden.finish()
    assert len(garden.summariser.requests) == above
    assert problems(garden.connection) == []


def test_a_document_read_anew_meanwhile_makes_the_plan_stale(garden: Garden) -> None:
    """Better readers may find another title in the same version."""
    garden.document("notes", KEY, [body(at) for at in range(30)])
    (job,) = garden.jobs.values()
    plan = garden.plan(job)
    item = garden.connection.one("SELECT * FROM mem_tree_items")
    anew(garden, chunks_of(garden, KEY)[3], title="Wistaria", same_version=True)
    assert garden.connection.one("SELECT * FROM mem_tree_items") == item
    assert not garden.settle(job, plan)
    garden.finish()
    assert_as_naive(garden)


def test_two_seals_of_one_document_do_not_mix_what_they_made(garden: Garden) -> None:
    garden.document("notes", KEY, [body(at) for at in range(30)])
    (job,) = garden.jobs.values()
    first, second = garden.plan(job), garden.plan(job)
    assert garden.settle(job, first)
    assert not garden.settle(job, second)
    garden.finish()
    assert_as_naive(garden)


def test_forgetting_beside_it_uses_no_text_of_an_older_title(garden: Garden) -> None:
    shelf(garden)
    chunks = chunks_of(garden, KEY)
    with garden.connection.write():
        taken = take_out(garden.connection, {chunks[100]}, (), garden.clock.now_ms())
    anew(garden, chunks[3], title="Wistaria")
    garden.enqueue(*taken.jobs)
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("seed", range(4))
def test_titles_that_change_at_any_moment(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    garden.summariser = Wordy()
    fresh = iter(range(100_000))
    keys = [f"part{at % 3}/note{at:02d}.md" for at in range(14)]
    texts = {key: [body(next(fresh)) for _ in range(chance.choice([1, 3, 9, 30]))] for key in keys}
    mails = [garden.mail("post", at, break_key=at // 9) for at in range(60)]
    for key in keys:
        garden.document("notes", key, texts[key])
    for step in range(60):
        draw = chance.random()
        if draw < 0.35:
            anew(garden, chance.choice(mails), title="Mail " + "x" * chance.randrange(9))
        elif draw < 0.8:
            chunk = chance.choice(chunks_of(garden, chance.choice(keys)))
            anew(garden, chunk, title="Note " + "x" * chance.randrange(9), time_ms=chance.choice([None, T0]))
        else:
            key = chance.choice(keys)
            texts[key].insert(chance.randrange(len(texts[key]) + 1), body(next(fresh)))
            garden.document("notes", key, texts[key])
        if chance.random() < 0.4:
            garden.scramble(chance)
            assert problems(garden.connection) == []
        if step % 20 == 19:
            garden.finish()
            assert_as_naive(garden)
