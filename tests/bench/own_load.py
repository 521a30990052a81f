"""Whether the agent takes its own work for somebody else's and holds itself back for it. ``models`` calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from agent.db import Database
from agent.errors import SapwoodError
from agent.paths import paths_under
from agent.queue.enqueue import enqueue
from agent.states import PowerMode
from agent.supervisor.control import call
from tests.bench.waiting import poll, running_workers
from tests.supervisor.kinds import ALL, job_of

PATIENCE_S = 30.0
SAMPLE_S = 0.5
ENVIRON = {
    "SAPWOOD_POWER__SAMPLE_SECONDS": "1",
    "SAPWOOD_POWER__DWELL_SECONDS": "2",
    "SAPWOOD_POWER__BATTERY_FLOOR": "0",
    "SAPWOOD_POWER__MEMORY_BYTES": "0",
}


def own_cpu_paused(*, seconds: float) -> int:
    """Return at how many looks, two a second, an agent that burns every core with its workers held itself back.

    Blocks for so many seconds and a few more. Other programs must leave the processor alone meanwhile.
    """
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder) / "home").make()
        environ = {
            **os.environ,
            **ENVIRON,
            "SAPWOOD_HOME": str(paths.config_dir.parent),
            "SAPWOOD_POOL__MIN_WORKERS": str(cores),
            "SAPWOOD_POOL__MAX_WORKERS": str(cores),
        }
        argv = [sys.executable, "-m", "tests.supervisor.runner", str(paths.config_dir.parent)]
        process = subprocess.Popen([*argv, json.dumps({"kind_names": ALL})], env=environ, stdout=subprocess.DEVNULL)
        database = Database(paths.database, paths.write_turn)
        try:
            poll(lambda: running_workers(paths) == cores, "the workers", PATIENCE_S)
            rounds = int(seconds // 2) + 1
            for number in range(rounds * cores):
                job = job_of("t_burn", Path(folder) / "burnt", str(number), number=2.0)
                enqueue(database.connection, job, time.time_ns() // 1_000_000)
            held = 0
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(SAMPLE_S)
                mode = call(paths, "status")["power"]["mode"]
                held += mode in (PowerMode.THROTTLED, PowerMode.PAUSED)
            return held
        finally:
            database.close()
            with suppress(SapwoodError):
                call(paths, "stop")
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
