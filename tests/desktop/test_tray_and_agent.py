"""The whole agent on a session bus without a display: what is clicked is seen in memory, intent and processes."""

from __future__ import annotations

import html
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.actions.home import open_home
from agent.actions.pausing import read_paused
from agent.config import load_intent
from agent.config_edit import edit_intent
from agent.paths import Paths
from agent.supervisor.control import call
from tests.conftest import REPOSITORY
from tests.desktop.panel import Panel

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="StatusNotifierItems are of Linux"),
    pytest.mark.slow,
]

Wait = Callable[..., None]


@dataclass
class Agent:
    process: subprocess.Popen[bytes]
    paths: Paths

    def status(self) -> dict[str, Any]:
        with suppress(Exception):
            return call(self.paths, "status", 5.0)
        return {}

    def tray(self) -> dict[str, Any]:
        found: dict[str, Any] = self.status().get("tray") or {}
        return found

    def family(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return psutil.Process(self.process.pid).children(recursive=True)
        return []


@pytest.fixture
def opener(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A desktop whose program for opening things writes down what it was given."""
    opened, folder = tmp_path / "opened", tmp_path / "bin"
    folder.mkdir()
    program = folder / "xdg-open"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> "{opened}"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    opened.touch()
    return opened


@pytest.fixture
def agent(paths: Paths, monkeypatch: pytest.MonkeyPatch, desktop: object, opener: Path) -> Iterator[Agent]:
    monkeypatch.delenv("SAPWOOD_DESKTOP__TRAY", raising=False)
    monkeypatch.setenv("SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS", "0.05")
    monkeypatch.setenv("XDG_DOWNLOAD_DIR", str(opener.parent))
    assert "DISPLAY" not in os.environ
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "run"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found = Agent(process, paths)
    seen: list[psutil.Process] = []
    yield found
    seen = found.family()
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
    process.kill()
    process.wait(10)
    for each in seen:
        with suppress(psutil.Error):
            each.kill()


def until_registered(panel: Panel, agent: Agent, wait_until: Wait) -> None:
    wait_until(lambda: agent.tray().get("state") == "up", 30, "the tray")
    assert panel.watcher.registered


def is_paused(paths: Paths) -> bool:
    with open_home(paths) as home:
        return read_paused(home.connection, home.clock.now_ms()).paused_until_ms is not None


def page_behind(link: str) -> str:
    """The page that a browser shows for a one-time link."""
    assert link.startswith("http://127.0.0.1:")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor())
    with opener.open(link, timeout=10) as answer:
        first = answer.read().decode()
    found = re.search(r"url=([^\"'>]+)", first)
    assert found is not None, first
    with opener.open(urllib.parse.urljoin(link, html.unescape(found[1])), timeout=10) as answer:
        return str(answer.read().decode())


def test_clicks_on_a_real_agent_have_the_effect_that_they_name(
    start_panel: Callable[..., Panel], agent: Agent, paths: Paths, wait_until: Wait, opener: Path
) -> None:
    panel = start_panel()
    edit_intent(
        paths,
        lambda document: document.update(
            profiles=[
                {"name": "house", "provider": "ollama", "chat_model": "m"},
                {"name": "sky", "provider": "openai", "chat_model": "m"},
            ]
        ),
    )
    until_registered(panel, agent, wait_until)
    assert agent.tray()["detail"] == "StatusNotifierItem"

    panel.click("For an hour")
    wait_until(lambda: is_paused(paths))
    wait_until(lambda: any(label.startswith("Paused until ") for label in panel.labels()))
    wait_until(lambda: agent.status().get("state") == "paused" or agent.status().get("paused_until_ms"))
    panel.click("Resume")
    wait_until(lambda: not is_paused(paths))
    wait_until(lambda: "For an hour" in panel.labels())

    panel.click("house")
    wait_until(lambda: load_intent(paths).intent.models.active == "house")
    wait_until(lambda: panel.find("house").properties["toggle-state"] == 1)

    def opened(number: int) -> str:
        wait_until(lambda: len(opener.read_text().splitlines()) >= number, 20, "a page")
        return opener.read_text().splitlines()[number - 1]

    panel.click("Save bug report…")
    assert "sapwood" in page_behind(opened(1)).lower()
    panel.click("sky")
    assert "api.openai.com" in page_behind(opened(2)), "what is sent where is read before it is agreed to"
    assert load_intent(paths).intent.models.active == "house"

    panel.click("Open logs")
    wait_until(lambda: opener.read_text().splitlines()[-1] == str(paths.log_dir))

    family = agent.family()
    assert len(family) >= 2
    began = time.monotonic()
    panel.click("Quit Sapwood")
    assert agent.process.wait(10) == 0
    assert time.monotonic() - began < 5
    wait_until(lambda: not [each for each in family if each.is_running()], 3, "the end of all processes")


def test_what_other_commands_change_is_in_the_menu(
    start_panel: Callable[..., Panel], agent: Agent, paths: Paths, wait_until: Wait, tmp_path: Path
) -> None:
    from agent.actions.pausing import pause, resume
    from agent.actions.sources import add

    panel = start_panel()
    until_registered(panel, agent, wait_until)
    with open_home(paths) as home:
        pause(home)
    wait_until(lambda: "Paused until you resume" in panel.labels(), 5, "a pause by a command")
    with open_home(paths) as home:
        resume(home)
    wait_until(lambda: panel.labels()[0].startswith("Idle"), 5, "its end")
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\n" + f"words of note {number} " * 60)
    with open_home(paths) as home:
        add(home, [str(folder)])
    wait_until(lambda: panel.labels()[0].startswith("Growing"), 15, "growing")
    wait_until(lambda: panel.labels()[0] == "Idle: everything is grown", 60, "the end of growing")


def test_a_killed_tray_is_back_in_three_seconds_and_a_killed_agent_takes_it_along(
    start_panel: Callable[..., Panel], agent: Agent, wait_until: Wait
) -> None:
    panel = start_panel()
    until_registered(panel, agent, wait_until)
    first = int(agent.tray()["pid"])
    os.kill(first, signal.SIGKILL)
    began = time.monotonic()
    wait_until(lambda: len(panel.watcher.registered) == 2, 10, "the icon")
    assert time.monotonic() - began < 3
    assert agent.process.poll() is None
    wait_until(lambda: agent.tray().get("state") == "up")
    second = psutil.Process(int(agent.tray()["pid"]))
    agent.process.send_signal(signal.SIGKILL)
    agent.process.wait(5)
    wait_until(lambda: not second.is_running() or second.status() == psutil.STATUS_ZOMBIE, 3, "the end of the tray")


def test_without_a_panel_the_agent_runs_and_says_why_there_is_no_icon(agent: Agent, wait_until: Wait) -> None:
    wait_until(lambda: agent.tray().get("state") == "impossible", 30, "the reason")
    assert "no panel" in agent.tray()["reason"]
    assert agent.process.poll() is None
