"""Jobs per second, claim → handle → settle: ours beside huey (at-most-once) and spoolctl (leased) in the same run.

20,000 no-op jobs, 1 and 4 processes started together at a barrier, ``synchronous=NORMAL`` for all. ``jobs_per_s`` is
the queue's own loop, as the peers' figures are theirs; ``worker_jobs_per_s`` is the agent's whole worker process, with
heartbeat, limits, logs and the look at the owner's intent before each job. Each process notes every job it handled:
what was handled twice or not at all is counted over all runs of ours.
"""

from __future__ import annotations

import contextlib
import importlib.util
import multiprocessing
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.queue import NOTHING_TO_DO, Job, JobContext, JobSpec, Plan
from agent.queue.worker_args import STOP
from tests.bench.harness import Result, Setting

PATIENCE_S = 120.0
JOBS = 20_000
PROCESSES = (1, 4)
KIND = "noop"

Drain = Callable[[Path, Any, Any], None]


@dataclass(frozen=True)
class Run:
    """One drain of one queue by some processes."""

    jobs_per_s: float
    shares: list[int]
    twice: int
    lost: int


def run(setting: Setting) -> Result:
    """Measure and hold to the bars; repeats are interleaved, so that a slow minute of the machine is everybody's."""
    result = Result()
    repeats = 5 if setting.quick else 9
    peers: dict[str, tuple[Callable[[Path], None], Drain]] = {"": (fill_ours, drain_ours)}
    if importlib.util.find_spec("huey") is not None:
        peers["huey_"] = (fill_huey, drain_huey)
    else:
        result.notes.append("huey is not installed: its figures and bars are left out")
    if importlib.util.find_spec("spoolctl") is not None:
        peers["spoolctl_"] = (fill_spoolctl, drain_spoolctl)
    else:
        result.notes.append("spoolctl is not installed: its figures and bars are left out")
    runs: dict[tuple[str, int], list[Run]] = {(name, n): [] for name in (*peers, "worker_") for n in PROCESSES}
    for repeat in range(repeats):
        for (name, processes), done in runs.items():
            # The leased peer takes ten times as long, and one repeat of the same size is enough for a factor of four;
            # the whole worker is held to no bar.
            if repeat >= (1 if name == "spoolctl_" else 2 if name == "worker_" else repeats):
                continue
            done.append(measure_workers(processes) if name == "worker_" else measure(*peers[name], processes))
    for (name, processes), done in runs.items():
        result.figures[f"{name}jobs_per_s_{processes}"] = round(statistics.median(one.jobs_per_s for one in done))
    for peer, ratio in (("huey_", "ratio_huey"), ("spoolctl_", "ratio_leased")):
        for processes in PROCESSES:
            # Each of ours against the peer's of the same minute: what else the machine does is then in both.
            pairs = list(zip(runs["", processes], runs.get((peer, processes), ()), strict=False))
            if pairs:
                ratios = [mine.jobs_per_s / theirs.jobs_per_s for mine, theirs in pairs]
                result.figures[f"{ratio}_{processes}"] = round(statistics.median(ratios), 2)
    ours = [one for name in ("", "worker_") for processes in PROCESSES for one in runs[name, processes]]
    result.figures["twice"] = sum(one.twice for one in ours)
    result.figures["lost"] = sum(one.lost for one in ours)
    shared = [one for one in ours if len(one.shares) > 1]
    result.figures["slowest_share"] = round(
        sum(min(one.shares) for one in shared) / (sum(sum(one.shares) / len(one.shares) for one in shared)), 2
    )
    for processes in PROCESSES:
        result.hold(f"ratio_huey_{processes}", ">=", 1.0)
        result.hold(f"ratio_leased_{processes}", ">=", 4)
    result.hold("twice", "==", 0)
    result.hold("lost", "==", 0)
    result.hold("slowest_share", ">=", 0.5)
    return result


def measure(fill: Callable[[Path], None], drain: Drain, processes: int) -> Run:
    """Fill a fresh queue, drain it with so many processes, and return what came of it."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        home = Path(folder)
        fill(home)
        barrier = context.Barrier(processes + 1)
        pipes, children = [], []
        for _ in range(processes):
            ours, theirs = context.Pipe(duplex=False)
            child = context.Process(target=_drain_in_child, args=(drain, home, barrier, theirs))
            child.start()
            theirs.close()
            pipes.append(ours)
            children.append(child)
        barrier.wait(60)
        started = time.monotonic()
        # The monotonic clock is the machine's: the children's end times compare with our start.
        found = [pipe.recv() for pipe in pipes]
        for child in children:
            child.join(30)
    return _run_of(started, found)


def _run_of(started: float, found: list[tuple[float, list[Any]]]) -> Run:
    counted = Counter(job for _, jobs in found for job in jobs)
    return Run(
        jobs_per_s=JOBS / (max(end for end, _ in found) - started),
        shares=[len(jobs) for _, jobs in found],
        twice=sum(count - 1 for count in counted.values()),
        lost=JOBS - len(counted),
    )


def measure_workers(processes: int) -> Run:
    """Let so many of the agent's own workers, up and idle, meet the jobs as one transaction brings them."""
    from agent.db import Database
    from agent.paths import paths_under
    from agent.queue import NewJob, count_jobs, enqueue_many_tx, wake_workers

    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder)).make()
        connection = Database(paths.database, paths.write_turn).connection
        pipes, life_lines, children = [], [], []
        for slot in range(processes):
            ours, theirs = context.Pipe(duplex=False)
            theirs_alive, ours_alive = context.Pipe(duplex=False)
            child = context.Process(target=_work_in_child, args=(Path(folder), slot, theirs_alive, theirs))
            child.start()
            theirs.close()
            theirs_alive.close()
            pipes.append(ours)
            life_lines.append(ours_alive)
            children.append(child)
        _poll(lambda: connection.value("SELECT count(*) FROM mem_tree_workers") == processes)
        now = time.time_ns() // 1_000_000
        with connection.write():
            enqueue_many_tx(connection, (NewJob(KIND, "{}", f"noop:{number}") for number in range(JOBS)), now)
        started = time.monotonic()
        wake_workers(connection)
        _poll(lambda: count_jobs(connection, now).waiting == 0)
        for life_line in life_lines:
            life_line.send_bytes(STOP)
        found = [pipe.recv() for pipe in pipes]
        for child in children:
            child.join(30)
        connection.close()
    return _run_of(started, found)


def _poll(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"the workers did not come to an end in {PATIENCE_S:.0f} s")
        time.sleep(0.05)


_seen: list[int] = []
_last = [0.0]


def _note(context: JobContext, job: Job) -> Plan:
    _seen.append(job.id)
    _last[0] = time.monotonic()
    return NOTHING_TO_DO


NOOP = JobSpec(KIND, _note)


def _work_in_child(home: Path, slot: int, life_line: Any, pipe: Any) -> None:
    from agent.ids import random_id
    from agent.paths import paths_under
    from agent.queue.worker_args import WorkerArgs
    from agent.worker.process import worker_main
    from tests.bench import bench_queue

    args = WorkerArgs(paths_under(home), random_id(), ("tests.bench.bench_queue:NOOP",), slot)
    worker_main(args, life_line)
    # The registry imported this module by its name; as the child's main it may be another one.
    pipe.send((bench_queue._last[0], bench_queue._seen))
    pipe.close()


def _drain_in_child(drain: Drain, home: Path, barrier: Any, pipe: Any) -> None:
    seen: list[Any] = []
    drain(home, barrier, seen)
    pipe.send((time.monotonic(), seen))
    pipe.close()


def fill_ours(home: Path) -> None:
    """Make our database with the jobs in it."""
    from agent.db import Database
    from agent.paths import paths_under
    from agent.queue import NewJob, enqueue_tx

    paths = paths_under(home).make()
    database = Database(paths.database, paths.write_turn)
    now = time.time_ns() // 1_000_000
    with database.connection.write():
        for number in range(JOBS):
            enqueue_tx(database.connection, NewJob(KIND, f'{{"number":{number}}}', f"noop:{number}"), now)
    database.close()


def drain_ours(home: Path, barrier: Any, seen: list[Any]) -> None:
    """Run our own loop until nothing is due."""
    from agent.clock import SYSTEM_CLOCK
    from agent.config import Intent
    from agent.db import Database
    from agent.ids import random_id
    from agent.paths import paths_under
    from agent.queue import LocalContext, Registry, run_due

    def handle(context: JobContext, job: Job) -> Plan:
        seen.append(job.id)
        return NOTHING_TO_DO

    paths = paths_under(home)
    database = Database(paths.database, paths.write_turn)
    context = LocalContext(database.connection, SYSTEM_CLOCK, Intent(), paths)
    barrier.wait(60)
    run_due(database.connection, Registry.of([JobSpec(KIND, handle)]), context, worker_id=random_id())


def _huey(home: Path) -> tuple[Any, Any]:
    import logging

    from huey import SqliteHuey

    logging.getLogger("huey").setLevel(logging.WARNING)
    huey = SqliteHuey(filename=str(home / "huey.db"))
    # Its own choices are FULL or OFF; all are measured at NORMAL.
    huey.storage.conn.execute("PRAGMA synchronous = NORMAL")
    seen: list[int] = []

    @huey.task(name=KIND)
    def noop(number: int) -> None:
        seen.append(number)

    noop.seen = seen
    return huey, noop


def fill_huey(home: Path) -> None:
    """Make huey's database with the jobs in it."""
    huey, noop = _huey(home)
    # Its own enqueue is a transaction a job; the drain is what is measured.
    data = [huey.serialize_task(noop.s(number)) for number in range(JOBS)]
    with huey.storage.db(commit=True) as cursor:
        cursor.executemany(
            "INSERT INTO task (queue, data, priority) VALUES (?, ?, 0)", [(huey.storage.name, each) for each in data]
        )
    huey.storage.close()


def drain_huey(home: Path, barrier: Any, seen: list[Any]) -> None:
    """Do what huey's consumer does for each task."""
    huey, noop = _huey(home)
    barrier.wait(60)
    while (task := huey.dequeue()) is not None:
        huey.execute(task)
    seen.extend(noop.seen)


def fill_spoolctl(home: Path) -> None:
    """Make spoolctl's database with the jobs in it."""
    from spoolctl import store

    connection = store.connect(str(home / "spool.db"))
    with _hurried(connection):
        for _ in range(JOBS):
            store.add_job(connection, ["true"], 60, 3, time.time())
    connection.close()


@contextlib.contextmanager
def _hurried(connection: Any) -> Iterator[None]:
    # Only the filling is hurried: without waiting for the disk each of its transactions is cheap.
    connection.execute("PRAGMA synchronous = OFF")
    yield
    connection.execute("PRAGMA synchronous = NORMAL")


def drain_spoolctl(home: Path, barrier: Any, seen: list[Any]) -> None:
    """Do what spoolctl's worker does for each job (reap, claim, heartbeat, settle), but start no command."""
    import io
    import sys

    from spoolctl import store, worker

    def no_command(job: Any, attempt: Any, on_spawn: object = None) -> tuple[str, int, None, None]:
        seen.append(job.id)
        return "succeeded", 0, None, None

    worker.execute_attempt = no_command
    path = str(home / "spool.db")
    connection = store.connect(path)
    name = worker.default_worker_id()
    barrier.wait(60)
    # It tells about each job on stderr.
    with contextlib.redirect_stderr(io.StringIO()):
        while worker.process_one(connection, path, name) is not None:
            sys.stderr.seek(0)
