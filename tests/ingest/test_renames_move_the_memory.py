"""A renamed document is the same document: its memory moves along and costs nothing again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ingest import moves
from agent.ingest.holdback import open_questions
from agent.ingest.pipeline import plan_ingest
from agent.ingest.readers.protocol import Part
from agent.ingest.sync import plan_sync
from agent.queue.enqueue import enqueue
from agent.queue.registry import Registry
from agent.queue.run import run_due
from agent.queue.types import IngestFilePayload, NewJob, StalePlan, SyncSourcePayload
from agent.worker.kinds import KIND_NAMES
from tests.ingest.conftest import Grown, Memory, paragraphs

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"


def note(number: int, size: int = 4) -> str:
    return f"# Note {number}\n\n" + "\n\n".join(paragraphs(size, seed=number))


def garden(grown: Grown, *names: str) -> None:
    for number, name in enumerate(names):
        grown.write(name, note(number))
    grown.add("notes", "folder", grown.folder)
    grown.grow()


class Cost:
    """What was made anew since it was begun: chunks by their rows, extractions and summaries by rows and jobs."""

    def __init__(self, memory: Grown) -> None:
        self._memory = memory
        self._job = memory.connection.value("SELECT coalesce(max(id), 0) FROM mem_tree_jobs")
        self._chunk = memory.connection.value("SELECT coalesce(max(seq), 0) FROM mem_tree_chunks")
        self._vectors = self._chunk_vectors()

    def _chunk_vectors(self) -> dict[int, bytes]:
        return dict(self._memory.connection.all("SELECT node, windows FROM mem_tree_vectors WHERE node > 0"))

    @property
    def extractions(self) -> int:
        return self._memory.count("mem_tree_jobs", f"kind = 'extract_chunk' AND id > {self._job}")

    @property
    def new_chunks(self) -> int:
        return self._memory.count("mem_tree_chunks", f"seq > {self._chunk}")

    @property
    def embeddings(self) -> int:
        """Vectors of chunks that were not there before, or are others."""
        return sum(self._vectors.get(node) != windows for node, windows in self._chunk_vectors().items())

    def assert_nothing(self) -> None:
        assert (self.new_chunks, self.extractions, self.embeddings) == (0, 0, 0)


def test_a_rename_costs_no_embedding_and_no_extraction(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md", "d.md")
    # As a model's answer about one of its chunks is kept.
    first = grown.chunks("notes", "b.md")[0]["chunk_id"]
    grown.connection.run("INSERT INTO mem_tree_results VALUES ('extract', 't', 's', 'i', ?, '{}', 1)", (first,))
    entities = grown.connection.all("SELECT * FROM mem_tree_entity_index ORDER BY 1, 2, 3")
    cost = Cost(grown)
    (grown.folder / "b.md").rename(grown.folder / "z.md")
    grown.grow()
    cost.assert_nothing()
    assert list(grown.items()) == ["a.md", "c.md", "d.md", "z.md"]
    assert {chunk["locator"]["path"] for chunk in grown.chunks("notes", "z.md")} == {"z.md"}
    moved = grown.chunks("notes", "z.md")[0]["chunk_id"]
    assert grown.connection.all("SELECT node_id FROM mem_tree_results WHERE task = 'extract'") == [(moved,)]
    assert grown.connection.all("SELECT * FROM mem_tree_entity_index ORDER BY 1, 2, 3") == entities
    assert grown.count("mem_tree_files", "path = 'b.md'") == 0
    assert grown.count("mem_tree_trees", "item_key = 'b.md'") == 0


def test_a_renamed_folder_of_many_files_moves_whole_and_is_no_loss(grown: Grown) -> None:
    for number in range(120):
        grown.write(
            f"old/{number:03d}.md", f"# Note {number}\n\nIt is about the number {number}, and about nothing else."
        )
    grown.write("other.md", note(1))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    cost = Cost(grown)
    (grown.folder / "old").rename(grown.folder / "new")
    grown.grow()
    cost.assert_nothing()
    assert open_questions(grown.connection) == {}
    assert len(grown.items()) == 121
    assert sum(key.startswith("new/") for key in grown.items()) == 120


def test_a_rename_with_an_edit_is_a_new_document(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    (grown.folder / "b.md").rename(grown.folder / "z.md")
    grown.write("z.md", note(1) + "\n\nAnd one more paragraph that stands at the end.")
    grown.grow()
    assert list(grown.items()) == ["a.md", "c.md", "z.md"]


def test_of_two_files_of_equal_content_the_one_that_is_gone_moved(grown: Grown) -> None:
    for name in ("a.md", "b.md"):
        grown.write(name, note(7))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    seqs = dict(grown.connection.all("SELECT item_key, item_seq FROM mem_tree_items"))
    cost = Cost(grown)
    (grown.folder / "b.md").rename(grown.folder / "c.md")
    grown.grow()
    cost.assert_nothing()
    assert dict(grown.connection.all("SELECT item_key, item_seq FROM mem_tree_items")) == {
        "a.md": seqs["a.md"],
        "c.md": seqs["b.md"],
    }


def test_equal_files_of_a_renamed_folder_keep_their_names(grown: Grown) -> None:
    for name in ("x/a.md", "x/b.md", "y.md"):
        grown.write(name, note(7))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    seqs = dict(grown.connection.all("SELECT item_key, item_seq FROM mem_tree_items"))
    (grown.folder / "x").rename(grown.folder / "w")
    grown.grow()
    found = dict(grown.connection.all("SELECT item_key, item_seq FROM mem_tree_items"))
    assert found == {"w/a.md": seqs["x/a.md"], "w/b.md": seqs["x/b.md"], "y.md": seqs["y.md"]}


def test_a_copy_is_a_second_document(grown: Grown) -> None:
    garden(grown, "a.md", "b.md")
    grown.write("copy.md", note(0))
    os.utime(grown.folder / "a.md", (1, 1))
    grown.grow()
    assert list(grown.items()) == ["a.md", "b.md", "copy.md"]
    assert len(grown.chunks("notes", "a.md")) == len(grown.chunks("notes", "copy.md")) > 0


def test_two_files_that_swap_their_names_swap_their_memory(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    cost = Cost(grown)
    a, b, aside = (grown.folder / name for name in ("a.md", "b.md", "aside"))
    a.rename(aside)
    b.rename(a)
    aside.rename(b)
    grown.grow()
    cost.assert_nothing()
    assert "Note 1" in grown.chunks("notes", "a.md")[0]["text"]
    assert "Note 0" in grown.chunks("notes", "b.md")[0]["text"]


def test_three_files_that_change_places_in_a_circle(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    cost = Cost(grown)
    texts = {name: (grown.folder / name).read_bytes() for name in ("a.md", "b.md", "c.md")}
    for name, other in (("a.md", "b.md"), ("b.md", "c.md"), ("c.md", "a.md")):
        (grown.folder / name).write_bytes(texts[other])
    grown.grow()
    cost.assert_nothing()
    assert [chunk["text"][:8] for key in "abc" for chunk in grown.chunks("notes", f"{key}.md")[:1]] == [
        "# Note 1",
        "# Note 2",
        "# Note 0",
    ]


def test_a_rename_over_another_file_replaces_its_memory(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    cost = Cost(grown)
    (grown.folder / "a.md").replace(grown.folder / "b.md")
    grown.grow()
    cost.assert_nothing()
    assert list(grown.items()) == ["b.md", "c.md"]
    assert "Note 0" in grown.chunks("notes", "b.md")[0]["text"]
    assert not any("Note 1" in chunk["text"] for chunk in grown.chunks())


@pytest.mark.parametrize("new", ["A.md", "Folder/a.md"])
def test_a_rename_of_case_alone_is_a_rename(grown: Grown, new: str) -> None:
    old = "a.md" if new == "A.md" else "folder/a.md"
    garden(grown, old, "c.md")
    cost = Cost(grown)
    if "/" in new:
        (grown.folder / "folder").rename(grown.folder / "Folder")
    else:
        (grown.folder / old).rename(grown.folder / new)
    grown.grow()
    cost.assert_nothing()
    assert sorted(grown.items()) == sorted([new, "c.md"])


def test_a_disk_that_tells_no_case_apart_is_seen_through(grown: Grown, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the old spelling still leads to the file; only the listing tells."""
    garden(grown, "a.md", "c.md")
    cost = Cost(grown)
    (grown.folder / "a.md").rename(grown.folder / "A.md")
    lower, upper = str(grown.folder / "a.md"), str(grown.folder / "A.md")
    lstat, samefile = os.lstat, os.path.samefile
    monkeypatch.setattr(moves.os, "lstat", lambda path: lstat(upper if path == lower else path))
    monkeypatch.setattr(
        moves.os.path, "samefile", lambda one, two: samefile(*(upper if each == lower else each for each in (one, two)))
    )
    grown.grow()
    cost.assert_nothing()
    assert sorted(grown.items()) == ["A.md", "c.md"]


def test_a_rename_whose_title_was_its_name_is_read_anew(grown: Grown) -> None:
    grown.write("first name.md", "\n\n".join(paragraphs(2)))
    grown.write("other.md", note(3))
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    (grown.folder / "first name.md").rename(grown.folder / "second name.md")
    grown.grow()
    assert {chunk["title"] for chunk in grown.chunks("notes", "second name.md")} == {"second name"}


def test_a_reading_that_was_planned_before_a_rename_is_not_stored_under_the_old_name(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    grown.connection.run("UPDATE mem_tree_items SET state = 'queued' WHERE item_key = 'b.md'")
    reading = plan_ingest(grown.context, IngestFilePayload("notes", "b.md"))
    (grown.folder / "b.md").rename(grown.folder / "z.md")
    look = plan_sync(grown.context, SyncSourcePayload("notes"))
    assert look.writes is not None
    assert reading.writes is not None
    with grown.connection.write():
        look.writes(grown.connection)
    with pytest.raises(StalePlan), grown.connection.write():
        reading.writes(grown.connection)
    grown.connection.run("DELETE FROM mem_tree_jobs")
    grown.settle_down()
    assert list(grown.items()) == ["a.md", "c.md", "z.md"]


def test_a_pending_chunk_moves_with_its_document_and_is_extracted_under_its_new_id(memory: Memory) -> None:
    memory.write("a.md", note(1))
    memory.write("b.md", note(2))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    (memory.folder / "a.md").rename(memory.folder / "z.md")
    memory.sync()
    wanted = {f"extract:{chunk['chunk_id']}" for chunk in memory.chunks()}
    assert set(memory.jobs("extract_chunk")) == wanted


def test_many_renames_take_several_runs_and_lose_nothing(grown: Grown) -> None:
    garden(grown, *(f"old/{number:02d}.md" for number in range(24)))
    cost = Cost(grown)
    (grown.folder / "old").rename(grown.folder / "new")
    runs = 0
    while any(key.startswith("old/") for key in grown.items()):
        plan = plan_sync(grown.context, SyncSourcePayload("notes"), run_limit=5 * moves.COST)
        assert plan.writes is not None
        with grown.connection.write():
            plan.writes(grown.connection)
        runs += 1
        assert runs < 10
    assert runs == 5
    grown.grow()
    cost.assert_nothing()
    assert len(grown.items()) == 24


@pytest.mark.parametrize("lost_after", [1, 2, 4, 7])
def test_a_queue_lost_at_any_step_of_a_rename_ends_in_the_same_trees(grown: Grown, lost_after: int) -> None:
    garden(grown, *(f"old/{number}.md" for number in range(6)), "a.md")
    cost = Cost(grown)
    (grown.folder / "old").rename(grown.folder / "new")
    enqueue(grown.connection, NewJob.sync_source("notes"), grown.context.clock.now_ms())
    run_due(grown.connection, Registry.load(KIND_NAMES), grown.context, limit=lost_after)
    grown.connection.run("DELETE FROM mem_tree_jobs")
    grown.settle_down()
    cost.assert_nothing()
    assert len(grown.items()) == 7


def test_a_look_that_is_written_twice_moves_once(grown: Grown) -> None:
    garden(grown, "a.md", "b.md", "c.md")
    (grown.folder / "a.md").rename(grown.folder / "z.md")
    first, second = (plan_sync(grown.context, SyncSourcePayload("notes")) for _ in range(2))
    assert first.writes is not None
    assert second.writes is not None
    with grown.connection.write():
        first.writes(grown.connection)
    with pytest.raises(StalePlan), grown.connection.write():
        second.writes(grown.connection)
    grown.connection.run("DELETE FROM mem_tree_jobs")
    grown.settle_down()
    assert list(grown.items()) == ["b.md", "c.md", "z.md"]


def test_a_renamed_mailbox_keeps_its_mails_and_says_where_they_are(
    memory: Memory, mail_bytes: Callable[..., bytes], tmp_path: Path
) -> None:
    mails = b"".join(SEPARATOR + mail_bytes(number) + b"\n" for number in range(8))
    memory.write("box/a.mbox", mails)
    memory.add("mail", "mbox", memory.folder / "box")
    memory.sync()
    ids = [chunk["chunk_id"] for chunk in memory.chunks()]
    (memory.folder / "box/a.mbox").rename(memory.folder / "box/b.mbox")
    assert memory.sync() == 0
    assert [chunk["chunk_id"] for chunk in memory.chunks()] == ids
    assert {chunk["locator"]["path"] for chunk in memory.chunks()} == {"b.mbox"}
    assert open_questions(memory.connection) == {}


def test_equal_notes_are_each_looked_at_once_however_many_more_come(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        memory.write(f"day{number:02}.md", "# Day\n\nWhat went well today?")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    asked: list[str] = []
    holds_still = moves.Origins._holds_still

    def count(self: moves.Origins, place: str | None, old_key: str, part: Part) -> bool:
        asked.append(old_key)
        return holds_still(self, place, old_key, part)

    monkeypatch.setattr(moves.Origins, "_holds_still", count)
    for number in range(20):
        memory.write(f"night{number:02}.md", "# Day\n\nWhat went well today?")
    assert memory.sync() == 20
    assert sorted(asked) == [f"day{number:02}.md" for number in range(20)]
    # One that is renamed meanwhile is still found.
    (memory.folder / "day07.md").rename(memory.folder / "moved.md")
    memory.write("another.md", "# Day\n\nWhat went well today?")
    seq = memory.connection.value("SELECT item_seq FROM mem_tree_items WHERE item_key = 'day07.md'")
    memory.sync()
    held = memory.connection.value("SELECT item_key FROM mem_tree_items WHERE item_seq = ?", (seq,))
    assert held in ("moved.md", "another.md")
