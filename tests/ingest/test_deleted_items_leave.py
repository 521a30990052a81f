"""What is deleted at its source leaves the memory, with everything that was made from it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.config import QueueIntent
from agent.ingest.pipeline import plan_ingest
from agent.ingest.removal import NODES_A_TIME
from agent.ingest.sweeps import sweep_ingest
from agent.ingest.sync import plan_sync
from agent.queue.run import drain_until_idle
from agent.queue.sweep import sweep
from agent.queue.types import IngestFilePayload, NewJob, StalePlan, SyncSourcePayload
from tests.ingest.conftest import Grown, Memory, paragraphs

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"


def notes(memory: Memory, count: int, size: int = 3) -> None:
    for number in range(count):
        memory.write(f"{number:02d}.md", f"# Note {number}\n\n" + "\n\n".join(paragraphs(size, seed=number)))
    memory.add("notes", "folder", memory.folder)


def mailbox(mails: list[bytes]) -> bytes:
    return b"".join(SEPARATOR + mail + b"\n" for mail in mails)


def test_a_deleted_note_leaves_with_chunks_trees_jobs_and_file_row(grown: Grown) -> None:
    notes(grown, 6, size=12)
    grown.grow()
    (grown.folder / "03.md").unlink()
    grown.grow()
    assert sorted(grown.items()) == ["00.md", "01.md", "02.md", "04.md", "05.md"]
    assert set(grown.items().values()) == {"current"}
    for table, column in (
        ("mem_tree_chunks", "item_key"),
        ("mem_tree_files", "path"),
        ("mem_tree_trees", "item_key"),
        ("mem_tree_jobs", "payload_json"),
    ):
        # The job that removed it is told by its own row, done, and nothing else.
        left = grown.connection.all(f"SELECT {column} FROM {table} WHERE instr({column}, '03.md')")
        assert len(left) == (1 if table == "mem_tree_jobs" else 0), table
    orphans = "node > 0 AND node NOT IN (SELECT seq FROM mem_tree_chunks)"
    assert grown.count("mem_tree_vectors", orphans) == 0


def test_an_empty_source_ends_with_an_empty_finished_tree(grown: Grown) -> None:
    notes(grown, 3)
    grown.write("last.md", "# Last\n\nOne more note.")
    grown.grow()
    for number in range(3):
        (grown.folder / f"{number:02d}.md").unlink()
        grown.grow()
    grown.add("notes", "folder", grown.folder, exclude=("*.md",))
    grown.grow()
    assert grown.items() == {}
    assert grown.count("mem_tree_chunks") == grown.count("mem_tree_summaries") == grown.count("mem_tree_edges") == 0
    assert grown.connection.all("SELECT root_id FROM mem_tree_trees WHERE kind = 'source'") == [(None,)]
    grown.write("new.txt", "It goes on.")
    grown.grow()
    assert grown.items() == {"new.txt": "current"}


def test_a_mail_taken_out_of_a_mailbox_leaves_the_tree(grown: Grown, mail_bytes: Callable[..., bytes]) -> None:
    mails = [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(40)]
    path = grown.write("a.mbox", mailbox(mails))
    grown.add("mail", "mbox", path)
    grown.grow()
    grown.write("a.mbox", mailbox(mails[:10] + mails[17:]))
    grown.grow()
    assert len(grown.items()) == 33
    assert "m12@example.org" not in grown.items()


def test_what_comes_back_before_its_job_ran_stays(memory: Memory) -> None:
    notes(memory, 8)
    memory.sync()
    before = memory.chunks()
    text = (memory.folder / "03.md").read_bytes()
    (memory.folder / "03.md").unlink()
    _look_alone(memory)
    assert memory.items()["03.md"] == "queued"
    removal = plan_ingest(memory.context, IngestFilePayload("notes", "03.md"))
    memory.write("03.md", text)
    assert memory.sync() == 0
    assert removal.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        removal.writes(memory.connection)
    assert memory.chunks() == before


def test_a_removal_that_the_queue_lost_is_found_by_the_sweep(memory: Memory) -> None:
    notes(memory, 8)
    memory.sync()
    for number in (2, 5):
        (memory.folder / f"{number:02d}.md").unlink()
    _look_alone(memory)  # its jobs are lost
    memory.connection.run("UPDATE mem_tree_items SET state = 'gone' WHERE item_key = '05.md'")
    memory.connection.run("DELETE FROM mem_tree_jobs")
    assert {job.dedupe_key for job in sweep_ingest(memory.sweep_context())} == {
        "ingest:notes:02.md",
        "ingest:notes:05.md",
    }
    sweep(memory.connection, memory.registry, memory.context.intent, memory.context.clock.now_ms())
    memory.sync()
    assert len(memory.items()) == 6
    assert len({chunk["item_key"] for chunk in memory.chunks()}) == 6


@pytest.mark.parametrize("state", ["gone", "queued"])
def test_a_parked_reading_does_not_keep_an_item_that_is_gone(memory: Memory, state: str) -> None:
    notes(memory, 8)
    memory.sync()
    memory.connection.run(
        "UPDATE mem_tree_jobs SET status = 'failed', input_hash = 'old' WHERE dedupe_key = 'ingest:notes:02.md'"
    )
    memory.connection.run(
        "UPDATE mem_tree_items SET state = ?, seen_hash = NULL, place = '{\"parts\":[]}' WHERE item_key = '02.md'",
        (state,),
    )
    assert sweep(memory.connection, memory.registry, memory.context.intent, memory.context.clock.now_ms())
    drain_until_idle(memory.context, memory.registry)
    assert "02.md" not in memory.items()
    assert memory.chunks("notes", "02.md") == []


def test_a_plan_that_is_applied_twice_removes_once(grown: Grown) -> None:
    notes(grown, 6)
    grown.grow()
    (grown.folder / "01.md").unlink()
    looks = [plan_sync(grown.context, SyncSourcePayload("notes")) for _ in range(2)]
    for look in looks:
        assert look.writes is not None
        with grown.connection.write():
            look.writes(grown.connection)
    removals = [plan_ingest(grown.context, IngestFilePayload("notes", "01.md")) for _ in range(2)]
    for removal in removals:
        assert removal.writes is not None
        with grown.connection.write():
            removal.writes(grown.connection)
    grown.connection.run("DELETE FROM mem_tree_jobs")
    grown.settle_down()
    assert "01.md" not in grown.items()


@pytest.mark.parametrize("lost_after", [1, 2, 3, 5, 8])
def test_a_queue_lost_at_any_step_of_a_removal_ends_in_the_same_trees(grown: Grown, lost_after: int) -> None:
    from agent.queue.enqueue import enqueue
    from agent.queue.registry import Registry
    from agent.queue.run import run_due
    from agent.worker.kinds import KIND_NAMES

    notes(grown, 9, size=8)
    grown.grow()
    for number in (0, 4):
        (grown.folder / f"{number:02d}.md").unlink()
    enqueue(grown.connection, NewJob.sync_source("notes"), grown.context.clock.now_ms())
    run_due(grown.connection, Registry.load(KIND_NAMES), grown.context, limit=lost_after)
    grown.connection.run("DELETE FROM mem_tree_jobs")
    grown.settle_down()
    assert len(grown.items()) == 7


def test_a_long_document_is_removed_in_several_transactions_and_may_come_back_in_between(grown: Grown) -> None:
    notes(grown, 6)
    long = "\n\n".join(paragraphs(3 * NODES_A_TIME, seed=3, words=220))
    path = grown.write("long.md", long)
    grown.grow()
    whole = grown.count("mem_tree_chunks", "item_key = 'long.md'")
    assert whole > 2 * NODES_A_TIME
    path.unlink()
    _look_alone(grown)
    assert whole - NODES_A_TIME <= _removal_step(grown) < whole
    grown.write("long.md", long)
    grown.grow()
    assert grown.count("mem_tree_chunks", "item_key = 'long.md'") == whole
    path.unlink()
    _look_alone(grown)
    counts = [whole]
    while "long.md" in grown.items():
        counts.append(_removal_step(grown))
        assert 0 <= counts[-2] - counts[-1] <= NODES_A_TIME
    assert len(counts) > 3
    grown.settle_down()


def _look_alone(memory: Memory) -> None:
    """Look at the notes and write it down, with no job carried out that follows."""
    plan = plan_sync(memory.context, SyncSourcePayload("notes"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)


def _removal_step(memory: Grown) -> int:
    """Carry out one transaction of a removal; return how many chunks are left."""
    plan = plan_ingest(memory.context, IngestFilePayload("notes", "long.md"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    return memory.count("mem_tree_chunks", "item_key = 'long.md'")


def test_removals_keep_to_the_window(memory: Memory) -> None:
    notes(memory, 60)
    memory.sync()
    for number in range(25):
        (memory.folder / f"{number:02d}.md").unlink()
    memory.context.intent = replace(memory.context.intent, queue=QueueIntent(max_ready_ingest=10))
    memory.run_limit = 10
    memory.sync()
    assert len(memory.items()) == 35
    assert sorted(memory.removed) == [f"{number:02d}.md" for number in range(25)]


def test_a_mailbox_that_is_being_written_anew_loses_nothing(memory: Memory, mail_bytes: Callable[..., bytes]) -> None:
    mails = [SEPARATOR + mail_bytes(number) + b"\n" for number in range(10)]
    path = memory.write("a.mbox", b"".join(mails))
    memory.add("mail", "mbox", path)
    memory.sync()
    before = memory.chunks()
    path.write_bytes(b"".join(mails[:7]))
    plan = plan_sync(memory.context, SyncSourcePayload("mail"))
    with path.open("ab") as stream:
        stream.write(b"".join(mails[7:9]))
    assert plan.writes is not None
    with pytest.raises(StalePlan), memory.connection.write():
        plan.writes(memory.connection)
    with path.open("ab") as stream:
        stream.write(mails[9])
    assert memory.sync() == 0
    assert memory.removed == []
    assert memory.chunks() == before
