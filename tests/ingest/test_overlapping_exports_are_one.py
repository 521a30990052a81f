"""Two exports that overlap hold each message once, and it stays as long as one of them has it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ingest.conftest import Grown, Memory, paragraphs

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"


def mailbox(mails: list[bytes]) -> bytes:
    return b"".join(SEPARATOR + mail + b"\n" for mail in mails)


@pytest.fixture
def mails(mail_bytes: Callable[..., bytes]) -> list[bytes]:
    return [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(30)]


def test_each_message_of_two_mailboxes_is_there_once(grown: Grown, mails: list[bytes]) -> None:
    grown.write("box/first.mbox", mailbox(mails[:20]))
    grown.write("box/second.mbox", mailbox(mails[10:]))
    grown.add("mail", "mbox", grown.folder / "box")
    grown.grow()
    assert len(grown.items()) == len(grown.chunks()) == 30


@pytest.mark.parametrize(("deleted", "left"), [("first", "second"), ("second", "first")])
def test_a_message_stays_when_one_of_its_exports_is_deleted(
    grown: Grown, mails: list[bytes], deleted: str, left: str
) -> None:
    grown.write("box/first.mbox", mailbox(mails[:20]))
    grown.write("box/second.mbox", mailbox(mails[10:]))
    grown.add("mail", "mbox", grown.folder / "box")
    grown.grow()
    ids = {chunk["item_key"]: chunk["chunk_id"] for chunk in grown.chunks()}
    jobs = grown.count("mem_tree_jobs", "kind = 'extract_chunk'")
    (grown.folder / f"box/{deleted}.mbox").unlink()
    grown.grow()
    kept = range(10, 30) if left == "second" else range(20)
    assert {chunk["item_key"]: chunk["chunk_id"] for chunk in grown.chunks()} == {
        key: ids[key] for number in kept if (key := f"m{number}@example.org")
    }
    assert grown.count("mem_tree_jobs", "kind = 'extract_chunk'") == jobs
    data = (grown.folder / f"box/{left}.mbox").read_bytes()
    for chunk in grown.chunks():
        place = chunk["locator"]
        assert place["path"] == f"{left}.mbox"
        span = data[place["offset"] : place["offset"] + place["length"]].decode()
        assert f"<{chunk['item_key']}>" in span


def test_a_message_that_one_export_lost_is_still_in_the_other(memory: Memory, mails: list[bytes]) -> None:
    memory.write("box/first.mbox", mailbox(mails[:10]))
    memory.write("box/second.mbox", mailbox(mails[5:15]))
    memory.add("mail", "mbox", memory.folder / "box")
    memory.sync()
    memory.write("box/first.mbox", mailbox(mails[:8]))
    memory.sync()
    memory.write("box/second.mbox", mailbox(mails[10:15]))
    memory.sync()
    assert sorted(memory.items()) == sorted(f"m{number}@example.org" for number in (*range(8), *range(10, 15)))


def test_logs_of_one_day_in_two_files_are_one_day_and_one_of_them_can_go(grown: Grown) -> None:
    lines = [f"[10:{minute:02d}] <anna> Line {minute} of the day, said once." for minute in range(12)]
    for day in ("2025-03-01", "2025-03-02"):
        grown.write(f"chat/#club {day}.txt", "\n".join(lines[:7]) + "\n")
    grown.write("chat/#club 2025-03-01 2.txt", "\n".join(lines[5:]) + "\n")
    grown.add("chat", "irc", grown.folder / "chat")
    grown.grow()
    text = "\n".join(chunk["text"] for chunk in grown.chunks("chat") if "03-01" in chunk["item_key"])
    assert [text.count(f"Line {minute} of") for minute in range(12)] == [1] * 12
    (grown.folder / "chat/#club 2025-03-01 2.txt").unlink()
    grown.grow()
    text = "\n".join(chunk["text"] for chunk in grown.chunks("chat") if "03-01" in chunk["item_key"])
    assert [text.count(f"Line {minute} of") for minute in range(12)] == [1] * 7 + [0] * 5
