"""A document's tree is that of its current version, and an edit makes one path of it again."""

from __future__ import annotations

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.ids import tree_id
from agent.paths import Paths
from agent.queue.types import NewJob, StalePlan
from agent.states import Lifecycle, SourceKind
from agent.tree.check import problems
from agent.tree.flush import unfinished
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Digest, Garden, body

KEY = "plans/garden.md"
DOCUMENT = tree_id("document", "notes", KEY)
FOLDER = tree_id("source", "notes")


def _root(garden: Garden, tree: str) -> tuple[str, str, int] | None:
    return garden.connection.one("SELECT root_id, root_kind, max_level FROM mem_tree_trees WHERE tree_id = ?", (tree,))  # type: ignore[return-value]


def test_an_edit_makes_one_path_again(garden: Garden) -> None:
    texts = [body(at) for at in range(200)]
    garden.document("notes", KEY, texts)
    garden.finish()
    found = _root(garden, DOCUMENT)
    assert found is not None
    depth = found[2]
    made = []
    for at in range(5, 195, 10):
        garden.summariser.requests.clear()
        texts[at] = body(1_000 + at)
        garden.document("notes", KEY, texts)
        garden.finish()
        made.append(len(garden.summariser.requests))
        assert_as_naive(garden)
    assert depth >= 2
    assert sum(made) / len(made) <= depth + 1
    assert min(made) == depth


def test_a_document_of_one_chunk_is_its_own_root(garden: Garden) -> None:
    garden.document("notes", KEY, [body(1)])
    garden.finish()
    chunk = garden.connection.value("SELECT chunk_id FROM mem_tree_chunks")
    assert _root(garden, DOCUMENT) == (chunk, "leaf", 0)
    assert _root(garden, FOLDER) == (chunk, "leaf", 0)
    garden.document("notes", KEY, [body(1), body(2)])
    garden.finish()
    found = _root(garden, FOLDER)
    assert found is not None
    assert found[1] == "summary"
    assert_as_naive(garden)
    garden.document("notes", KEY, [body(1)])
    garden.finish()
    assert _root(garden, FOLDER) == (chunk, "leaf", 0)
    assert_as_naive(garden)


def test_it_waits_until_no_chunk_is_pending(garden: Garden) -> None:
    garden.item("notes", KEY, SourceKind.DOCUMENT, KEY.encode())
    for at in range(5):
        state = Lifecycle.PENDING_EXTRACTION if at == 3 else Lifecycle.ADMITTED
        garden.chunk("notes", KEY, body(at), (at + 1) << 20, lifecycle=state)
    job = NewJob.seal_document(f"notes/{KEY}", None)
    garden.enqueue(job)
    garden.drain()
    assert garden.fingerprints() == set()
    assert DOCUMENT in unfinished(garden.connection)
    with garden.connection.write():
        garden.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'dropped' WHERE lifecycle = 'pending_extraction'")
    garden.enqueue(job)
    garden.finish()
    assert_as_naive(garden)
    states = garden.connection.all("SELECT lifecycle, count(*) FROM mem_tree_chunks GROUP BY lifecycle ORDER BY 1")
    assert states == [(Lifecycle.DROPPED, 1), (Lifecycle.SEALED, 4)]


def test_a_version_that_changes_meanwhile_makes_the_plan_stale(garden: Garden) -> None:
    garden.document("notes", KEY, [body(at) for at in range(8)])
    plan = garden.plan(NewJob.seal_document(f"notes/{KEY}", None))
    garden.document("notes", KEY, [body(at) for at in range(9)])
    assert plan.writes is not None
    with garden.connection.write() as settling, pytest.raises(StalePlan):
        plan.writes(settling)
    assert garden.fingerprints() == set()


def test_the_old_tree_stays_whole_until_the_new_one_is(connection: Connection, clock: FakeClock, paths: Paths) -> None:
    garden = Garden(connection, clock, paths, Digest("cloud:model@1", calls_model=True), Digest())
    texts = [body(at) for at in range(100)]
    garden.document("notes", KEY, texts)
    garden.finish()
    old = _root(garden, DOCUMENT)
    garden.document("notes", KEY, [*texts, *[body(at) for at in range(200, 300)]])
    runs = 0
    while garden.jobs:
        before = len(garden.summariser.requests)
        assert problems(garden.connection) == []
        garden.run(next(iter(garden.jobs.values())))
        runs += 1
        assert len(garden.summariser.requests) - before <= 1
        if any("seal_doc" in key for key in garden.jobs):
            assert _root(garden, DOCUMENT) == old
    assert runs > 5
    assert _root(garden, DOCUMENT) != old
    assert problems(garden.connection) == []


def test_what_the_shape_no_longer_holds_is_deleted_words_and_all(garden: Garden) -> None:
    garden.document("notes", KEY, [f"Wistaria {at} " * 40 for at in range(30)])
    garden.finish()
    assert garden.connection.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'level'") > 0
    garden.document("notes", KEY, [])
    garden.finish()
    assert garden.fingerprints() == set()
    assert garden.connection.value("SELECT count(*) FROM mem_tree_edges") == 0
    assert garden.connection.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'level'") == 0
    assert unfinished(garden.connection) == []


def test_sealing_again_changes_nothing(garden: Garden) -> None:
    garden.document("notes", KEY, [body(at) for at in range(60)])
    garden.finish()
    before = garden.connection.all("SELECT * FROM mem_tree_edges")
    changes = garden.connection.raw.total_changes()
    garden.run(NewJob.seal_document(f"notes/{KEY}", None))
    assert garden.jobs == {}
    assert garden.connection.all("SELECT * FROM mem_tree_edges") == before
    # The tree's row, the item's row: nothing else was touched.
    assert garden.connection.raw.total_changes() - changes <= 3


def test_an_edit_rewrites_few_rows(garden: Garden) -> None:
    texts = [body(at) for at in range(300)]
    garden.document("notes", KEY, texts)
    garden.finish()
    texts[150] = body(9_999)
    garden.document("notes", KEY, texts)
    changes = garden.connection.raw.total_changes()
    garden.finish()
    assert garden.connection.raw.total_changes() - changes < 250


def test_a_job_for_a_document_that_is_gone_does_nothing(garden: Garden) -> None:
    garden.run(NewJob.seal_document("notes/never.md", 3))
    assert garden.connection.value("SELECT count(*) FROM mem_tree_trees") == 0


def test_edits_of_a_document_move_no_boundary_of_its_folder(garden: Garden) -> None:
    for at in range(60):
        garden.document("notes", f"n{at:02d}.md", [body(at * 10 + n) for n in range(5)])
    garden.finish()
    sizes = [len(level) for level in garden.shape("notes")]
    garden.summariser.requests.clear()
    garden.document("notes", "n30.md", [body(at) for at in range(7_000, 7_009)])
    garden.finish()
    assert [len(level) for level in garden.shape("notes")] == sizes
    assert len([one for one in garden.summariser.requests if one.tree_kind == "source"]) == len(sizes) - 1
    assert_as_naive(garden)


def test_a_document_that_closed_a_folder_alone_keeps_its_tree_when_others_come_behind_it(garden: Garden) -> None:
    """Its root stood alone in its group and went up a level as itself; the next document ends that."""
    alone = 0
    for number in range(24):
        garden.document("notes", f"note-{number:02d}.md", [body(number * 10 + at) for at in range(6)])
        garden.finish()
        assert_as_naive(garden)
        alone += (
            garden.connection.one(
                """
            SELECT 1
              FROM mem_tree_edges AS e
              JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
             WHERE t.kind = 'source' AND e.level = 0 AND e.node_kind = 'summary' AND e.parent_id = e.node_id
            """
            )
            is not None
        )
    assert alone > 0
