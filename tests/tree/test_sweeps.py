"""Every kind's work is found again from the tables alone; a finished memory asks for nothing and is hardly read."""

from __future__ import annotations

import random

import pytest

from agent.config import Intent
from agent.queue.registry import SweepContext
from agent.queue.types import NewJob
from agent.states import Lifecycle
from agent.tree.flush import close_all_tails, unfinished
from agent.tree.sweeps import sweep_append, sweep_flush, sweep_seal, sweep_seal_document
from tests.bench.tree_append import RowCount
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Garden, body

SWEEPS = (sweep_append, sweep_seal, sweep_seal_document, sweep_flush)


def _swept(garden: Garden, limit: int = 500) -> list[NewJob]:
    context = SweepContext(garden.connection, Intent(), garden.clock.now_ms(), limit)
    return [job for sweep in SWEEPS for job in sweep(context)]


def _finish_by_sweeps(garden: Garden) -> None:
    """Finish with a queue that loses everything whenever it is looked at."""
    for _ in range(200):
        garden.jobs.clear()
        found = [*_swept(garden), *close_all_tails(garden.connection, garden.clock.now_ms())]
        if not found:
            break
        for job in found:
            garden.run(job)
    assert unfinished(garden.connection) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_queue_that_loses_every_row_costs_time_only(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    for at in range(90):
        garden.mail("post", at)
        if at % 6 == 0:
            garden.document("notes", f"n{at:02d}", [body(at * 50 + n) for n in range(at % 9)])
        if chance.random() < 0.2:
            garden.scramble(chance)
        if chance.random() < 0.4:
            garden.jobs.clear()
    _finish_by_sweeps(garden)
    assert_as_naive(garden)


def test_lost_work_after_deletions_is_found(garden: Garden) -> None:
    chunks = [garden.mail("post", at) for at in range(70)]
    for at in range(20):
        garden.document("notes", f"n{at:02d}", [body(at * 50 + n) for n in range(6)])
    garden.finish()
    for chunk in chunks[10:30]:
        garden.drop_mail("post", chunk)
    garden.document("notes", "n07", [])
    garden.document("notes", "n08", [body(8 * 50)])
    _finish_by_sweeps(garden)
    assert_as_naive(garden)
    for chunk in chunks[:10] + chunks[30:]:
        garden.drop_mail("post", chunk)
    _finish_by_sweeps(garden)
    assert_as_naive(garden)


def test_a_sweep_asks_for_no_more_than_its_limit(garden: Garden) -> None:
    for at in range(30):
        garden.mail("post", at)
        garden.document("notes", f"n{at}", [body(at)])
    garden.jobs.clear()
    context = SweepContext(garden.connection, Intent(), garden.clock.now_ms(), 7)
    assert len(list(sweep_append(context))) == 7
    assert len(list(sweep_seal_document(context))) == 7


def test_what_waits_is_not_asked_for(garden: Garden) -> None:
    garden.mail("post", 3, lifecycle=Lifecycle.PENDING_EXTRACTION)
    for at in range(20):
        if at != 3:
            garden.mail("post", at, lifecycle=Lifecycle.ADMITTED)
    garden.drain()
    held = [job for job in _swept(garden) if job.kind == "seal"]
    for job in held:
        before = garden.connection.raw.total_changes()
        garden.run(job)
        assert garden.connection.raw.total_changes() > before


def test_a_flush_is_asked_for_once_a_block(garden: Garden) -> None:
    garden.mail("post", 1)
    garden.drain()
    assert list(sweep_flush(SweepContext(garden.connection, Intent(), garden.clock.now_ms(), 9))) == []
    garden.clock.advance(3_700)
    (job,) = sweep_flush(SweepContext(garden.connection, Intent(), garden.clock.now_ms(), 9))
    garden.run(job)
    assert list(sweep_flush(SweepContext(garden.connection, Intent(), garden.clock.now_ms(), 9))) == []


def test_a_finished_memory_is_hardly_read(garden: Garden) -> None:
    for at in range(400):
        garden.mail("post", at, f"Line {at}.")
    for at in range(150):
        garden.document("notes", f"n{at:03d}", [f"Note {at}.", f"Second {at}."])
    garden.finish()
    count = RowCount(garden.connection)
    count.start()
    assert _swept(garden) == []
    assert unfinished(garden.connection) == []
    assert close_all_tails(garden.connection, garden.clock.now_ms()) == []
    count.stop()
    assert count.rows < 100
    assert count.vm_steps < 3_000
