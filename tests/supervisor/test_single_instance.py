"""One supervisor per data directory; a second start hands its request over."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from agent.paths import Paths
from agent.supervisor.control import call, running_agent
from tests.supervisor.conftest import StartAgent


def test_second_start_hands_over_and_exits_0(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    first = start_agent()
    wait_until(first.running, what="a worker")
    before = [worker["pid"] for worker in first.workers()]

    said = start_agent().wait()

    assert (said["ended"], said["code"]) == ("handed_over", 0)
    assert [worker["pid"] for worker in first.workers()] == before
    found = running_agent(paths)
    assert found is not None
    assert found.pid == first.pid


def test_second_start_at_the_same_moment_hands_over_too(start_agent: StartAgent) -> None:
    one, other = start_agent(), start_agent()
    done = {}
    for _ in range(200):
        for agent in (one, other):
            if agent.process.poll() is not None and agent not in done.values():
                done["second"] = agent
        if done:
            break
        try:
            one.process.wait(0.05)
        except Exception:
            continue
    assert done["second"].wait()["ended"] == "handed_over"


def test_agent_file_is_for_its_owner_alone(
    start_agent: StartAgent, wait_until: Callable[..., None], paths: Paths
) -> None:
    agent = start_agent()
    wait_until(agent.running, what="a worker")
    assert stat.S_IMODE(os.stat(paths.agent_file).st_mode) == 0o600
    assert call(paths, "ping") == {"ok": True}
