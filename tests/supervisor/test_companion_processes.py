"""A real supervisor with processes beside its workers: whatever they do, the agent works on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.paths import Paths
from agent.supervisor.control import call
from tests.supervisor.conftest import Agent, Rows, StartAgent, lines
from tests.supervisor.kinds import job_of

MAINS = "tests.supervisor.odd_companions"
SHOWN = {"SAPWOOD_DESKTOP__TRAY": "true"}


def tray(main: str = f"{MAINS}:good", **more: Any) -> dict[str, Any]:
    return {"role": "tray", "target": main, **more}


def gateway(main: str = f"{MAINS}:good") -> dict[str, Any]:
    return {"role": "gateway", "target": main, "on_demand": True}


def state_of(agent: Agent, role: str = "tray") -> dict[str, Any]:
    try:
        found: dict[str, Any] = agent.status().get(role, {})
    except Exception:
        return {"state": "unknown", "pid": None}
    return found


@pytest.fixture
def born(paths: Paths) -> Callable[[str], list[int]]:
    """Return a function from a role to the pids of its processes so far."""
    return lambda role: [int(words[0]) for words in lines(paths.data_dir / f"{role}.born")]


@pytest.fixture
def is_up(wait_until: Callable[..., None]) -> Callable[..., int]:
    """Return a function that waits until a companion is up and returns its pid."""

    def wait(agent: Agent, role: str = "tray", besides: int | None = None, within_s: float = 10.0) -> int:
        found: dict[str, Any] = {}

        def look() -> bool:
            found.update(state_of(agent, role))
            return found.get("state") == "up" and found["pid"] != besides

        wait_until(look, within_s, f"a {role}")
        return int(found["pid"])

    return wait


def test_killed_tray_is_back_in_three_seconds_and_the_agent_works_on(
    start_agent: StartAgent,
    put: Callable[..., int],
    rows: Rows,
    is_up: Callable[..., int],
    tmp_path: Path,
    wait_until: Callable[..., None],
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray()])
    first = is_up(agent)
    os.kill(first, signal.SIGKILL)
    second = is_up(agent, besides=first, within_s=3.0)
    assert second != first
    job = put(job_of("t_mark", tmp_path / "mark", "seen"))
    wait_until(lambda: rows.status(job) == "done", what="a job beside it")


def test_page_is_there_when_it_is_asked_for_and_not_before(
    start_agent: StartAgent,
    paths: Paths,
    is_up: Callable[..., int],
    born: Callable[[str], list[int]],
    wait_until: Callable[..., None],
) -> None:
    agent = start_agent(companions=[gateway()])
    wait_until(agent.running, what="a worker")
    assert state_of(agent, "gateway")["state"] == "off"
    assert born("gateway") == []
    assert call(paths, "open")["gateway"]["state"] == "starting"
    first = is_up(agent, "gateway")
    answer = call(paths, "open")
    assert answer["ok"] is True
    assert (answer["gateway"]["state"], answer["gateway"]["pid"]) == ("up", first)
    os.kill(first, signal.SIGKILL)
    assert is_up(agent, "gateway", besides=first, within_s=3.0) != first
    assert len(born("gateway")) == 2
