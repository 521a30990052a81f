"""Looking at a source: what is skipped, listed, counted, held back."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import QueueIntent
from agent.ingest.holdback import open_questions
from agent.ingest.readers.protocol import Unreachable
from agent.ingest.unread import list_unreadable
from agent.queue.types import NewJob
from tests.ingest.conftest import Memory
from tests.permissions import ordinary_permissions


def test_hidden_dependency_and_cache_folders_are_skipped_and_links_not_followed(memory: Memory, tmp_path: Path) -> None:
    for name in (".git/a.md", "node_modules/b.md", "x/__pycache__/c.md", ".hidden.md"):
        memory.write(name, "Not to be read.")
    memory.write("env/pyvenv.cfg", "")
    memory.write("env/lib/d.md", "Not to be read.")
    memory.write("cache/CACHEDIR.TAG", "")
    memory.write("cache/e.md", "Not to be read.")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f.md").write_text("Not to be read.")
    try:
        (memory.folder / "link").symlink_to(outside)
        (memory.folder / "link.md").symlink_to(outside / "f.md")
        (memory.folder / "circle").symlink_to(memory.folder)
    except OSError:
        pytest.skip("no symbolic links here")
    memory.write("real/g.md", "To be read.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert list(memory.items()) == ["real/g.md"]


def test_excluded_files_are_not_read(memory: Memory) -> None:
    for name in ("a.md", "draft-b.md", "old/c.md"):
        memory.write(name, "Words.")
    memory.add("notes", "folder", memory.folder, exclude=("draft-*", "old"))
    memory.sync()
    assert list(memory.items()) == ["a.md"]


def test_what_cannot_be_read_is_listed_with_its_reason_and_stops_no_other(memory: Memory) -> None:
    memory.write("binary.txt", b"abc\0def")
    with (memory.folder / "huge.txt").open("wb") as stream:
        stream.truncate(20 * 1024 * 1024)
    memory.write("good.md", "Words.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert memory.items() == {"good.md": "current"}
    listed = {entry.path: entry.reason for entry in list_unreadable(memory.connection, "notes")}
    assert listed == {
        "binary.txt": "not a text: it contains NUL bytes",
        "huge.txt": "larger than 16 MB: it has 20 MB; `limits.document_bytes` in config.toml sets that",
    }
    memory.write("binary.txt", "Now it is a text.")
    memory.sync()
    assert list_unreadable(memory.connection, "notes")[0].path == "huge.txt"
    assert "binary.txt" in memory.items()


@pytest.mark.skipif(sys.platform != "linux", reason="takes root's own permissions away by a Linux capability")
def test_a_file_without_permission_is_read_once_it_is_given(memory: Memory) -> None:
    path = memory.write("a.md", "Words.")
    path.chmod(0)
    memory.add("notes", "folder", memory.folder)
    with ordinary_permissions():
        memory.sync()
    assert [entry.path for entry in list_unreadable(memory.connection, "notes")] == ["a.md"]
    path.chmod(0o600)
    with ordinary_permissions():
        memory.sync()
    assert memory.items() == {"a.md": "current"}


def test_a_source_that_is_not_there_deletes_nothing(memory: Memory) -> None:
    for number in range(10):
        memory.write(f"{number}.md", f"Note number {number}.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    away = memory.folder.with_name("away")
    memory.folder.rename(away)
    memory.sync()
    error = memory.connection.value("SELECT last_error FROM mem_tree_sources")
    assert "not there" in error
    assert set(memory.items().values()) == {"current"}
    memory.folder.mkdir()  # an empty mount point
    memory.sync()
    assert open_questions(memory.connection)["notes"].gone == 10
    assert set(memory.items().values()) == {"current"}
    memory.folder.rmdir()
    away.rename(memory.folder)
    assert memory.sync() == 0
    assert memory.connection.value("SELECT last_error FROM mem_tree_sources") is None
    assert open_questions(memory.connection) == {}


def test_a_folder_that_cannot_be_listed_hides_its_files_but_does_not_lose_them(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import agent.ingest.readers.walk as walk

    memory.write("open/a.md", "Words.")
    memory.write("shut/b.md", "Words too.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    real = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(walk.os, "scandir", refuse)
    memory.sync()
    assert set(memory.items().values()) == {"current"}
    assert "shut" in memory.connection.value("SELECT last_error FROM mem_tree_sources")


def test_a_large_source_flows_through_a_small_window_without_a_tick(memory: Memory) -> None:
    for number in range(300):
        memory.write(f"{number:03d}.md", f"Note number {number}.")
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=10))
    memory.run_limit = 70
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert set(memory.items().values()) == {"current"}
    assert len(memory.items()) == 300
    assert sorted(memory.ingested) == sorted(memory.items())
    assert memory.connection.value("SELECT synced_items FROM mem_tree_sources") == 300


def test_one_run_of_a_sync_keeps_to_the_window_and_to_its_limit(memory: Memory) -> None:
    from agent.ingest.sync import plan_sync
    from agent.queue.types import SyncSourcePayload

    for number in range(100):
        memory.write(f"{number:03d}.md", f"Note number {number}.")
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=10))
    memory.add("notes", "folder", memory.folder)
    plan = plan_sync(memory.context, SyncSourcePayload("notes"), run_limit=40)
    assert plan.writes is not None
    with memory.connection.write():
        jobs = list(plan.writes(memory.connection) or ())
    states = list(memory.items().values())
    assert (len(states), states.count("queued"), states.count("found")) == (40, 10, 30)
    assert [job.kind for job in jobs] == ["ingest_file"] * 10 + ["sync_source"]
    assert jobs[0] == NewJob.ingest_file("notes", "000.md", jobs[0].input_hash)


def test_a_change_that_is_seen_while_an_item_is_read_is_not_lost(memory: Memory) -> None:
    from agent.ingest.pipeline import plan_ingest
    from agent.queue.types import IngestFilePayload, StalePlan

    memory.write("a.md", "The first version.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    memory.write("a.md", "The second version.")
    memory.connection.run("UPDATE mem_tree_items SET state = 'queued', seen_hash = 'second'")
    plan = plan_ingest(memory.context, IngestFilePayload("notes", "a.md"))
    memory.connection.run("UPDATE mem_tree_items SET seen_hash = 'third'")
    assert plan.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        plan.writes(memory.connection)
    assert [chunk["text"] for chunk in memory.chunks()] == ["The first version."]


def test_a_source_that_left_the_intent_is_not_looked_at(memory: Memory) -> None:
    memory.sync("nobody")
    assert memory.connection.value("SELECT count(*) FROM mem_tree_sources") == 0


def test_a_kind_that_is_not_built_says_so_in_the_source(memory: Memory) -> None:
    memory.add("chat", "whatsapp", memory.folder)
    memory.sync()
    assert "not built yet" in memory.connection.value("SELECT last_error FROM mem_tree_sources")


def test_several_roots_keep_their_files_apart(memory: Memory, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(memory.folder, other)
    memory.write("a.md", "Here.")
    (other / "a.md").write_text("There.")
    memory.add("notes", "folder", memory.folder, other)
    memory.sync()
    assert {chunk["item_key"]: chunk["text"] for chunk in memory.chunks()} == {
        "source/a.md": "Here.",
        "other/a.md": "There.",
    }


@pytest.mark.parametrize("room", ["folder", "eml"])
def test_a_file_that_cannot_be_opened_when_it_is_seen_is_read_once_it_can(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, room: str
) -> None:
    import importlib

    reader = importlib.import_module(f"agent.ingest.readers.{room}")
    memory.write("a.eml" if room == "eml" else "a.md", "Subject: one\n\nWords.")
    memory.add("source", room, memory.folder)

    def refuse(path: str, limit: int) -> bytes:
        raise Unreachable("permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(reader, "read_bytes", refuse)
        memory.sync()
        assert [entry.reason for entry in list_unreadable(memory.connection, "source")] == ["permission denied"]
        assert not memory.items()
    # Giving a permission changes neither the size nor the time of a file.
    memory.sync()
    assert list(memory.items().values()) == ["current"]
    assert list_unreadable(memory.connection, "source") == []


def test_an_item_that_cannot_be_opened_when_it_is_read_is_tried_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.ingest.readers.folder import FolderReader

    memory.write("a.md", "Words.")
    memory.add("notes", "folder", memory.folder)

    def refuse(*_: object) -> object:
        raise Unreachable("permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(FolderReader, "read", refuse)
        memory.sync()
        assert memory.items() == {"a.md": "unreadable"}
    memory.sync()
    assert memory.items() == {"a.md": "current"}
    assert [chunk["text"] for chunk in memory.chunks()] == ["Words."]


def test_a_file_that_is_again_what_it_was_is_no_longer_listed(memory: Memory) -> None:
    memory.write("a.md", "Words.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    memory.write("a.md", b"no\0text")
    memory.sync()
    assert [entry.path for entry in list_unreadable(memory.connection, "notes")] == ["a.md"]
    memory.write("a.md", "Words.")
    memory.sync()
    assert list_unreadable(memory.connection, "notes") == []
    assert memory.items() == {"a.md": "current"}
    assert [chunk["text"] for chunk in memory.chunks()] == ["Words."]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_source_that_became_a_pipe_is_not_waited_for(memory: Memory) -> None:
    path = memory.write("a.md", "Words.")
    memory.add("notes", "folder", path)
    memory.sync()
    path.unlink()
    os.mkfifo(path)
    memory.sync()
    assert memory.items() == {"a.md": "current"}
    assert "not a file" in memory.connection.value("SELECT last_error FROM mem_tree_sources")
