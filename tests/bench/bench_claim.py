"""What a claim costs, with a thousand rows waiting and with three million in the table.

1,000 ready rows; 1,000,000 ready (due in the order in which they were enqueued, as they are) beside 1,000,000 delayed
(a third of them of kinds that go first) and 1,000,000 done ones, these in no order.
Claims on the two files alternate, so that both meet the same machine. Timed is ``claim_next``: the look that only reads
and the transaction; each claimed row is then settled and a new one enqueued, untimed.
"""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent.clock import SYSTEM_CLOCK
from agent.db import Connection, Database
from agent.ids import content_id
from agent.paths import paths_under
from agent.queue import NOTHING_TO_DO, JobSpec, NewJob, Registry, claim_next, enqueue, mark_done
from agent.states import JobKind
from tests.bench.harness import Result, Setting, percentile

SMALL = 1_000
LARGE = 1_000_000
ROUND = 50
RANKS = {JobKind.SEAL: 1, JobKind.FLUSH_STALE: 2, JobKind.APPEND_BUFFER: 3}
FIRST = (JobKind.SEAL, JobKind.APPEND_BUFFER)
LAST = (JobKind.EXTRACT_CHUNK, JobKind.REEMBED_BACKFILL, JobKind.SEAL_DOCUMENT, JobKind.INGEST_FILE)
HOUR_MS = 3_600_000


def run(setting: Setting) -> Result:
    """Measure both and hold their ratio to its bar."""
    rounds = 20 if setting.quick else 60
    registry = Registry.of(
        JobSpec(kind, lambda context, job: NOTHING_TO_DO, kind.is_llm_bound(), RANKS.get(kind, 4)) for kind in JobKind
    )
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        small = _open(Path(folder) / "small")
        large = _open(Path(folder) / "large")
        _fill(small, ready=SMALL, delayed=0, done=0)
        _fill(large, ready=LARGE, delayed=LARGE, done=LARGE)
        times: dict[str, list[float]] = {"1k": [], "3m": []}
        fresh = itertools.count()
        for _ in range(rounds):
            for name, connection in (("1k", small), ("3m", large)):
                times[name] += [_claim(connection, registry, next(fresh)) for _ in range(ROUND)]
        small.close()
        large.close()
    result = Result()
    for name, values in times.items():
        result.figures[f"claim_p50_us_{name}"] = round(percentile(values, 0.5) * 1e6, 1)
        result.figures[f"claim_p99_us_{name}"] = round(percentile(values, 0.99) * 1e6, 1)
    result.figures["ratio"] = round(result.figures["claim_p50_us_3m"] / result.figures["claim_p50_us_1k"], 2)
    result.hold("ratio", "<=", 1.5)
    return result


def _open(home: Path) -> Connection:
    paths = paths_under(home).make()
    return Database(paths.database, paths.write_turn).connection


def _claim(connection: Connection, registry: Registry, fresh: int) -> float:
    now = SYSTEM_CLOCK.now_ms()
    started = time.perf_counter()
    job = claim_next(connection, registry=registry, worker_id="bench", now_ms=now)
    took = time.perf_counter() - started
    if job is None or job.kind not in LAST:
        raise RuntimeError("the wrong row was claimed, or none")
    mark_done(connection, job, now)
    enqueue(connection, NewJob(job.kind, "{}", f"fresh:{fresh}"), now)
    return took


def _fill(connection: Connection, *, ready: int, delayed: int, done: int) -> None:
    cache = connection.value("PRAGMA cache_size")
    connection.all("PRAGMA cache_size = -400000")
    with connection.write():
        connection.many(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms,
                                       created_at_ms, completed_at_ms)
            VALUES (?, ?, ?, ?, 5, ?, ?, ?)
            """,
            _rows(ready, delayed, done),
        )
    connection.all(f"PRAGMA cache_size = {cache}")
    connection.all("PRAGMA wal_checkpoint(TRUNCATE)")


def _rows(ready: int, delayed: int, done: int) -> Iterator[tuple[Any, ...]]:
    now = SYSTEM_CLOCK.now_ms()
    chance = random.Random(1)
    number = itertools.count()

    def row(kind: str, status: str, available: int, completed: int | None) -> tuple[Any, ...]:
        node = content_id(next(number))
        return (str(kind), f'{{"chunk_id":"{node}"}}', f"{kind}:{node}", status, available, now - HOUR_MS, completed)

    kinds = tuple(JobKind)
    waiting: Iterable[tuple[Any, ...]] = (
        row(chance.choice(FIRST + LAST), "ready", now + HOUR_MS + chance.randrange(HOUR_MS), None)
        for _ in range(delayed)
    )
    over: Iterable[tuple[Any, ...]] = (
        row(chance.choice(kinds), "done", now - HOUR_MS, now - chance.randrange(HOUR_MS)) for _ in range(done)
    )
    due: Iterable[tuple[Any, ...]] = (
        row(chance.choice(LAST), "ready", now - HOUR_MS + HOUR_MS * place // ready, None) for place in range(ready)
    )
    return itertools.chain(over, waiting, due)
