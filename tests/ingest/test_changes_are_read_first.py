"""Changes that were just made go before what a first look found; items of older readers are read again."""

from __future__ import annotations

from dataclasses import replace

from agent.config import QueueIntent
from agent.ingest import reading, sync, window
from agent.ingest.sync import plan_sync
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.run import run_due
from agent.queue.types import SyncSourcePayload
from tests.ingest.conftest import Memory, paragraphs


def look(memory: Memory, source_id: str) -> None:
    """Look at a source and queue what follows, without reading anything."""
    plan = plan_sync(memory.context, SyncSourcePayload(source_id))
    assert plan.writes is not None
    with memory.connection.write() as connection:
        enqueue_many_tx(connection, list(plan.writes(connection) or ()), memory.context.clock.now_ms())


def test_a_change_is_read_before_what_a_first_look_found(memory: Memory) -> None:
    for number in range(5):
        memory.write(f"diary/{number}.md", f"Day {number}.")
    for number in range(40):
        memory.write(f"archive/{number:02d}.md", f"Old note {number}.")
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=10))
    memory.add("diary", "folder", memory.folder / "diary")
    memory.sync("diary")
    memory.add("archive", "folder", memory.folder / "archive")
    look(memory, "archive")
    assert len(memory.jobs("ingest_file")) == 10
    memory.write("diary/4.md", "Day 4, as it was.")
    (memory.folder / "diary/2.md").unlink()
    look(memory, "diary")
    assert len(memory.jobs("ingest_file")) == 12
    memory.ingested.clear()
    run_due(memory.connection, memory.registry, memory.context, limit=2)
    assert (memory.removed[:1], memory.ingested[:1]) == (["2.md"], ["4.md"])
    assert memory.connection.value("SELECT count(*) FROM mem_tree_items WHERE urgent = 1") == 0


def test_a_first_look_and_many_changes_at_once_are_not_urgent(memory: Memory) -> None:
    for number in range(window.URGENT_LIMIT + 20):
        memory.write(f"{number:03d}.md", f"Note {number}.")
    memory.add("notes", "folder", memory.folder)
    look(memory, "notes")
    assert memory.connection.value("SELECT count(*) FROM mem_tree_items WHERE urgent = 1") == 0
    memory.sync()
    for number in range(window.URGENT_LIMIT + 20):
        memory.write(f"{number:03d}.md", f"Note {number}, written anew.")
    look(memory, "notes")
    assert memory.connection.value("SELECT count(*) FROM mem_tree_items WHERE urgent = 1") == 0


def test_what_is_urgent_is_found_again_by_the_sweep_before_all_else(memory: Memory) -> None:
    from agent.ingest.sweeps import sweep_ingest

    for number in range(30):
        memory.write(f"{number:02d}.md", f"Note {number}.")
    memory.add("notes", "folder", memory.folder)
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=3))
    look(memory, "notes")
    memory.connection.run("DELETE FROM mem_tree_jobs")
    memory.connection.run("UPDATE mem_tree_items SET state = 'found'")
    memory.connection.run("UPDATE mem_tree_items SET urgent = 1 WHERE item_key = '25.md'")
    keys = [job.dedupe_key for job in sweep_ingest(memory.sweep_context())]
    assert keys == ["ingest:notes:25.md", "ingest:notes:00.md", "ingest:notes:01.md"]


def test_items_that_older_readers_read_are_read_again_once_and_keep_their_chunks(memory: Memory) -> None:
    for number in range(4):
        memory.write(f"{number}.md", "\n\n".join(paragraphs(6, seed=number)))
    memory.write("locked.md", b"no text\0at all")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    chunks, jobs = memory.chunks(), memory.jobs("extract_chunk")
    memory.connection.run("UPDATE mem_tree_sources SET reading_version = ?", (reading.READING_VERSION - 1,))
    assert memory.sync() == 4
    assert memory.chunks() == chunks
    assert memory.jobs("extract_chunk") == jobs
    assert memory.sync() == 0
    assert memory.connection.value("SELECT reading_version FROM mem_tree_sources") == reading.READING_VERSION


def test_the_length_of_a_whole_look_is_kept_all_of_its_runs_together(memory: Memory) -> None:
    for number in range(25):
        memory.write(f"{number:02d}.md", f"Note {number}.")
    memory.add("notes", "folder", memory.folder)
    clock = memory.context.clock
    real = memory.context.check

    def slow() -> None:
        clock.sleep(0.01)
        real()

    memory.context.check = slow  # type: ignore[method-assign]
    for _ in range(3):
        plan = sync.plan_sync(memory.context, SyncSourcePayload("notes"), run_limit=10)
        assert plan.writes is not None
        with memory.connection.write():
            plan.writes(memory.connection)
    found = memory.connection.value("SELECT look_ms FROM mem_tree_sources")
    # Two events a file, and those of the runs before are seen again as unchanged.
    assert found >= 25 * 2 * 10
    assert memory.connection.value("SELECT count(*) FROM mem_tree_state WHERE key LIKE 'sync_took:%'") == 0
    before = found
    plan = sync.plan_sync(memory.context, SyncSourcePayload("notes"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    assert memory.connection.value("SELECT look_ms FROM mem_tree_sources") == 25 * 10 < before


def test_a_touch_does_nothing(memory: Memory) -> None:
    import os

    path = memory.write("a.md", "\n\n".join(paragraphs(6)))
    memory.write("b.md", "Another one.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    count = "SELECT count(*) FROM mem_tree_jobs WHERE kind <> 'sync_source'"
    before, jobs = memory.dump(), memory.connection.value(count)
    os.utime(path, (1, 1))
    assert memory.sync() == 0
    after = memory.dump()
    assert [after[at] for at in (0, 1, 2)] == [before[at] for at in (0, 1, 2)]
    assert memory.connection.value(count) == jobs
