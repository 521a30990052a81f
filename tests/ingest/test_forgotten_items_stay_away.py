"""What was forgotten does not come back with the next look, and plans made before are not carried out after."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from agent.db.items import remove_item
from agent.ids import content_hash
from agent.ingest.holdback import open_questions
from agent.ingest.pipeline import plan_ingest
from agent.ingest.stamps import veil
from agent.ingest.sync import plan_sync
from agent.ingest.unread import list_unreadable
from agent.ledger import Ledger, append_forgotten, prepare_ledger, read_ledger
from agent.queue.types import IngestFilePayload, StalePlan, SyncSourcePayload
from tests.ingest.conftest import Memory

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"


def forget(memory: Memory, source_id: str, item_key: str, held_hash: str | None = None) -> Ledger:
    """Do what forgetting does to an item as far as looks are concerned: the ledger, then the rows."""
    paths = memory.context.paths
    ledger = prepare_ledger(paths)
    items = [ledger.item_hash(source_id, item_key)]
    if held_hash is not None:
        items.append(ledger.content_hash(source_id, held_hash))
    append_forgotten(paths, 1, items=items)
    with memory.connection.write() as connection:
        seq = connection.value(
            "SELECT item_seq FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (source_id, item_key)
        )
        if seq is not None:
            remove_item(connection, seq)
        connection.run("DELETE FROM mem_tree_files WHERE source_id = ? AND path = ?", (source_id, item_key))
    return read_ledger(paths)


def notes(memory: Memory, count: int = 6) -> None:
    for number in range(count):
        memory.write(f"{number}.md", f"Note number {number}.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()


def paths_of(memory: Memory) -> list[str]:
    return [path for (path,) in memory.connection.all("SELECT path FROM mem_tree_files ORDER BY path")]


def test_a_forgotten_document_is_not_stored_again_and_its_name_stands_nowhere(memory: Memory) -> None:
    notes(memory)
    ledger = forget(memory, "notes", "3.md")
    for _ in range(2):
        assert memory.sync() == 0
        assert "3.md" not in memory.items()
        assert paths_of(memory) == [veil(ledger, "notes", "3.md"), "0.md", "1.md", "2.md", "4.md", "5.md"]
    memory.connection.run("DELETE FROM mem_tree_jobs")
    dump = "\n".join(str(row) for table in memory.dump() for row in (table if isinstance(table, list) else [table]))
    assert "3.md" not in dump


def test_an_unchanged_forgotten_file_is_not_read_again(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    import agent.ingest.readers.folder as folder

    notes(memory)
    forget(memory, "notes", "3.md")
    memory.sync()
    opened: list[str] = []
    real = folder.read_bytes
    monkeypatch.setattr(folder, "read_bytes", lambda path, limit: opened.append(path) or real(path, limit))
    memory.sync()
    assert opened == []
    os.utime(memory.folder / "3.md", (1, 1))
    memory.sync()
    assert len(opened) == 1
    assert "3.md" not in paths_of(memory)


def test_a_forgotten_document_that_is_edited_stays_forgotten(memory: Memory) -> None:
    notes(memory)
    forget(memory, "notes", "3.md")
    memory.sync()
    memory.write("3.md", "Other words under the same name.")
    assert memory.sync() == 0
    assert "3.md" not in memory.items()


def test_a_forgotten_content_stays_forgotten_under_another_name(memory: Memory) -> None:
    notes(memory)
    ledger = forget(memory, "notes", "3.md", content_hash("Note number 3."))
    memory.sync()
    (memory.folder / "3.md").rename(memory.folder / "other.md")
    assert memory.sync() == 0
    assert "other.md" not in memory.items()
    assert paths_of(memory)[0] == veil(ledger, "notes", "other.md")
    # What was there under that name goes too.
    memory.write("4.md", "Note number 3.")
    assert memory.sync() == 0
    assert sorted(memory.items()) == ["0.md", "1.md", "2.md", "5.md"]
    memory.write("4.md", "A content of its own.")
    assert memory.sync() == 1
    assert "4.md" in paths_of(memory)
    assert sum(path.startswith("\0") for path in paths_of(memory)) == 1


def test_a_document_that_is_renamed_to_a_forgotten_name_is_forgotten(memory: Memory) -> None:
    notes(memory)
    forget(memory, "notes", "3.md")
    memory.sync()
    (memory.folder / "4.md").replace(memory.folder / "3.md")
    memory.sync()
    assert sorted(memory.items()) == ["0.md", "1.md", "2.md", "5.md"]


def test_a_forgotten_file_that_is_deleted_leaves_no_row_and_raises_no_question(memory: Memory) -> None:
    notes(memory)
    for number in range(4):
        forget(memory, "notes", f"{number}.md")
    memory.sync()
    for number in range(4):
        (memory.folder / f"{number}.md").unlink()
    memory.sync()
    assert paths_of(memory) == ["4.md", "5.md"]
    assert open_questions(memory.connection) == {}


def test_a_forgotten_file_that_cannot_be_read_is_not_listed_by_its_name(memory: Memory) -> None:
    notes(memory)
    forget(memory, "notes", "3.md")
    memory.sync()
    memory.write("3.md", b"no text\0at all")
    memory.sync()
    assert list_unreadable(memory.connection, "notes") == []
    assert "3.md" not in paths_of(memory)


def test_a_forgotten_mail_stays_away_while_its_mailbox_grows(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    mails = [SEPARATOR + mail_bytes(number) + b"\n" for number in range(6)]
    path = memory.write("a.mbox", b"".join(mails[:5]))
    memory.add("mail", "mbox", path)
    memory.sync()
    forget(memory, "mail", "m2@example.org")
    os.utime(path, (1, 1))
    assert memory.sync() == 0
    path.write_bytes(b"".join(mails))
    assert memory.sync() == 1
    assert "m2@example.org" not in memory.items()
    assert len(memory.items()) == 5
    assert paths_of(memory) == ["a.mbox"]


@pytest.mark.parametrize("kind", ["sync", "ingest"])
def test_a_plan_does_not_outlive_the_ledger_that_it_was_made_under(memory: Memory, kind: str) -> None:
    notes(memory)
    memory.write("3.md", "Another version of it.")
    if kind == "ingest":
        memory.connection.run("UPDATE mem_tree_items SET state = 'queued' WHERE item_key = '3.md'")
        plan = plan_ingest(memory.context, IngestFilePayload("notes", "3.md"))
    else:
        plan = plan_sync(memory.context, SyncSourcePayload("notes"))
    paths = memory.context.paths
    append_forgotten(paths, 1, items=[prepare_ledger(paths).item_hash("notes", "3.md")])
    assert plan.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        plan.writes(memory.connection)
    assert [chunk["text"] for chunk in memory.chunks("notes", "3.md")] == ["Note number 3."]


def test_a_look_that_was_planned_before_its_source_was_removed_writes_nothing(memory: Memory) -> None:
    from dataclasses import replace

    from agent.config import load_intent
    from agent.config_edit import add_source, remove_source

    notes(memory)
    paths = memory.context.paths
    add_source(paths, memory.context.intent.sources[0])
    memory.context.intent = replace(load_intent(paths).intent)
    memory.write("new.md", "Something new.")
    plan = plan_sync(memory.context, SyncSourcePayload("notes"))
    remove_source(paths, "notes")
    assert plan.writes is not None
    with memory.connection.write():
        assert list(plan.writes(memory.connection) or ()) == []
    assert "new.md" not in memory.items()


def test_an_item_that_turns_out_to_be_forgotten_when_it_is_read_is_left_out(memory: Memory) -> None:
    notes(memory)
    paths = memory.context.paths
    memory.write("3.md", "The words to forget.")
    memory.connection.run("UPDATE mem_tree_items SET state = 'queued' WHERE item_key = '3.md'")
    ledger = prepare_ledger(paths)
    append_forgotten(paths, 1, items=[ledger.content_hash("notes", content_hash("The words to forget."))])
    plan = plan_ingest(memory.context, IngestFilePayload("notes", "3.md"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    assert "3.md" not in memory.items()
    assert memory.chunks("notes", "3.md") == []
