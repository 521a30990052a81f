"""Claim, handle, settle: what becomes of a row, and what an idle worker does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.config import Intent, LimitsIntent
from agent.db.state import set_state
from agent.paths import Paths
from agent.queue.handling import handling_path, read_handling
from agent.queue.types import STALE_PAUSE_MS, Plan
from agent.queue.worker_args import EXIT_RECYCLE
from agent.worker.capacity import LOOK_EVERY_S, PAUSE_KEY
from agent.worker.loop import MEMORY_LOOK_S
from tests.worker import kinds
from tests.worker.conftest import WORKER_ID, Bench
from tests.worker.kinds import new_job

Make = Callable[..., Bench]


def test_a_job_is_claimed_handled_and_settled_once(make_bench: Make) -> None:
    bench = make_bench()
    first, second = bench.add(new_job("test_note", "one")), bench.add(new_job("test_note", "two"))
    bench.steps(2)
    assert [bench.status(first), bench.status(second)] == ["done", "done"]
    assert [bench.applied("one"), bench.applied("two")] == [1, 1]
    assert bench.waiter.waits == []
    bench.steps(1)
    assert bench.waiter.waits == [5.0], "nothing to do: the poll of five seconds"


def test_an_idle_worker_sleeps_less_where_a_row_is_due_sooner(make_bench: Make) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "soon", available_at_ms=bench.clock.now_ms() + 750))
    bench.steps(1)
    assert bench.waiter.waits == [0.75]
    bench.steps(1)
    assert bench.applied("soon") == 1


@pytest.mark.parametrize(
    ("word", "status", "reason", "failure_class", "attempts"),
    [
        ("fail", "ready", "net_down", "transient", 1),
        ("park", "failed", "no_key", "unrecoverable", 1),
        ("surprise", "ready", "unexpected", "transient", 1),
        ("eat", "ready", "out_of_memory", "transient", 1),
        ("stale", "ready", None, None, 0),
        ("defer", "ready", None, None, 0),
    ],
)
def test_every_error_of_a_handler_is_settled_as_a_typed_failure(
    make_bench: Make, word: str, status: str, reason: str | None, failure_class: str | None, attempts: int
) -> None:
    bench = make_bench()
    job_id = bench.add(new_job("test_note", "x", word, 1000))
    bench.steps(1)
    bench.stop.set()
    bench.loop.run()  # gives back what was claimed again at once
    row = bench.row(job_id)
    assert (row["status"], row["failure_reason"], row["failure_class"]) == (status, reason, failure_class)
    assert row["attempts"] == attempts
    assert row["crashes"] == 0
    assert bench.applied("x") == 0


def test_a_payload_that_fits_no_kind_parks_its_row(make_bench: Make) -> None:
    bench = make_bench()
    job_id = bench.add(replace(new_job("test_note", "x"), payload_json='{"nothing": 1}'))
    bench.steps(1)
    row = bench.row(job_id)
    assert (row["status"], row["failure_reason"]) == ("failed", "unreadable_payload")


def test_a_foreign_error_leaves_none_of_its_words_in_the_log(
    make_bench: Make, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "x", "surprise"))
    with caplog.at_level("DEBUG", "sapwood"):
        bench.steps(1)
    assert "ValueError" in caplog.text
    assert "handle_note" in caplog.text
    assert "what the owner wrote" not in caplog.text


def test_handling_is_readable_while_the_handler_runs_and_gone_after(make_bench: Make, paths: Paths) -> None:
    seen = []

    def handle(context: object, job: object) -> Plan:
        seen.append(read_handling(handling_path(paths, WORKER_ID)))
        return Plan()

    intent = Intent(limits=LimitsIntent(seal=12.5))
    bench = make_bench(
        replace(kinds.NOTE, handle=handle, time_limit_s=7.0),
        replace(kinds.NOTE, kind="seal", handle=handle),
        intent=intent,
    )
    first, second = bench.add(new_job("test_note", "x")), bench.add(new_job("seal", "y"))
    bench.steps(2)
    assert [reading and (reading.job_id, reading.kind, reading.limit_ms) for reading in seen] == [
        (first, "test_note", 7000),
        (second, "seal", 12_500),
    ]
    after = read_handling(handling_path(paths, WORKER_ID))
    assert after is not None
    assert after.job_id is None


def test_a_pause_stops_claims_and_a_resume_starts_them_at_once(make_bench: Make) -> None:
    bench = make_bench()
    job_id = bench.add(new_job("test_note", "x"))
    with bench.connection.write():
        set_state(bench.connection, PAUSE_KEY, str(bench.clock.now_ms() + 3_600_000))
    bench.steps(2)
    assert bench.status(job_id) == "ready"
    assert bench.waiter.waits == [5.0, 5.0], "a due row that may not run must not make the worker spin"
    with bench.connection.write():
        set_state(bench.connection, PAUSE_KEY, None)
    bench.steps(1)
    assert bench.status(job_id) == "done"


def test_a_pause_ends_by_itself(make_bench: Make) -> None:
    bench = make_bench()
    job_id = bench.add(new_job("test_note", "x"))
    with bench.connection.write():
        set_state(bench.connection, PAUSE_KEY, str(bench.clock.now_ms() + 7000))
    bench.steps(3)
    assert bench.status(job_id) == "done"


def test_a_pause_takes_hold_of_a_busy_worker_within_a_tenth_of_a_second(make_bench: Make) -> None:
    bench = make_bench()
    ids = [bench.add(new_job("test_note", str(number))) for number in range(3)]
    bench.steps(1)
    with bench.connection.write():
        set_state(bench.connection, PAUSE_KEY, str(bench.clock.now_ms() + 3_600_000))
    bench.clock.advance(LOOK_EVERY_S)
    bench.steps(3)
    # The second was claimed with the first one's settling, before the pause.
    assert [bench.status(job_id) for job_id in ids] == ["done", "done", "ready"]


def test_a_batch_is_settled_row_by_row(make_bench: Make) -> None:
    bench = make_bench(kinds.BATCH)
    ids = [bench.add(new_job("test_batch", str(number))) for number in range(3)]
    bad = bench.add(new_job("test_batch", "bad", "surprise"))
    bench.steps(1)
    assert [bench.status(job_id) for job_id in ids] == ["done"] * 3
    assert bench.row(bad)["failure_reason"] == "unexpected"
    assert [bench.applied(str(number)) for number in range(3)] == [1, 1, 1]


def test_a_typed_failure_of_a_batch_is_not_asked_for_again(make_bench: Make) -> None:
    calls = []

    def batch(context: object, jobs: object) -> list[Plan]:
        calls.append("batch")
        return kinds.handle_batch(context, jobs)  # type: ignore[arg-type]

    bench = make_bench(replace(kinds.BATCH, batch=batch, handle=lambda context, job: calls.append("row") or Plan()))
    ids = [bench.add(new_job("test_batch", str(number), "fail")) for number in range(3)]
    bench.steps(1)
    assert calls == ["batch"]
    assert {bench.row(job_id)["failure_reason"] for job_id in ids} == {"net_down"}


def test_a_lost_lease_applies_nothing_and_the_worker_goes_on(make_bench: Make) -> None:
    def lose(context: object, job: object) -> Plan:
        with bench.connection.write():
            bench.connection.run("UPDATE mem_tree_jobs SET lease_token = 'other', locked_by = 'other'")
        bench.heartbeat.beat()
        context.check()  # type: ignore[attr-defined]
        return Plan(writes=kinds.store("x"))

    bench = make_bench(replace(kinds.NOTE, handle=lose), replace(kinds.BUSY))
    job_id = bench.add(new_job("test_note", "x"))
    bench.steps(1)
    assert bench.status(job_id) == "running", "it is the other's by now"
    assert bench.applied("x") == 0
    after = bench.add(new_job("test_busy", "y"))
    bench.steps(1)
    assert bench.status(after) == "done"


def test_a_handler_that_does_not_look_still_applies_nothing_after_its_lease_is_lost(make_bench: Make) -> None:
    def lose(context: object, job: object) -> Plan:
        with bench.connection.write():
            bench.connection.run("UPDATE mem_tree_jobs SET lease_token = 'other', locked_by = 'other'")
        return Plan(writes=kinds.store("x"))

    bench = make_bench(replace(kinds.NOTE, handle=lose))
    job_id = bench.add(new_job("test_note", "x"))
    bench.steps(1)
    assert bench.applied("x") == 0
    assert bench.status(job_id) == "running"


def test_a_stop_leaves_the_job_at_its_next_check_and_burns_nothing(make_bench: Make) -> None:
    def stopped(context: object, job: object) -> Plan:
        bench.stop.set()
        context.check()  # type: ignore[attr-defined]
        return Plan()

    bench = make_bench(replace(kinds.NOTE, handle=stopped))
    job_id = bench.add(new_job("test_note", "x"))
    assert bench.loop.run() == 0
    row = bench.row(job_id)
    assert (row["status"], row["attempts"], row["crashes"]) == ("ready", 0, 0)


def test_a_stop_gives_back_what_was_claimed_ahead(make_bench: Make) -> None:
    def handle(context: object, job: object) -> Plan:
        bench.clock.advance(1)
        return Plan()

    bench = make_bench(replace(kinds.NOTE, handle=handle))
    ids = [bench.add(new_job("test_note", str(number))) for number in range(2)]
    bench.steps(1)
    assert bench.status(ids[1]) == "running", "claimed while the first was settled"
    bench.stop.set()
    assert bench.loop.run() == 0
    row = bench.row(ids[1])
    assert (row["status"], row["attempts"]) == ("ready", 0)


def test_a_grown_worker_asks_for_a_fresh_one_when_idle_and_not_before(make_bench: Make) -> None:
    bench = make_bench()
    bench.rss[0] = Intent().limits.recycle_rss_bytes + 1
    bench.steps(1)
    assert not bench.stop.is_set(), "a process that is large from the start would be replaced for ever"
    for number in range(2):
        bench.add(new_job("test_note", str(number)))
    bench.steps(2)
    assert not bench.stop.is_set()
    assert bench.loop.run() == EXIT_RECYCLE


def test_a_grown_worker_that_is_never_idle_is_replaced_before_it_is_killed_for_it(make_bench: Make) -> None:
    bench = make_bench()
    bench.rss[0] = Intent().limits.recycle_rss_bytes + 1
    ids = [bench.add(new_job("test_note", str(number))) for number in range(3)]
    bench.steps(1)
    assert not bench.stop.is_set()
    bench.clock.advance(MEMORY_LOOK_S)
    assert bench.loop.run() == EXIT_RECYCLE
    assert [bench.row(job_id)["status"] for job_id in ids] == ["done", "done", "ready"]
    assert [bench.row(job_id)["attempts"] for job_id in ids][2] == 0


def test_a_plan_that_is_stale_each_time_does_not_spin(make_bench: Make) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "x", "stale", 1000))
    bench.steps(2)
    assert bench.waiter.waits == [STALE_PAUSE_MS / 1000]
