"""What a worker handles stays readable after any death: the border that the supervisor reads."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from agent.paths import Paths
from agent.queue.handling import (
    HandlingFile,
    all_handling,
    handling_path,
    read_handling,
    remove_handling,
)

WORKER = "0123456789abcdef0123456789abcdef"

HOLD = """
import sys, time
from pathlib import Path
from agent.paths import paths_under
from agent.queue.handling import HandlingFile
file = HandlingFile.create(paths_under(Path(sys.argv[1])), sys.argv[2], pid=7, process_started_s=1.5)
file.begin(41, "seal", started_ms=1000, limit_ms=300000)
file.end()
file.begin(42, "extract_chunk", started_ms=2000, limit_ms=120000)
print("holding", flush=True)
time.sleep(60)
"""


def test_what_was_handled_is_readable_after_kill_9(paths: Paths, wait_until: Callable[..., None]) -> None:
    home = paths.runtime_dir.parent
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(home), WORKER], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"holding\n"
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    process.stdout.close()
    reading = read_handling(handling_path(paths, WORKER))
    assert reading is not None
    assert (reading.worker_id, reading.pid, reading.process_started_s) == (WORKER, 7, 1.5)
    assert (reading.job_id, reading.kind) == (42, "extract_chunk")
    assert (reading.started_ms, reading.limit_ms) == (2000, 120_000)
    assert all_handling(paths) == [reading]


def test_between_jobs_nothing_is_handled(paths: Paths) -> None:
    file = HandlingFile.create(paths, WORKER, pid=1, process_started_s=0.0)
    path = handling_path(paths, WORKER)
    for job_id in (5, 6):
        file.begin(job_id, "seal", started_ms=10, limit_ms=20)
        running = read_handling(path)
        assert running is not None
        assert running.job_id == job_id
        file.end()
        ended = read_handling(path)
        assert ended is not None
        assert ended.job_id is None
        assert not ended.is_over_limit(10**15)
    file.close()


def test_a_death_in_the_middle_of_a_change_leaves_the_last_whole_record(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HandlingFile.create(paths, WORKER, pid=1, process_started_s=0.0)
    file.begin(5, "seal", started_ms=10, limit_ms=20)
    # The slot is filled, the index is not turned: what a kill between the two leaves.
    monkeypatch.setattr("agent.queue.handling._INDEX_AT", 191)
    file.begin(6, "flush_stale", started_ms=30, limit_ms=40)
    monkeypatch.undo()
    reading = read_handling(handling_path(paths, WORKER))
    assert reading is not None
    assert (reading.job_id, reading.kind, reading.started_ms) == (5, "seal", 10)


def test_a_run_is_over_its_limit_only_after_it(paths: Paths) -> None:
    file = HandlingFile.create(paths, WORKER, pid=1, process_started_s=0.0)
    file.begin(5, "seal", started_ms=1000, limit_ms=500)
    reading = read_handling(handling_path(paths, WORKER))
    assert reading is not None
    assert not reading.is_over_limit(1500)
    assert reading.is_over_limit(1501)


def test_absent_and_foreign_files_are_read_as_nothing(paths: Paths) -> None:
    assert all_handling(paths) == []
    HandlingFile.create(paths, WORKER, pid=1, process_started_s=0.0)
    foreign = handling_path(paths, "f00")
    foreign.write_bytes(b"something else")
    assert read_handling(foreign) is None
    assert [reading.worker_id for reading in all_handling(paths)] == [WORKER]
    remove_handling(paths, WORKER)
    remove_handling(paths, WORKER)
    assert all_handling(paths) == []


@pytest.mark.parametrize("name", ["", "../evil", "a/b", "x" * 33, "wörker", "a.new"])
def test_a_worker_id_is_no_path(paths: Paths, name: str) -> None:
    with pytest.raises(ValueError, match="worker id"):
        handling_path(paths, name)
