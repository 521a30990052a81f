"""What the agent is doing, told from the memory alone where it does not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.actions import status as room
from agent.actions.growth import growth
from agent.actions.home import NOT_RUNNING, Home, open_home
from agent.actions.pausing import pause
from agent.actions.status import status
from agent.clock import FakeClock
from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.db import Connection
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
from agent.states import AgentState, Lifecycle
from tests.worker.embedding_model import switching
from tests.worker.memory import add_chunk, add_item

CHUNK = """
INSERT INTO mem_tree_chunks
       (chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key, break_key,
        locator, tokens, text, lifecycle, created_at_ms)
VALUES (?, 'document', 's', 'i', ?, 0, '', 0, x'00', 0, '{}', 1, '', 'sealed', 0)
"""


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.actions.home.is_running", lambda _: True)
    monkeypatch.setattr(room, "as_the_agent_says", lambda _: None)


def put(home: Home, number: int, available_at_ms: int | None = None) -> int:
    job = NewJob.extract_chunk(f"chunk {number}")
    found = enqueue(
        home.connection, NewJob(job.kind, job.payload_json, job.dedupe_key, None, available_at_ms), home.clock.now_ms()
    )
    assert found is not None
    return found


def finish(home: Home, job_id: int, at_ms: int) -> None:
    with home.connection.write():
        home.connection.run(
            "UPDATE mem_tree_jobs SET status = 'done', completed_at_ms = ? WHERE id = ?", (at_ms, job_id)
        )


def test_agent_that_does_not_run_says_so(home: Home) -> None:
    found = status(home)
    assert (found.state, found.reason) == (AgentState.STOPPED, NOT_RUNNING)
    assert found.workers == ()
    assert found.eta_seconds is None


@pytest.mark.usefixtures("running")
def test_work_that_is_due_is_growing_and_work_that_is_not_is_idle(home: Home, clock: FakeClock) -> None:
    assert status(home).state is AgentState.IDLE
    put(home, 1, clock.now_ms() + 60_000)
    found = status(home)
    assert found.state is AgentState.IDLE
    assert (found.queue.ready, found.queue.deferred) == (0, 1)
    clock.advance(61)
    found = status(home)
    assert (found.state, found.reason) == (AgentState.GROWING, "1 job left")


@pytest.mark.usefixtures("running")
def test_pause_is_said_before_the_work_that_waits(home: Home) -> None:
    put(home, 1)
    pause(home, "1h")
    found = status(home)
    assert found.state is AgentState.PAUSED
    assert "paused by its owner until" in found.reason


@pytest.mark.usefixtures("running")
def test_failed_jobs_ask_for_attention(home: Home) -> None:
    job_id = put(home, 1)
    with home.connection.write():
        home.connection.run(
            "UPDATE mem_tree_jobs SET status = 'failed', failure_class = 'unrecoverable' WHERE id = ?", (job_id,)
        )
    found = status(home)
    assert found.state is AgentState.ATTENTION
    assert (found.queue.failed, found.queue.unrecoverable) == (1, 1)
    assert "sapwood jobs --status failed" in found.reason


@pytest.mark.usefixtures("running")
def test_time_left_follows_recent_throughput(home: Home, clock: FakeClock) -> None:
    begun = clock.now_ms()
    ids = [put(home, number) for number in range(80)]
    assert status(home).eta_seconds is None
    clock.advance(10)
    for number, job_id in enumerate(ids[:40]):
        finish(home, job_id, begun + number * 250)
    # 40 in 10 seconds, and 40 are left.
    assert status(home).eta_seconds == 10
    clock.advance(3_600)
    assert status(home).eta_seconds is None
    for job_id in ids[40:]:
        finish(home, job_id, clock.now_ms())
    assert status(home).eta_seconds == 0


def test_time_left_counts_items_that_wait_for_a_job_of_their_own(home: Home, clock: FakeClock) -> None:
    connection, begun = home.connection, clock.now_ms()
    ids = [put(home, number) for number in range(50)]
    clock.advance(10)
    for number, job_id in enumerate(ids[:40]):
        finish(home, job_id, begun + number * 250)
    with connection.write():
        for number, state in enumerate(["current"] * 4 + ["found"] * 30):
            connection.run(
                """
                INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, state)
                VALUES ('s', ?, 'document', '{}', x'00', ?)
                """,
                (str(number), state),
            )
        for number in range(8):
            connection.run(CHUNK, (str(number), number + 1))
    # Ten jobs, and thirty items with a reading, a sealing and two extractions each, at four a second.
    assert growth(connection, clock.now_ms()).seconds_left == round((10 + 30 * 4) / 4)

    enqueue(connection, NewJob.sync_source("s"), clock.now_ms())
    assert growth(connection, clock.now_ms()).seconds_left is None, "while it looks, nobody knows how much is there"


def _look_at(home: Home, source_id: str, synced_ms: int | None = None) -> None:
    assert enqueue(home.connection, NewJob.sync_source(source_id), home.clock.now_ms()) is not None
    if synced_ms is not None:
        home.connection.run(
            "INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms) VALUES (?, 'folder', ?)",
            (source_id, synced_ms),
        )


def test_a_later_look_at_a_known_source_takes_no_time_left_away(home: Home) -> None:
    for number in range(40):
        finish(home, put(home, number), home.clock.now_ms() - 1_000 * (40 - number))
    put(home, 100)
    _look_at(home, "known", synced_ms=1)
    assert growth(home.connection, home.clock.now_ms()).seconds_left is not None
    _look_at(home, "new")
    assert growth(home.connection, home.clock.now_ms()).unread.looking
    assert growth(home.connection, home.clock.now_ms()).seconds_left is None


@pytest.mark.usefixtures("running")
def test_source_that_waits_for_an_answer_is_no_finished_memory(paths: Paths, clock: FakeClock, tmp_path: Path) -> None:
    add_source(paths, SourceIntent(id="notes", kind="folder", name="notes", paths=(str(tmp_path),)))
    with open_home(paths, clock=clock) as home:
        assert status(home).reason == "everything is grown"
        home.connection.run("INSERT INTO mem_tree_questions VALUES ('notes', 'q', 20, 25, '[]', 1)")
        found = status(home)
        assert (found.state, found.questions) == (AgentState.ATTENTION, ("notes",))
        assert "`sapwood sources`" in found.reason
        put(home, 1)
        assert status(home).state is AgentState.GROWING
        assert status(home).questions == ("notes",)


def test_first_time_left_is_from_a_pace_that_means_something(home: Home) -> None:
    connection, now_ms = home.connection, home.clock.now_ms()
    for number in range(100, 108):
        put(home, number)

    def left() -> int | None:
        return growth(connection, now_ms).seconds_left

    for number in range(40):
        finish(home, put(home, number), now_ms - 50 * (40 - number))
    assert left() is None, "of two seconds"
    finish(home, put(home, 41), now_ms - 50_000)
    assert left() is not None
    # The look went on until 8 s ago: what was done before then was done beside it.
    connection.run(
        "INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms, look_ms) VALUES ('s', 'folder', ?, 100)",
        (now_ms - 8_000,),
    )
    assert left() is not None
    connection.run("UPDATE mem_tree_sources SET look_ms = 40000")
    assert left() is None
    connection.run("UPDATE mem_tree_sources SET last_sync_ms = ?", (now_ms - 30_000,))
    for number in range(42, 82):
        finish(home, put(home, number), now_ms - 20_000 + 500 * (number - 42))
    assert left() == 8 * 20 / 80


@pytest.mark.usefixtures("running")
def test_how_each_source_is_noticed_is_told(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [
        {"source": "notes", "how": "watched", "reason": ""},
        {"source": "mail", "how": "looked at every 15 min", "reason": "it is not there"},
    ]
    monkeypatch.setattr(room, "ask_the_agent", lambda _: {"watching": said})
    notes, mail = status(home).watching
    assert notes.is_watched
    assert (mail.how, mail.reason, mail.is_watched) == ("looked at every 15 min", "it is not there", False)


@pytest.mark.usefixtures("running")
def test_a_full_disk_is_said_instead_of_a_time_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home, 1)
    assert status(home).state is AgentState.GROWING
    monkeypatch.setattr(room, "free_bytes", lambda _: 1_000_000)
    found = status(home)
    assert found.state is AgentState.ATTENTION
    assert "is full: make room" in found.reason
    assert found.eta_seconds is None


def test_a_switch_of_the_embedding_model_is_told_with_how_far_it_is(
    connection: Connection, paths: Paths, clock: FakeClock
) -> None:
    home = switching(connection, clock, paths)
    with connection.write():
        item = add_item(connection)
        for at in range(100):
            add_chunk(connection, item, f"text {at}", order=at, lifecycle=Lifecycle.SEALED)
    home.finish()
    home.use("box")
    home.sweep()
    home.turn()
    with open_home(paths, clock=clock) as opened:
        found = status(replace(opened, intent=home.context.intent))
    assert found.embedded == 64
    assert found.embedding is not None
    assert found.embedding.words == "64 of 100 for the new model (64 %); the old one serves"
    said = found.embedding.as_json()
    assert (said["serving"], said["signature"]) == ("builtin:static256-i4-2@256", "ollama:words@256")
    assert (said["nodes"], said["percent"], said["stuck_since"]) == (100, 64, None)


def test_status_of_a_usual_memory_says_nothing_more_of_embedding(home: Home) -> None:
    found = status(home).embedding
    assert found is not None
    assert found.words is None
