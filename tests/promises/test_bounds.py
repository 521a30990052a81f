"""What would grow without end if nobody looked: the log of writes, and the rows of jobs that are over."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from agent.db import Connection, Database, connect
from agent.db.connection import WAL_CHECKPOINT_PAGES, WAL_SIZE_LIMIT
from agent.paths import Paths
from agent.supervisor.tick import shrink_wal
from tests.supervisor.conftest import Rows, StartAgent
from tests.supervisor.kinds import job_of

DAY_MS = 24 * 3_600_000
DONE = 25_000


def _write(connection: Connection, number: int) -> None:
    with connection.write():
        connection.run(
            "INSERT OR REPLACE INTO mem_tree_state (key, value) VALUES (?, ?)", (f"k{number % 50}", "x" * 200_000)
        )


def test_log_of_writes_keeps_to_its_limit_and_shrinks_back_once_a_reader_is_gone(
    connection: Connection, paths: Paths
) -> None:
    connection.raw.set_busy_timeout(50)
    wal = paths.database.with_name("chunks.db-wal")
    page = int(connection.value("PRAGMA page_size"))
    assert WAL_CHECKPOINT_PAGES * page <= WAL_SIZE_LIMIT
    largest = 0
    for number in range(120):
        _write(connection, number)
        largest = max(largest, wal.stat().st_size)
    assert WAL_SIZE_LIMIT / 2 < largest < WAL_SIZE_LIMIT * 1.1, "twenty-four megabytes were written"

    reader = connect(paths.database)
    with reader.snapshot():
        reader.value("SELECT count(*) FROM mem_tree_state")
        for number in range(120):
            _write(connection, number)
        assert wal.stat().st_size > WAL_SIZE_LIMIT * 1.2, "what a reader sees is kept for it"
        assert not shrink_wal(connection, paths.database)
    for number in range(60):
        _write(connection, number)
    assert wal.stat().st_size <= WAL_SIZE_LIMIT, "back within the limit by itself"
    assert shrink_wal(connection, paths.database)
    assert wal.stat().st_size == 0
    reader.close()


def test_thousands_of_rows_that_are_over_slow_nobody_and_go(
    start_agent: StartAgent,
    database: Database,
    put: Callable[..., int],
    rows: Rows,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    old_ms = time.time_ns() // 1_000_000 - 30 * DAY_MS
    with database.connection.write():
        database.connection.many(
            """
            INSERT INTO mem_tree_jobs
                   (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, created_at_ms,
                    completed_at_ms)
            VALUES ('t_mark', '{}', ?, 'done', 5, ?, ?, ?)
            """,
            ((f"old:{number}", old_ms, old_ms, old_ms) for number in range(DONE)),
        )
    start_agent(workers=1, env={"SAPWOOD_SUPERVISOR__TICK_IDLE_SECONDS": "0.2"})
    job = put(job_of("t_mark", tmp_path / "left", "now"))
    wait_until(lambda: rows.status(job) == "done", 15.0, "a job among the old ones")
    count = "SELECT count(*) FROM mem_tree_jobs WHERE dedupe_key LIKE 'old:%'"
    wait_until(lambda: database.connection.value(count) == 0, 30.0, "the end of the old rows")
    assert rows.status(job) == "done", "what is young stays"
