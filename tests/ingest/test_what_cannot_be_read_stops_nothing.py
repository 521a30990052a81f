"""Files that are no texts, that change or vanish while they are read, that wait for ever: each is listed with why."""

from __future__ import annotations

import os
import socket
import time
import tracemalloc
from pathlib import Path
from typing import IO

import pytest

from agent.config import SourceIntent
from agent.ingest.readers import walk
from agent.ingest.readers.folder import FolderReader
from agent.ingest.readers.protocol import FileSeen, Found, Unreachable, Unreadable
from agent.ingest.readers.walk import open_file, read_bytes
from agent.ingest.unread import list_unreadable
from tests.ingest.conftest import Memory
from tests.permissions import ordinary_permissions

PIPES = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")


def reasons(memory: Memory, source_id: str = "notes") -> dict[str, str]:
    return {entry.path: entry.reason for entry in list_unreadable(memory.connection, source_id)}


@PIPES
def test_every_hostile_file_is_listed_with_its_reason_and_the_others_are_read(memory: Memory) -> None:
    memory.write("0-good.md", "Words.")
    memory.write("binary.md", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
    memory.write("broken.md", b"caf\xe9 and \xff\xfe more words of it")
    memory.write("nul.txt", b"one\0two")
    memory.write("page.html", b"<p>one\0two</p>")
    memory.write("empty.md", b"")
    with (memory.folder / "line.md").open("wb") as stream:
        stream.truncate(1_000_000_000)
    os.mkfifo(memory.folder / "pipe.md")
    here = Path.cwd()
    try:
        os.chdir(memory.folder)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket.md")
    finally:
        os.chdir(here)
    (memory.folder / "loop-a.md").symlink_to(memory.folder / "loop-b.md")
    (memory.folder / "loop-b.md").symlink_to(memory.folder / "loop-a.md")
    (memory.folder / "circle").symlink_to(memory.folder)
    memory.write("z-good.md", "Words, too.")
    memory.add("notes", "folder", memory.folder)
    begun = time.process_time()
    memory.sync()
    assert time.process_time() - begun < 2
    assert set(memory.items()) == {"0-good.md", "broken.md", "empty.md", "z-good.md"}
    said = reasons(memory)
    assert set(said) == {
        *("binary.md", "nul.txt", "page.html", "line.md", "pipe.md", "socket.md", "loop-a.md", "loop-b.md", "circle")
    }
    assert said["binary.md"] == said["nul.txt"] == said["page.html"] == "not a text: it contains NUL bytes"
    assert said["line.md"].startswith("larger than 16 MB: it has 953.7 MB")
    assert said["pipe.md"] == "not a file: a pipe"
    assert said["loop-a.md"] == said["circle"] == "a link; what it points to is not followed"
    (chunk,) = memory.chunks("notes", "broken.md")
    assert chunk["text"].startswith("café and ")
    # It costs nothing again, and nothing is written about it.
    before = memory.dump()
    assert memory.sync() == 0
    assert memory.dump() == before


def test_a_file_that_grew_too_large_since_it_was_listed_is_refused_before_memory_is(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    with path.open("wb") as stream:
        stream.truncate(1_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="larger than 1 MB"):
            read_bytes(str(path), 1024 * 1024)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


class Restless:
    """A file that somebody writes to each time that it is read."""

    def __init__(self, path: Path, times: int) -> None:
        self.path = path
        self.left = times
        self.size = 0

    def __call__(self, descriptor: int) -> os.stat_result:
        found = os.stat_result(os.stat(descriptor))
        if self.left:
            self.left -= 1
            self.size += 1
            with self.path.open("ab") as stream:
                stream.write(b"more\n")
        return found


@pytest.mark.parametrize(("writes", "read"), [(1, True), (100, False)])
def test_half_of_an_old_version_and_half_of_a_new_one_is_never_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, read: bool
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"first\n")
    restless = Restless(path, writes)
    monkeypatch.setattr(walk, "_stat_of", restless)
    if read:
        assert read_bytes(str(path), 1_000) == path.read_bytes()
    else:
        with pytest.raises(Unreachable, match="it is being written to"):
            read_bytes(str(path), 1_000)


def test_a_file_that_is_being_written_to_is_read_by_a_later_look(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = memory.write("a.md", "Words.\n")
    memory.write("b.md", "Other words.\n")
    memory.add("notes", "folder", memory.folder)
    restless = Restless(path, 5)
    real = walk._stat_of
    monkeypatch.setattr(
        walk, "_stat_of", lambda at: restless(at) if os.fstat(at).st_ino == path.stat().st_ino else real(at)
    )
    memory.sync()
    assert list(memory.items()) == ["b.md"]
    assert reasons(memory) == {"a.md": "it is being written to"}
    memory.sync()
    assert reasons(memory) == {}
    assert memory.chunks("notes", "a.md")[0]["text"].startswith("Words.")


def test_a_file_that_vanishes_between_the_listing_and_the_reading_stops_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = memory.write("a.md", "Words.")
    memory.write("b.md", "Other words.")
    memory.add("notes", "folder", memory.folder)

    def vanish(name: str) -> IO[bytes]:
        path.unlink(missing_ok=True)
        return open_file(name)

    monkeypatch.setattr(walk, "open_file", vanish)
    memory.sync()
    assert memory.items() == {"b.md": "current"}
    memory.sync()
    assert reasons(memory) == {}


@PIPES
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_what_takes_the_place_of_a_file_after_it_was_listed_is_not_opened(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("Not to be read.")
    path = tmp_path / "a.md"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(secret)
    else:
        path.mkdir()
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        read_bytes(str(path), 1_000)
    with pytest.raises(OSError, match=r"not a file|not followed|directory"):
        open_file(str(path))
    assert time.monotonic() - begun < 5


def test_a_folder_without_permission_is_named_and_its_files_are_not_taken_for_gone(memory: Memory) -> None:
    memory.write("a.md", "Words.")
    memory.write("closed/b.md", "Words, too.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    closed = memory.folder / "closed"
    closed.chmod(0)
    try:
        with ordinary_permissions():
            memory.sync()
    finally:
        closed.chmod(0o755)
    assert memory.items() == {"a.md": "current", "closed/b.md": "current"}
    said = memory.connection.value("SELECT last_error FROM mem_tree_sources")
    assert said.lower() == "closed: permission denied"


def test_tiny_files_cost_little_each(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / str(folder)).mkdir()
        for number in range(100):
            os.close(os.open(tmp_path / f"{folder}/{number}.md", os.O_CREAT | os.O_WRONLY))
    source = SourceIntent("notes", "folder", "notes", (str(tmp_path),))
    begun = time.process_time()
    events = list(FolderReader().scan(source, {}))
    assert sum(isinstance(event, Found) for event in events) == 2_000
    assert sum(isinstance(event, FileSeen) for event in events) == 2_000
    assert time.process_time() - begun < 0.6
