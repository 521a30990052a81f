"""Who opens the memory, how often, and how: counted in every process of a real agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.db import connect
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.supervisor.control import call
from tests.conftest import REPOSITORY
from tests.generated.vault import edit_paragraph, write_vault

NOTES = 60
MOST_A_PROCESS = 4
"""A worker's loop and its heartbeat; the supervisor, its progress line, and one for a look of its own."""

pytestmark = pytest.mark.slow


@dataclass
class Watched:
    """A home whose every process writes down what it opens."""

    paths: Paths
    opens: Path

    def sapwood(self, *words: str) -> subprocess.Popen[bytes]:
        environ = {
            **os.environ,
            "SAPWOOD_HOME": str(self.paths.config_dir.parent),
            "PYTHONPATH": str(REPOSITORY / "tests/promises/watch"),
            "WATCHED_OPENS": str(self.opens),
        }
        argv = [sys.executable, "-m", "agent.cli.main", *words]
        return subprocess.Popen(argv, cwd=REPOSITORY, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def run(self, *words: str) -> None:
        process = self.sapwood(*words)
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, (words, said)

    def lines(self) -> list[list[str]]:
        return [line.split(" ", 2) for line in self.opens.read_text().splitlines()]

    def done(self) -> int:
        connection = connect(self.paths.database, self.paths.write_turn)
        try:
            if connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')"):
                return 0
            return int(connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'done'"))
        finally:
            connection.close()


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    write_vault(tmp_path / "vault", NOTES)
    watched = Watched(paths_under(tmp_path / "home").make(), tmp_path / "opens")
    watched.run("add", str(tmp_path / "vault"), "--name", "vault")
    return watched


def test_connections_live_long_and_nobody_opens_the_memory_as_a_file(
    watched: Watched, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    agent = watched.sapwood("run", "--workers", "2")
    try:
        wait_until(lambda: watched.done() > 3 * NOTES, 60, "the vault")
        before = Counter(pid for what, pid, *_ in watched.lines() if what == "connect")
        jobs = watched.done()
        for number, note in enumerate(sorted((tmp_path / "vault").rglob("*.md"))[:20]):
            edit_paragraph(note, f"Changed for the time {number}.")
        watched.run("sync")
        wait_until(lambda: watched.done() > jobs + 40, 60, "the edits")
        during = Counter(pid for what, pid, *_ in watched.lines() if what == "connect")
        ours = {str(agent.pid), *(str(worker["pid"]) for worker in call(watched.paths, "status")["workers"])}
        assert max(during[pid] for pid in ours) <= MOST_A_PROCESS
        assert {pid: during[pid] for pid in ours & before.keys()} == {pid: before[pid] for pid in ours & before.keys()}
        assert ours & before.keys(), "processes that were there all along"
        for words in (("status",), ("search", "fence"), ("sources",), ("doctor",), ("jobs",)):
            watched.run(*words)
    finally:
        if agent.poll() is None:
            agent.send_signal(signal.SIGTERM)
        _, said = agent.communicate(timeout=20)
    assert [line for line in watched.lines() if line[0] == "file"] == [], said


def test_the_watch_sees_who_opens_the_memory_as_a_file(watched: Watched) -> None:
    program = (
        "import pathlib, sys; from agent.db import connect; path = pathlib.Path(sys.argv[1]); held = connect(path);"
        " open(path, 'rb').close()"
    )
    environ = {
        **os.environ,
        "PYTHONPATH": f"{REPOSITORY / 'tests/promises/watch'}{os.pathsep}{REPOSITORY}",
        "WATCHED_OPENS": str(watched.opens),
    }
    subprocess.run([sys.executable, "-c", program, str(watched.paths.database)], env=environ, check=True)
    assert [line[0] for line in watched.lines()].count("file") == 1


def test_two_agents_share_no_port(watched: Watched, tmp_path: Path, wait_until: Callable[..., None]) -> None:
    other = Watched(paths_under(tmp_path / "other").make(), tmp_path / "opens")
    agents = [each.sapwood("run", "--workers", "1") for each in (watched, other)]
    try:
        for each in (watched, other):
            wait_until(lambda each=each: _answers(each.paths), 30, "an agent")
        assert len({call(each.paths, "status")["workers"][0]["pid"] for each in (watched, other)}) == 2
    finally:
        for agent in agents:
            agent.send_signal(signal.SIGTERM)
        for agent in agents:
            agent.communicate(timeout=20)
    assert [agent.returncode for agent in agents] == [0, 0]


def _answers(paths: Paths) -> bool:
    try:
        return any(worker["pid"] for worker in call(paths, "status")["workers"])
    except SapwoodError:
        return False
