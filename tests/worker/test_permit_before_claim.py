"""The permit comes before the claim and goes back before the row is settled (the queue's point 7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.gate import LlmGate
from agent.paths import Paths
from agent.queue.types import Plan
from agent.worker import permits
from agent.worker.permits import free_permits, serve_unseen
from tests.worker import kinds
from tests.worker.conftest import Bench
from tests.worker.kinds import new_job

Make = Callable[..., Bench]


def instant(seen: list[Any], gate: LlmGate) -> Callable[[Any, Any], Plan]:
    def handle(context: Any, job: Any) -> Plan:
        seen.append(gate.is_free())

        def writes(connection: Any) -> None:
            seen.append(gate.is_free())

        return Plan(writes=writes)

    return handle


def test_an_llm_bound_job_runs_under_a_permit_that_is_back_before_it_settles(make_bench: Make, paths: Paths) -> None:
    gate, seen = LlmGate(paths.permits, "local"), []
    bench = make_bench(replace(kinds.CALL, handle=instant(seen, gate)), open_profile=kinds.open_profile)
    job_id = bench.add(new_job("test_call", "x"))
    bench.steps(1)
    assert bench.status(job_id) == "done"
    assert seen == [False, True]


def test_without_a_permit_only_kinds_that_need_none_are_claimed(make_bench: Make, paths: Paths) -> None:
    bench = make_bench(kinds.CALL, kinds.NOTE, open_profile=kinds.open_profile)
    call = bench.add(new_job("test_call", "x"))
    notes = [bench.add(new_job("test_note", str(number))) for number in range(3)]
    with LlmGate(paths.permits, "local").acquire():
        bench.steps(5)
    assert bench.status(call) == "ready"
    assert bench.row(call)["attempts"] == 0
    assert [bench.status(note) for note in notes] == ["done"] * 3
    assert bench.waiter.waits == [5.0, 5.0], "nobody spins at a full gate"


def test_a_worker_steps_back_while_a_person_waits(make_bench: Make, paths: Paths) -> None:
    gate, seen = LlmGate(paths.permits, "local"), []
    bench = make_bench(replace(kinds.CALL, handle=instant(seen, gate)), open_profile=kinds.open_profile)
    call = bench.add(new_job("test_call", "x"))
    with gate.interest():
        bench.steps(1)
    assert bench.status(call) == "ready"
    bench.steps(1)
    assert bench.status(call) == "done"


def test_a_profile_without_a_resource_needs_no_permit(make_bench: Make, paths: Paths) -> None:
    bench = make_bench(replace(kinds.CALL, handle=lambda context, job: Plan()), kinds.NOTE)
    call = bench.add(new_job("test_call", "x"))
    with LlmGate(paths.permits, "local").acquire():
        bench.steps(1)
    assert bench.status(call) == "done"


def test_no_permit_is_tried_for_without_a_row_to_use_it_on(make_bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[int] = []
    real = LlmGate.try_acquire
    monkeypatch.setattr(LlmGate, "try_acquire", lambda self: tries.append(1) or real(self))
    bench = make_bench(kinds.CALL, kinds.NOTE, open_profile=kinds.open_profile)
    for number in range(3):
        bench.add(new_job("test_note", str(number)))
    bench.steps(5)
    assert tries == []


def test_the_row_that_comes_first_does_so_though_another_could_be_claimed_in_the_settling_transaction(
    make_bench: Make, paths: Paths
) -> None:
    order: list[str] = []

    def handle(context: Any, job: Any) -> Plan:
        order.append(job.kind)
        return Plan()

    bench = make_bench(
        replace(kinds.CALL, handle=handle), replace(kinds.NOTE, handle=handle), open_profile=kinds.open_profile
    )
    for name in "abc":
        bench.add(new_job("test_note", name))
        bench.add(new_job("test_call", name))
    bench.steps(6)
    assert order == ["test_call"] * 3 + ["test_note"] * 3


def test_a_permit_for_a_row_that_needs_none_goes_back_at_once(make_bench: Make, paths: Paths) -> None:
    gate, seen = LlmGate(paths.permits, "local"), []
    first = replace(kinds.NOTE, rank=0, handle=instant(seen, gate))
    bench = make_bench(first, kinds.CALL, open_profile=kinds.open_profile)
    bench.add(new_job("test_note", "x"))
    bench.add(new_job("test_call", "y"))
    bench.steps(1)
    assert seen == [True, True]


def test_under_a_permit_one_row_is_taken_at_a_time(make_bench: Make) -> None:
    batched = replace(kinds.BATCH, llm_bound=True)
    bench = make_bench(batched, open_profile=kinds.open_profile)
    ids = [bench.add(new_job("test_batch", str(number))) for number in range(3)]
    bench.steps(1)
    assert [bench.status(each) for each in ids] == ["done", "ready", "ready"]
    free = make_bench(batched)
    free.steps(1)
    assert [free.status(each) for each in ids] == ["done"] * 3


def test_a_profile_that_cannot_be_opened_leaves_the_error_to_the_row(make_bench: Make) -> None:
    from agent.errors import JobFailure

    def broken(intent: Any, shared: Any) -> Any:
        raise JobFailure.unrecoverable("profile_not_built")

    def handle(context: Any, job: Any) -> Plan:
        return broken(None, None)

    bench = make_bench(replace(kinds.CALL, handle=handle), open_profile=broken)
    call = bench.add(new_job("test_call", "x"))
    bench.steps(1)
    assert bench.row(call)["failure_reason"] == "profile_not_built"


def test_a_profile_that_opens_later_takes_its_permit_from_then_on(make_bench: Make, paths: Paths) -> None:
    from agent.errors import JobFailure

    gate, seen, is_locked = LlmGate(paths.permits, "local"), [], [True]

    def late(intent: Any, shared: Any) -> Any:
        if is_locked[0]:
            raise JobFailure.transient("keys_not_yet")
        return kinds.open_profile(intent, shared)

    bench = make_bench(replace(kinds.CALL, handle=instant(seen, gate)), open_profile=late)
    bench.add(new_job("test_call", "x"))
    bench.steps(1)
    is_locked[0] = False
    seen.clear()
    bench.add(new_job("test_call", "y"))
    bench.steps(1)
    assert seen == [False, True], "no run without a permit because the profile could not be opened once"


def test_the_supervisors_hooks_see_the_active_profiles_gate(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.config import Intent

    woken: list[int] = []

    def serve(is_due: bool) -> float | None:
        return serve_unseen(paths, Intent(), lambda: is_due, lambda: woken.append(1))

    monkeypatch.setattr(permits, "_open_active", kinds.open_free_profile)
    assert free_permits(paths, Intent()) is None
    assert serve(True) is None
    monkeypatch.setattr(permits, "_open_active", kinds.open_profile)
    assert free_permits(paths, Intent()) == 1
    with LlmGate(paths.permits, "local").acquire():
        assert free_permits(paths, Intent()) == 0
        assert serve(True) == 0.05
    assert woken == []
    assert serve(False) is None
    assert serve(True) == 0.05
    assert woken == [1]
