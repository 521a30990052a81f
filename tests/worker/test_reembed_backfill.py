"""``reembed_backfill``: every node gets its vectors, batch by batch, and what vanished meanwhile gets none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.db.serving import set_serving_tx
from agent.models.protocol import Profile
from agent.paths import Paths
from agent.queue import LocalContext
from agent.queue.registry import SweepContext
from agent.queue.types import DONE, REEMBED_BACKFILL_REVISIT_MS, Defer, Job, NewJob, Plan
from agent.states import JobStatus, Lifecycle
from agent.worker import embedding_batch
from agent.worker.handlers.reembed_backfill import NODES_A_RUN, SPEC
from agent.worker.profile import OPENER_KEY
from agent.worker.reembed_sweep import Unembedded, nodes_without_vector, sweep_reembed
from tests.worker.memory import add_chunk, add_item, add_summary


@dataclass
class LetterEmbedder:
    """Two dimensions: how many letters a text has, scaled. A text without letters says nothing."""

    signature: str = "test:letters@2"
    dimensions: int = 2
    calls: int = 0
    clock: FakeClock | None = None

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        if self.clock is not None:
            self.clock.advance(1.5)
        return np.array(
            [[min(sum(map(str.isalpha, text)), 127), -int(any(map(str.isalpha, text)))] for text in texts], np.int8
        ).reshape(len(texts), 2)

    def windows(self, text: str) -> list[str]:
        return [part for part in text.split("\n\n") if part]

    def trusts(self, query: str) -> bool:
        return True


@pytest.fixture
def embedder() -> LetterEmbedder:
    return LetterEmbedder()


@pytest.fixture
def context(connection: Connection, clock: FakeClock, paths: Paths, embedder: LetterEmbedder) -> LocalContext:
    other: Any = object()
    context = LocalContext(connection, clock, Intent(), paths)
    context.shared[OPENER_KEY] = lambda intent, shared: Profile("test", embedder, other, other)
    return context


def job(signature: str = "test:letters@2") -> Job:
    new = NewJob.reembed_backfill(signature)
    return Job(1, new.kind, new.payload_json, new.dedupe_key, JobStatus.RUNNING, 1, 3, 0, 0, 0, "w", "t")


def apply(context: LocalContext, plan: Plan) -> None:
    if plan.writes is not None:
        with context.connection.write():
            plan.writes(context.connection)


def run(context: LocalContext, signature: str = "test:letters@2") -> Plan:
    plan = SPEC.handle(context, job(signature))
    apply(context, plan)
    return plan


def vectors(connection: Connection) -> dict[int, bytes]:
    return dict(connection.all("SELECT node, windows FROM mem_tree_vectors"))


def fill(connection: Connection, count: int) -> None:
    with connection.write():
        item = add_item(connection)
        for number in range(count):
            add_chunk(connection, item, f"text {number}", order=number, lifecycle=Lifecycle.ADMITTED)


def test_it_is_llm_bound_with_three_attempts() -> None:
    assert (SPEC.kind, SPEC.llm_bound, SPEC.max_attempts, SPEC.rank, SPEC.time_limit_s) == (
        "reembed_backfill",
        True,
        3,
        4,
        120.0,
    )


def test_chunks_and_summaries_get_their_windows_as_signed_bytes(context: LocalContext) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        add_chunk(connection, item, "abc\n\nde", lifecycle=Lifecycle.SEALED)
        seq = add_summary(connection, "abcd")
    plan = run(context)
    assert plan.outcome is DONE
    named = len("notemd")
    assert vectors(connection) == {1: bytes([3 + named, 255, 2 + named, 255]), -seq: b"\x04\xff"}
    assert nodes_without_vector(connection, "test:letters@2", 9) == []


def test_each_window_is_embedded_under_its_title_and_headings(context: LocalContext) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        add_chunk(connection, item, "abc\n\nde", lifecycle=Lifecycle.SEALED)
        connection.run("UPDATE mem_tree_chunks SET title = 'Title', heading_path = 'Part'")
        seq = add_summary(connection, "abcd")
        connection.run("UPDATE mem_tree_summaries SET title = 'Title' WHERE seq = ?", (seq,))
    run(context)
    assert vectors(connection)[1] == bytes([9 + 3, 255, 9 + 2, 255])
    assert vectors(connection)[-seq] == bytes([5 + 4, 255])


def test_a_title_without_end_does_not_drown_what_stands_under_it() -> None:
    (window,) = embedding_batch.windows_of(LetterEmbedder(), Unembedded(1, "text", "x" * 999, "Part"))
    assert window == "x" * embedding_batch.MOST_HEAD + ". text"


def test_a_batch_that_wrote_rows_with_more_remaining_comes_back_in_750_ms(context: LocalContext) -> None:
    fill(context.connection, NODES_A_RUN + 3)
    plan = run(context)
    assert plan.outcome == Defer(context.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS, "more nodes to embed")
    assert REEMBED_BACKFILL_REVISIT_MS == 750
    assert len(vectors(context.connection)) == NODES_A_RUN
    assert run(context).outcome is DONE
    assert len(vectors(context.connection)) == NODES_A_RUN + 3
    last = run(context)
    assert (last.outcome, last.writes) == (DONE, None)


def test_a_slow_model_ends_a_run_after_two_seconds(
    context: LocalContext, clock: FakeClock, embedder: LetterEmbedder
) -> None:
    fill(context.connection, 300)
    embedder.clock = clock
    plan = run(context)
    assert embedder.calls == 2
    assert isinstance(plan.outcome, Defer)
    assert len(vectors(context.connection)) == 2 * embedding_batch.NODES_A_CALL


def test_a_node_without_anything_to_sum_counts_as_covered_and_has_no_vector(context: LocalContext) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        add_chunk(connection, item, "12345", lifecycle=Lifecycle.ADMITTED)
        add_chunk(connection, item, "12 34\n\nab", lifecycle=Lifecycle.ADMITTED, order=1)
        connection.run("UPDATE mem_tree_chunks SET title = NULL")
    run(context)
    assert vectors(connection) == {2: b"\x02\xff"}
    assert connection.all("SELECT embedded_signature FROM mem_tree_chunks") == [(1,), (1,)]
    assert run(context).writes is None


def test_dropped_chunks_need_none(context: LocalContext) -> None:
    with context.connection.write():
        add_chunk(context.connection, add_item(context.connection), "abc", lifecycle=Lifecycle.DROPPED)
    assert run(context).writes is None


def test_what_vanished_or_changed_between_reading_and_settling_gets_no_vector(context: LocalContext) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        gone = add_chunk(connection, item, "gone", lifecycle=Lifecycle.ADMITTED)
        add_chunk(connection, item, "changed", lifecycle=Lifecycle.ADMITTED, order=1)
        dropped = add_chunk(connection, item, "dropped", lifecycle=Lifecycle.ADMITTED, order=2)
        add_chunk(connection, item, "stays", lifecycle=Lifecycle.ADMITTED, order=3)
        seq = add_summary(connection, "changed too")
    plan = SPEC.handle(context, job())
    with connection.write():
        remove_chunk(connection, gone)
        connection.run("UPDATE mem_tree_chunks SET text = 'otherwise' WHERE text = 'changed'")
        connection.run(
            "UPDATE mem_tree_chunks SET lifecycle = 'dropped', embedded_signature = -1 WHERE chunk_id = ?", (dropped,)
        )
        connection.run("UPDATE mem_tree_summaries SET text = 'otherwise' WHERE seq = ?", (seq,))
    apply(context, plan)
    assert list(vectors(connection)) == [4]
    assert [each.text for each in nodes_without_vector(connection, "test:letters@2", 9)] == ["otherwise", "otherwise"]


def test_another_model_embeds_everything_anew_and_an_old_chain_ends(
    context: LocalContext, embedder: LetterEmbedder
) -> None:
    fill(context.connection, 3)
    run(context)
    embedder.signature = "test:other@2"
    assert run(context, "test:letters@2").writes is None, "nobody asks for the old vectors any more"
    assert len(nodes_without_vector(context.connection, "test:other@2", 9)) == 3
    run(context, "test:other@2")
    assert nodes_without_vector(context.connection, "test:other@2", 9) == []
    assert context.connection.value("SELECT count(*) FROM mem_tree_vectors") == 3, "the old ones serve nobody now"
    embedder.signature = "test:letters@2"
    assert len(nodes_without_vector(context.connection, "test:letters@2", 9)) == 3, "back again: a lower number"


def test_twice_at_once_is_the_same_as_once(context: LocalContext) -> None:
    fill(context.connection, 5)
    first, second = SPEC.handle(context, job()), SPEC.handle(context, job())
    apply(context, first)
    once = vectors(context.connection)
    apply(context, second)
    assert vectors(context.connection) == once
    assert len(once) == 5


def test_the_sweep_finds_the_work_again_and_nothing_on_a_covered_memory(connection: Connection) -> None:
    fill(connection, 2)
    sweep = SweepContext(connection, Intent(), 0, 10)
    signature = "builtin:static256-i4-2@256"
    assert [each.dedupe_key for each in sweep_reembed(sweep)] == [f"reembed_backfill:{signature}"]
    with connection.write():
        connection.run("INSERT INTO mem_tree_signatures (signature) VALUES (?)", (signature,))
        connection.run("UPDATE mem_tree_chunks SET embedded_signature = 1")
        set_serving_tx(connection, signature)
    assert list(sweep_reembed(sweep)) == []


def test_looking_for_work_on_a_covered_memory_reads_index_ends_only(connection: Connection) -> None:
    plans = [
        row[3]
        for statement in (*_statements("_CHUNKS"), *_statements("_SUMMARIES"))
        for row in connection.all(f"EXPLAIN QUERY PLAN {statement}", (1, 1))
    ]
    assert plans
    assert all(plan.startswith("SEARCH") for plan in plans), plans


def _statements(name: str) -> tuple[str, ...]:
    from agent.worker import reembed_sweep

    found: tuple[str, ...] = getattr(reembed_sweep, name)
    return found
