"""The in-process entry point: written to the inbox before it is acknowledged, then read like any source."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.errors import UsageFault
from agent.ingest.push import ChatContent, ChatMessage, DocumentContent, EmailContent, push_item
from agent.ingest.unread import list_unreadable
from agent.paths import Paths
from tests.ingest.conftest import Memory

NOON = int(datetime(2024, 3, 5, 12, tzinfo=UTC).timestamp() * 1000)


def taken_in(memory: Memory, *contents: object, source: str = "pushed") -> None:
    for content in contents:
        pushed = push_item(memory.context.paths, source, content)  # type: ignore[arg-type]
        others = tuple(each for each in memory.context.intent.sources if each.id != source)
        memory.context.intent = replace(memory.context.intent, sources=(*others, pushed.source))
    memory.sync(source)


def test_an_item_is_on_the_disk_before_it_is_acknowledged(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")) or real(descriptor)
    ) if Path("/proc/self/fd").exists() else None
    pushed = push_item(paths, "notes", DocumentContent("Remember the milk.", key="milk"))
    assert pushed.path.read_text()
    assert pushed.path.parent == paths.inbox / "notes"
    assert pushed.item_keys == ("milk",)
    assert [job.dedupe_key for job in pushed.jobs] == ["sync:notes"]
    if synced:
        assert any(str(paths.inbox / "notes") in name for name in synced)
    assert not paths.database.exists()


def test_a_disk_that_refuses_acknowledges_nothing(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError):
        push_item(paths, "notes", DocumentContent("Words."))
    assert list((paths.inbox / "notes").glob("*.json")) == [] if (paths.inbox / "notes").exists() else True


def test_a_pushed_document_is_read_like_any_and_a_new_version_replaces_it(memory: Memory) -> None:
    taken_in(memory, DocumentContent("# Plans\n\nThe first version.", key="plans", author="Ada", time_ms=NOON))
    (chunk,) = memory.chunks()
    assert (chunk["item_key"], chunk["title"], chunk["author"], chunk["time_ms"]) == ("plans", "Plans", "Ada", NOON)
    taken_in(memory, DocumentContent("# Plans\n\nThe second version.", key="plans", author="Ada", time_ms=NOON))
    assert [chunk["text"] for chunk in memory.chunks()] == ["# Plans\n\nThe second version."]
    assert memory.sync("pushed") == 0


def test_pushing_the_same_again_makes_nothing_new(memory: Memory) -> None:
    note = DocumentContent("Remember the milk.")
    taken_in(memory, note)
    before = memory.dump()
    taken_in(memory, note)
    assert memory.dump()[1:3] == before[1:3]
    assert len(list((memory.context.paths.inbox / "pushed").iterdir())) == 1


def test_a_pushed_mail_keeps_its_own_fields(memory: Memory) -> None:
    taken_in(
        memory,
        EmailContent(
            "Shall we meet?\n\n> Yes.",
            subject="Meeting",
            sender="Ada <ada@example.org>",
            to=("bob@example.org",),
            time_ms=NOON,
            message_id="x1@example.org",
            references=("root@example.org",),
        ),
    )
    chunks = memory.chunks()
    assert chunks[0]["title"] == "Meeting"
    assert chunks[0]["reference"] == "x1@example.org"
    assert "To: bob@example.org" in chunks[0]["text"]
    assert memory.items() == {"x1@example.org": "current"}


def test_pushed_turns_are_filed_by_utc_day_and_merged_each_once(memory: Memory) -> None:
    turns = tuple(ChatMessage("ada", f"turn {at}", NOON + at * 3_600_000, f"D1:{at}") for at in range(18))
    taken_in(memory, ChatContent(turns[:10], "team"), ChatContent(turns[5:], "team"))
    assert memory.items() == {"team/2024-03-05": "current", "team/2024-03-06": "current"}
    said = [line for chunk in memory.chunks() for line in chunk["text"].split("\n")]
    assert [line.partition("> ")[2] for line in said] == [turn.text for turn in turns]
    assert [turn for chunk in memory.chunks() for turn in chunk["locator"]["turns"]] == [turn.id for turn in turns]


def test_one_source_takes_items_of_one_shape(paths: Paths) -> None:
    push_item(paths, "notes", DocumentContent("Words."))
    with pytest.raises(UsageFault):
        push_item(paths, "notes", EmailContent("Words."))


@pytest.mark.parametrize("source_id", ["", "../up", "a/b", "UPPER", ".hidden", "x" * 80])
def test_impossible_ids_are_refused(paths: Paths, source_id: str) -> None:
    with pytest.raises(UsageFault):
        push_item(paths, source_id, DocumentContent("Words."))


def test_nothing_is_not_an_item(paths: Paths) -> None:
    for content in (DocumentContent("  \n"), EmailContent(""), ChatContent(())):
        with pytest.raises(UsageFault):
            push_item(paths, "notes", content)


def test_a_pushed_item_is_read_even_if_the_intent_forgot_its_source(memory: Memory) -> None:
    push_item(memory.context.paths, "orphan", DocumentContent("Still here.", key="a"))
    memory.sync("orphan")
    assert [chunk["text"] for chunk in memory.chunks("orphan")] == ["Still here."]


@pytest.mark.parametrize("time_ms", [10**19, 10**15, -(10**17)])
def test_a_time_that_no_calendar_has_is_refused_and_stops_no_other_item(memory: Memory, time_ms: int) -> None:
    paths = memory.context.paths
    contents = (
        DocumentContent("Words.", time_ms=time_ms),
        EmailContent("Words.", time_ms=time_ms),
        ChatContent((ChatMessage("ada", "Words.", time_ms),)),
    )
    for content in contents:
        with pytest.raises(UsageFault, match="time"):
            push_item(paths, "notes", content)
    good = push_item(paths, "notes", DocumentContent("Good words.", key="good"))
    bad = f'{{"document": {{"text": "Bad words.", "time_ms": {time_ms}}}}}'
    (good.path.parent / "document-bad.json").write_text(bad)
    memory.sync("notes")
    assert [chunk["text"] for chunk in memory.chunks()] == ["Good words."]
    assert [entry.path for entry in list_unreadable(memory.connection, "notes")] == ["document-bad.json"]


def test_what_is_no_text_is_refused_in_words(paths: Paths) -> None:
    with pytest.raises(UsageFault):
        push_item(paths, "notes", DocumentContent("Words \ud800."))
