"""Every way of stopping ends in under four seconds, because a login session gives five."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import AgentNotRunning
from agent.paths import Paths
from agent.supervisor.control import call, running_agent, wait_until_gone
from tests.supervisor.conftest import Rows, StartAgent, is_there, lines
from tests.supervisor.kinds import job_of


def test_sigterm_with_four_busy_workers_and_c_calls_ends_in_under_four_seconds(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(env={"SAPWOOD_POOL__MIN_WORKERS": "4"})
    files = [tmp_path / name for name in ("hold", "nap", "locked", "hash")]
    jobs = [
        put(job_of("t_hold", files[0])),
        put(job_of("t_nap", files[1], "nap", number=60)),
        put(job_of("t_deaf", files[2], "locked")),
        put(job_of("t_deaf", files[3], "hash")),
    ]
    wait_until(lambda: all(lines(file) for file in files), 15.0, "four busy workers")
    family = agent.family()

    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    said = agent.wait()
    took = time.monotonic() - began

    assert took < 4.0
    assert (said["ended"], said["code"]) == ("stopped", 0)
    for job in jobs:
        row = rows.row(job)
        assert (row["status"], row["attempts"], row["crashes"], row["locked_by"]) == ("ready", 0, 0, None)
    wait_until(lambda: not [pid for pid in family if is_there(pid)], 1.0, "the end of multiprocessing's own process")


@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_other_signals_stop_too(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths, name: str
) -> None:
    agent = start_agent()
    wait_until(agent.running, what="a worker")
    began = time.monotonic()
    agent.process.send_signal(getattr(signal, name))
    said = agent.wait()
    assert time.monotonic() - began < 4.0
    assert (said["ended"], said["signal"]) == ("stopped", getattr(signal, name))
    assert not paths.agent_file.exists()


def test_stop_asked_from_another_thread_over_the_channel(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    agent = start_agent()
    wait_until(agent.running, what="a worker")
    identity = running_agent(paths)
    assert identity is not None

    answers: list[dict[str, object]] = []
    asking = threading.Thread(target=lambda: answers.append(call(paths, "stop")))
    asking.start()
    asking.join()

    assert answers == [{"ok": True}]
    assert wait_until_gone(identity, 4.0)
    assert agent.wait()["ended"] == "stopped"
    with pytest.raises(AgentNotRunning):
        call(paths, "ping")


def test_closed_standard_streams_are_no_obstacle(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    agent = start_agent(is_closed=True)
    mark = tmp_path / "mark"
    job = put(job_of("t_mark", mark, "seen"))
    wait_until(lambda: rows.status(job) == "done", what="a job done without streams")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(5) == 0


def test_the_end_of_a_session_of_windows_ends_the_agent_in_time(
    start_agent: StartAgent, wait_until: Callable[..., None], tmp_path: Path
) -> None:
    sign = tmp_path / "session"
    agent = start_agent(session_ends_by=str(sign))
    wait_until(agent.running, what="a worker")
    family = agent.family()
    began = time.monotonic()
    sign.touch()
    said = agent.wait()
    assert time.monotonic() - began < 4.0
    assert (said["ended"], said["code"]) == ("stopped", 0)
    assert json.loads(sign.with_suffix(".answers").read_text()) == [[1, 0], True], "answered after all was put away"
    wait_until(lambda: not [pid for pid in family if is_there(pid)], 1.0, "the end of them all")
