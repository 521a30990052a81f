"""A loop with fakes around it, and real worker processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as LifeLine
from multiprocessing.context import SpawnProcess
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Connection
from agent.ids import random_id
from agent.paths import Paths
from agent.queue import enqueue
from agent.queue.handling import HandlingFile
from agent.queue.registry import JobSpec, Registry
from agent.queue.types import NewJob
from agent.queue.worker_args import WorkerArgs
from agent.system.entry import enter
from agent.worker.capacity import Capacity
from agent.worker.context import StopFlag, WorkerContext
from agent.worker.heartbeat import Heartbeat
from agent.worker.loop import Loop
from agent.worker.permits import Permits
from tests.gate.conftest import server
from tests.worker import kinds

__all__ = ["server"]  # the server that counts calls, for the tests here too

WORKER_ID = "a" * 32


@dataclass
class FakeWaiter:
    """Remembers what was waited for; time passes meanwhile."""

    clock: FakeClock
    waits: list[float] = field(default_factory=list)
    rests: list[float] = field(default_factory=list)
    during: Callable[[], None] | None = None

    def wait(self, timeout_s: float) -> None:
        self.waits.append(timeout_s)
        self.clock.sleep(timeout_s)
        if self.during is not None:
            self.during()

    def rest(self, timeout_s: float) -> None:
        self.rests.append(timeout_s)
        self.clock.sleep(timeout_s)
        if self.during is not None:
            self.during()


@dataclass
class Bench:
    """A loop whose every part can be reached."""

    loop: Loop
    connection: Connection
    clock: FakeClock
    waiter: FakeWaiter
    heartbeat: Heartbeat
    stop: StopFlag
    handling: HandlingFile
    rss: list[int]

    def add(self, job: NewJob) -> int:
        job_id = enqueue(self.connection, job, self.clock.now_ms())
        assert job_id is not None
        return job_id

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.loop.step()

    def status(self, job_id: int) -> str:
        return str(self.connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,)))

    def row(self, job_id: int) -> dict[str, Any]:
        columns = ("status", "attempts", "crashes", "available_at_ms", "failure_reason", "failure_class", "last_error")
        row = self.connection.one(f"SELECT {', '.join(columns)} FROM mem_tree_jobs WHERE id = ?", (job_id,))
        assert row is not None
        return dict(zip(columns, row, strict=True))

    def applied(self, name: str) -> int:
        found = self.connection.value("SELECT value FROM mem_tree_state WHERE key = ?", (f"applied:{name}",))
        return int(found or 0)


@pytest.fixture
def make_bench(paths: Paths, connection: Connection, clock: FakeClock) -> Callable[..., Bench]:
    def make(
        *specs: JobSpec, open_profile: Any = kinds.open_free_profile, intent: Intent | None = None, random: float = 0.5
    ) -> Bench:
        registry = Registry.of(specs or (kinds.NOTE,))
        stop = StopFlag()
        held = intent or Intent()
        heartbeat = Heartbeat(lambda: connection, lease_ms=300_000, clock=clock, on_dead=lambda: None)
        handling = HandlingFile.create(paths, WORKER_ID, pid=os.getpid(), process_started_s=0.0)
        context = WorkerContext(connection, clock, held, paths, registry, heartbeat, handling, stop)
        waiter = FakeWaiter(clock)
        rss = [50_000_000]
        loop = Loop(
            context=context,
            worker_id=WORKER_ID,
            capacity=Capacity(connection, clock),
            permits=Permits(paths, context.shared, open_profile, on_release=lambda: None),
            waiter=waiter,
            intent=lambda: held,
            random=lambda: random,
            rss_bytes=lambda: rss[0],
        )
        return Bench(loop, connection, clock, waiter, heartbeat, stop, handling, rss)

    return make


@dataclass
class Workers:
    """Real worker processes, and the ends of their life lines."""

    paths: Paths
    running: list[tuple[SpawnProcess, LifeLine]] = field(default_factory=list)

    def start(self, **changes: Any) -> tuple[SpawnProcess, LifeLine, WorkerArgs]:
        context = multiprocessing.get_context("spawn")
        reading, writing = context.Pipe(duplex=False)
        args = WorkerArgs(
            **{
                "paths": self.paths,
                "worker_id": random_id(),
                "kind_names": kinds.NAMES,
                "parent_pid": os.getpid(),
                "open_profile": "tests.worker.kinds:open_free_profile",
                **changes,
            }
        )
        process = context.Process(
            target=enter, args=("agent.worker.process:worker_main", os.getpid(), args, reading), daemon=True
        )
        process.start()
        reading.close()
        self.running.append((process, writing))
        return process, writing, args

    def end(self) -> None:
        for process, life_line in self.running:
            life_line.close()
            if process.pid is not None and process.is_alive():
                process.kill()
            process.join(10)
            process.close()


@pytest.fixture
def workers(paths: Paths, connection: Connection) -> Iterator[Workers]:
    del connection  # the database is there before a worker looks for it
    workers = Workers(paths)
    yield workers
    workers.end()
