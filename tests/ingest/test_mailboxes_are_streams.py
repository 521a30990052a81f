"""Mailboxes: split where a mail begins, never held whole, gone on with where a look stopped."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.ingest.readers import mbox
from agent.ingest.readers.mbox import split_mailbox
from agent.queue.run import drain_until_idle
from agent.queue.sweep import sweep
from tests.ingest.conftest import Memory, paragraphs


def mailbox(mails: list[bytes], end: bytes = b"\n") -> bytes:
    joined = b"".join(b"From ada@example.org Mon Jan  1 10:00:00 2024\n" + mail + b"\n" for mail in mails)
    return joined.replace(b"\n", end)


def test_lines_that_begin_with_from_do_not_split_a_mail(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    bodies = [
        "First.\n\nFrom what I know, this is prose.\n\nFrom here on: too.",
        ">From a quoted line, unquoted again.",
        "From the very first word it goes on.",
    ]
    memory.write("a.mbox", mailbox([mail_bytes(number, body) for number, body in enumerate(bodies)]))
    memory.add("mail", "mbox", memory.folder / "a.mbox")
    memory.sync()
    assert list(memory.items()) == ["m0@example.org", "m1@example.org", "m2@example.org"]
    texts = [chunk["text"] for chunk in memory.chunks()]
    assert "From what I know, this is prose.\n\nFrom here on: too." in texts[0]
    assert texts[1].endswith("\nFrom a quoted line, unquoted again.")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("block", [*range(230, 260, 4), 1_000, 5_000, 1 << 20])
def test_a_mailbox_is_split_alike_at_any_block_size(
    end: bytes, block: int, mail_bytes: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mbox, "BLOCK", block)
    monkeypatch.setattr(mbox, "_LOOK_AHEAD", 100 if block < 1_000 else 2_048)
    chance = random.Random(2)
    mails = [mail_bytes(number, "\n".join(paragraphs(chance.randint(1, 30), seed=number))) for number in range(30)]
    data = mailbox(mails, end)
    found = list(split_mailbox(io.BytesIO(data)))
    assert len(found) == 30
    for message, mail in zip(found, mails, strict=True):
        span = data[message.offset : message.offset + message.length]
        assert span.rstrip() == mail.replace(b"\n", end).rstrip()
        assert message.head == span
    again = list(split_mailbox(io.BytesIO(data), found[9].offset + found[9].length))
    assert [message.offset for message in again] == [message.offset for message in found[10:]]


def test_a_large_mailbox_is_never_held_in_memory(tmp_path: Path, mail_bytes: Callable[..., bytes]) -> None:
    import tracemalloc

    path = tmp_path / "big.mbox"
    filler = "\n".join(paragraphs(40)) + "\n"
    with path.open("wb") as stream:
        for number in range(4):
            stream.write(mailbox([mail_bytes(number, filler * 600)]))
    assert path.stat().st_size > 25_000_000
    with path.open("rb") as stream:
        tracemalloc.start()
        count = sum(1 for _ in split_mailbox(stream))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 4
    assert peak < 8_000_000


def test_an_interrupted_scan_of_a_mailbox_goes_on_where_it_stopped(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    memory.write("a.mbox", mailbox([mail_bytes(number) for number in range(50)]))
    memory.add("mail", "mbox", memory.folder / "a.mbox")
    memory.run_limit = 20
    assert memory.sync() == 50
    assert len(memory.items()) == 50
    assert memory.sync() == 0


def test_a_mail_taken_out_of_a_mailbox_is_gone_and_the_others_are_found_where_they_are(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    mails = [mail_bytes(number, f"This is the body of mail {number}.") for number in range(6)]
    path = memory.write("a.mbox", mailbox(mails))
    memory.add("mail", "mbox", path)
    memory.sync()
    memory.write("a.mbox", mailbox([*mails[:2], *mails[3:], mail_bytes(9, "A new one.")]))
    assert memory.sync() == 1
    assert memory.removed == ["m2@example.org"]
    assert sorted(memory.items()) == [f"m{number}@example.org" for number in (0, 1, 3, 4, 5, 9)]
    data = path.read_bytes()
    for chunk in memory.chunks():
        begin = chunk["locator"]["offset"]
        span = data[begin : begin + chunk["locator"]["length"]].decode()
        assert f"<{chunk['item_key']}>" in span


def test_a_mailbox_rewritten_between_the_look_and_the_reading_is_looked_at_again(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    from agent.ingest.sync import plan_sync
    from agent.queue.types import SyncSourcePayload

    mails = [mail_bytes(number, f"This is the body of mail {number}.") for number in range(6)]
    path = memory.write("a.mbox", mailbox(mails))
    memory.add("mail", "mbox", path)
    plan = plan_sync(memory.context, SyncSourcePayload("mail"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    # As many bytes, and the clock of the file system did not move on: only the reading can tell.
    before = path.stat()
    memory.write("a.mbox", mailbox([mails[0], mail_bytes(7, "This is the body of mail 7."), *mails[2:]]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    rounds = 0
    while sweep(memory.connection, memory.registry, memory.context.intent, memory.context.clock.now_ms()):
        drain_until_idle(memory.context, memory.registry)
        rounds += 1
        assert rounds < 4
    assert "m1@example.org" not in memory.items()
    assert sorted(chunk["text"][-2] for chunk in memory.chunks()) == ["0", "2", "3", "4", "5", "7"]
    assert set(memory.items().values()) == {"current"}
