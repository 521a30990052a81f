"""Naming what is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.actions.home import Home, open_home
from agent.actions.sources import add, sources, sync
from agent.config import load_intent
from agent.errors import UsageFault
from agent.ingest.survey import Survey
from agent.ledger import read_ledger
from agent.paths import Paths
from agent.queue.types import NewJob
from agent.states import Answer

MAIL = b"From a@example.org Sat Jan  3 01:05:34 2026\nFrom: a@example.org\nSubject: one\n\nbody\n\n"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "My Notes"
    folder.mkdir()
    (folder / "one.md").write_text("# One\n\nSome words.\n")
    (folder / "two.txt").write_text("Other words.\n")
    return folder


def queued(home: Home) -> list[str]:
    return [row[0] for row in home.connection.all("SELECT dedupe_key FROM mem_tree_jobs ORDER BY id")]


def test_added_source_stands_in_the_intent_and_is_looked_at(home: Home, paths: Paths, notes: Path) -> None:
    found = add(home, [str(notes)], private=True, exclude=["*.bak"])
    assert (found.source_id, found.kind, found.items) == ("my-notes", "folder", 2)
    held = load_intent(paths).intent.sources[0]
    assert (held.id, held.kind, held.name, held.paths) == ("my-notes", "folder", "My Notes", (str(notes),))
    assert held.private
    assert held.exclude == ("*.bak",)
    assert queued(home) == ["sync:my-notes"]


def test_a_source_always_has_a_name_that_can_be_read(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # A whole disk is not counted for this.
    monkeypatch.setattr("agent.ingest.survey.survey", lambda *_args, **_more: Survey("folder", 0, ()))
    added = add(home, ["/"], kind="folder")
    assert added.name == added.paths[0]


def test_kind_is_found_out(home: Home, tmp_path: Path, notes: Path) -> None:
    box = tmp_path / "box.mbox"
    box.write_bytes(b"".join(MAIL.replace(b"body", b"body %d" % n) for n in range(3)))
    assert add(home, [str(notes)]).kind == "folder"
    found = add(home, [str(box)])
    assert (found.kind, found.items, found.source_id) == ("mbox", 3, "box")


def test_kind_that_is_not_built_yet_is_said_to_be_so(home: Home, notes: Path) -> None:
    for kind in ("maildir", "whatsapp", "git"):
        with pytest.raises(UsageFault) as caught:
            add(home, [str(notes)], kind=kind)
        assert kind in str(caught.value)
    assert queued(home) == []
    assert load_intent(home.paths).intent.sources == ()


def test_missing_path_is_refused(home: Home, tmp_path: Path) -> None:
    with pytest.raises(UsageFault, match="nothing at this path"):
        add(home, [str(tmp_path / "nowhere")])


def test_the_same_path_is_not_named_twice(home: Home, paths: Paths, notes: Path) -> None:
    with pytest.raises(UsageFault, match="twice"):
        add(home, [str(notes), f"{notes}/"])
    add(home, [str(notes)])
    with open_home(paths) as later, pytest.raises(UsageFault, match="already"):
        add(later, [f"{notes}/."])


def test_paths_of_different_kinds_are_not_one_source(home: Home, tmp_path: Path, notes: Path) -> None:
    box = tmp_path / "box.mbox"
    box.write_bytes(MAIL)
    with pytest.raises(UsageFault, match="different kinds"):
        add(home, [str(notes), str(box)])


def test_names_alike_get_ids_of_their_own(paths: Paths, tmp_path: Path) -> None:
    found = []
    for parent in ("a", "b", "c"):
        folder = tmp_path / parent / "Notes"
        folder.mkdir(parents=True)
        with open_home(paths) as home:
            found.append(add(home, [str(folder)]).source_id)
    assert found == ["notes", "notes-2", "notes-3"]
    (tmp_path / "d").mkdir()
    with open_home(paths) as home, pytest.raises(UsageFault, match="exists"):
        add(home, [str(tmp_path / "d")], name="Notes")


def test_sync_queues_each_source_once(paths: Paths, notes: Path, tmp_path: Path) -> None:
    with open_home(paths) as home:
        add(home, [str(notes)])
    with open_home(paths) as home:
        assert sync(home).queued == ("my-notes",)
        assert sync(home, "My Notes").queued == ("my-notes",)
        assert queued(home) == ["sync:my-notes"]
        with pytest.raises(UsageFault, match="no source"):
            sync(home, "other")


def test_sources_tell_what_could_not_be_read(paths: Paths, notes: Path) -> None:
    with open_home(paths) as home:
        add(home, [str(notes)])
    with open_home(paths) as home:
        row = sources(home).sources[0]
        assert (row.items, row.chunks, row.unreadable, row.last_sync_ms) == (0, 0, (), None)
        with home.connection.write():
            home.connection.many(
                """
                INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state, reason)
                VALUES ('my-notes', ?, 'document', '{}', x'00', ?, ?)
                """,
                [("one.md", "current", None), ("two.txt", "unreadable", "it is locked"), ("old.md", "gone", None)],
            )
        row = sources(home).sources[0]
        assert row.items == 2
        assert [(each.item, each.reason) for each in row.unreadable] == [("two.txt", "it is locked")]


def test_an_empty_path_is_not_the_folder_that_one_is_in(home: Home) -> None:
    for path in ("", "  "):
        with pytest.raises(UsageFault, match="empty"):
            add(home, [path])
    assert queued(home) == []


def test_an_item_whose_reading_is_parked_does_not_wait_but_is_listed(home: Home, notes: Path) -> None:
    source = add(home, [str(notes)]).source_id
    for key in ("parked.md", "late.md"):
        home.connection.run(
            "INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state)"
            " VALUES (?, ?, 'document', '{}', ?, 'queued')",
            (source, key, key.encode()),
        )
        home.enqueue(NewJob.ingest_file(source, key))
    home.connection.run(
        "UPDATE mem_tree_jobs SET status = 'failed', failure_reason = 'crash_loop' WHERE dedupe_key LIKE '%:parked.md'"
    )
    with open_home() as again:
        (row,) = sources(again).sources
    assert (row.waiting, [each.item for each in row.unreadable]) == (1, ["parked.md"])
    assert "sapwood retry" in row.unreadable[0].reason


def test_a_source_inside_or_around_another_is_told(paths: Paths, tmp_path: Path, notes: Path) -> None:
    inner, apart = notes / "inner", tmp_path / "My Notes too"
    for folder in (inner, apart):
        folder.mkdir()
        (folder / "three.md").write_text("More words.\n")
    told = []
    for path in (notes, inner, apart, tmp_path):
        with open_home(paths) as home:
            told.append(add(home, [str(path)]).overlaps)
    assert told == [(), ("my-notes",), (), ("my-notes", "inner", "my-notes-too")]


def ask(home: Home, source_id: str, question_id: str) -> None:
    home.connection.run(
        'INSERT INTO mem_tree_questions VALUES (?, ?, 7, 10, \'["a.md","b.md"]\', 1000)', (source_id, question_id)
    )


def test_the_rules_of_a_source_stand_in_the_intent_and_in_the_list(paths: Paths, notes: Path) -> None:
    with open_home(paths) as home:
        add(home, [str(notes)], include=["*.md"], exclude=["*.bak"], hidden=True)
    with open_home(paths) as home:
        held = home.intent.sources[0]
        assert (held.include, held.exclude, held.hidden) == (("*.md",), ("*.bak",), True)
        row = sources(home).sources[0]
        assert (row.include, row.exclude, row.masked, row.question) == (("*.md",), ("*.bak",), 0, None)


def test_counting_says_how_far_it_is(home: Home, tmp_path: Path) -> None:
    box = tmp_path / "box.mbox"
    box.write_bytes(b"".join(MAIL.replace(b"one", b"number %d" % n) for n in range(350)))
    told: list[int] = []
    assert add(home, [str(box)], counted=told.append).items == 350
    assert told == [100, 200, 300]


def test_masked_secrets_are_counted_per_source(paths: Paths, notes: Path) -> None:
    with open_home(paths) as home:
        add(home, [str(notes)])
    with open_home(paths) as home:
        home.connection.many(
            """
            INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state, masked)
            VALUES ('my-notes', ?, 'document', '{}', x'00', ?, ?)
            """,
            [("one.md", "current", 2), ("two.txt", "found", 3)],
        )
        assert sources(home).sources[0].masked == 5


def test_an_answer_stands_in_the_ledger_before_the_look_is_asked_for(paths: Paths, notes: Path) -> None:
    with open_home(paths) as home:
        add(home, [str(notes)])
    with open_home(paths) as home:
        home.connection.run("DELETE FROM mem_tree_jobs")
        ask(home, "my-notes", "q1")
        asked = sources(home).sources[0].question
        assert asked is not None
        assert (asked.question_id, asked.gone, asked.held, asked.examples) == ("q1", 7, 10, ("a.md", "b.md"))
        found = sync(home, answer=Answer.REFUSE)
        assert (found.queued, found.answer) == (("my-notes",), Answer.REFUSE)
        assert read_ledger(paths).answers == {"q1": Answer.REFUSE}
        assert queued(home) == ["sync:my-notes"]
        # It waits for the look, and is no question any more.
        assert sources(home).sources[0].question is None
        with pytest.raises(UsageFault, match="no question"):
            sync(home, answer=Answer.ACCEPT)


def test_an_answer_that_cannot_be_written_asks_for_no_look(
    paths: Paths, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agent.actions.sources as module

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_home(paths) as home:
        add(home, [str(notes)])
    with open_home(paths) as home:
        home.connection.run("DELETE FROM mem_tree_jobs")
        ask(home, "my-notes", "q1")
        monkeypatch.setattr(module, "append_answer", full)
        with pytest.raises(OSError, match="No space"):
            sync(home, answer=Answer.ACCEPT)
        assert queued(home) == []


def test_of_several_questions_the_source_has_to_be_named(paths: Paths, notes: Path, tmp_path: Path) -> None:
    other = tmp_path / "Other"
    other.mkdir()
    for path in (notes, other):
        with open_home(paths) as home:
            add(home, [str(path)])
    with open_home(paths) as home:
        with pytest.raises(UsageFault, match="no question"):
            sync(home, "other", answer=Answer.ACCEPT)
        ask(home, "my-notes", "q1")
        ask(home, "other", "q2")
        with pytest.raises(UsageFault) as caught:
            sync(home, answer=Answer.ACCEPT)
        assert "my-notes, other" in str(caught.value)
        assert sync(home, "Other", answer=Answer.ACCEPT).queued == ("other",)
        assert read_ledger(paths).answers == {"q2": Answer.ACCEPT}
        assert sync(home, answer=Answer.REFUSE).queued == ("my-notes",)
