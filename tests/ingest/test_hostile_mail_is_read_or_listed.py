"""The hostile mails: each is read or listed with its reason, comes out readable, and keeps its addresses."""

from __future__ import annotations

import email
import json
import re
from collections.abc import Iterator
from email.message import Message
from email.utils import getaddresses
from pathlib import Path

import pytest

from agent.ingest.unread import list_unreadable
from tests.ingest.conftest import Memory

MAILS = 103
ADDRESSED = ("from", "sender", "reply-to", "to", "cc", "bcc")


@pytest.fixture
def mails(memory: Memory, test_data: object) -> Path:
    """The folder of the mails, read into the memory."""
    assert callable(test_data)
    root: Path = test_data("mail")
    memory.add("mail", "eml", root)
    memory.sync()
    return root


def keys_by_file(memory: Memory) -> dict[str, str]:
    """Return the item that each file was read into."""
    rows = memory.connection.all("SELECT item_key, place FROM mem_tree_items WHERE state = 'current'")
    return {part["path"]: key for key, place in rows for part in json.loads(place)["parts"]}


def test_each_of_the_103_is_read_or_listed_with_its_reason(memory: Memory, mails: Path) -> None:
    listed = {entry.path: entry.reason for entry in list_unreadable(memory.connection, "mail")}
    files = {path.relative_to(mails).as_posix() for path in mails.rglob("*.eml")}
    read = keys_by_file(memory)
    assert len(files) == MAILS
    assert files == read.keys() | listed.keys()
    assert read.keys().isdisjoint(listed)
    assert all(listed.values())
    assert len(listed) <= 2
    assert memory.jobs("ingest_file", "failed") == []


def test_they_come_out_readable(memory: Memory, mails: Path) -> None:
    texts = [chunk["text"] for chunk in memory.chunks()]
    letters = sum(map(len, texts))
    assert letters > 50_000
    assert sum(len(text) for text in texts if "\ufffd" not in text) >= 0.95 * letters
    assert sum(text.count("\ufffd") for text in texts) < 0.001 * letters
    whole = "\n".join(texts)
    titles = "\n".join(chunk["title"] or "" for chunk in memory.chunks())
    for words in ("まみむめも", "Säying Hello", "대부분의 마찬가지로", "Атиков"):
        assert words in whole or words in titles


def addresses_of(message: Message) -> Iterator[str]:
    """Yield the addresses of a mail's own headers, as the standard library reads them."""
    for name, value in message.raw_items():
        if name.lower() not in ADDRESSED:
            continue
        raw = str(value).encode("utf-8", "surrogateescape")
        text = raw.decode("utf-8") if _is_utf8(raw) else raw.decode("latin-1")
        yield from (address for _, address in getaddresses([text]) if "@" in address)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def test_every_address_in_their_headers_is_found_unchanged(memory: Memory, mails: Path) -> None:
    kept: dict[str, str] = {}
    for chunk in memory.chunks():
        kept[chunk["item_key"]] = f"{kept.get(chunk['item_key'], '')}\n{chunk['author']}\n{chunk['text']}"
    count, lost = 0, []
    for name, key in keys_by_file(memory).items():
        if not name.endswith(".eml"):
            continue
        text = kept.get(key, "")
        bare = re.sub(r"\((?:[^()\\]|\\.)*\)|\s", "", text)  # comments and spaces within an address are none of it
        for address in addresses_of(email.message_from_bytes((mails / name).read_bytes())):
            count += 1
            if address not in text and address not in bare:
                lost.append((name, address))
    assert lost == []
    assert count > 250


def test_the_same_words_to_somebody_else_keep_whom_they_went_to(memory: Memory, mail_bytes: object) -> None:
    assert callable(mail_bytes)
    for number, to in enumerate(("one@x.example", "two@y.example", "one@x.example")):
        memory.write(f"{number}.eml", mail_bytes(7, "The same words.", To=to))
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    whole = "\n".join(chunk["text"] for chunk in memory.chunks())
    assert [whole.count(words) for words in ("The same words.", "one@x.example", "two@y.example")] == [1, 1, 1]


def test_who_is_named_in_no_other_line_is_kept_and_nobody_twice(memory: Memory, mail_bytes: object) -> None:
    assert callable(mail_bytes)
    more = {"Reply_To": "Desk <desk@example.org>", "Bcc": "quiet@example.org", "Sender": "ada@example.org"}
    memory.write("a.eml", mail_bytes(1, **more))
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    (chunk,) = memory.chunks()
    assert chunk["text"].split("\n\n")[0].split("\n") == [
        "From: Ada Lovelace <ada@example.org>",
        "To: john_doe@example.com",
        "Bcc: quiet@example.org",
        "Reply-To: Desk <desk@example.org>",
    ]
