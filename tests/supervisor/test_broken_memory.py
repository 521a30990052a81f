"""The control channel answers while the memory is damaged, newer or gone, and nothing touches the file."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from agent.db import Database
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.supervisor.control import call
from tests.supervisor.conftest import StartAgent, is_there
from tests.supervisor.kinds import job_of


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _garbage(paths: Paths) -> None:
    paths.database.write_bytes(b"this is no database, whatever it is called. " * 500)


def _newer(paths: Paths) -> None:
    database = Database(paths.database)
    database.connection.run("PRAGMA user_version = 99")
    database.close()


def _damaged(paths: Paths) -> None:
    """The first page is well, everything behind it is not: opening succeeds, looking does not."""
    database = Database(paths.database)
    for number in range(200):
        enqueue(database.connection, job_of("t_mark", paths.data_dir / "never", f"{number}"), 1)
    size = database.connection.value("PRAGMA page_size")
    database.close()
    content = bytearray(paths.database.read_bytes())
    content[size:] = b"\xa5" * (len(content) - size)
    paths.database.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [(_garbage, "damaged or is not a database"), (_newer, "newer Sapwood"), (_damaged, "damaged")],
)
def test_agent_answers_says_why_and_leaves_the_file_alone(
    start_agent: StartAgent,
    wait_until: Callable[..., None],
    paths: Paths,
    spoil: Callable[[Paths], None],
    says: str,
) -> None:
    spoil(paths)
    before = _digest(paths.database)
    agent = start_agent()
    wait_until(paths.agent_file.exists, what="the control channel")
    wait_until(lambda: call(paths, "status")["state"] == "error", what="the error")

    status = call(paths, "status")
    assert says in status["reason"]
    assert [worker for worker in status["workers"] if worker["pid"]] == []
    assert not [pid for pid in agent.family() if is_there(pid) and "worker" in psutil.Process(pid).name()]
    used = psutil.Process(agent.pid).num_ctx_switches().voluntary
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        call(paths, "ping")
    # The main thread's own: callers are answered by other threads, which now and then make it wait for its turn. A loop
    # that polls every few milliseconds gives way more often than this.
    assert psutil.Process(agent.pid).num_ctx_switches().voluntary - used < 100, "it does not spin"

    assert call(paths, "stop") == {"ok": True}
    assert agent.wait(4)["ended"] == "stopped"
    assert _digest(paths.database) == before


@pytest.mark.parametrize("spoil", [_garbage, _newer, _damaged])
def test_once_fails_and_says_why(start_agent: StartAgent, paths: Paths, spoil: Callable[[Paths], None]) -> None:
    spoil(paths)
    said = start_agent(once=True).wait(20)
    assert (said["ended"], said["code"]) == ("failed", 1)
    assert said["reason"]


def test_false_alarm_of_a_worker_stops_nobody_for_good(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, tmp_path: Path
) -> None:
    agent = start_agent(worker="tests.supervisor.odd_workers:alarmed_once", workers=1)
    wait_until(lambda: (paths.data_dir / "alarm").exists(), what="the alarm")
    wait_until(lambda: agent.running(), what="a worker again")
    assert agent.status()["state"] == "idle"
