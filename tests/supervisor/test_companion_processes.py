"""A real supervisor with processes beside its workers: whatever they do, the agent works on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.actions.home import open_home
from agent.actions.settings import change
from agent.errors import SapwoodError
from agent.paths import Paths
from agent.supervisor.control import call
from tests.supervisor.conftest import Agent, Rows, StartAgent, is_there, lines
from tests.supervisor.kinds import job_of

MAINS = "tests.supervisor.odd_companions"
SHOWN = {"SAPWOOD_DESKTOP__TRAY": "true"}


def tray(main: str = f"{MAINS}:good", **more: Any) -> dict[str, Any]:
    return {"role": "tray", "target": main, **more}


def gateway(main: str = f"{MAINS}:good") -> dict[str, Any]:
    return {"role": "gateway", "target": main, "on_demand": True}


def set_tray(paths: Paths, on: bool, comment: str = "") -> None:
    """As an owner would, in an editor that writes a new file."""
    fresh = paths.config_file.with_suffix(".new")
    fresh.write_text(f"[desktop]\ntray = {str(on).lower()}\n[schedule]\ntimezone = '{comment}'\n")
    fresh.replace(paths.config_file)


def call_when_up(paths: Paths, verb: str, wait_until: Callable[..., None]) -> None:
    def ask() -> bool:
        try:
            return bool(call(paths, verb)["ok"])
        except SapwoodError:
            return False

    wait_until(ask, what="an agent that answers")


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


def test_page_that_ended_by_itself_stays_away_until_it_is_asked_for_again(
    start_agent: StartAgent, paths: Paths, born: Callable[[str], list[int]], wait_until: Callable[..., None]
) -> None:
    agent = start_agent(companions=[gateway(f"{MAINS}:leaves")])
    wait_until(agent.running, what="a worker")
    call(paths, "open")
    wait_until(lambda: state_of(agent, "gateway").get("reason") == "nobody looks", what="its own end")
    wait_until(lambda: not is_there(born("gateway")[0]), what="the end of its process")
    assert state_of(agent, "gateway")["state"] == "off"
    assert len(born("gateway")) == 1
    assert call(paths, "open")["gateway"]["state"] == "starting"
    wait_until(lambda: len(born("gateway")) == 2, what="the second one")


def test_kill_9_of_the_supervisor_leaves_neither_tray_nor_page_nor_worker(
    start_agent: StartAgent, paths: Paths, is_up: Callable[..., int], wait_until: Callable[..., None]
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray(f"{MAINS}:stubborn"), gateway()])
    call_when_up(paths, "open", wait_until)
    pids = [is_up(agent), is_up(agent, "gateway"), *(worker["pid"] for worker in agent.running())]
    assert len(pids) >= 3
    family = {*agent.family(), *pids}
    os.kill(agent.pid, signal.SIGKILL)
    wait_until(lambda: not [pid for pid in family if is_there(pid)], 3.0, "the end of all of them")


def test_desktop_without_a_place_for_icons_is_a_state_and_no_restart(
    start_agent: StartAgent, born: Callable[[str], list[int]], wait_until: Callable[..., None]
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray(f"{MAINS}:impossible")])
    wait_until(lambda: state_of(agent)["state"] == "impossible", what="the state")
    wait_until(lambda: state_of(agent)["pid"] is None, what="its end")
    assert state_of(agent)["reason"] == "no panel here"
    assert agent.running(), "the agent works all the same"
    assert agent.status()["state"] == "idle"
    assert len(born("tray")) == 1


def test_tray_that_is_not_installed_is_a_state_with_a_reason(
    start_agent: StartAgent, wait_until: Callable[..., None]
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray("tests.supervisor.no_such_part:main")])
    wait_until(lambda: state_of(agent)["state"] == "impossible", what="the state")
    assert "tests.supervisor.no_such_part" in state_of(agent)["reason"]


def test_tray_that_ends_again_and_again_is_given_up_and_the_agent_works_on(
    start_agent: StartAgent,
    put: Callable[..., int],
    rows: Rows,
    born: Callable[[str], list[int]],
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray(f"{MAINS}:dies")])
    wait_until(lambda: state_of(agent)["state"] == "failed", 20.0, "that it is given up")
    assert len(born("tray")) == 5
    assert "exit code 3" in state_of(agent)["reason"]
    job = put(job_of("t_mark", tmp_path / "mark", "seen"))
    wait_until(lambda: rows.status(job) == "done", what="a job beside it")
    assert agent.status()["state"] in ("idle", "growing"), "no worker is to blame"


def test_switching_the_tray_off_ends_it_and_on_brings_it_back(
    start_agent: StartAgent, paths: Paths, is_up: Callable[..., int], wait_until: Callable[..., None]
) -> None:
    agent = start_agent(unset=["SAPWOOD_DESKTOP__TRAY"], companions=[tray()])
    first = is_up(agent)
    change(paths, "desktop.tray", ["false"])
    wait_until(lambda: not is_there(first), 3.0, "its end")
    assert state_of(agent)["state"] == "off"
    assert "desktop.tray" in state_of(agent)["reason"]
    change(paths, "desktop.tray", ["true"])
    assert is_up(agent, besides=first, within_s=3.0) != first


def test_switched_off_tray_that_ends_for_nobody_is_ended_while_the_agent_goes_on(
    start_agent: StartAgent, paths: Paths, is_up: Callable[..., int], wait_until: Callable[..., None]
) -> None:
    agent = start_agent(unset=["SAPWOOD_DESKTOP__TRAY"], companions=[tray(f"{MAINS}:stubborn")])
    pid = is_up(agent)
    change(paths, "desktop.tray", ["false"])
    wait_until(lambda: not is_there(pid), 5.0, "its end")
    assert state_of(agent)["state"] == "off"
    assert agent.running()


def test_stop_takes_less_than_four_seconds_with_a_tray_that_ends_for_nobody(
    start_agent: StartAgent, is_up: Callable[..., int]
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray(f"{MAINS}:stubborn")])
    pid = is_up(agent)
    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    said = agent.wait()
    assert time.monotonic() - began < 4.0
    assert (said["ended"], said["code"]) == ("stopped", 0)
    assert not is_there(pid)


def test_tray_that_hangs_keeps_nobody_waiting(
    start_agent: StartAgent,
    paths: Paths,
    put: Callable[..., int],
    rows: Rows,
    is_up: Callable[..., int],
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    """What is said to one that reads nothing is dropped: ``tests/system/test_companion_line.py`` fills the pipe."""
    agent = start_agent(env=SHOWN, companions=[tray()])
    pid = is_up(agent)
    os.kill(pid, signal.SIGSTOP)
    job = put(job_of("t_mark", tmp_path / "mark", "seen"))
    wait_until(lambda: rows.status(job) == "done", 5.0, "a job beside it")
    began = time.monotonic()
    assert agent.status()["tray"]["pid"] == pid
    assert time.monotonic() - began < 1.0
    began = time.monotonic()
    agent.process.send_signal(signal.SIGTERM)
    assert agent.wait()["code"] == 0
    assert time.monotonic() - began < 4.0
    assert not is_there(pid)


def test_tray_is_told_of_what_changes_and_of_nothing_else(
    start_agent: StartAgent,
    paths: Paths,
    put: Callable[..., int],
    is_up: Callable[..., int],
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    agent = start_agent(env=SHOWN, companions=[tray()])
    is_up(agent)
    heard = paths.data_dir / "tray.heard"
    wait_until(lambda: lines(heard) and lines(heard)[-1][1] == "idle", what="that it is idle")
    before = int(lines(heard)[-1][0])
    for _ in range(5):
        call(paths, "look")
    put(job_of("t_nap", tmp_path / "nap", "nap", number=1.0))
    wait_until(lambda: lines(heard)[-1][1] == "growing", what="that it grows")
    first = next(int(serial) for serial, state, _ in lines(heard) if state == "growing")
    assert first == before + 1, "five looks at nothing new are no news"
    wait_until(lambda: lines(heard)[-1][1] == "idle", what="that it is done")
    wait_until(lambda: agent.status()["workers"][0]["job"] is None, what="a worker at rest")
    told = len(lines(heard))
    set_tray(paths, True, comment="another")
    call(paths, "look")
    wait_until(lambda: len(lines(heard)) > told, what="that the settings changed")
    told = len(lines(heard))
    with open_home(paths) as home, home.connection.write():
        home.connection.run("INSERT INTO mem_tree_state (key, value) VALUES ('of_a_test', '1')")
    call(paths, "look")
    wait_until(lambda: len(lines(heard)) > told, what="that something else was written")


def test_once_has_neither_tray_nor_page(start_agent: StartAgent, born: Callable[[str], list[int]]) -> None:
    off = {"off": "it runs with --once"}
    agent = start_agent(env=SHOWN, once=True, companions=[tray(**off), {**gateway(), **off}])
    assert agent.wait()["ended"] == "finished"
    assert born("tray") == []


def test_second_start_by_a_person_has_the_page_served_and_one_by_a_login_does_not(
    start_agent: StartAgent,
    is_up: Callable[..., int],
    born: Callable[[str], list[int]],
    wait_until: Callable[..., None],
) -> None:
    agent = start_agent(companions=[gateway()])
    wait_until(agent.running, what="a worker")
    assert start_agent(companions=[gateway()]).wait()["ended"] == "handed_over"
    assert state_of(agent, "gateway")["state"] == "off"
    assert start_agent(companions=[gateway()], by_person=True).wait()["code"] == 0
    assert is_up(agent, "gateway") == born("gateway")[0]
