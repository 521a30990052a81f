"""A queue to play with: rows in, rows out, time that moves when told to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Connection, Database
from agent.paths import Paths
from agent.queue import (
    NOTHING_TO_DO,
    Job,
    JobContext,
    JobSpec,
    LocalContext,
    NewJob,
    Plan,
    Registry,
    claim_next,
    enqueue,
)
from agent.states import JobKind

ME = "worker-of-this-test"
OTHER = "another-worker"


def do_nothing(context: JobContext, job: Job) -> Plan:
    return NOTHING_TO_DO


RANKS = {JobKind.SEAL: 1, JobKind.FLUSH_STALE: 2, JobKind.APPEND_BUFFER: 3}


def every_kind() -> Registry:
    return Registry.of(
        JobSpec(kind, do_nothing, llm_bound=kind.is_llm_bound(), rank=RANKS.get(kind, 4)) for kind in JobKind
    )


@dataclass
class Queue:
    """The queue of one test."""

    connection: Connection
    clock: FakeClock
    registry: Registry = field(default_factory=every_kind)
    numbers: Iterable[int] = field(default_factory=itertools.count)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def add(self, job: NewJob | None = None, **changes: Any) -> int:
        """Enqueue a job (a sync of a source of its own, where none is named) and return its id."""
        if job is None:
            job = NewJob.sync_source(f"source-{next(iter(self.numbers))}")
        found = enqueue(self.connection, job, self.now)
        assert found is not None
        if changes:
            self.change(found, **changes)
        return found

    def change(self, job_id: int, **columns: Any) -> None:
        with self.connection.write():
            for name, value in columns.items():
                self.connection.run(f"UPDATE mem_tree_jobs SET {name} = ? WHERE id = ?", (value, job_id))

    def claim(self, worker_id: str = ME, **options: Any) -> Job | None:
        return claim_next(self.connection, registry=self.registry, worker_id=worker_id, now_ms=self.now, **options)

    def take(self, worker_id: str = ME, **options: Any) -> Job:
        job = self.claim(worker_id, **options)
        assert job is not None
        return job

    def row(self, job_id: int) -> dict[str, Any]:
        names = [row[1] for row in self.connection.all("PRAGMA table_info (mem_tree_jobs)")]
        row = self.connection.one("SELECT * FROM mem_tree_jobs WHERE id = ?", (job_id,))
        assert row is not None
        return dict(zip(names, row, strict=False))

    def status(self, job_id: int) -> str:
        return str(self.row(job_id)["status"])

    def statuses(self) -> list[str]:
        return [row[0] for row in self.connection.all("SELECT status FROM mem_tree_jobs ORDER BY id")]


@pytest.fixture
def queue(connection: Connection, clock: FakeClock) -> Queue:
    return Queue(connection, clock)


@pytest.fixture
def context(connection: Connection, clock: FakeClock, paths: Paths) -> LocalContext:
    return LocalContext(connection, clock, Intent(), paths)


@pytest.fixture
def second(paths: Paths) -> Iterable[Connection]:
    """Another connection to the same file, as another process would have."""
    database = Database(paths.database, paths.write_turn, busy_timeout_ms=200)
    yield database.connection
    database.close()


@pytest.fixture
def changes(second: Connection) -> Callable[[], int]:
    """Return a function that says whether anybody wrote to the file since it was asked last (0: nobody)."""

    def version() -> int:
        return int(second.value("PRAGMA data_version"))

    last = [version()]

    def changed() -> int:
        before, last[0] = last[0], version()
        return last[0] - before

    return changed


@pytest.fixture
def measure_steps(connection: Connection) -> Callable[[Callable[[], object]], int]:
    """Return a function that says how many steps of SQLite's machine something takes: work, not time."""

    def measure(what: Callable[[], object]) -> int:
        steps = [0]

        def count() -> bool:
            steps[0] += 1
            return False

        connection.raw.set_progress_handler(count, 1)
        try:
            what()
        finally:
            connection.raw.set_progress_handler(None)
        return steps[0]

    return measure
