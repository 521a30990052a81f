"""How soon an idle worker runs what another process enqueues, and what busy workers cost a small write.

The workers are the agent's own, under its own supervisor. The handler answers with the time on the machine's monotonic
clock, which all processes share.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.clock import SYSTEM_CLOCK
from agent.db import Connection, Database
from agent.db.state import set_state
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.queue import (
    NOTHING_TO_DO,
    Job,
    JobContext,
    JobSpec,
    NewJob,
    Plan,
    count_done_since,
    enqueue,
    enqueue_many_tx,
)
from agent.supervisor.control import call
from tests.bench import crash_to_claim
from tests.bench.harness import Result, Setting, percentile
from tests.bench.waiting import poll, running_workers

SAMPLES = 300
WRITES = 1_000
WARM_UP = 20
CHAINS = 64
PATIENCE_S = 30.0
GAP_S = (0.005, 0.03)


def _answer(context: JobContext, job: Job) -> Plan:
    now = time.monotonic_ns()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(str(now).encode(), ("127.0.0.1", int(job.payload_json)))
    return NOTHING_TO_DO


def _go_on(context: JobContext, job: Job) -> Plan:
    return Plan(follow_ups=[NewJob(job.kind, job.payload_json, job.dedupe_key)])


ANSWER = JobSpec("b_answer", _answer)
CHAIN = JobSpec("b_chain", _go_on)
KINDS = ("tests.bench.bench_wake:ANSWER", "tests.bench.bench_wake:CHAIN")


def run(setting: Setting) -> Result:
    """Measure waking, writing beside busy workers, and dying; hold them to their bars."""
    result = Result()
    waits = measure_waking(SAMPLES)
    result.figures["wake_p50_ms"] = round(percentile(waits, 0.5), 3)
    result.figures["wake_p99_ms"] = round(percentile(waits, 0.99), 3)
    writes, jobs_per_s = measure_busy_writes(WRITES)
    result.figures["busy_write_p50_ms"] = round(percentile(writes, 0.5), 3)
    result.figures["busy_write_p99_ms"] = round(percentile(writes, 0.99), 3)
    result.figures["busy_jobs_per_s"] = round(jobs_per_s)
    repeats = 5 if setting.quick else 15
    result.figures["crash_to_claim_ms"] = round(percentile(crash_to_claim.measure(repeats), 0.5), 1)
    alone = crash_to_claim.measure(repeats, workers=1)
    result.figures["crash_to_claim_alone_ms"] = round(percentile(alone, 0.5), 1)
    result.notes.append("crash_to_claim_ms: another worker is idle; _alone_: the dead one is the only one")
    if importlib.util.find_spec("honker") is None:
        result.notes.append("honker is not installed: its figure is left out")
    result.hold("wake_p50_ms", "<=", 1.5)
    result.hold("busy_write_p99_ms", "<=", 100)
    result.hold("crash_to_claim_ms", "<=", 1_000)
    return result


def measure_waking(samples: int) -> list[float]:
    """Return so many times in ms from before the enqueue to the handler's first line in a warm, idle worker."""
    chance = random.Random(1)
    with _agent(workers=1) as (_, connection), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(PATIENCE_S)
        port = receiver.getsockname()[1]
        waits = []
        for number in range(WARM_UP + samples):
            # Time enough for the worker to be asleep again, and never in step with anything.
            time.sleep(chance.uniform(*GAP_S))
            job = NewJob(ANSWER.kind, str(port), f"answer:{number}")
            started = time.monotonic_ns()
            enqueue(connection, job, SYSTEM_CLOCK.now_ms())
            waits.append((int(receiver.recv(64)) - started) / 1e6)
    return waits[WARM_UP:]


def measure_busy_writes(writes: int) -> tuple[list[float], float]:
    """Return so many times in ms of a small write transaction beside four busy workers, and their jobs per second."""
    with _agent(workers=4) as (_, connection):
        with connection.write():
            enqueue_many_tx(
                connection,
                [NewJob(CHAIN.kind, "{}", f"chain:{number}") for number in range(CHAINS)],
                SYSTEM_CLOCK.now_ms(),
            )
        began = SYSTEM_CLOCK.now_ms()
        poll(lambda: count_done_since(connection, began)[0] > 1_000, "work", PATIENCE_S)
        began = SYSTEM_CLOCK.now_ms()
        times = []
        for number in range(writes):
            time.sleep(0.005)
            started = time.monotonic_ns()
            with connection.write():
                set_state(connection, "bench.write", str(number))
            times.append((time.monotonic_ns() - started) / 1e6)
        took_s = (SYSTEM_CLOCK.now_ms() - began) / 1000
        done = count_done_since(connection, began)[0]
    return times, done / took_s


@contextmanager
def _agent(workers: int) -> Iterator[tuple[Paths, Connection]]:
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder) / "home").make()
        environ = {
            **os.environ,
            "SAPWOOD_HOME": folder,
            "SAPWOOD_POOL__MIN_WORKERS": str(workers),
            "SAPWOOD_POOL__MAX_WORKERS": str(workers),
        }
        argv = [sys.executable, "-m", "tests.supervisor.runner", str(Path(folder) / "home")]
        process = subprocess.Popen([*argv, json.dumps({"kind_names": KINDS})], env=environ, stdout=subprocess.DEVNULL)
        database = Database(paths.database, paths.write_turn)
        try:
            poll(lambda: running_workers(paths) == workers, "the workers", PATIENCE_S)
            yield paths, database.connection
        finally:
            database.close()
            with suppress(SapwoodError):
                call(paths, "stop")
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
