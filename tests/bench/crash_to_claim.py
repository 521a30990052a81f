"""From a worker's death to its job's next run, with real processes. Not a benchmark of its own: ``wake`` calls it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from agent.db import Database
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.queue.enqueue import enqueue
from agent.supervisor.control import call
from tests.bench.waiting import poll, running_workers
from tests.supervisor.kinds import ALL, job_of, lines_of

PATIENCE_S = 20.0


def measure(samples: int, *, workers: int = 2) -> list[float]:
    """Return so many times in ms from ``kill -9`` of a busy worker to the handler running again elsewhere.

    ``workers`` are up and warm: with two the other one takes the job, with one a new process must come up first.
    Raises ``TimeoutError`` where a run does not come. Blocks for about a second per sample.
    """
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder) / "home").make()
        process = _start(paths, workers)
        try:
            return [_one(paths, Path(folder) / f"held{number}", workers) for number in range(samples)]
        finally:
            with suppress(SapwoodError):
                call(paths, "stop")
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _start(paths: Paths, workers: int) -> subprocess.Popen[bytes]:
    import json

    environ = {
        **os.environ,
        "SAPWOOD_HOME": str(paths.config_dir.parent),
        "SAPWOOD_POOL__MIN_WORKERS": str(workers),
        "SAPWOOD_POOL__MAX_WORKERS": str(workers),
        # The same slots are killed again and again here; that is not what is measured.
        "SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "1000000",
        "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.01",
        "SAPWOOD_SUPERVISOR__BACKOFF_CAP_SECONDS": "0.02",
    }
    argv = [sys.executable, "-m", "tests.supervisor.runner", str(paths.config_dir.parent)]
    return subprocess.Popen([*argv, json.dumps({"kind_names": ALL})], env=environ, stdout=subprocess.DEVNULL)


def _one(paths: Paths, held: Path, workers: int) -> float:
    poll(lambda: running_workers(paths) == workers, "the workers", PATIENCE_S)
    database = Database(paths.database, paths.write_turn)
    try:
        enqueue(database.connection, job_of("t_hold", held), time.time_ns() // 1_000_000)
    finally:
        database.close()
    poll(lambda: len(lines_of(held)) == 1, "the first run", PATIENCE_S)
    victim = int(lines_of(held)[0][0])
    killed = time.time_ns()
    os.kill(victim, signal.SIGKILL)
    poll(lambda: len(lines_of(held)) == 2, "the second run", PATIENCE_S)
    return (int(lines_of(held)[1][1]) - killed) / 1e6
