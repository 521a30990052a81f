"""A source that loses more than half at once is held back until its owner has answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agent.actions.home import Home
from agent.actions.sources import sync
from agent.db import Database
from agent.errors import UsageFault
from agent.ingest.holdback import Question, open_questions
from agent.ingest.sync import plan_sync
from agent.ingest.unread import list_unreadable
from agent.ledger import append_answer, read_ledger
from agent.paths import Paths
from agent.queue.types import StalePlan, SyncSourcePayload
from agent.states import Answer
from tests.ingest.conftest import Grown, Memory, paragraphs

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"


def mailbox(mails: list[bytes]) -> bytes:
    return b"".join(SEPARATOR + mail + b"\n" for mail in mails)


def question(memory: Memory, source_id: str = "notes") -> Question | None:
    """Return what is asked about a source and was not answered."""
    found = open_questions(memory.connection).get(source_id)
    return None if found is None or found.question_id in read_ledger(memory.context.paths).answers else found


def answer(memory: Memory, word: Answer, source_id: str = "notes") -> None:
    asked = question(memory, source_id)
    assert asked is not None
    append_answer(memory.context.paths, 1, asked.question_id, word, source_id)


def notes(memory: Memory, count: int = 10) -> None:
    for number in range(count):
        memory.write(f"{number:02d}.md", f"# Note {number}\n\n" + "\n\n".join(paragraphs(2, seed=number)))
    memory.add("notes", "folder", memory.folder)


def lose(memory: Memory, *numbers: int) -> dict[Path, bytes]:
    lost = {path: path.read_bytes() for number in numbers if (path := memory.folder / f"{number:02d}.md")}
    for path in lost:
        path.unlink()
    return lost


def test_more_than_half_gone_at_once_is_held_back_and_asked(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    before = memory.chunks()
    lose(memory, *range(7))
    memory.sync()
    asked = question(memory)
    assert asked is not None
    assert (asked.gone, asked.held) == (7, 10)
    assert asked.examples == ("00.md", "01.md", "02.md", "03.md", "04.md")
    assert memory.chunks() == before
    assert set(memory.items().values()) == {"current"}
    memory.context.clock.advance(60)  # type: ignore[attr-defined]
    memory.sync()
    assert question(memory) == asked


def test_half_gone_leaves_without_a_question(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lose(memory, *range(5))
    memory.sync()
    assert question(memory) is None
    assert len(memory.items()) == 5


def test_accepted_loss_leaves_and_is_not_asked_about_again(grown: Grown) -> None:
    notes(grown)
    grown.grow()
    lose(grown, *range(7))
    grown.grow()
    answer(grown, Answer.ACCEPT)
    grown.grow()
    assert sorted(grown.items()) == ["07.md", "08.md", "09.md"]
    assert question(grown) is None
    grown.grow()
    assert question(grown) is None


def test_refused_loss_is_kept_told_and_not_asked_about_again(grown: Grown) -> None:
    notes(grown)
    grown.grow()
    lose(grown, *range(7))
    grown.grow()
    answer(grown, Answer.REFUSE)
    for _ in range(2):
        grown.grow()
        assert question(grown) is None
        assert set(grown.items().values()) == {"current"}
        assert len(grown.items()) == 10
        told = grown.connection.value("SELECT last_error FROM mem_tree_sources")
        assert told.startswith("7 of 10 items are no longer there; they are kept, as you answered")
        assert "`sapwood sync notes --accept`" in told
    # One more is another loss, and so another question.
    lose(grown, 7)
    grown.grow()
    asked = question(grown)
    assert asked is not None
    assert asked.gone == 8


def test_a_folder_that_looks_like_a_cache_by_now_is_asked_about(memory: Memory) -> None:
    for number in range(9):
        memory.write(f"work/{number}.md", f"Note {number} about the orchard.")
    memory.write("other.md", "One more.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    mark = memory.write("work/CACHEDIR.TAG", "")
    memory.sync()
    asked = question(memory)
    assert asked is not None
    assert (asked.gone, len(memory.chunks())) == (9, 10)
    mark.unlink()
    memory.sync()
    assert question(memory) is None
    memory.write("work/CACHEDIR.TAG", "")
    memory.sync()
    answer(memory, Answer.ACCEPT)
    memory.sync()
    assert list(memory.items()) == ["other.md"]


@pytest.mark.parametrize("rule", ["ignore file", "ignore file above", "exclude", "include"])
def test_what_the_owner_leaves_out_is_no_question(memory: Memory, rule: str) -> None:
    for number in range(9):
        memory.write(f"work/deep/{number}.md", f"Note {number} about the orchard.")
    memory.write("other.md", "One more.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    match rule:
        case "ignore file":
            memory.write("work/deep/.sapwoodignore", "*.md\n")
        case "ignore file above":
            memory.write(".sapwoodignore", "work/\n")
        case "exclude":
            memory.add("notes", "folder", memory.folder, exclude=("deep/",))
        case _:
            memory.add("notes", "folder", memory.folder, include=("other*",))
    memory.sync()
    assert question(memory) is None
    assert list(memory.items()) == ["other.md"]


@pytest.mark.parametrize("kind", ["folder", "mbox"])
def test_a_refusal_can_be_thought_over(grown: Grown, kind: str, mail_bytes: Callable[..., bytes], paths: Paths) -> None:
    if kind == "folder":
        notes(grown)
        grown.grow()
        lose(grown, *range(7))
    else:
        mails = [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(10)]
        box = grown.write("a.mbox", mailbox(mails))
        grown.add("notes", "mbox", box)
        grown.grow()
        box.write_bytes(mailbox(mails[7:]))
    grown.grow()
    home = Home(paths, grown.context.intent, None, Database(paths.database), grown.context.clock)
    sync(home, "notes", answer=Answer.REFUSE)
    grown.grow()
    assert len(grown.items()) == 10
    sync(home, "notes", answer=Answer.ACCEPT)
    grown.grow()
    assert len(grown.items()) == 3
    with pytest.raises(UsageFault, match="no question"):
        sync(home, "notes", answer=Answer.ACCEPT)
    home.database.close()


def test_a_loss_that_comes_back_takes_its_question_with_it(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lost = lose(memory, *range(7))
    memory.sync()
    assert question(memory) is not None
    for path, data in lost.items():
        path.write_bytes(data)
    assert memory.sync() == 0
    assert question(memory) is None
    assert set(memory.items().values()) == {"current"}


@pytest.mark.parametrize("word", list(Answer))
def test_an_answer_is_about_one_loss_and_not_about_the_same_disk_missing_later(memory: Memory, word: Answer) -> None:
    notes(memory)
    memory.sync()
    lost = lose(memory, *range(7))
    memory.sync()
    answer(memory, word)
    memory.sync()
    assert len(memory.items()) == (3 if word is Answer.ACCEPT else 10)
    for path, data in lost.items():
        path.write_bytes(data)
    memory.sync()
    assert set(memory.items().values()) == {"current"}
    assert len(memory.items()) == 10
    lose(memory, *range(7))
    memory.sync()
    assert question(memory) is not None
    assert len(memory.items()) == 10
    assert memory.connection.value("SELECT last_error FROM mem_tree_sources") is None


def test_another_loss_is_another_question(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lose(memory, *range(7))
    memory.sync()
    answer(memory, Answer.ACCEPT)
    lose(memory, 8)
    memory.sync()
    asked = question(memory)
    assert asked is not None
    assert asked.gone == 8
    assert len(memory.items()) == 10


def test_what_is_new_is_read_while_a_question_is_open(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lose(memory, *range(7))
    memory.write("new.md", "Something new.")
    memory.write("08.md", "Something else.")
    assert memory.sync() == 2
    assert question(memory) is not None
    assert memory.chunks("notes", "08.md")[0]["text"] == "Something else."


def test_a_mailbox_that_shrank_is_asked_about_and_the_answer_finds_the_loss(
    grown: Grown, mail_bytes: Callable[..., bytes]
) -> None:
    mails = [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(30)]
    path = grown.write("a.mbox", mailbox(mails))
    grown.add("mail", "mbox", path)
    grown.grow()
    path.write_bytes(mailbox(mails[:4]))
    grown.grow()
    asked = question(grown, "mail")
    assert asked is not None
    assert (asked.gone, asked.held) == (26, 30)
    assert len(grown.items()) == 30
    answer(grown, Answer.ACCEPT, "mail")
    grown.grow()
    assert len(grown.items()) == 4
    assert question(grown, "mail") is None


def test_a_mailbox_whose_loss_was_refused_is_not_read_at_each_look(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    mails = [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(12)]
    path = memory.write("a.mbox", mailbox(mails))
    memory.add("mail", "mbox", path)
    memory.sync()
    path.write_bytes(mailbox(mails[:2]))
    memory.sync()
    assert memory.connection.value("SELECT size FROM mem_tree_files") == -1
    answer(memory, Answer.REFUSE, "mail")
    memory.sync()
    assert memory.connection.value("SELECT size FROM mem_tree_files") == path.stat().st_size
    memory.write("a.mbox", mailbox([*mails[:2], mail_bytes(77, "One that came later.")]))
    memory.sync()
    assert len(memory.items()) == 13
    assert set(memory.items().values()) == {"current"}
    assert question(memory, "mail") is None


def test_mails_whose_headers_a_program_rewrote_are_no_loss(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    path = memory.write("a.mbox", mailbox([mail_bytes(number) for number in range(12)]))
    memory.add("mail", "mbox", path)
    memory.sync()
    path.write_bytes(mailbox([mail_bytes(number, X_Status="read") for number in range(12)]))
    memory.sync()
    assert question(memory, "mail") is None
    assert set(memory.items().values()) == {"current"}


def test_paths_that_the_owner_shut_out_leave_without_a_question(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    memory.add("notes", "folder", memory.folder, exclude=("0*",))
    memory.sync()
    assert question(memory) is None
    assert memory.items() == {}
    memory.add("notes", "folder", memory.folder)
    assert memory.sync() == 10


def test_a_file_that_was_shut_out_and_edited_leaves_too(memory: Memory) -> None:
    notes(memory, 4)
    memory.sync()
    memory.add("notes", "folder", memory.folder, exclude=("02.md",))
    memory.write("02.md", "Edited after it was shut out.")
    memory.sync()
    memory.sync()
    assert "02.md" not in memory.items()


def test_what_came_back_before_the_writing_makes_the_plan_stale(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lost = lose(memory, 3)
    plan = plan_sync(memory.context, SyncSourcePayload("notes"))
    for path, data in lost.items():
        path.write_bytes(data)
    assert plan.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        plan.writes(memory.connection)
    assert memory.sync() == 0


def test_a_disk_that_goes_away_after_the_look_makes_the_plan_stale(memory: Memory) -> None:
    notes(memory)
    memory.sync()
    lose(memory, 3)
    plan = plan_sync(memory.context, SyncSourcePayload("notes"))
    away = memory.folder.rename(memory.folder.with_name("away"))
    assert plan.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        plan.writes(memory.connection)
    away.rename(memory.folder)
    memory.sync()
    assert len(memory.items()) == 9


def test_the_only_note_gone_is_everything_and_is_asked_about(memory: Memory) -> None:
    notes(memory, 1)
    memory.sync()
    lose(memory, 0)
    memory.sync()
    asked = question(memory)
    assert asked is not None
    assert (asked.gone, asked.held) == (1, 1)


def test_most_files_gone_are_asked_about_however_few_mails_they_held(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    for number in range(8):
        memory.write(f"box/{number}.mbox", mailbox([mail_bytes(number)]))
    memory.write("box/large.mbox", mailbox([mail_bytes(number) for number in range(8, 58)]))
    memory.add("mail", "mbox", memory.folder / "box")
    memory.sync()
    for number in range(5):
        (memory.folder / f"box/{number}.mbox").unlink()
    memory.sync()
    asked = question(memory, "mail")
    assert asked is not None
    assert (asked.gone, asked.held) == (5, 58)


def test_mails_that_lie_in_other_files_by_now_are_no_loss(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    for number in range(9):
        memory.write(f"new/{number}.eml", mail_bytes(number))
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    ids = [chunk["chunk_id"] for chunk in memory.chunks()]
    (memory.folder / "new").rename(memory.folder / "cur")
    assert memory.sync() == 0
    assert question(memory, "mail") is None
    assert [chunk["chunk_id"] for chunk in memory.chunks()] == ids
    assert {chunk["locator"]["path"].split("/")[0] for chunk in memory.chunks()} == {"cur"}


def test_a_broken_rule_that_was_mended_is_not_listed_any_more(memory: Memory) -> None:
    notes(memory, 3)
    memory.write(".sapwoodignore", "drafts/\n!\n")
    memory.sync()
    assert [each.path for each in list_unreadable(memory.connection, "notes")] == [".sapwoodignore"]
    memory.write(".sapwoodignore", "drafts/\n")
    memory.sync()
    assert list_unreadable(memory.connection, "notes") == []
