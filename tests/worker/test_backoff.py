"""The worker seed's tiers of backoff: how long a worker sleeps by the class of a database error. No real time."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import apsw
import pytest

from agent.db.faults import FaultClass
from agent.errors import BreakerOpen
from agent.queue.types import Plan
from agent.queue.worker_args import EXIT_CORRUPT
from agent.worker import loop as loop_module
from tests.worker import kinds
from tests.worker.conftest import Bench
from tests.worker.kinds import new_job

Make = Callable[..., Bench]


def sqlite_error(code: int) -> apsw.Error:
    error = apsw.exception_for(code)
    error.extendedresult = code
    return error


TIERS = [
    (sqlite_error(5), 1.0),  # SQLITE_BUSY
    (sqlite_error(517), 1.0),  # SQLITE_BUSY_SNAPSHOT
    (sqlite_error(6), 1.0),  # SQLITE_LOCKED
    *((sqlite_error(code), 30.0) for code in (14, 1546, 4618, 4874, 5386, 8714)),
    (BreakerOpen("closed for now"), 30.0),
    (sqlite_error(13), 300.0),  # SQLITE_FULL
    (sqlite_error(778), 300.0),  # SQLITE_IOERR_WRITE
    (OSError(errno.ENOSPC, "no space"), 300.0),
    (OSError(errno.EIO, "broken disk"), 300.0),
    (OSError(errno.EROFS, "read-only"), 300.0),
]


def fail_times(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception, times: int) -> list[int]:
    """Have a verb of the queue fail so many times, then do its work; return the list of its calls."""
    real = getattr(loop_module, name)
    calls: list[int] = []

    def failing(*args: object, **kwargs: object) -> object:
        calls.append(len(calls))
        if len(calls) <= times:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(loop_module, name, failing)
    return calls


@pytest.mark.parametrize(("error", "pause_s"), TIERS, ids=lambda value: str(value)[:24])
def test_a_claim_that_fails_waits_by_its_class_and_then_works(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, error: Exception, pause_s: float
) -> None:
    bench = make_bench()
    job_id = bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, "claim_jobs", error, 2)
    bench.steps(3)
    assert bench.waiter.rests == [pause_s, pause_s]
    assert bench.status(job_id) == "done"
    assert bench.applied("x") == 1


@pytest.mark.parametrize(("random", "pause_s"), [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5)])
def test_a_busy_database_is_tried_again_with_jitter(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, random: float, pause_s: float
) -> None:
    bench = make_bench(random=random)
    fail_times(monkeypatch, "claim_jobs", sqlite_error(5), 1)
    bench.steps(1)
    assert bench.waiter.rests == [pause_s]


def test_a_settle_that_fails_keeps_the_plan_and_runs_the_handler_no_second_time(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def handle(context: object, job: object) -> Plan:
        runs.append(1)
        return Plan(writes=kinds.store("x"))

    bench = make_bench(replace(kinds.NOTE, handle=handle))
    job_id = bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, "settle_and_claim", sqlite_error(13), 2)
    held_during = []
    bench.waiter.during = lambda: held_during.append(bench.heartbeat.beat())
    bench.steps(1)
    assert bench.waiter.rests == [300.0, 300.0]
    assert held_during == [100.0, 100.0], "the lease goes on while the plan waits"
    assert (runs, bench.applied("x"), bench.status(job_id)) == ([1], 1, "done")


def test_a_settle_whose_commit_reported_an_error_but_happened_is_not_applied_twice(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench()
    first, second = bench.add(new_job("test_note", "one")), bench.add(new_job("test_note", "two"))
    real = loop_module.settle_and_claim
    calls: list[int] = []

    def settles_and_fails(*args: object, **kwargs: object) -> object:
        calls.append(1)
        done = real(*args, **kwargs)  # type: ignore[arg-type]
        if len(calls) == 1:
            raise sqlite_error(778)
        return done

    monkeypatch.setattr(loop_module, "settle_and_claim", settles_and_fails)
    bench.steps(1)
    assert bench.applied("one") == 1
    assert bench.status(first) == "done"
    assert bench.status(second) == "running", "claimed by the commit that nobody saw"
    bench.steps(1)
    row = bench.row(second)
    assert (row["status"], row["attempts"], row["crashes"], bench.applied("two")) == ("done", 1, 0, 1)


@pytest.mark.parametrize("code", [5, 14, 13])
def test_a_database_error_inside_a_handler_burns_no_attempt(make_bench: Make, code: int) -> None:
    runs = []

    def handle(context: object, job: object) -> Plan:
        runs.append(1)
        if len(runs) == 1:
            raise sqlite_error(code)
        return Plan(writes=kinds.store("x"))

    bench = make_bench(replace(kinds.NOTE, handle=handle))
    job_id = bench.add(new_job("test_note", "x"))
    seen = []
    bench.waiter.during = lambda: seen.append(bench.row(job_id))
    bench.steps(1)
    assert (seen[0]["status"], seen[0]["attempts"], seen[0]["crashes"]) == ("ready", 0, 0)
    assert len(bench.waiter.rests) == 1
    bench.steps(1)
    assert bench.applied("x") == 1


def test_the_rest_of_a_batch_is_settled_where_one_row_meets_a_database_error(make_bench: Make) -> None:
    def handle(context: object, job: object) -> Plan:
        if '"bad"' in job.payload_json:  # type: ignore[attr-defined]
            raise sqlite_error(14)
        return kinds.handle_note(context, job)  # type: ignore[arg-type]

    bench = make_bench(replace(kinds.BATCH, handle=handle, batch=lambda context, jobs: []))
    good, bad = bench.add(new_job("test_batch", "good")), bench.add(new_job("test_batch", "bad"))
    bench.steps(1)
    assert bench.status(good) == "done"
    assert bench.row(bad)["status"] == "ready"
    assert bench.row(bad)["attempts"] == 0
    assert bench.waiter.rests == [30.0]


@pytest.mark.parametrize("where", ["claim_jobs", "settle_and_claim"])
def test_a_damaged_database_ends_the_worker_for_the_supervisor_to_look_closer(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, where, sqlite_error(11), 99)
    assert bench.loop.run() == EXIT_CORRUPT
    assert bench.waiter.rests == []
    assert bench.waiter.waits == []


def test_a_condition_is_logged_once_per_episode(
    make_bench: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, "claim_jobs", sqlite_error(13), 5)
    with caplog.at_level("INFO", "sapwood"):
        bench.steps(7)
    lines = [record.getMessage() for record in caplog.records if "database" in record.getMessage()]
    assert len(lines) == 2
    assert str(FaultClass.DISK_FULL) in lines[0]
    assert "again" in lines[1]


def test_waiting_for_the_disk_is_not_handling(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench()
    bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, "settle_and_claim", sqlite_error(13), 1)
    ended = []
    real = bench.handling.end
    monkeypatch.setattr(bench.handling, "end", lambda: (ended.append(len(bench.waiter.rests)), real()))
    bench.steps(1)
    assert ended[0] == 0, "before the pause: no time limit may run in it"


def test_a_stop_ends_the_pause_and_the_worker(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench()
    job_id = bench.add(new_job("test_note", "x"))
    fail_times(monkeypatch, "settle_and_claim", sqlite_error(13), 99)
    bench.waiter.during = bench.stop.set
    assert bench.loop.run() == 0
    assert bench.row(job_id)["status"] == "ready"
    assert bench.row(job_id)["attempts"] == 0


def test_what_is_no_fault_of_the_database_ends_the_worker(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench()
    fail_times(monkeypatch, "claim_jobs", apsw.SQLError("no such table"), 1)
    with pytest.raises(apsw.SQLError):
        bench.steps(1)


def test_a_worker_that_comes_up_on_a_full_disk_waits_instead_of_ending(make_bench: Make) -> None:
    bench = make_bench()
    calls: list[int] = []

    def register() -> None:
        calls.append(1)
        if len(calls) < 3:
            raise sqlite_error(13)

    bench.loop.start(register)
    assert len(calls) == 3
    assert bench.waiter.rests == [300.0, 300.0]
    assert not bench.stop.is_set()


def test_a_worker_that_comes_up_on_a_damaged_database_ends_at_once(make_bench: Make) -> None:
    bench = make_bench()
    error = sqlite_error(11)

    def register() -> None:
        raise error

    bench.loop.start(register)
    assert bench.loop.run() == EXIT_CORRUPT
