"""While a model cannot be had its jobs wait unwritten, what met the cause is put off without a burnt attempt, and
everything that needs no model goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent.config import Intent, ModelsIntent
from agent.errors import Postponed
from agent.models.profiles import open_profile
from agent.profile_intent import ProfileIntent
from agent.queue.holds import HoldRow, bring_forward, lift_hold_tx, put_hold_tx
from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import Job, NewJob, Plan
from agent.states import Hold
from tests.worker import kinds
from tests.worker.conftest import Bench

HERE = ProfileIntent("box", "ollama", "small:1b")
ELSEWHERE = ProfileIntent("far", "openai", "large", consent="api.openai.com")
RUN: list[str] = []


def note(context: JobContext, job: Job) -> Plan:
    RUN.append(job.kind)
    return Plan()


def later(context: JobContext, job: Job) -> Plan:
    raise Postponed(context.clock.now_ms() + 5_000, "the model is loading", Hold.LOW_MEMORY, "box")


CHEAP = JobSpec("cheap", note)
MODEL = JobSpec("model", note, llm_bound=True)
LATER = JobSpec("later", later, llm_bound=True)
REEMBED = JobSpec("reembed_backfill", note, llm_bound=True)


@pytest.fixture(autouse=True)
def nothing_run_yet() -> None:
    RUN.clear()


def hold(bench: Bench, scope: str, for_ms: int) -> None:
    with bench.connection.write():
        until_ms = bench.clock.now_ms() + for_ms
        put_hold_tx(bench.connection, HoldRow(scope, Hold.UNREACHABLE, "it is out", until_ms), bench.clock.now_ms())


def with_profile(profile: ProfileIntent) -> Intent:
    return Intent(models=ModelsIntent(active=profile.name), profiles=(profile,))


MakeBench = Callable[..., Bench]


def test_a_hold_leaves_rows_that_need_the_model_ready_and_the_others_run(make_bench: MakeBench) -> None:
    bench = make_bench(CHEAP, MODEL, open_profile=open_profile, intent=with_profile(HERE))
    hold(bench, "box", 60_000)
    held = bench.add(NewJob("model", "{}"))
    cheap = bench.add(NewJob("cheap", "{}"))
    bench.steps(4)
    assert RUN == ["cheap"]
    assert bench.status(cheap) == "done"
    assert bench.row(held) | {"available_at_ms": 0} == {
        "status": "ready",
        "attempts": 0,
        "crashes": 0,
        "available_at_ms": 0,
        "failure_reason": None,
        "failure_class": None,
        "last_error": None,
    }


def test_a_hold_that_is_over_or_lifted_holds_nothing(make_bench: MakeBench) -> None:
    bench = make_bench(MODEL, open_profile=open_profile, intent=with_profile(HERE))
    hold(bench, "box", 60_000)
    bench.add(NewJob("model", "{}"))
    bench.steps(1)
    assert RUN == []
    with bench.connection.write():
        lift_hold_tx(bench.connection, "box")
    bench.clock.sleep(1)
    bench.steps(1)
    assert RUN == ["model"]
    hold(bench, "box", 500)
    bench.add(NewJob("model", "{}"))
    bench.clock.sleep(1)
    bench.steps(1)
    assert RUN == ["model", "model"]


def test_another_profiles_hold_is_not_ours(make_bench: MakeBench) -> None:
    bench = make_bench(MODEL, open_profile=open_profile, intent=with_profile(HERE))
    hold(bench, "far", 60_000)
    bench.add(NewJob("model", "{}"))
    bench.steps(1)
    assert RUN == ["model"]


def test_with_the_built_in_table_embedding_goes_on_through_a_hold_and_without_a_permit(make_bench: MakeBench) -> None:
    bench = make_bench(REEMBED, open_profile=open_profile, intent=with_profile(HERE))
    hold(bench, "box", 60_000)
    bench.add(NewJob("reembed_backfill", "{}"))
    gate = bench.loop.permits.gate(bench.loop.intent())
    assert gate is not None
    with gate.try_acquire():  # type: ignore[union-attr]
        bench.steps(1)
    assert RUN == ["reembed_backfill"]


@pytest.mark.parametrize(("profile", "runs"), [(ELSEWHERE, []), (HERE, ["model"])])
def test_nothing_goes_to_a_cloud_while_the_intent_cannot_be_read(
    make_bench: MakeBench, profile: ProfileIntent, runs: list[str]
) -> None:
    bench = make_bench(MODEL, open_profile=open_profile, intent=with_profile(profile))
    bench.loop.problem = lambda: "line 3: no value"
    bench.add(NewJob("model", "{}"))
    bench.steps(2)
    assert runs == RUN


def test_a_job_that_is_put_off_burns_no_attempt_and_says_what_it_waits_for(make_bench: MakeBench) -> None:
    bench = make_bench(LATER, open_profile=kinds.open_free_profile)
    job = bench.add(NewJob("later", "{}"))
    bench.steps(1)
    row: dict[str, Any] = bench.row(job)
    assert (row["status"], row["attempts"], row["failure_reason"]) == ("ready", 0, "low_memory")
    assert row["available_at_ms"] == bench.clock.now_ms() + 5_000
    assert row["last_error"] == "the model is loading"


def test_what_was_put_off_for_a_profile_comes_forward_and_nothing_else_does(make_bench: MakeBench) -> None:
    bench = make_bench(LATER, CHEAP, open_profile=kinds.open_free_profile)
    ours = bench.add(NewJob("later", "{}"))
    bench.steps(1)
    others = bench.add(NewJob("cheap", "{}", available_at_ms=bench.clock.now_ms() + 9_000))
    assert bring_forward(bench.connection, "far", bench.clock.now_ms()) == 0
    assert bring_forward(bench.connection, "box", bench.clock.now_ms()) == 1
    assert bench.row(ours)["available_at_ms"] == bench.clock.now_ms()
    assert bench.row(others)["available_at_ms"] == bench.clock.now_ms() + 9_000
