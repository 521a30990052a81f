"""A damaged memory is moved aside and begun anew; one that is only newer is left alone. Callers are answered."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from agent.clock import SYSTEM_CLOCK
from agent.db import Database
from agent.db.aside import DAMAGED, copies, move_aside, read_damage
from agent.db.integrity import findings
from agent.db.state import PAUSE_KEY, set_state
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob
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


def _cut_short(paths: Paths) -> None:
    _damaged(paths)
    with paths.database.open("r+b") as file:
        file.truncate(4096 * 5 + 100)


def test_newer_memory_is_answered_for_and_left_alone(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    _newer(paths)
    before = _digest(paths.database)
    agent = start_agent()
    wait_until(paths.agent_file.exists, what="the control channel")
    wait_until(lambda: call(paths, "status")["state"] == "error", what="the error")

    status = call(paths, "status")
    assert "newer Sapwood" in status["reason"]
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


@pytest.mark.parametrize("spoil", [_garbage, _damaged, _cut_short])
def test_damaged_memory_is_moved_aside_and_begun_anew(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, spoil: Callable[[Paths], None]
) -> None:
    spoil(paths)
    before = _digest(paths.database)
    agent = start_agent(workers=1)
    wait_until(paths.agent_file.exists, what="the control channel")
    wait_until(
        lambda: agent.running() and call(paths, "status")["state"] == "attention",
        deadline_s=30,
        what="work on a new memory",
    )
    aside = copies(paths.database, DAMAGED)
    assert [_digest(copy.path) for copy in aside] == [before], "the damaged file is kept as it was"
    said = call(paths, "status")["reason"]
    assert "was damaged" in said
    assert str(aside[0].path) in said
    assert call(paths, "stop") == {"ok": True}
    assert agent.wait(4)["ended"] == "stopped"
    database = Database(paths.database)
    assert findings(database.connection, deep=True) == []
    assert read_damage(database.connection, SYSTEM_CLOCK.now_ms()) is not None
    database.close()


def test_second_damage_within_an_hour_waits_for_the_owner(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    _garbage(paths)
    move_aside(paths.database, SYSTEM_CLOCK.now_ms() - 1_800_000)
    _garbage(paths)
    before = _digest(paths.database)
    agent = start_agent(workers=1)
    wait_until(paths.agent_file.exists, what="the control channel")
    wait_until(lambda: "may be failing" in call(paths, "status")["reason"], what="the words")
    assert call(paths, "status")["state"] == "attention"
    assert agent.running() == []
    assert _digest(paths.database) == before
    used = psutil.Process(agent.pid).num_ctx_switches().voluntary
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        call(paths, "ping")
    assert psutil.Process(agent.pid).num_ctx_switches().voluntary - used < 100, "it does not spin"

    call(paths, "rebuild")
    wait_until(agent.running, deadline_s=30, what="work on a new memory")
    assert len(copies(paths.database, DAMAGED)) == 2


def test_damage_of_long_ago_is_no_repetition(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    for hours in (5, 3, 2):
        _garbage(paths)
        move_aside(paths.database, SYSTEM_CLOCK.now_ms() - hours * 3_600_000)
    _garbage(paths)
    agent = start_agent(workers=1)
    wait_until(agent.running, deadline_s=30, what="work on a new memory")
    kept = copies(paths.database, DAMAGED)
    assert len(kept) == 2, "a failing disk is not filled with copies"
    assert kept[0].at_ms > kept[1].at_ms


def test_once_goes_on_with_a_new_memory_and_says_so(start_agent: StartAgent, paths: Paths) -> None:
    _damaged(paths)
    said = start_agent(once=True).wait(20)
    assert (said["ended"], said["code"]) == ("finished", 0)
    assert "was damaged" in said["notice"]


def test_once_fails_where_the_disk_seems_to_fail(start_agent: StartAgent, paths: Paths) -> None:
    _garbage(paths)
    move_aside(paths.database, SYSTEM_CLOCK.now_ms())
    _garbage(paths)
    said = start_agent(once=True).wait(20)
    assert (said["ended"], said["code"]) == ("failed", 1)
    assert "sapwood rebuild" in said["reason"]


def test_once_leaves_a_newer_memory_alone(start_agent: StartAgent, paths: Paths) -> None:
    _newer(paths)
    said = start_agent(once=True).wait(20)
    assert (said["ended"], said["code"]) == ("failed", 1)
    assert copies(paths.database, DAMAGED) == []


def test_pages_overwritten_under_a_running_agent_are_noticed(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, put: Callable[[NewJob], int]
) -> None:
    agent = start_agent(workers=1)
    wait_until(agent.running, what="a worker")
    for number in range(300):
        put(job_of("t_mark", paths.data_dir / "never", f"{number}", available_at_ms=1 << 41))
    Database(paths.database).connection.run("PRAGMA wal_checkpoint(TRUNCATE)")
    # By another process, as a failing disk would: this one has a connection.
    script = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(4096 * 12); f.write(b'\\xa5' * 4096 * 200)"
    subprocess.run([sys.executable, "-c", script, str(paths.database)], check=True)
    call(paths, "examine")
    wait_until(lambda: copies(paths.database, DAMAGED) and agent.running(), deadline_s=30, what="work on a new memory")
    assert call(paths, "status")["state"] == "attention"


def test_pause_outlives_a_damage(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, database: Database
) -> None:
    set_state(database.connection, PAUSE_KEY, str(1 << 42))
    root = database.connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'mem_tree_chunks'")
    database.close()
    with paths.database.open("r+b") as file:
        file.seek(4096 * (root - 1))
        file.write(b"\xa5" * 4096)
    agent = start_agent(workers=1)
    wait_until(agent.running, what="a worker")
    call(paths, "examine")
    wait_until(lambda: copies(paths.database, DAMAGED) and agent.running(), deadline_s=30, what="work on a new memory")
    assert call(paths, "status")["state"] == "paused"


def test_many_callers_one_after_another_are_all_answered(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    agent = start_agent(workers=1)
    wait_until(agent.running, what="a worker")

    def ask(_: int) -> bool:
        return all(call(paths, "ping") == {"ok": True} for _ in range(20))

    with ThreadPoolExecutor(12) as pool:
        assert all(pool.map(ask, range(12)))


def test_false_alarm_of_a_worker_stops_nobody_for_good(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, tmp_path: Path
) -> None:
    agent = start_agent(worker="tests.supervisor.odd_workers:alarmed_once", workers=1)
    wait_until(lambda: (paths.data_dir / "alarm").exists(), what="the alarm")
    wait_until(lambda: agent.running(), what="a worker again")
    assert agent.status()["state"] == "idle"
