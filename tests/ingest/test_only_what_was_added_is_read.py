"""A mailbox or a log that only grew costs what was added; whatever else happened to it is noticed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from agent.ingest.readers import growth, irc, mbox, walk
from agent.ingest.readers.protocol import Stamp
from tests.ingest.conftest import Memory
from tests.ingest.test_chats_are_filed_by_day import log

SEPARATOR = b"From ada@example.org Mon Jan  1 10:00:00 2024\n"
# The end as it was, and the end as it is now; a look at the beginning, and the last entry.
OVERHEAD = 2 * growth.TAIL + 8_192
Mails = Callable[..., bytes]


class Counted:
    """Counts the bytes that looking at sources reads; the reading of one item is not a look."""

    def __init__(self) -> None:
        self.bytes = 0

    def open(self, path: str) -> IO[bytes]:
        counted: Any = _Stream(walk.open_file(path), self)
        stream: IO[bytes] = counted
        return stream


class _Stream:
    def __init__(self, stream: IO[bytes], counted: Counted) -> None:
        self.stream = stream
        self.counted = counted

    def read(self, size: int = -1) -> bytes:
        return self._count(self.stream.read(size))

    def readline(self, size: int = -1) -> bytes:
        return self._count(self.stream.readline(size))

    def _count(self, data: bytes) -> bytes:
        self.counted.bytes += len(data)
        return data

    def seek(self, *place: int) -> int:
        return self.stream.seek(*place)

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    for room in (mbox, irc):
        monkeypatch.setattr(room, "open_file", counted.open)
    return counted


def letters(mail_bytes: Mails, first: int, count: int) -> bytes:
    return b"".join(
        SEPARATOR + mail_bytes(number, f"This is what mail {number} says. " * 8) + b"\n"
        for number in range(first, first + count)
    )


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data)


def states(memory: Memory) -> dict[str, str]:
    return {key: state for key, state in memory.items().items() if state != "gone"}


@pytest.mark.parametrize(("mails", "run_share"), [(500, 2), (500, 3), pytest.param(20_000, 10, marks=pytest.mark.slow)])
def test_an_append_to_a_large_mailbox_costs_the_new_mails_alone(
    memory: Memory, mail_bytes: Mails, counted: Counted, mails: int, run_share: int
) -> None:
    path = memory.write("a.mbox", letters(mail_bytes, 0, mails))
    size = path.stat().st_size
    memory.run_limit = mails // run_share  # the first look takes several runs
    memory.add("mail", "mbox", path)
    assert memory.sync() == mails
    assert counted.bytes > size > OVERHEAD + 40_000
    for added in (1, 3):
        before = dict(memory.connection.all("SELECT chunk_id, seq FROM mem_tree_chunks"))
        new = letters(mail_bytes, mails + 10 * added, added)
        append(path, new)
        counted.bytes = 0
        assert memory.sync() == added
        assert counted.bytes < OVERHEAD + 4 * len(new)
        after = dict(memory.connection.all("SELECT chunk_id, seq FROM mem_tree_chunks"))
        assert before.items() <= after.items()
        counted.bytes = 0
        assert memory.sync() == 0
        assert counted.bytes == 0
    assert set(states(memory).values()) == {"current"}
    assert len(states(memory)) == mails + 4


def test_more_than_one_run_can_take_is_added_and_still_nothing_is_read_twice(
    memory: Memory, mail_bytes: Mails, counted: Counted
) -> None:
    path = memory.write("a.mbox", letters(mail_bytes, 0, 300))
    memory.add("mail", "mbox", path)
    memory.sync()
    memory.run_limit = 40
    append(path, letters(mail_bytes, 300, 100))
    assert memory.sync() == 100
    counted.bytes = 0
    memory.sync()
    assert counted.bytes == 0
    assert len(states(memory)) == 400


def test_a_mailbox_without_an_empty_line_at_its_end_goes_on_with_one(
    memory: Memory, mail_bytes: Mails, counted: Counted
) -> None:
    path = memory.write("a.mbox", letters(mail_bytes, 0, 600).rstrip(b"\n") + b"\n")
    memory.add("mail", "mbox", path)
    memory.sync()
    append(path, b"\n" + letters(mail_bytes, 600, 1))
    counted.bytes = 0
    memory.sync()
    assert counted.bytes < OVERHEAD + 2_000
    assert len(states(memory)) == 601


def test_a_mail_that_was_being_written_is_replaced_by_the_whole_one(memory: Memory, mail_bytes: Mails) -> None:
    # Without a Message-ID its bytes are its key: the half of it is another mail, which is gone then.
    last = SEPARATOR + mail_bytes(9, "The first half of it, and the other half.", Message_ID="") + b"\n"
    path = memory.write("a.mbox", letters(mail_bytes, 0, 5) + last[:-25])
    memory.add("mail", "mbox", path)
    memory.sync()
    append(path, last[-25:] + letters(mail_bytes, 20, 1))
    memory.sync()
    memory.sync()
    assert len(states(memory)) == 7
    texts = [chunk["text"] for chunk in memory.chunks() if "first half" in chunk["text"]]
    assert len(texts) == 1
    assert "and the other half." in texts[0]


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("grows", [True, False])
def test_a_mailbox_that_is_compacted_or_rewritten_is_read_whole(
    memory: Memory, mail_bytes: Mails, in_place: bool, grows: bool
) -> None:
    mails = [letters(mail_bytes, number, 1) for number in range(250)]
    path = memory.write("a.mbox", b"".join(mails))
    memory.add("mail", "mbox", path)
    memory.sync()
    kept = mails[:3] + mails[4:] + ([letters(mail_bytes, 1_000 + number, 1) for number in range(9)] if grows else [])
    if in_place:
        path.write_bytes(b"".join(kept))
    else:
        fresh = path.with_suffix(".new")
        fresh.write_bytes(b"".join(kept))
        os.replace(fresh, path)
    memory.sync()
    assert "m3@example.org" not in states(memory)
    assert len(states(memory)) == len(kept)
    for chunk in memory.chunks("mail", "m200@example.org"):
        place = chunk["locator"]
        raw = path.read_bytes()[place["offset"] : place["offset"] + place["length"]]
        assert b"<m200@example.org>" in raw


def test_a_log_that_grew_is_read_from_the_day_that_grows(memory: Memory, counted: Counted) -> None:
    days = []
    for day in range(1, 29):
        days.append(f"--- Day changed Mon Apr {day:02d} 2024\n" + "\n".join(log(60, seed=day)) + "\n")
    path = memory.write("room.log", "".join(days))
    memory.add("chat", "irc", path)
    memory.sync()
    assert len(memory.items()) == 28
    held = {chunk["chunk_id"] for chunk in memory.chunks()}
    append(path, b"[23:58] <ada> one more word\n[00:01] <bob> and it is the next day\n")
    counted.bytes = 0
    assert memory.sync() == 2
    assert counted.bytes < OVERHEAD + 2 * len(days[-1])
    assert list(memory.items())[-2:] == ["room/2024-04-28", "room/2024-04-29"]
    assert set(memory.items().values()) == {"current"}
    now = memory.chunks()
    assert len(held - {chunk["chunk_id"] for chunk in now}) <= 2
    assert "one more word" in memory.chunks("chat", "room/2024-04-28")[-1]["text"]
    (last,) = memory.chunks("chat", "room/2024-04-29")
    assert path.read_text().split("\n")[last["locator"]["line"] - 1] == "[00:01] <bob> and it is the next day"


def test_a_log_grown_step_by_step_is_the_log_read_at_once(memory: Memory, tmp_path: Path) -> None:
    text = ""
    for day in range(1, 6):
        text += f"--- Day changed Mon Apr {day:02d} 2024\n" + "\n".join(log(30, seed=day, start=1400)) + "\n"
    data = text.encode()
    path = memory.write("a/room.log", data[:700])
    memory.add("chat", "irc", path)
    memory.sync()
    for begin in range(700, len(data), 613):
        append(path, data[begin : begin + 613])
        memory.sync()
    memory.add("other", "irc", memory.write("b/room.log", data))
    memory.sync()
    steps, once = memory.chunks("chat"), memory.chunks("other")
    assert [(chunk["item_key"], chunk["text"], chunk["locator"]["line"]) for chunk in steps] == [
        (chunk["item_key"], chunk["text"], chunk["locator"]["line"]) for chunk in once
    ]


def test_a_log_that_was_cut_off_or_changed_at_its_end_is_read_whole(memory: Memory) -> None:
    lines = log(300)
    path = memory.write("2024-03-05.log", "\n".join(lines) + "\n")
    memory.add("chat", "irc", path)
    memory.sync()
    path.write_text("\n".join([*lines[:-1], "[04:59] <ada> something else", "[05:00] <ada> the end"]) + "\n")
    memory.sync()
    text = "\n".join(chunk["text"] for chunk in memory.chunks())
    assert lines[-1] not in text
    assert "something else" in text


def test_words_changed_in_place_near_the_end_are_noticed_though_the_file_grew_too(
    memory: Memory, mail_bytes: Mails
) -> None:
    box = memory.write("a.mbox", letters(mail_bytes, 0, 100))
    days = [f"--- Day changed Mon Apr {day:02d} 2024\n" + "\n".join(log(20, seed=day)) + "\n" for day in range(1, 9)]
    room = memory.write("room.log", "".join(days))
    memory.add("mail", "mbox", box)
    memory.add("chat", "irc", room)
    memory.sync()
    box.write_bytes(box.read_bytes().replace(b"mail 90 says", b"mail 90 SAYS") + letters(mail_bytes, 100, 1))
    room.write_text(room.read_text().replace(days[5][-40:-1], "X" * 39) + "[23:59] <ada> the end\n")
    memory.sync()
    assert "SAYS" in memory.chunks("mail", "m90@example.org")[0]["text"]
    assert "X" * 39 in "".join(chunk["text"] for chunk in memory.chunks("chat", "room/2024-04-06"))
    assert "the end" in memory.chunks("chat")[-1]["text"]


def test_only_the_same_file_that_is_longer_and_ends_as_it_did_has_grown(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * 100_000)
    mark = growth.Mark(100_000, 99_000, "1,2:3")
    with path.open("r+b") as stream:
        old = Stamp(100_000, 5, 7, tail_hash=growth.sign(stream, mark))
        longer = replace(old, size=100_500, tail_hash=None)
        assert growth.grown_from(stream, old, longer) == mark
        for before, now in (
            (None, longer),
            (replace(old, tail_hash=None), longer),
            (replace(old, tail_hash="0:of another form"), longer),
            (replace(old, state="unreadable"), longer),
            (replace(old, size=-1), longer),
            (old, replace(longer, inode=8)),
            (old, replace(longer, size=100_000, mtime_ns=6)),
            (old, replace(longer, size=99_999)),
        ):
            assert growth.grown_from(stream, before, now) is None
        stream.seek(100_000 - growth.TAIL)
        stream.write(b"y")
        stream.flush()
        assert growth.grown_from(stream, old, longer) is None
