"""Real supervisors in throw-away homes, ended whatever the test did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest

from agent.db import Database
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
from agent.supervisor.control import call
from tests.conftest import REPOSITORY
from tests.supervisor.kinds import ALL, lines_of


@dataclass
class Agent:
    """A supervisor process of a test and the home that it works in."""

    process: subprocess.Popen[bytes]
    paths: Paths
    seen: set[int] = field(default_factory=set)

    @property
    def pid(self) -> int:
        return self.process.pid

    def family(self) -> list[int]:
        """Every process below the supervisor now, multiprocessing's own too."""
        with suppress(psutil.Error):
            self.seen.update(child.pid for child in psutil.Process(self.pid).children(recursive=True))
        return [pid for pid in self.seen if is_there(pid)]

    def status(self) -> dict[str, Any]:
        return call(self.paths, "status", 5.0)

    def workers(self) -> list[dict[str, Any]]:
        with suppress(Exception):
            return [worker for worker in self.status()["workers"] if worker["pid"]]
        return []

    def running(self) -> list[dict[str, Any]]:
        return [worker for worker in self.workers() if worker["state"] == "running"]

    def wait(self, timeout: float = 10.0) -> dict[str, Any]:
        """Wait for its end and return what it said; the exit code is under ``code``."""
        said, _ = self.process.communicate(timeout=timeout)
        ended: dict[str, Any] = json.loads(said or b"{}")
        return {**ended, "code": self.process.returncode}


def is_there(pid: int) -> bool:
    with suppress(psutil.Error):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


StartAgent = Callable[..., Agent]


@pytest.fixture
def start_agent(paths: Paths) -> Iterator[StartAgent]:
    """Return a function that starts a supervisor with the test kinds in the test's home."""
    agents: list[Agent] = []

    def start(
        *, env: dict[str, str] | None = None, unset: Sequence[str] = (), is_closed: bool = False, **options: Any
    ) -> Agent:
        options.setdefault("kind_names", ALL)
        argv = [sys.executable, "-m", "tests.supervisor.runner", str(paths.config_dir.parent), json.dumps(options)]
        quick = {"SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.05"}
        environ = {**os.environ, **quick, **(env or {})}
        for name in unset:
            environ.pop(name, None)
        if is_closed:
            argv = ["/bin/sh", "-c", 'exec "$0" "$@" 0<&- 1>&- 2>&-', *argv]
        process = subprocess.Popen(argv, cwd=REPOSITORY, env=environ, stdout=None if is_closed else subprocess.PIPE)
        agents.append(Agent(process, paths))
        return agents[-1]

    yield start
    for agent in agents:
        family = agent.family()
        if agent.process.poll() is None:
            agent.process.send_signal(signal.SIGKILL)
        agent.process.wait(10)
        if agent.process.stdout is not None:
            agent.process.stdout.close()
        for pid in family:
            with suppress(psutil.Error):
                psutil.Process(pid).kill()


@pytest.fixture
def put(database: Database) -> Callable[[NewJob], int]:
    """Return a function that enqueues a job now, as any program of the owner would."""

    def put(job: NewJob) -> int:
        found = enqueue(database.connection, job, time.time_ns() // 1_000_000)
        assert found is not None
        return found

    return put


@dataclass(frozen=True)
class Rows:
    """The jobs table as a test looks at it."""

    database: Database

    def status(self, job_id: int) -> str:
        return str(self.database.connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,)))

    def row(self, job_id: int) -> dict[str, Any]:
        names = ("status", "attempts", "crashes", "failure_reason", "failure_class", "locked_by")
        values = self.database.connection.one(
            """
            SELECT status, attempts, crashes, failure_reason, failure_class, locked_by
              FROM mem_tree_jobs WHERE id = ?
            """,
            (job_id,),
        )
        assert values is not None
        return dict(zip(names, values, strict=True))


@pytest.fixture
def rows(database: Database) -> Rows:
    return Rows(database)


lines = lines_of
