"""A hundred thousand tiny files: all are seen, in bounded memory, and another source does not wait for that."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.clock import FakeClock
from agent.config import Intent, SourceIntent
from agent.db import Database
from agent.paths import Paths
from agent.queue.enqueue import enqueue
from agent.queue.registry import Registry
from agent.queue.run import LocalContext, drain_until_idle
from agent.queue.types import NewJob
from agent.worker.handlers import sync_source
from tests.conftest import REPOSITORY
from tests.hostile.test_hostile_folders_stop_nothing import GOOD, finds, sapwood

CROWD = 100_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a hundred folders with a thousand files each."""
    root = tmp_path_factory.mktemp("tiny") / "crowd"
    for number in range(CROWD):
        if number % 1_000 == 0:
            (root / f"{number // 1_000:02d}").mkdir(parents=True)
        (root / f"{number // 1_000:02d}" / f"{number}.md").write_bytes(b"tiny %d\n" % number)
    return root


def test_all_are_seen_and_a_second_look_reads_none(
    crowd: Path, database: Database, paths: Paths, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    intent = Intent(sources=(SourceIntent("crowd", "folder", "crowd", (str(crowd),)),))
    context = LocalContext(database.connection, clock, intent, paths)

    def look() -> float:
        begun = time.process_time()
        enqueue(context.connection, NewJob.sync_source("crowd"), clock.now_ms())
        drain_until_idle(context, Registry.of([sync_source.SPEC]))
        return time.process_time() - begun

    took_s = look()
    assert context.connection.value("SELECT count(*) FROM mem_tree_items") == CROWD
    print(f"the first look took {took_s:.1f} s of this processor")
    monkeypatch.setattr("agent.ingest.readers.folder.read_bytes", lambda *more: pytest.fail("a file is read"))
    tracemalloc.start()
    took_s = look()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"the second took {took_s:.1f} s, traced, and {peak / 1e6:.0f} MB")
    assert peak < 200_000_000


def test_another_source_is_read_while_they_are_looked_at(
    crowd: Path, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "good.md").write_text(GOOD)
    home = tmp_path / "home"
    assert sapwood(home, "add", str(crowd)).returncode == 0
    assert sapwood(home, "add", str(other)).returncode == 0
    agent = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "run", "--headless"],
        cwd=REPOSITORY,
        env={**os.environ, "SAPWOOD_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: finds(home, "quinces signal hut"), 60, "the other source")
        counts: dict[str, int] = json.loads(sapwood(home, "status", "--json").stdout)["items"]
        assert sum(counts.values()) < CROWD, "the crowd was there first: this proves nothing"
        stopped = sapwood(home, "stop", "--wait")
        assert stopped.returncode == 0, stopped.stderr
        assert agent.wait(30) == 0
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait(10)
