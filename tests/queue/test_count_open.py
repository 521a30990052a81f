"""Counting what is open without walking what was done."""

from __future__ import annotations

from agent.clock import FakeClock
from agent.db import Connection
from agent.queue.counts import count_jobs, count_open
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob


def test_it_counts_as_the_whole_count_does(connection: Connection, clock: FakeClock) -> None:
    words = ("ready", "ready", "running", "running", "failed", "done", "cancelled")
    for number, word in enumerate(words):
        job = NewJob.extract_chunk(f"c{number}")
        later = clock.now_ms() + 60_000 if number == 1 else None
        found = enqueue(connection, NewJob(job.kind, job.payload_json, job.dedupe_key, None, later), clock.now_ms())
        connection.run("UPDATE mem_tree_jobs SET status = ?, completed_at_ms = 1 WHERE id = ?", (word, found))
    whole, open_ones = count_jobs(connection, clock.now_ms()), count_open(connection, clock.now_ms())
    for name in ("ready", "deferred", "running", "failed"):
        assert getattr(open_ones, name) == getattr(whole, name), name
    assert (whole.ready, whole.deferred, whole.running, whole.failed) == (1, 1, 2, 1)
