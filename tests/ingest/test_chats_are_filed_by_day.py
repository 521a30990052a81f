"""Chats: one item a conversation and UTC day, each turn once, about ten turns a chunk."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent.ingest.readers.irc import conversation_of, is_log, read_turns
from agent.ingest.unread import list_unreadable
from tests.ingest.conftest import Memory, paragraphs

DAY = int(datetime(2024, 3, 5, tzinfo=UTC).timestamp() * 1000)


def log(count: int, *, seed: int = 1, start: int = 600) -> list[str]:
    chance = random.Random(seed)
    words = paragraphs(count, seed=seed, words=10)
    return [
        f"[{(start + at) // 60 % 24:02d}:{(start + at) % 60:02d}] <{chance.choice(['ada', 'bob', 'cy'])}> {words[at]}"
        for at in range(count)
    ]


def test_a_log_is_cut_into_chunks_of_about_ten_turns(memory: Memory, test_data: Callable[[str], Path]) -> None:
    memory.add("irc", "irc", test_data("irc"))
    memory.sync()
    turns = [chunk["text"].count("\n") + 1 for chunk in memory.chunks()]
    assert 8 <= sum(turns) / len(turns) <= 12
    assert max(turns) <= 35


def test_a_chunk_of_a_chat_points_at_its_lines_and_knows_its_turns_times(
    memory: Memory, test_data: Callable[[str], Path]
) -> None:
    root = test_data("irc")
    memory.add("irc", "irc", root)
    memory.sync()
    for chunk in memory.chunks():
        lines = (root / chunk["locator"]["path"]).read_text().split("\n")
        place = lines[chunk["locator"]["line"] - 1 : chunk["locator"]["end_line"]]
        assert [line.strip() for line in place if line.strip()] == chunk["text"].split("\n")
        assert chunk["author"]
    first = memory.chunks("irc", "2005-04-05")[0]
    assert first["time_ms"] == int(datetime(2005, 4, 5, 10, 13, tzinfo=UTC).timestamp() * 1000)


def test_the_turns_of_a_day_in_several_files_are_merged_each_once(memory: Memory) -> None:
    lines = log(40)
    memory.write("2024-03-05_1.txt", "\n".join(lines[:25]) + "\n")
    memory.write("2024-03-05_2.txt", "\n".join(lines[15:]) + "\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert list(memory.items()) == ["2024-03-05"]
    assert "\n".join(chunk["text"] for chunk in memory.chunks()).split("\n") == lines
    spread = [chunk for chunk in memory.chunks() if "places" in chunk["locator"]]
    assert spread
    assert {place["path"] for place in spread[0]["locator"]["places"]} == {"2024-03-05_1.txt", "2024-03-05_2.txt"}


def test_merging_does_not_depend_on_which_file_came_first(memory: Memory) -> None:
    lines = log(40)
    memory.write("2024-03-05_2.txt", "\n".join(lines[15:]) + "\n")
    memory.add("one", "irc", memory.folder)
    memory.sync()
    memory.write("2024-03-05_1.txt", "\n".join(lines[:25]) + "\n")
    memory.add("two", "irc", memory.folder)
    memory.sync()
    one, two = ([(chunk["text"], chunk["locator"]) for chunk in memory.chunks(source)] for source in ("one", "two"))
    assert one == two


def test_what_was_said_twice_stays_twice(memory: Memory) -> None:
    memory.write("2024-03-05.txt", "[10:00] <ada> yes\n[10:00] <ada> yes\n[10:01] <bob> no\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert memory.chunks()[0]["text"].count("<ada> yes") == 2


def test_a_growing_log_keeps_its_chunks(memory: Memory) -> None:
    lines = log(120)
    memory.write("2024-03-05.txt", "\n".join(lines[:100]) + "\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    before = [chunk["chunk_id"] for chunk in memory.chunks()]
    memory.write("2024-03-05.txt", "\n".join(lines) + "\n")
    memory.sync()
    after = [chunk["chunk_id"] for chunk in memory.chunks()]
    assert before[:-3] == after[: len(before) - 3]


def test_days_change_at_midnight_by_announcement_and_by_dated_lines(memory: Memory) -> None:
    memory.write(
        "2024-03-05.log", "[23:58] <ada> late words\n[23:59] <bob> later\n[00:01] <ada> next day\n[00:02] <bob> yes\n"
    )
    memory.write(
        "irssi.log",
        "--- Log opened Tue Mar 05 10:00:00 2024\n10:00 <@ada> one\n10:01 < bob> two\n--- Day changed Wed Mar 06 2024\n"
        "09:00 <ada> three\n09:01 -!- bob has quit\n09:02 <cy> four\n",
    )
    memory.write(
        "dated.log", "2024-03-05 10:00:00 <ada> five\n2024-03-07 10:00:00 <bob> six\n2024-03-07 10:00:01 <ada> seven\n"
    )
    memory.write("weechat.log", "2024-03-05 10:00:00\tada\teight\n2024-03-05 10:00:05\t@bob\tnine\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert set(memory.items()) == {
        "2024-03-05",
        "2024-03-06",
        "irssi/2024-03-05",
        "irssi/2024-03-06",
        "dated/2024-03-05",
        "dated/2024-03-07",
        "weechat/2024-03-05",
    }
    assert "10:00 <@ada> one" in memory.chunks("chat", "irssi/2024-03-05")[0]["text"]
    assert "[10:00:05] <bob> nine" in memory.chunks("chat", "weechat/2024-03-05")[0]["text"]


def test_turns_actions_and_events_are_told_apart() -> None:
    text = (
        "[10:00:05] <ada> hello\n[10:00:06] * bob waves\n=== cy is now known as di\n"
        "10:01 -!- ada [~a@b] has quit\n[10:02] <eve>\n"
    )
    turns = read_turns(text, DAY, 7)
    assert [(turn.author, turn.event, turn.line) for turn in turns] == [
        ("ada", False, 7),
        ("bob", False, 8),
        (None, True, 9),
        (None, True, 10),
        ("eve", False, 11),
    ]
    assert turns[0].time_ms == DAY + 36_005_000
    assert turns[1].text == "[10:00:06] * bob waves"


@pytest.mark.parametrize(
    ("path", "conversation"),
    [
        ("2005-04-05_10.ascii.txt", ""),
        ("2017-09-02.train-c.ascii.txt", ""),
        ("ubuntu/2024-03-05.log", "ubuntu"),
        ("#sapwood_20240305.log", "#sapwood"),
        ("freenode/#sapwood.2024-03-05.log", "freenode/#sapwood"),
        ("team-2024-03-05.txt", "team"),
        ("team.txt", "team"),
    ],
)
def test_conversations_come_from_folders_and_names(path: str, conversation: str) -> None:
    assert conversation_of(path) == conversation


def test_prose_is_no_log(memory: Memory) -> None:
    assert not is_log("\n".join(paragraphs(5)).encode())
    assert not is_log(b"[10:00] Meeting with Bob\n[11:00] Lunch\n")
    memory.write("prose.txt", "\n".join(paragraphs(5)))
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert [(entry.path, entry.reason) for entry in list_unreadable(memory.connection, "chat")] == [
        ("prose.txt", "not a chat log")
    ]


def test_one_turn_in_two_forms_of_log_is_one_turn(memory: Memory) -> None:
    memory.write("2024-03-05 a.log", "[10:00] <ada> hello\n[10:01] <bob> good morning\n")
    memory.write("2024-03-05 b.log", "10:00 <@ada> hello\n10:02 <+bob> and more\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert memory.chunks()[0]["text"].split("\n") == [
        "[10:00] <ada> hello",
        "[10:01] <bob> good morning",
        "10:02 <+bob> and more",
    ]


def test_an_absurd_year_stops_no_other_file(memory: Memory) -> None:
    memory.write("absurd.log", "[9999-12-31 23:58] <ada> late\n[9999-12-31 23:59] <bob> later\n[00:01] <ada> last\n")
    memory.write("good-2024-01-01.log", "[10:00] <ada> hi\n[10:01] <bob> hello\n")
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    assert set(memory.items().values()) == {"current"}
    assert any("hello" in chunk["text"] for chunk in memory.chunks())
    assert any("last" in chunk["text"] for chunk in memory.chunks())
