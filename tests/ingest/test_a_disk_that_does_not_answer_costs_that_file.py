"""A call to the disk that never comes back: after it ended one worker it costs its file only, and is tried again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent.ingest.readers.patience import MOST_STUCK, STUCK, Patience, Stuck, in_time, patience
from agent.ingest.readers.protocol import SourceMissing, Unreachable
from agent.ingest.readers.walk import open_file, read_bytes
from agent.ingest.unread import list_unreadable, parked_look
from agent.ingest.wary import wary_key
from agent.queue.enqueue import enqueue
from agent.queue.registry import JobSpec, Registry
from agent.queue.run import drain_until_idle
from agent.queue.types import Job, NewJob
from agent.worker.handlers import ingest_file, sync_source
from tests.ingest.conftest import Memory

LIMIT_S = 1.0


class Disk:
    """Where calls hang: for paths that contain one of ``hangs``, until ``answer`` is called."""

    def __init__(self) -> None:
        self.hangs: set[str] = set()
        self.calls = 0
        self._answers = threading.Event()

    def answer(self) -> None:
        self.hangs.clear()
        self._answers.set()

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *more: Any, **named: Any) -> Any:
            if any(part in str(path) for part in self.hangs):
                self.calls += 1
                assert self._answers.wait(30)
            return call(path, *more, **named)

        return wrapped


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    found = Disk()
    for name in ("open", "scandir"):
        monkeypatch.setattr(os, name, found.around(getattr(os, name)))
    yield found
    found.answer()


def look(memory: Memory, *, crashes: int = 0) -> None:
    """Look at the notes by the real handlers, as jobs that ended so many workers before."""
    enqueue(memory.connection, NewJob.sync_source("notes"), memory.context.clock.now_ms())
    drain(memory, crashes=crashes)


def drain(memory: Memory, *, crashes: int) -> None:
    def crashed(handle: Callable[[Any, Job], Any]) -> Callable[[Any, Job], Any]:
        return lambda context, job: handle(context, replace(job, crashes=crashes))

    limits = replace(memory.context.intent.limits, sync_source=LIMIT_S, ingest_file=LIMIT_S)
    memory.context.intent = replace(memory.context.intent, limits=limits)
    registry = Registry.of(
        JobSpec(str(spec.kind), crashed(spec.handle), sweep=spec.sweep) for spec in (sync_source.SPEC, ingest_file.SPEC)
    )
    drain_until_idle(memory.context, registry)


def reasons(memory: Memory) -> dict[str, str]:
    return {each.path: each.reason for each in list_unreadable(memory.connection, "notes")}


def is_wary(memory: Memory) -> bool:
    return bool(memory.connection.value("SELECT 1 FROM mem_tree_state WHERE key = ?", (wary_key("notes"),)))


@pytest.fixture
def notes(memory: Memory) -> Memory:
    for name in ("a.md", "hung.md", "z.md", "below/b.md"):
        memory.write(name, f"# {name}\n\nWords of {name}.\n")
    memory.add("notes", "folder", memory.folder)
    return memory


def test_a_file_that_hangs_is_listed_and_the_others_are_read(notes: Memory, disk: Disk) -> None:
    disk.hangs = {"hung.md"}
    look(notes, crashes=1)
    assert set(notes.items()) == {"a.md", "z.md", "below/b.md"}
    assert reasons(notes) == {"hung.md": STUCK}


def test_later_looks_try_it_again_once_each_and_end_no_worker(notes: Memory, disk: Disk) -> None:
    disk.hangs = {"hung.md"}
    look(notes, crashes=1)
    assert is_wary(notes)
    for _ in range(2):
        before = disk.calls
        look(notes)
        assert disk.calls == before + 1
        assert reasons(notes) == {"hung.md": STUCK}
    disk.answer()
    look(notes)
    assert reasons(notes) == {}
    assert notes.items()["hung.md"] == "current"
    assert not is_wary(notes)


def test_what_was_held_of_a_file_that_hangs_is_kept(notes: Memory, disk: Disk) -> None:
    look(notes)
    held = notes.chunks("notes", "hung.md")
    notes.write("hung.md", "# hung.md\n\nOther words.\n")
    disk.hangs = {"hung.md"}
    look(notes, crashes=1)
    assert reasons(notes) == {"hung.md": STUCK}
    assert notes.chunks("notes", "hung.md") == held
    disk.answer()
    look(notes)
    assert "Other words." in notes.chunks("notes", "hung.md")[0]["text"]


def test_a_folder_that_cannot_be_listed_hides_what_is_below_it_only(notes: Memory, disk: Disk) -> None:
    look(notes)
    disk.hangs = {"/below"}
    notes.write("new.md", "# New\n\nNew words.\n")
    look(notes, crashes=1)
    assert set(notes.items()) == {"a.md", "hung.md", "z.md", "below/b.md", "new.md"}
    assert notes.connection.value("SELECT last_error FROM mem_tree_sources") == f"below: {STUCK}"


def test_a_root_that_cannot_be_listed_is_a_source_that_is_not_there(notes: Memory, disk: Disk) -> None:
    look(notes)
    disk.hangs = {"source"}
    look(notes, crashes=1)
    assert STUCK in notes.connection.value("SELECT last_error FROM mem_tree_sources")
    assert len(notes.items()) == 4
    assert is_wary(notes)


def test_a_read_that_hangs_in_the_middle_of_a_file_is_given_up(notes: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = notes.write("long.md", "words " * 100_000)
    with patience(Patience(5, 15)):
        assert read_bytes(str(path), 1_000_000) == path.read_bytes()
    answers, read, reads = threading.Event(), os.read, []

    def hang(descriptor: int, size: int) -> bytes:
        reads.append(size)
        if len(reads) > 1:
            answers.wait(30)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", hang)
    with patience(Patience(0.1, 1)), pytest.raises(Unreachable, match=STUCK):
        read_bytes(str(path), 1_000_000)
    answers.set()


def test_without_patience_no_thread_is_made(notes: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread"))
    look(notes)
    assert len(notes.items()) == 4


def test_many_that_hang_are_a_disk_that_does_not_answer() -> None:
    never = threading.Event()
    held = Patience(0.02, 0.06)
    begun = time.monotonic()
    with patience(held):
        for _ in range(MOST_STUCK - 1):
            with pytest.raises(Stuck):
                in_time(never.wait)
        with pytest.raises(SourceMissing, match="does not answer"):
            in_time(never.wait)
    assert time.monotonic() - begun < 15
    never.set()


def test_a_call_that_comes_back_late_is_undone_and_errors_are_the_call_s_own() -> None:
    late, undone = threading.Event(), threading.Event()

    def call() -> str:
        late.wait()
        return "opened"

    def undo(result: str) -> None:
        assert result == "opened"
        undone.set()

    with patience(Patience(0.05, 1)):
        with pytest.raises(Stuck):
            in_time(call, undo)
        late.set()
        assert undone.wait(10)
        with pytest.raises(FileNotFoundError):
            open_file("/nowhere/at/all")
        assert in_time(lambda: 7) == 7


def test_a_look_that_is_parked_is_said_with_what_to_do(notes: Memory) -> None:
    look(notes)
    assert parked_look(notes.connection, "notes") is None
    notes.connection.run(
        "UPDATE mem_tree_jobs SET status = 'failed', failure_reason = 'crash_loop', last_error = 'it ran past 300 s'"
        " WHERE kind = 'sync_source'"
    )
    said = parked_look(notes.connection, "notes")
    assert said == ("looking at it ended the worker three times (it ran past 300 s); `sapwood sync notes` tries again")
    look(notes)
    assert parked_look(notes.connection, "notes") is None


def test_an_item_whose_file_hangs_when_it_is_to_be_read_is_listed_and_the_others_are_stored(
    notes: Memory, disk: Disk
) -> None:
    enqueue(notes.connection, NewJob.sync_source("notes"), notes.context.clock.now_ms())
    drain_until_idle(notes.context, Registry.of([sync_source.SPEC]))
    assert set(notes.items().values()) == {"queued"}
    disk.hangs = {"hung.md"}
    drain(notes, crashes=2)
    assert notes.items() == {
        **dict.fromkeys(("a.md", "below/b.md", "z.md"), "current"),
        "hung.md": "unreadable",
    }
    assert reasons(notes) == {"hung.md": STUCK}
    assert is_wary(notes)
    disk.answer()
    look(notes)
    assert set(notes.items().values()) == {"current"}
    assert reasons(notes) == {}
