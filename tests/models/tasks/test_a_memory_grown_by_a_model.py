"""Whole memories through a scripted model: the same twice, nothing lost, fallbacks made again, no endless turns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent, SourceIntent
from agent.db import Connection, Database
from agent.db.nodes import remove_chunk
from agent.errors import JobFailure
from agent.ingest.score import deep_score
from agent.models.builtin.entities import BuiltinExtractor
from agent.models.protocol import Extraction
from agent.models.providers.protocol import ChatAsk
from agent.models.summarising import ModelSummariser
from agent.paths import Paths, paths_under
from agent.profile_intent import ProfileIntent
from agent.queue import LocalContext, drain_until_idle, enqueue, run_once
from agent.queue.holds import HoldRow, put_hold_tx
from agent.queue.registry import Registry, SweepContext
from agent.queue.types import NewJob
from agent.states import Hold, Lifecycle
from agent.tree.degraded import AGAIN_AFTER_MS, RESTS_MS, TIMES_IN_VAIN
from agent.tree.flush import close_all_tails, unfinished
from agent.tree.sweeps import sweep_flush
from agent.worker.handlers import append_buffer, extract_chunk, flush_stale, seal, seal_document
from agent.worker.profile import active_profile
from tests.models.tasks.scripted import BOX, MemoryCalls, as_summary, obedient
from tests.worker.memory import add_chunk, add_item

CALLS = "calls of the test"
REGISTRY = Registry.of([append_buffer.SPEC, extract_chunk.SPEC, flush_stale.SPEC, seal.SPEC, seal_document.SPEC])
PEOPLE = ("Anna", "Bertram", "Clara", "Dmitri", "Elena", "Fabio", "Greta", "Hanno")
HOUR = 3_600_000


class Grown:
    """A memory of some documents and a chat, and the model that reads it."""

    def __init__(self, paths: Paths, says: Callable[[ChatAsk], Any] = obedient, context: int = 4_096) -> None:
        self.database = Database(paths.database, None)
        self.connection: Connection = self.database.connection
        self.clock = FakeClock()
        self.calls = MemoryCalls(says, context, clock=self.clock)
        self.per_run: list[int] = []
        intent = Intent(models=ModelsIntent(active=BOX.name), profiles=(BOX,))
        self.context = LocalContext(self.connection, self.clock, intent, paths)
        self.context.shared[CALLS] = self

    def calls_of_a_run(self) -> MemoryCalls:
        self.per_run.append(self.calls.calls_in_run)
        self.calls.calls_in_run = 0
        return self.calls

    def fill(self, documents: int = 2, chunks: int = 14, *, doubtful: bool = False, reverse: bool = False) -> list[str]:
        found: list[str] = []
        with self.connection.write():
            for document in range(documents):
                item = add_item(self.connection, f"note{document}.md")
                for number in range(chunks):
                    text = body(document, number)
                    fast = 0.96 - BuiltinExtractor().extract(text).importance if doubtful else 0.9
                    found.append(add_chunk(self.connection, item, text, order=number, fast=fast))
        for chunk_id in reversed(found) if reverse else found:
            enqueue(self.connection, NewJob.extract_chunk(chunk_id), self.clock.now_ms())
        return found

    def fill_mail(self, count: int = 60) -> None:
        """Put in mails, whose groups are sealed in the tree of their source."""
        for number in range(count):
            key = f"mail-{number:03d}"
            with self.connection.write():
                item = add_item(self.connection, key, source_id="post", source_kind="email")
                chunk_id = add_chunk(self.connection, item, body(number % 7, number), fast=0.9)
            enqueue(self.connection, NewJob.extract_chunk(chunk_id), self.clock.now_ms())

    def grow(self, limit: int = 2_000) -> int:
        return drain_until_idle(self.context, REGISTRY, flush=close_all_tails, limit=limit, horizon_ms=HOUR)

    def sweep(self) -> list[str]:
        """Let the sweeps find what the flush marked, and do it."""
        context = SweepContext(self.connection, self.context.intent, self.clock.now_ms(), 64)
        jobs = [job for spec in REGISTRY if spec.sweep is not None for job in spec.sweep(context)]
        for job in jobs:
            enqueue(self.connection, job, self.clock.now_ms())
        return [job.kind for job in jobs]

    def turn(self, hours: float) -> None:
        """Let time pass, and a supervisor's tick come."""
        self.clock.advance(hours * 3_600)
        for _ in range(3):
            if not self.sweep():
                break
            self.grow()

    def summaries(self) -> set[tuple[str, str]]:
        return set(self.connection.all("SELECT summary_id, text FROM mem_tree_summaries"))

    def degraded(self, table: str = "summaries") -> dict[int, int]:
        return dict(
            self.connection.all(f"SELECT degraded, count(*) FROM mem_tree_{table} GROUP BY degraded ORDER BY 1")
        )

    def models_own(self) -> int:
        own = ModelSummariser(BOX, None).signature
        count: int = self.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE signature = ?", (own,))
        return count


def body(document: int, number: int) -> str:
    who = PEOPLE[(document * 3 + number) % len(PEOPLE)]
    other = PEOPLE[(document + 5 * number + 1) % len(PEOPLE)]
    return (
        f"{who} told {other} about pump {document}{number:02d}. The pump needs a new valve before the winter. "
        f"{other} wants to order it for {100 + number} EUR and asked {who} to look at the old one again."
    )


@pytest.fixture(autouse=True)
def calls_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the way to a profile is the real one; only what it calls is not."""

    def calls_of(context: LocalContext, *_: object) -> MemoryCalls:
        memory: Grown = context.shared[CALLS]
        return memory.calls_of_a_run()

    monkeypatch.setattr("agent.models.calls.calls_of", calls_of)


@pytest.fixture
def grown(paths: Paths) -> Grown:
    return Grown(paths)


def test_a_memory_grown_twice_through_a_model_has_equal_ids_and_texts(tmp_path: Any) -> None:
    found = []
    for name, reverse in (("first", False), ("second", True)):
        memory = Grown(paths_under(tmp_path / name).make())
        memory.fill(3, reverse=reverse)
        memory.grow()
        assert unfinished(memory.connection) == []
        assert memory.models_own() > 3
        found.append(memory.summaries())
    assert found[0] == found[1]


def test_no_run_of_a_handler_makes_more_than_one_call(grown: Grown) -> None:
    grown.fill(2, doubtful=True)
    grown.fill_mail()
    grown.grow()
    assert len(grown.calls.asks) > 5
    assert max(grown.per_run) == 1


def test_what_a_run_made_without_a_model_is_not_lost_when_the_model_puts_it_off(paths: Paths) -> None:
    says = {"ready": False}

    def sometimes(ask: ChatAsk) -> Any:
        return obedient(ask) if says["ready"] else "no"

    memory = Grown(paths, sometimes)
    memory.fill(2)
    memory.fill_mail()
    runs = memory.grow()
    assert unfinished(memory.connection) == []
    assert runs < 300
    assert memory.degraded().get(1, 0) == memory.models_own() > 2


def test_the_queue_rests_though_the_model_never_gives_a_usable_answer(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no", context=2_048)
    memory.fill(2, doubtful=True)
    assert memory.grow() < 300
    assert unfinished(memory.connection) == []
    assert set(memory.degraded("chunks")) == {1}
    assert memory.sweep() == ["flush_stale"], "a look that finds nothing due"
    asked = len(memory.calls.asks)
    memory.grow()
    assert len(memory.calls.asks) == asked


def test_a_fallback_is_made_again_after_a_day_and_not_before(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no")
    memory.fill(1)
    memory.grow()
    made = memory.models_own()
    memory.calls.says = obedient
    asked = len(memory.calls.asks)
    memory.turn(AGAIN_AFTER_MS / HOUR - 1)
    assert len(memory.calls.asks) == asked
    memory.turn(3)
    assert unfinished(memory.connection) == []
    assert memory.degraded().get(1, 0) == 0
    assert memory.models_own() == made
    assert len(memory.calls.asks) >= asked + made


def test_a_fallback_made_in_vain_again_and_again_is_tried_ever_more_rarely(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no")
    memory.fill(1)
    memory.fill_mail(30)
    memory.grow()
    texts = memory.summaries()
    asks = []
    for day in range(9):
        before = len(memory.calls.asks)
        memory.turn(24.5)
        asks.append(len(memory.calls.asks) - before)
        assert unfinished(memory.connection) == [], f"day {day}"
    assert all(asks[:TIMES_IN_VAIN]), "once a day at first"
    assert not any(asks[TIMES_IN_VAIN:]), "then it rests"
    assert set(memory.degraded()) <= {0, TIMES_IN_VAIN + 1}
    memory.turn(RESTS_MS / HOUR)
    assert memory.summaries() == texts


def test_nothing_is_made_again_while_the_built_in_profile_is_active_or_the_model_is_out(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no")
    memory.fill(1, doubtful=True)
    memory.grow()
    memory.clock.advance(2 * 86_400)
    now_ms = memory.clock.now_ms()
    with memory.connection.write():
        put_hold_tx(memory.connection, HoldRow("box", Hold.UNREACHABLE, "it is out", now_ms + HOUR), now_ms)
    assert memory.sweep() == []
    free = SweepContext(memory.connection, Intent(), now_ms + 2 * HOUR, 64)
    assert list(sweep_flush(free)) == []
    held = SweepContext(memory.connection, memory.context.intent, now_ms + 2 * HOUR, 64)
    assert [job.kind for job in sweep_flush(held)] == ["flush_stale"]


def test_a_doubtful_chunk_that_was_asked_about_in_vain_is_let_in_and_asked_about_again(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no" if ask.schema_name == "items" else obedient(ask))
    chunks = memory.fill(1, 6, doubtful=True)
    memory.grow()
    assert memory.degraded("chunks") == {1: len(chunks)}
    assert {row[0] for row in memory.connection.all("SELECT lifecycle FROM mem_tree_chunks")} == {Lifecycle.SEALED}
    memory.calls.says = obedient
    memory.turn(25)
    assert memory.degraded("chunks") == {0: len(chunks)}
    entities = memory.connection.value("SELECT count(*) FROM mem_tree_entity_index WHERE kind = 'person'")
    assert entities >= len(chunks)
    assert {row[0] for row in memory.connection.all("SELECT lifecycle FROM mem_tree_chunks")} == {Lifecycle.SEALED}


def test_a_parked_chunk_is_not_opened_again_by_the_clock(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: JobFailure.unrecoverable("auth_failed"))
    chunks = memory.fill(1, 3, doubtful=True)
    memory.grow()
    with memory.connection.write():
        memory.connection.run("UPDATE mem_tree_chunks SET degraded = 1, lifecycle = 'sealed'")
    memory.calls.says = obedient
    memory.turn(30)
    assert memory.degraded("chunks") == {1: len(chunks)}


def importance(value: float) -> Callable[[ChatAsk], str]:
    def says(ask: ChatAsk) -> str:
        if ask.schema_name == "summary":
            return obedient(ask)
        return re.sub(r'"importance": [\d.]+', f'"importance": {value}', obedient(ask))

    return says


@pytest.mark.parametrize(("value", "lifecycle"), [(0.14, Lifecycle.DROPPED), (0.15, Lifecycle.SEALED)])
def test_a_model_alone_may_leave_out_prose_and_only_what_it_gives_next_to_no_importance(
    paths: Paths, value: float, lifecycle: Lifecycle
) -> None:
    memory = Grown(paths, importance(value))
    memory.fill(1, 4, doubtful=True)
    memory.grow()
    rows = memory.connection.all(
        "SELECT lifecycle, importance, signals FROM mem_tree_chunks JOIN mem_tree_score ON chunk_seq = seq"
    )
    assert {row[0] for row in rows} == {lifecycle}
    assert {row[1] for row in rows} == {value}
    assert all('"deep_model"' in row[2] for row in rows)
    assert unfinished(memory.connection) == []


def test_the_rules_alone_never_leave_out_prose() -> None:
    said = Extraction((), 0.01)
    assert deep_score(0.3, {}, said).admitted
    assert not deep_score(0.3, {}, said, judged=True).admitted
    assert not deep_score(0.0, {"blob": 1.0}, Extraction((), 1.0), judged=True).admitted, "noise is noise"


def test_a_chunk_that_is_beyond_doubt_is_never_sent(paths: Paths) -> None:
    memory = Grown(paths, importance(0.0))
    memory.fill(1, 4)
    memory.grow()
    assert [ask.schema_name for ask in memory.calls.asks if ask.schema_name == "items"] == []
    assert {row[0] for row in memory.connection.all("SELECT lifecycle FROM mem_tree_chunks")} == {Lifecycle.SEALED}


def test_a_failed_call_settles_what_the_rules_decide_and_only_the_asked_rows_wait(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: JobFailure.transient("unreachable"))
    doubtful = memory.fill(1, 2, doubtful=True)
    with memory.connection.write():
        item = add_item(memory.connection, "sure.md")
        sure = [add_chunk(memory.connection, item, body(7, number), order=number, fast=0.9) for number in range(3)]
    for chunk_id in sure:
        enqueue(memory.connection, NewJob.extract_chunk(chunk_id), memory.clock.now_ms())
    run_once(memory.connection, REGISTRY, memory.context)
    rows = dict(memory.connection.all("SELECT dedupe_key, status FROM mem_tree_jobs WHERE kind = 'extract_chunk'"))
    assert {rows[f"extract:{chunk_id}"] for chunk_id in sure} == {"done"}
    assert {rows[f"extract:{chunk_id}"] for chunk_id in doubtful} == {"ready"}
    reasons = memory.connection.all(
        "SELECT DISTINCT failure_reason FROM mem_tree_jobs WHERE status = 'ready' AND attempts = 1"
    )
    assert ("unreachable",) in reasons


def test_what_changes_while_the_model_thinks_is_read_anew(paths: Paths) -> None:
    memory = Grown(paths)
    chunks = memory.fill(1)

    def forgets(ask: ChatAsk) -> str:
        memory.calls.says = obedient
        with memory.connection.write():
            remove_chunk(memory.connection, chunks[3])
        return obedient(ask)

    memory.calls.says = forgets
    memory.grow()
    assert unfinished(memory.connection) == []
    gone = body(0, 3).split(".")[0]
    assert all(gone not in text for _, text in memory.summaries())


def test_a_better_answer_renews_what_stands_above_it(paths: Paths) -> None:
    memory = Grown(paths, lambda ask: "no" if "[1]" in ask.messages[1].text else obedient(ask))
    memory.fill(2, 30)
    memory.grow()
    before = memory.summaries()
    memory.calls.says = lambda ask: as_summary("The pump needs a new valve.")
    memory.turn(25)
    assert unfinished(memory.connection) == []
    assert memory.summaries() != before
    fresh = "The pump needs a new valve."
    own = ModelSummariser(BOX, None).signature
    texts = memory.connection.all("SELECT text FROM mem_tree_summaries WHERE signature = ?", (own,))
    assert {text for (text,) in texts} == {fresh}


def test_a_private_source_beside_a_cloud_profile_never_reaches_it(paths: Paths) -> None:
    cloud = ProfileIntent("far", "openai", "large", consent="api.openai.com")
    private = SourceIntent("notes", "folder", "notes", ("/n",), private=True)
    sources = (private, SourceIntent("open", "folder", "open", ("/o",)))
    memory = Grown(paths)
    memory.context.intent = Intent(models=ModelsIntent(active="far"), profiles=(cloud,), sources=sources)
    assert active_profile(memory.context, "seal", ["notes"]).resource is None
    assert active_profile(memory.context, "seal", ["open"]).is_cloud
    chunks = memory.fill(1, 14, doubtful=True)
    with memory.connection.write():
        item = add_item(memory.connection, "shared.md", source_id="open")
        chunks += [add_chunk(memory.connection, item, body(1, at), order=at, fast=0.3) for at in range(3)]
    for chunk_id in chunks[-3:]:
        enqueue(memory.connection, NewJob.extract_chunk(chunk_id), memory.clock.now_ms())
    memory.grow()
    assert unfinished(memory.connection) == []
    assert set(memory.calls.sources) == {("open",)}, "rows of both are claimed in one batch"
    rows = memory.connection.all("SELECT DISTINCT signature FROM mem_tree_summaries WHERE source_id = 'notes'")
    assert rows
    assert all(name.startswith("builtin:") for (name,) in rows)
