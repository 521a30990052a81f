"""The bounded write: all of an item's version or nothing, no model, nothing twice."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import agent.ingest.pipeline as pipeline
from agent.ingest.pipeline import plan_ingest
from agent.queue.types import IngestFilePayload, Plan
from tests.ingest.conftest import Memory, paragraphs


def found(memory: Memory) -> Plan:
    memory.write("a.md", "\n\n".join(paragraphs(60)))
    memory.add("notes", "folder", memory.folder)
    from agent.ingest.sync import plan_sync
    from agent.queue.types import SyncSourcePayload

    sync = plan_sync(memory.context, SyncSourcePayload("notes"))
    with memory.connection.write():
        assert sync.writes is not None
        sync.writes(memory.connection)
    return plan_ingest(memory.context, IngestFilePayload("notes", "a.md"))


def test_planning_writes_nothing(memory: Memory) -> None:
    found(memory)
    assert memory.chunks() == []
    assert memory.items() == {"a.md": "queued"}


@pytest.mark.parametrize("at", [1, 3, 8])
def test_a_failure_inside_leaves_nothing_behind(memory: Memory, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = found(memory)
    before = memory.dump()
    real = pipeline.add_text
    calls = iter(range(1, 1_000))

    def fail(*args: object) -> None:
        if next(calls) == at:
            raise RuntimeError("the power went")
        real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "add_text", fail)
    assert plan.writes is not None
    with pytest.raises(RuntimeError), memory.connection.write():
        plan.writes(memory.connection)
    assert memory.dump() == before


def test_running_a_plan_twice_leaves_the_rows_of_once(memory: Memory) -> None:
    plan = found(memory)
    assert plan.writes is not None
    with memory.connection.write():
        first = list(plan.writes(memory.connection) or ())
    before = memory.dump()
    again = plan_ingest(memory.context, IngestFilePayload("notes", "a.md"))
    assert again.writes is not None
    with memory.connection.write():
        second = list(again.writes(memory.connection) or ())
    assert memory.dump() == before
    assert {job.kind for job in first} == {"extract_chunk"}
    assert second == []


def test_an_ingest_after_a_crash_between_plan_and_settle_is_the_same(memory: Memory) -> None:
    found(memory)  # planned, never settled
    plan = plan_ingest(memory.context, IngestFilePayload("notes", "a.md"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    texts = [chunk["text"] for chunk in memory.chunks()]
    assert "\n\n".join(texts) == "\n\n".join(paragraphs(60))


def test_no_model_is_called_on_this_path() -> None:
    """Lane 1 imports nothing of the models' room but a name for type checkers."""
    room = Path(pipeline.__file__).parent
    for path in room.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not any(name.startswith("agent.models") for name in names), path


def test_a_reading_that_fails_keeps_what_is_held(memory: Memory) -> None:
    path = memory.write("a.md", "Words that stay.")
    memory.add("notes", "folder", memory.folder)
    memory.sync()
    path.write_bytes(b"now\0binary")
    memory.connection.run("UPDATE mem_tree_items SET state = 'queued', seen_hash = 'new'")
    plan = plan_ingest(memory.context, IngestFilePayload("notes", "a.md"))
    assert plan.writes is not None
    with memory.connection.write():
        plan.writes(memory.connection)
    state, reason = memory.connection.one("SELECT state, reason FROM mem_tree_items") or ("", "")
    assert state == "unreadable"
    assert "NUL" in reason
    assert [chunk["text"] for chunk in memory.chunks()] == ["Words that stay."]


def test_a_stream_that_changed_order_has_its_leaves_appended_anew(memory: Memory) -> None:
    lines = [f"[10:{at // 4:02d}] <ada> {text[:80]}" for at, text in enumerate(paragraphs(200, words=12))]
    memory.write("2024-03-05.txt", "\n".join(lines))
    memory.add("chat", "irc", memory.folder)
    memory.sync()
    memory.connection.run("DELETE FROM mem_tree_jobs")
    memory.connection.run(
        "INSERT INTO mem_tree_trees (tree_id, kind, source_id, shape_version, updated_at_ms)"
        " VALUES ('source:chat@1', 'source', 'chat', 1, 0)"
    )
    memory.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'sealed'")
    memory.write("2024-03-05.txt", "\n".join([*lines[120:], *lines[:120]]))
    memory.sync()
    chunks = memory.chunks()
    moved = [chunk for chunk in chunks if chunk["lifecycle"] == "admitted"]
    assert moved
    wanted = sorted(f"append:source:chat:leaf:{chunk['chunk_id']}" for chunk in moved)
    assert sorted(memory.jobs("append_buffer")) == wanted
    assert memory.jobs("seal") == ["seal:source:chat@1:0"]
    assert [chunk["order_key"] for chunk in chunks] == sorted(chunk["order_key"] for chunk in chunks)
