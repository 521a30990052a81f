"""What only real processes show: deaths, the life line, signals, and that an idle worker is quiet."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config import IntentWatcher
from agent.db import Connection
from agent.paths import Paths
from agent.queue import enqueue, wake_workers
from agent.queue.handling import handling_path, read_handling
from agent.queue.types import NewJob
from agent.queue.worker_args import EXIT_CORRUPT, EXIT_LEASE, EXIT_ORPHANED, EXIT_RECYCLE, STOP
from agent.worker.kinds import KIND_NAMES
from tests.gate.conftest import CallServer
from tests.worker.conftest import Workers
from tests.worker.kinds import new_job

Until = Callable[..., None]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def add(connection: Connection, job: NewJob) -> int:
    job_id = enqueue(connection, job, now_ms())
    assert job_id is not None
    return job_id


def status(connection: Connection, job_id: int) -> str:
    return str(connection.value("SELECT status FROM mem_tree_jobs WHERE id = ?", (job_id,)))


def is_up(connection: Connection, worker_id: str) -> bool:
    return connection.value("SELECT 1 FROM mem_tree_workers WHERE worker_id = ?", (worker_id,)) is not None


def ended(process: object, deadline_s: float = 10.0) -> int | None:
    process.join(deadline_s)  # type: ignore[attr-defined]
    return process.exitcode  # type: ignore[attr-defined, no-any-return]


def test_a_worker_does_jobs_and_stops_when_told(connection: Connection, workers: Workers, wait_until: Until) -> None:
    job_id = add(connection, new_job("test_note", "x"))
    process, life_line, args = workers.start()
    wait_until(lambda: status(connection, job_id) == "done", 20)
    later = add(connection, new_job("test_note", "y"))
    wait_until(lambda: status(connection, later) == "done", 3, "a woken worker's job, long before its poll")
    life_line.send_bytes(STOP)
    began = time.monotonic()
    assert ended(process) == 0
    assert time.monotonic() - began < 1.5
    reading = read_handling(handling_path(workers.paths, args.worker_id))
    assert reading is not None
    assert reading.pid == process.pid
    assert reading.job_id is None


@pytest.mark.parametrize("how", ["life line", "SIGTERM"])
def test_a_busy_worker_leaves_its_job_and_burns_no_attempt(
    connection: Connection, workers: Workers, paths: Paths, wait_until: Until, how: str
) -> None:
    job_id = add(connection, new_job("test_busy", "long", number=60_000))
    process, life_line, _ = workers.start()
    wait_until((paths.data_dir / "long.mark").exists, 20)
    if how == "SIGTERM":
        assert process.pid is not None
        os.kill(process.pid, signal.SIGTERM)
    else:
        life_line.send_bytes(STOP)
    assert ended(process, 3) == 0
    row = connection.one("SELECT status, attempts, crashes, locked_by FROM mem_tree_jobs WHERE id = ?", (job_id,))
    assert row == ("ready", 0, 0, None)


def test_sigterm_ends_an_idle_worker_at_once(connection: Connection, workers: Workers, wait_until: Until) -> None:
    process, _, args = workers.start()
    wait_until(lambda: is_up(connection, args.worker_id), 20)
    began = time.monotonic()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGTERM)
    assert ended(process) == 0
    assert time.monotonic() - began < 1.5, "it must not sleep its five seconds out"


def test_a_closed_life_line_ends_a_worker_that_looks_at_nothing(
    connection: Connection, workers: Workers, paths: Paths, wait_until: Until
) -> None:
    job_id = add(connection, new_job("test_hung", "hung", number=60_000))
    process, life_line, args = workers.start()
    wait_until((paths.data_dir / "hung.mark").exists, 20)
    life_line.close()
    assert ended(process, 3) == EXIT_ORPHANED
    reading = read_handling(handling_path(paths, args.worker_id))
    assert reading is not None
    assert reading.job_id == job_id
    assert status(connection, job_id) == "running", "nothing is released: the next start judges"


def test_a_killed_worker_leaves_behind_what_it_was_handling(
    connection: Connection, workers: Workers, paths: Paths, wait_until: Until
) -> None:
    began_ms = now_ms()
    job_id = add(connection, new_job("test_busy", "busy", number=60_000))
    process, _, args = workers.start()
    wait_until((paths.data_dir / "busy.mark").exists, 20)
    process.kill()
    assert ended(process) == -signal.SIGKILL
    reading = read_handling(handling_path(paths, args.worker_id))
    assert reading is not None
    assert (reading.job_id, reading.kind, reading.limit_ms) == (job_id, "test_busy", 7000)
    assert began_ms <= reading.started_ms <= now_ms()


def test_a_worker_whose_heartbeat_fails_for_a_lease_stops_by_itself(
    connection: Connection, workers: Workers, paths: Paths, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_QUEUE__LEASE_SECONDS", "1.5")
    add(connection, new_job("test_hung", "hung", number=60_000))
    process, _, args = workers.start()
    wait_until((paths.data_dir / "hung.mark").exists, 20)
    # Nobody can write: what a full disk is to a heartbeat.
    with connection.write():
        assert ended(process, 15) == EXIT_LEASE
    reading = read_handling(handling_path(paths, args.worker_id))
    assert reading is not None


def test_a_held_lease_outlives_many_leases(
    connection: Connection, workers: Workers, paths: Paths, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_QUEUE__LEASE_SECONDS", "0.6")
    job_id = add(connection, new_job("test_hung", "hung", number=2500))
    workers.start()
    wait_until((paths.data_dir / "hung.mark").exists, 20)
    first = connection.value("SELECT locked_until_ms FROM mem_tree_jobs WHERE id = ?", (job_id,))
    wait_until(
        lambda: (
            (connection.value("SELECT locked_until_ms FROM mem_tree_jobs WHERE id = ?", (job_id,)) or 0) > first + 1000
        ),
        5,
        "a lease far behind the first",
    )
    wait_until(lambda: status(connection, job_id) == "done", 10)


def test_a_grown_worker_ends_for_a_fresh_one(
    connection: Connection, workers: Workers, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_LIMITS__RECYCLE_RSS_BYTES", "1000000")
    job_id = add(connection, new_job("test_note", "x"))
    process, _, _ = workers.start()
    assert ended(process, 20) == EXIT_RECYCLE
    assert status(connection, job_id) == "done"


def test_a_damaged_database_is_told_by_the_exit_code(workers: Workers, paths: Paths, connection: Connection) -> None:
    connection.close()
    for side in ("", "-wal", "-shm"):
        Path(f"{paths.database}{side}").unlink(missing_ok=True)
    paths.database.write_bytes(b"this was a memory once" * 500)
    process, _, _ = workers.start()
    assert ended(process, 20) == EXIT_CORRUPT


def test_a_job_kind_that_cannot_be_loaded_ends_the_worker(workers: Workers, paths: Paths) -> None:
    process, _, _ = workers.start(kind_names=("tests.worker.kinds:ABSENT",))
    assert ended(process, 20) not in (0, None)
    log = (paths.log_dir / "worker-0.log").read_text("utf-8")
    assert "a job kind cannot be loaded" in log


def test_workers_share_one_permit(
    connection: Connection,
    workers: Workers,
    server: CallServer,
    wait_until: Until,
) -> None:
    ids = [add(connection, new_job("test_call", str(number), number=server.port)) for number in range(12)]
    for slot in range(2):
        workers.start(slot=slot, open_profile="tests.worker.kinds:open_profile")
    wait_until(lambda: all(status(connection, job_id) == "done" for job_id in ids), 30)
    assert len(server.seen("call")) == 12
    assert server.most == 1


def test_low_priority(connection: Connection, workers: Workers, wait_until: Until) -> None:
    process, _, args = workers.start()
    wait_until(lambda: is_up(connection, args.worker_id), 20)
    assert process.pid is not None
    assert os.getpriority(os.PRIO_PROCESS, process.pid) >= 10


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_idle_worker_writes_nothing_and_sleeps(
    connection: Connection, workers: Workers, wait_until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Looks 25 times as often as by default, so that two seconds of watching are worth fifty.
    monkeypatch.setenv("SAPWOOD_QUEUE__POLL_SECONDS", "0.2")
    job_id = add(connection, new_job("test_note", "x"))
    process, _, args = workers.start()
    wait_until(lambda: status(connection, job_id) == "done", 20)
    wake_workers(connection)
    time.sleep(0.3)  # whatever it still had to do
    proc = Path(f"/proc/{process.pid}")

    def written() -> tuple[str, ...]:
        return tuple(line for line in (proc / "io").read_text().splitlines() if "write" in line or "wchar" in line)

    def turns() -> int:
        texts = [path.read_text() for path in proc.glob("task/*/status")]
        return sum(int(text.partition("\nvoluntary_ctxt_switches:")[2].split()[0]) for text in texts)

    before, slept = written(), turns()
    # Who asked for the write lock now would have to wait for it, and be seen waking up again and again.
    with connection.write():
        time.sleep(2)
    assert written() == before
    assert turns() - slept <= 30, "ten looks, and no thread that wakes up without a reason"
    reading = read_handling(handling_path(workers.paths, args.worker_id))
    assert reading is not None
    assert reading.job_id is None


def test_the_intent_is_read_again_for_each_job(paths: Paths) -> None:
    watcher = IntentWatcher(paths)
    assert watcher.current.queue.extract_batch == 32
    paths.config_file.write_text("[queue]\nextract_batch = 5\n")
    assert watcher.current.queue.extract_batch == 5


def test_worker_processes_grow_a_memory(
    connection: Connection, workers: Workers, paths: Paths, tmp_path: Path, wait_until: Until
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for number in range(5):
        body = "\n\n".join(f"Anna Berg wrote paragraph {part} of note {number}. " * 20 for part in range(8))
        (notes / f"{number}.md").write_text(f"# Note {number}\n\n{body}\n")
    paths.config_file.write_text(
        f"""
        [[sources]]
        id = "notes"
        kind = "folder"
        name = "Notes"
        paths = ["{notes}"]
        """
    )
    add(connection, NewJob.sync_source("notes"))
    for slot in range(2):
        workers.start(slot=slot, kind_names=KIND_NAMES, open_profile="agent.models.profiles:open_profile")
    wait_until(
        lambda: (
            connection.value("SELECT count(*) FROM mem_tree_trees WHERE kind = 'document' AND root_id IS NOT NULL") == 5
            and not connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')")
        ),
        30,
        "five document trees and an empty queue",
    )
    assert connection.all("SELECT DISTINCT status FROM mem_tree_jobs") == [("done",)]
    assert connection.all("SELECT DISTINCT lifecycle FROM mem_tree_chunks") == [("sealed",)]
    lacking = "SELECT count(*) FROM {} WHERE embedded_signature IS NULL"
    assert [connection.value(lacking.format(table)) for table in ("mem_tree_chunks", "mem_tree_summaries")] == [0, 0]
