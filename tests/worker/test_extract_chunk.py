"""``extract_chunk``: admission, what is stored of it, and what it opens the way for."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Connection
from agent.db.nodes import remove_chunk
from agent.models.protocol import Entity, Extraction, Profile
from agent.paths import Paths
from agent.queue import LocalContext, claim_ready_extract_batch, enqueue, run_once
from agent.queue.registry import Registry
from agent.queue.types import Job, NewJob, Plan
from agent.states import JobStatus, Lifecycle
from agent.worker.handlers.extract_chunk import SPEC
from agent.worker.profile import OPENER_KEY
from tests.worker.memory import add_chunk, add_item


class Reader:
    """Names each capitalised word of a text, as often as it is there; remembers what it was shown."""

    signature = "test:reader"

    def __init__(self) -> None:
        self.shown: list[tuple[str, str | None, str | None]] = []

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        self.shown.append((text, title, author))
        if "refuse" in text:
            raise ValueError("a text that no extractor survives")
        names = [word.strip(".") for word in text.split() if word[0].isupper()]
        found = {name: Entity("person", name.lower(), name, text.index(name), names.count(name)) for name in names}
        return Extraction(tuple(found.values()), 0.8, {"names": float(len(found))})


class Model:
    """Stands for what extraction does not use but for its signature."""

    signature = "test:vectors@1"
    dimensions = 1


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def context(connection: Connection, clock: FakeClock, paths: Paths, reader: Reader) -> LocalContext:
    context = LocalContext(connection, clock, Intent(), paths)
    model: Any = Model()
    context.shared[OPENER_KEY] = lambda intent, shared: Profile("test", model, model, reader)
    return context


def job(chunk_id: str, number: int = 1) -> Job:
    new = NewJob.extract_chunk(chunk_id)
    return Job(number, new.kind, new.payload_json, new.dedupe_key, JobStatus.RUNNING, 1, 5, 0, 0, 0, "w", "t")


def apply(context: LocalContext, plan: Plan) -> list[str | None]:
    if plan.writes is None:
        return []
    with context.connection.write():
        return [each.dedupe_key for each in (plan.writes(context.connection) or ())]


def chunk(context: LocalContext, text: str = "Anna met Bob. Anna left.", **item: Any) -> str:
    with context.connection.write():
        return add_chunk(context.connection, add_item(context.connection, **item), text)


def column(context: LocalContext, chunk_id: str, name: str) -> Any:
    return context.connection.value(f"SELECT {name} FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,))


def noise(context: LocalContext, chunk_id: str) -> None:
    with context.connection.write():
        context.connection.run("""UPDATE mem_tree_score SET signals = '{"blob": 1.0}', fast = 0.0""")


REEMBED = "reembed_backfill:test:vectors@1"


def test_an_admitted_chunk_of_a_document_stores_score_and_entities_and_seals_its_document(
    context: LocalContext, reader: Reader
) -> None:
    chunk_id = chunk(context)
    keys = apply(context, SPEC.handle(context, job(chunk_id)))
    assert keys == ["seal_doc:notes/note.md@1000", REEMBED]
    assert column(context, chunk_id, "lifecycle") == Lifecycle.ADMITTED
    connection = context.connection
    score = connection.one("SELECT fast, deep, importance, signals, decided_at_ms FROM mem_tree_score")
    assert score is not None
    assert score[:3] == (0.6, 0.7, 0.8)
    assert json.loads(score[3]) == {"deep_names": 2.0}
    assert score[4] == context.clock.now_ms()
    assert connection.all("SELECT entity, kind, chunk_seq, surface, mentions FROM mem_tree_entity_index") == [
        ("anna", "person", 1, "Anna", 2),
        ("bob", "person", 1, "Bob", 1),
    ]
    assert reader.shown == [("Anna met Bob. Anna left.", "note.md", None)]


def test_a_document_is_sealed_only_by_its_last_pending_chunk(context: LocalContext) -> None:
    with context.connection.write():
        item = add_item(context.connection)
        chunks = [add_chunk(context.connection, item, f"Text {number}", order=number) for number in range(3)]
    plans = [SPEC.handle(context, job(each)) for each in chunks]
    assert [apply(context, plan) for plan in plans] == [
        [REEMBED],
        [REEMBED],
        ["seal_doc:notes/note.md@1000", REEMBED],
    ]


def test_the_seal_names_the_version_at_the_time_of_settling(context: LocalContext) -> None:
    chunk_id = chunk(context)
    plan = SPEC.handle(context, job(chunk_id))
    with context.connection.write():
        context.connection.run("UPDATE mem_tree_items SET version_ms = 2000")
    assert apply(context, plan)[0] == "seal_doc:notes/note.md@2000"


@pytest.mark.parametrize("kind", ["email", "chat"])
def test_an_admitted_chunk_of_a_stream_is_appended_to_its_sources_tree(context: LocalContext, kind: str) -> None:
    chunk_id = chunk(context, source_kind=kind, source_id="mail")
    assert apply(context, SPEC.handle(context, job(chunk_id))) == [f"append:source:mail:leaf:{chunk_id}", REEMBED]


def test_a_dropped_chunk_keeps_its_row_and_needs_no_vector(context: LocalContext) -> None:
    chunk_id = chunk(context)
    noise(context, chunk_id)
    with context.connection.write():
        context.connection.run("INSERT INTO mem_tree_signatures (signature) VALUES ('test:vectors@1')")
        context.connection.run("INSERT INTO mem_tree_vectors VALUES (1, 1, x'01')")
    keys = apply(context, SPEC.handle(context, job(chunk_id)))
    assert keys == ["seal_doc:notes/note.md@1000"], "the document may wait for this decision alone"
    assert column(context, chunk_id, "lifecycle") == Lifecycle.DROPPED
    assert column(context, chunk_id, "embedded_signature") == -1
    assert context.connection.value("SELECT count(*) FROM mem_tree_vectors") == 0
    assert context.connection.value("SELECT count(*) FROM mem_tree_entity_index") == 0


def test_a_drop_in_a_stream_asks_for_the_seal_that_waited_for_it(context: LocalContext, clock: FakeClock) -> None:
    connection = context.connection
    with connection.write():
        chunks = []
        for number in range(60):
            item = add_item(connection, f"mail-{number:02}", source_kind="email", source_id="mail")
            chunks.append(add_chunk(connection, item, f"Mail {number} says something."))
    from agent.worker.handlers.append_buffer import SPEC as APPEND

    registry = Registry.of([SPEC, APPEND])
    with connection.write():
        connection.run("""UPDATE mem_tree_score SET signals = '{"blob": 1.0}' WHERE chunk_seq = 1""")
    for each in chunks[1:]:
        enqueue(connection, NewJob.extract_chunk(each), clock.now_ms())
    while run_once(connection, registry, context):
        pass
    with connection.write():
        connection.run("DELETE FROM mem_tree_jobs")
    assert apply(context, SPEC.handle(context, job(chunks[0]))) == ["seal:source:mail@1:0"]


def test_a_drop_where_nothing_waits_asks_for_nothing(context: LocalContext) -> None:
    chunk_id = chunk(context, source_kind="email", source_id="mail")
    noise(context, chunk_id)
    assert apply(context, SPEC.handle(context, job(chunk_id))) == []


def test_a_chunk_that_is_decided_or_gone_is_nothing_to_do(context: LocalContext, reader: Reader) -> None:
    chunk_id = chunk(context)
    apply(context, SPEC.handle(context, job(chunk_id)))
    assert SPEC.handle(context, job(chunk_id)).writes is None
    assert SPEC.handle(context, job("f" * 32)).writes is None
    assert len(reader.shown) == 1


def test_a_chunk_that_vanished_while_it_was_read_leaves_nothing(context: LocalContext) -> None:
    chunk_id = chunk(context)
    plan = SPEC.handle(context, job(chunk_id))
    with context.connection.write():
        remove_chunk(context.connection, chunk_id)
    assert apply(context, plan) == []
    assert context.connection.value("SELECT count(*) FROM mem_tree_entity_index") == 0


def test_a_chunk_let_in_without_extraction_is_filled_in_later_and_stays_where_it_is(context: LocalContext) -> None:
    chunk_id = chunk(context)
    with context.connection.write():
        context.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'sealed', degraded = 1")
    assert apply(context, SPEC.handle(context, job(chunk_id))) == []
    assert column(context, chunk_id, "lifecycle") == Lifecycle.SEALED
    assert column(context, chunk_id, "degraded") == 0
    assert context.connection.value("SELECT count(*) FROM mem_tree_entity_index") == 2


def test_a_batch_runs_at_once_and_one_bad_row_takes_no_mate_with_it(context: LocalContext, clock: FakeClock) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        good = [add_chunk(connection, item, f"Text {number}", order=number) for number in range(3)]
        bad = add_chunk(connection, item, "I refuse", order=9)
    for each in (*good, bad):
        enqueue(connection, NewJob.extract_chunk(each), clock.now_ms())
    assert run_once(connection, Registry.of([SPEC]), context)
    assert [column(context, each, "lifecycle") for each in good] == ["admitted"] * 3
    assert column(context, bad, "lifecycle") == "pending_extraction"
    row = connection.one("SELECT status, attempts FROM mem_tree_jobs WHERE dedupe_key = ?", (f"extract:{bad}",))
    assert row == ("ready", 1)


def test_the_seeds_batch_claim_serves_the_handler(context: LocalContext, clock: FakeClock) -> None:
    connection = context.connection
    with connection.write():
        item = add_item(connection)
        chunks = [add_chunk(connection, item, f"Text {number}", order=number) for number in range(5)]
    for each in chunks:
        enqueue(connection, NewJob.extract_chunk(each), clock.now_ms())
    jobs = claim_ready_extract_batch(connection, worker_id="w", now_ms=clock.now_ms(), limit=4)
    assert SPEC.batch is not None
    begun: list[int] = []
    context.begin = lambda job: begun.append(job.id)  # type: ignore[method-assign]
    plans = SPEC.batch(context, jobs)
    assert len(plans) == len(jobs) == 4
    assert begun == [each.id for each in jobs], "a death counts against the row that was being handled"


def test_arming_the_back_fill_waits_a_moment_so_that_a_burst_is_one_batch(
    context: LocalContext, wait_until: Callable[..., None]
) -> None:
    plan = SPEC.handle(context, job(chunk(context)))
    with context.connection.write():
        assert plan.writes is not None
        jobs = list(plan.writes(context.connection) or ())
    assert jobs[-1].available_at_ms == context.clock.now_ms() + 750
