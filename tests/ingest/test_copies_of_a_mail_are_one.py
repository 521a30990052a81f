"""Mails in files of their own: which files are mails, copies of one mail, files that vanish."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.ingest.headers import looks_like_mail
from agent.ingest.pipeline import load_item
from agent.ingest.readers.mbox import read_mail_item
from agent.ingest.readers.protocol import Unreachable
from agent.ingest.unread import list_unreadable
from agent.queue.run import drain_until_idle
from agent.queue.sweep import sweep
from tests.ingest.conftest import Memory


def test_mails_that_share_a_message_id_lose_none_of_their_words(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    for number, body in enumerate(["The first words.", "Quite other words.", "The first words."]):
        memory.write(f"{number}.eml", mail_bytes(7, body, Subject=f"Copy {number}"))
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    assert list(memory.items()) == ["m7@example.org"]
    texts = [chunk["text"] for chunk in memory.chunks()]
    assert sum("The first words." in text for text in texts) == 1
    assert sum("Quite other words." in text for text in texts) == 1
    for chunk in memory.chunks():
        file = memory.folder / chunk["locator"]["path"]
        assert chunk["text"].split("\n\n")[-1] in file.read_text()


def test_mail_without_its_suffix_is_found_in_a_folder_of_mail(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    memory.write("1", mail_bytes(1))
    memory.write("2.eml", mail_bytes(2))
    memory.write("LICENSE", "Permission is hereby granted: to anybody.\n")
    memory.write("empty.eml", "")
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    assert list(memory.items()) == ["m1@example.org", "m2@example.org"]
    assert [(entry.path, entry.reason) for entry in list_unreadable(memory.connection, "mail")] == [
        ("empty.eml", "the file is empty")
    ]
    assert not looks_like_mail(b"Note: this\nis: not a mail\n")


def test_a_file_that_vanished_between_the_look_and_the_reading_is_gone(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    for number in range(6):
        memory.write(f"{number}.eml", mail_bytes(number))
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    memory.write("2.eml", mail_bytes(2, "Another body."))
    memory.connection.run("UPDATE mem_tree_items SET state = 'queued', seen_hash = 'x' WHERE item_key LIKE 'm2@%'")
    (memory.folder / "2.eml").unlink()
    drain_until_idle(memory.context, memory.registry)
    sweep(memory.connection, memory.registry, memory.context.intent, memory.context.clock.now_ms())
    drain_until_idle(memory.context, memory.registry)
    assert memory.items()["m2@example.org"] == "unreadable"
    memory.sync()
    assert "m2@example.org" not in memory.items()
    assert len(memory.chunks()) == 5


def test_a_copy_whose_file_is_gone_is_passed_over(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    one, other = mail_bytes(1, "The first wording."), mail_bytes(1, "Another wording.")
    for name, raw in (("a.eml", one), ("b.eml", one), ("c.eml", other)):
        memory.write(name, raw)
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    item = load_item(memory.connection, "mail", "m1@example.org")
    (source,) = memory.context.intent.sources
    assert item is not None
    assert len(item.parts) == 3
    (memory.folder / "a.eml").unlink()
    assert read_mail_item(source, item.item_key, item.parts).content_hash == item.held_hash
    (memory.folder / "c.eml").unlink()
    left = read_mail_item(source, item.item_key, item.parts)
    assert left.content_hash != item.held_hash
    (memory.folder / "b.eml").unlink()
    with pytest.raises(Unreachable):
        read_mail_item(source, item.item_key, item.parts)


def test_a_copy_that_cannot_be_opened_now_is_passed_over_only_for_an_equal_one(
    memory: Memory, mail_bytes: Callable[..., bytes]
) -> None:
    one, other = mail_bytes(1, "The first wording."), mail_bytes(1, "Another wording.")
    for name, raw in (("a.eml", one), ("b.eml", one), ("c.eml", other)):
        memory.write(name, raw)
    memory.add("mail", "eml", memory.folder)
    memory.sync()
    item = load_item(memory.connection, "mail", "m1@example.org")
    (source,) = memory.context.intent.sources
    assert item is not None
    for name in ("a.eml", "c.eml"):
        # A folder in its place cannot be opened, whoever asks, and is not the same as nothing there.
        (memory.folder / name).unlink()
        (memory.folder / name).mkdir()
        if name == "a.eml":
            assert read_mail_item(source, item.item_key, item.parts).content_hash == item.held_hash
    with pytest.raises(Unreachable):
        read_mail_item(source, item.item_key, item.parts)
