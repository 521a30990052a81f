"""The command as processes of their own, and the memory as its ids: what tests of whole homes share."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import apsw

from agent.actions.home import open_home
from agent.actions.sources import add, sync
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.queue import LocalContext, Registry, drain_until_idle
from agent.queue.sweep import sweep
from agent.supervisor.control import call
from agent.tree.flush import close_all_tails, unfinished
from agent.worker.kinds import KIND_NAMES

COMMAND = (sys.executable, "-m", "agent.cli.main")
SOURCES = (("notes", "folder"), ("club-mail.mbox", "mbox"), ("club-chat", "irc"))

Ids = dict[str, list[Any]]


def copy_samples(target: Path) -> Path:
    """Copy the shipped samples and return where they are."""
    with as_file(files("agent.actions").joinpath("samples")) as samples:
        return Path(shutil.copytree(samples, target))


def name_sources(paths: Paths, samples: Path) -> None:
    """Add the three samples to a home."""
    for name, kind in SOURCES:
        with open_home(paths) as home:
            add(home, [str(samples / name)], kind=kind)


def grow(paths: Paths) -> None:
    """Look at every source of a home and grow it, in this process, until nothing is left to do."""
    with open_home(paths) as home:
        sync(home)
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        registry = Registry.load(KIND_NAMES)
        while True:
            drain_until_idle(context, registry, flush=close_all_tails)
            # As the agent does: what no row asks for is found again from what the tables say.
            if not sum(sweep(home.connection, registry, home.intent, home.clock.now_ms()).values()):
                break
        assert not unfinished(home.connection)


def grown(folder: Path) -> Paths:
    """Return a home with the three samples, grown in this process."""
    paths = paths_under(folder / "home").make()
    name_sources(paths, copy_samples(folder / "samples"))
    grow(paths)
    return paths


def ids_of(database: Path) -> Ids:
    """Return what a memory consists of: every chunk and summary with its text, every edge. Nothing is migrated."""
    raw = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        raw.set_busy_timeout(10_000)
        return {
            "chunks": raw.execute(
                "SELECT chunk_id, source_id, item_key, text, lifecycle FROM mem_tree_chunks ORDER BY 1"
            ).fetchall(),
            "summaries": raw.execute("SELECT summary_id, level, text FROM mem_tree_summaries ORDER BY 1").fetchall(),
            "edges": raw.execute(
                """
                SELECT t.tree_id, e.level, e.node_id, e.parent_id
                  FROM mem_tree_edges AS e
                  JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq
                 ORDER BY 1, 2, 3
                """
            ).fetchall(),
        }
    finally:
        raw.close()


def run(paths: Paths, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Carry out a command as a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "SAPWOOD_HOME": str(paths.config_dir.parent), "COLUMNS": "80"},
    )


def said(paths: Paths) -> dict[str, Any]:
    """Return what the running agent says of itself; empty while it does not answer."""
    with suppress(SapwoodError):
        return call(paths, "status", 5.0)
    return {}


@contextmanager
def running_agent(paths: Paths, wait_until: Callable[..., None], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Hold a real agent in a home; it is ended whatever happens."""
    process = subprocess.Popen(
        [*COMMAND, "run", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "SAPWOOD_HOME": str(paths.config_dir.parent)},
    )
    try:
        wait_until(lambda: said(paths).get("state") not in (None, "starting"), 30, "an agent")
        yield process
    finally:
        with suppress(SapwoodError):
            call(paths, "stop", 5.0)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def overwrite(database: Path, pages: Iterable[int]) -> None:
    """Have another process write garbage into pages (the first is 1), as a failing disk would."""
    script = (
        "import sys\n"
        "with open(sys.argv[1], 'r+b') as file:\n"
        "    for page in sys.argv[2:]:\n"
        "        file.seek(4096 * (int(page) - 1))\n"
        "        file.write(b'\\xa5' * 4096)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(database), *map(str, pages)], check=True)


def page_of(database: Path, table: str) -> int:
    """Return the first page of a table or an index."""
    raw = apsw.Connection(str(database))
    try:
        return int(str(raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchall()[0][0]))
    finally:
        raw.close()


def holds_chunks(database: Path, like: Ids) -> bool:
    """Return whether a memory has the chunks of another one; a running agent leaves the tails of its trees open."""
    try:
        held = ids_of(database)["chunks"] if database.exists() else []
    except apsw.Error:
        return False
    return [row[0] for row in held] == [row[0] for row in like["chunks"]]
