"""A real agent that watches real folders: what changes is found again within seconds, a burst costs few looks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.actions.home import Home, open_home
from agent.actions.memory import search
from agent.actions.sources import add
from agent.config_edit import remove_source
from agent.paths import Paths
from agent.worker.kinds import KIND_NAMES
from tests.supervisor.conftest import Agent, StartAgent

QUICK = {"SAPWOOD_SCHEDULE__WATCH_SECONDS": "1"}
WITHIN_S = 20.0  # of a machine that runs other tests; alone it takes two to five seconds


def _note(folder: Path, name: str, word: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"# {name}\n\nThe {word} stands behind the shed, where it was put in spring by the whole club.\n")
    return path


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    _note(folder, "old/first.md", "wheelbarrow")
    return folder


@pytest.fixture
def home(paths: Paths, notes: Path) -> Iterator[Home]:
    with open_home(paths) as home:
        add(home, [str(notes)], kind="folder")
    with open_home(paths) as home:
        yield home


@pytest.fixture
def agent(home: Home, start_agent: StartAgent, wait_until: Callable[..., None]) -> Agent:
    agent = start_agent(kind_names=list(KIND_NAMES), env=QUICK, workers=1)
    wait_until(lambda: agent.workers(), WITHIN_S, "a worker")
    wait_until(lambda: _hows(agent) == ["watched"], WITHIN_S, "watching")
    wait_until(lambda: _is_still(home), WITHIN_S, "rest")
    return agent


def _hows(agent: Agent) -> list[str]:
    return [how["how"] for how in agent.status()["watching"]]


def _is_still(home: Home) -> bool:
    waiting = home.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')")
    return bool(waiting == 0 and home.connection.value("SELECT count(*) FROM mem_tree_chunks"))


def _looks(home: Home) -> int:
    return int(home.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE kind = 'sync_source'"))


def _paths(home: Home, word: str) -> set[Any]:
    return {hit.locator["path"] for hit in search(home, word).hits if word in hit.text and hit.locator}


@pytest.mark.slow
def test_what_changes_is_found_again_within_seconds(
    agent: Agent, home: Home, notes: Path, wait_until: Callable[..., None]
) -> None:
    def found(word: str, *names: str) -> None:
        began = time.monotonic()
        wait_until(lambda: _paths(home, word) == set(names), WITHIN_S, f"{word} in {names}")
        print(f"{word}: {time.monotonic() - began:.1f} s")

    note = _note(notes, "pump.md", "turbine")
    found("turbine", "pump.md")
    _note(notes, ".pump.md.tmp", "windmill").rename(note)
    found("windmill", "pump.md")
    found("turbine")
    (notes / "old").rename(notes / "new")
    found("wheelbarrow", "new/first.md")
    note.unlink()
    found("windmill")


@pytest.mark.slow
def test_thousands_of_events_in_a_burst_cost_few_looks(
    agent: Agent, home: Home, notes: Path, wait_until: Callable[..., None]
) -> None:
    before = _looks(home)
    for number in range(4_000):
        (notes / f"{number % 40}.md").write_text(f"# {number}\n\nNumber {number} of a long row of numbers in a shed.\n")
    _note(notes, "last.md", "scarecrow")
    wait_until(lambda: _paths(home, "scarecrow") == {"last.md"}, WITHIN_S, "the last one")
    assert _looks(home) - before <= 6


@pytest.mark.slow
def test_sources_come_and_go_and_watching_is_switched_off_while_it_runs(
    agent: Agent, home: Home, notes: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    _note(tmp_path / "more", "a.md", "beehive")
    add(home, [str(tmp_path / "more")], kind="folder")
    wait_until(lambda: _hows(agent) == ["watched", "watched"], WITHIN_S, "the second one")
    remove_source(home.paths, "more")
    wait_until(lambda: _hows(agent) == ["watched"], WITHIN_S, "one again")
    text = home.paths.config_file.read_text()
    home.paths.config_file.write_text(f"[schedule]\nwatch = false\n\n{text}")
    wait_until(lambda: _hows(agent) == ["looked at every 15 min"], WITHIN_S, "watching to end")


def test_an_agent_that_watches_stops_at_once(
    home: Home, start_agent: StartAgent, wait_until: Callable[..., None]
) -> None:
    agent = start_agent(kind_names=list(KIND_NAMES), workers=1)
    wait_until(lambda: agent.workers() and _hows(agent) == ["watched"], WITHIN_S, "watching")
    began = time.monotonic()
    agent.process.terminate()
    assert agent.wait()["code"] == 0
    assert time.monotonic() - began < 4
