"""Sweeps: lane 1's work follows from items and chunks, whatever became of the queue."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from agent.config import QueueIntent
from agent.ingest.admission import admit_parked_tx
from agent.ingest.pipeline import plan_ingest
from agent.ingest.sweeps import sweep_extract, sweep_ingest, sweep_sync
from agent.ingest.unread import NotRead, list_unreadable
from agent.queue.registry import JobSpec, Registry
from agent.queue.requeue import retry
from agent.queue.run import drain_until_idle
from agent.queue.sweep import sweep
from agent.queue.types import NOTHING_TO_DO, IngestFilePayload
from tests.ingest.conftest import Memory, paragraphs


def swept(memory: Memory) -> int:
    """Sweep and drain until nothing is found any more; return in how many rounds."""
    rounds = 0
    while sweep(memory.connection, memory.registry, memory.context.intent, memory.context.clock.now_ms()):
        drain_until_idle(memory.context, memory.registry)
        rounds += 1
    return rounds


def test_the_jobs_table_emptied_at_any_moment_loses_no_item(memory: Memory) -> None:
    for number in range(40):
        memory.write(f"{number:02d}.md", f"Note number {number}.")
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=5))
    memory.add("notes", "folder", memory.folder)
    chance = random.Random(1)
    registry = memory.registry

    def losing(spec: JobSpec) -> JobSpec:
        def handle(context: object, job: object) -> object:
            plan = spec.handle(context, job)  # type: ignore[arg-type]
            if chance.random() < 0.2:
                memory.connection.run("DELETE FROM mem_tree_jobs")
            return plan

        return replace(spec, handle=handle)  # type: ignore[arg-type]

    lossy = Registry.of([losing(spec) for spec in registry])
    for _ in range(60):
        sweep(memory.connection, lossy, memory.context.intent, memory.context.clock.now_ms())
        drain_until_idle(memory.context, lossy)
        if len(memory.items()) == 40 and set(memory.items().values()) == {"current"}:
            break
    assert set(memory.items().values()) == {"current"}
    assert len(memory.chunks()) == 40


def test_a_source_that_was_never_looked_at_is_found(memory: Memory) -> None:
    memory.write("a.md", "Words.")
    memory.add("notes", "folder", memory.folder)
    assert [job.dedupe_key for job in sweep_sync(memory.sweep_context())] == ["sync:notes"]
    swept(memory)
    assert memory.items() == {"a.md": "current"}
    assert list(sweep_sync(memory.sweep_context())) == []
    memory.context.clock.sleep(memory.context.intent.schedule.sync_seconds + 1)
    assert [job.dedupe_key for job in sweep_sync(memory.sweep_context())] == ["sync:notes"]


def test_pending_chunks_without_a_job_are_found_and_those_with_one_are_not(memory: Memory) -> None:
    memory.write("a.md", "\n\n".join(paragraphs(60)))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    assert list(sweep_extract(memory.sweep_context())) == []
    chunks = memory.chunks()
    memory.connection.run("DELETE FROM mem_tree_jobs WHERE kind = 'extract_chunk'")
    assert {job.dedupe_key for job in sweep_extract(memory.sweep_context())} == {
        f"extract:{chunk['chunk_id']}" for chunk in chunks
    }
    assert len(list(sweep_extract(memory.sweep_context(limit=3)))) == 3


def test_a_chunk_whose_extract_is_parked_is_admitted_degraded(memory: Memory) -> None:
    memory.write("a.md", "\n\n".join(paragraphs(6)))
    memory.write("2024-01-01.txt", "[10:00] <ada> hello there\n[10:01] <bob> hello to you too\n")
    memory.add("notes", "folder", memory.folder, exclude=("*.txt",))
    memory.add("chat", "irc", memory.folder, exclude=("*.md",))
    memory.sync()
    memory.connection.run(
        "UPDATE mem_tree_jobs SET status = 'failed', failure_class = 'unrecoverable' WHERE kind = 'extract_chunk'"
    )
    registry = Registry.of(
        [*memory.registry, JobSpec("extract_chunk", lambda context, job: NOTHING_TO_DO, sweep=sweep_extract)]
    )
    now_ms = memory.context.clock.now_ms()
    assert sweep(memory.connection, registry, memory.context.intent, now_ms) == {"extract_chunk": 2}
    drain_until_idle(memory.context, memory.registry)
    rows = memory.connection.all("SELECT DISTINCT lifecycle, degraded FROM mem_tree_chunks")
    assert rows == [("admitted", 1)]
    assert memory.jobs("seal_document") == [f"seal_doc:notes/a.md@{memory.context.clock.now_ms()}"]
    (leaf,) = memory.chunks("chat")
    assert memory.jobs("append_buffer") == [f"append:source:chat:leaf:{leaf['chunk_id']}"]
    assert memory.jobs("seal") == ["seal:source:chat@1:0"]
    assert list(sweep_extract(memory.sweep_context())) == []


def test_a_chunk_that_is_refused_when_its_extract_is_parked_keeps_no_vector(memory: Memory) -> None:
    memory.write("a.md", "\n\n".join(paragraphs(6)))
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    with memory.connection.write() as connection:
        connection.run("INSERT INTO mem_tree_signatures (signature) VALUES ('test:s@1')")
        connection.run(
            "INSERT INTO mem_tree_vectors (signature_id, node, windows) SELECT 1, seq, x'01' FROM mem_tree_chunks"
        )
        connection.run("UPDATE mem_tree_chunks SET embedded_signature = 1")
        connection.run("UPDATE mem_tree_score SET fast = 0, signals = '{\"blob\": 1.0}'")
        connection.run("UPDATE mem_tree_jobs SET status = 'failed' WHERE kind = 'extract_chunk'")
        for (item_seq,) in connection.all("SELECT item_seq FROM mem_tree_items"):
            admit_parked_tx(connection, item_seq, memory.context.clock.now_ms())
    rows = memory.connection.all("SELECT DISTINCT lifecycle, embedded_signature FROM mem_tree_chunks")
    assert rows == [("dropped", -1)]
    assert memory.connection.value("SELECT count(*) FROM mem_tree_vectors") == 0


def test_a_parked_ingest_is_not_asked_for_again_until_its_item_changes(memory: Memory) -> None:
    memory.write("a.md", "Words.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    memory.connection.run("UPDATE mem_tree_items SET state = 'queued', seen_hash = 'first'")
    memory.connection.run("UPDATE mem_tree_jobs SET status = 'failed', input_hash = 'first' WHERE kind = 'ingest_file'")
    registry = Registry.of([spec for spec in memory.registry if spec.kind == "ingest_file"])
    assert sweep(memory.connection, registry, memory.context.intent, 0) == {}
    memory.connection.run("UPDATE mem_tree_items SET seen_hash = 'second'")
    assert sweep(memory.connection, registry, memory.context.intent, 0) == {"ingest_file": 1}


def test_on_a_finished_memory_sweeps_read_as_little_whatever_its_size(memory: Memory) -> None:
    memory.add("notes", "folder", memory.folder)
    assert _steps_of_sweeps(memory, 10) >= _steps_of_sweeps(memory, 150) - 40


def _steps_of_sweeps(memory: Memory, notes: int) -> int:
    """Return the steps of SQLite's machine that all sweeps take once so many notes are in the memory."""
    for number in range(notes):
        memory.write(f"{number:03d}.md", "\n\n".join(paragraphs(12, seed=number)))
    memory.sync()
    memory.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'sealed'")
    memory.connection.run("UPDATE mem_tree_jobs SET status = 'done', completed_at_ms = 0")
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    memory.connection.raw.set_progress_handler(count, 1)
    try:
        for each in (sweep_extract, sweep_ingest, sweep_sync):
            assert list(each(memory.sweep_context())) == []
    finally:
        memory.connection.raw.set_progress_handler(None, 1)
    return steps


def test_an_ingest_of_an_item_that_is_current_or_unknown_does_nothing(memory: Memory) -> None:
    memory.write("a.md", "Words.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    before = memory.dump()
    for key in ("a.md", "nobody.md"):
        plan = plan_ingest(memory.context, IngestFilePayload("notes", key))
        with memory.connection.write():
            assert not list((plan.writes and plan.writes(memory.connection)) or ())
    assert memory.dump() == before


@pytest.mark.parametrize(
    ("status", "reason", "error", "words"),
    [
        ("failed", "crash_loop", "no words", "its reading ended the worker three times"),
        ("failed", "handler_error", "no such codec", "its reading failed: no such codec"),
        ("failed", "handler_error", None, "its reading failed: handler_error"),
        ("cancelled", None, None, "its reading was cancelled"),
    ],
)
def test_an_item_whose_ingest_is_parked_is_listed_and_read_again_by_a_retry(
    memory: Memory, status: str, reason: str | None, error: str | None, words: str
) -> None:
    memory.write("a.md", "Words.")
    memory.write("b.md", "Other words.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    connection = memory.connection
    assert list_unreadable(connection, "notes") == []
    connection.run("DELETE FROM mem_tree_chunks WHERE item_key = 'a.md'")
    connection.run("UPDATE mem_tree_items SET state = 'queued', held_hash = NULL WHERE item_key = 'a.md'")
    job = connection.value("SELECT id FROM mem_tree_jobs WHERE dedupe_key = 'ingest:notes:a.md'")
    connection.run(
        "UPDATE mem_tree_jobs SET status = ?, failure_reason = ?, last_error = ? WHERE id = ?",
        (status, reason, error, job),
    )
    memory.sync()
    assert list_unreadable(connection, "notes") == [NotRead("a.md", f"{words}; `sapwood retry {job}` tries again")]
    assert retry(connection, job, memory.context.clock.now_ms())
    assert list_unreadable(connection, "notes") == []
    drain_until_idle(memory.context, memory.registry)
    assert memory.items() == {"a.md": "current", "b.md": "current"}
    assert [chunk["text"] for chunk in memory.chunks("notes", "a.md")] == ["Words."]
