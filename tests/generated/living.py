"""A generated vault and mailbox in a home of their own, grown by the real command, with counters of what is made.

The counters are triggers in the database itself, so that they see what every process writes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.db import Connection, connect
from agent.paths import Paths, paths_under
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault

COUNTED = {
    "chunks": "mem_tree_chunks",
    "summaries": "mem_tree_summaries",
    "embeddings": "mem_tree_vectors",
    "extractions": "mem_tree_entity_index",
}
_LEFT = re.compile(r", about \d+ \w+ left$")


@dataclass(frozen=True)
class Run:
    """One ``sapwood run --once``: wall and processor seconds of all its processes, what it said, what it made."""

    wall_s: float
    cpu_s: float
    said: str
    lines: list[str] = field(default_factory=list)
    made: dict[str, int] = field(default_factory=dict)

    @property
    def lines_with_counts(self) -> list[str]:
        """What stderr said of how far it was."""
        return [line for line in self.lines if re.search(r"[\d,]+ of [\d,]+ chunks", line)]

    @property
    def lines_with_time_left(self) -> list[str]:
        """Those of them that told how long it would take."""
        return [line for line in self.lines if _LEFT.search(line)]


@dataclass(frozen=True)
class Living:
    """The home, and where its sources lie."""

    paths: Paths
    vault: Path
    exports: list[Path]

    @property
    def _environ(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SAPWOOD_")}
        # What is measured is the agent, not whether the machine runs on battery.
        return {**kept, "SAPWOOD_HOME": str(self.paths.config_dir.parent), "SAPWOOD_POWER__ENABLED": "false"}

    def sapwood(self, *words: str, patience_s: float = 3_600) -> subprocess.CompletedProcess[str]:
        """Run a command to its end. Raises ``RuntimeError`` with what it said where it fails."""
        argv = [sys.executable, "-m", "agent.cli.main", *words]
        done = subprocess.run(argv, env=self._environ, capture_output=True, text=True, timeout=patience_s, check=False)
        if done.returncode:
            raise RuntimeError(f"sapwood {' '.join(words)}: {done.stderr.strip()}")
        return done

    def add(self) -> None:
        """Name the vault and, as one source, the exports of the mailbox."""
        self.sapwood("add", str(self.vault), "--name", "vault")
        self.sapwood("add", *map(str, self.exports), "--name", "mail")

    def run_once(self) -> Run:
        """Grow everything and count what was made meanwhile."""
        with self.memory() as memory:
            _count_from_here(memory)
        before, begun = os.times(), time.monotonic()
        done = self.sapwood("run", "--once")
        wall, after = time.monotonic() - begun, os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        with self.memory() as memory:
            made = dict(memory.all("SELECT what, made FROM counted"))
        return Run(wall, cpu, done.stdout, done.stderr.splitlines(), made)

    @contextmanager
    def memory(self) -> Iterator[Connection]:
        """Hold a connection; nothing else may run meanwhile that counts on its absence."""
        connection = connect(self.paths.database, self.paths.write_turn)
        try:
            yield connection
        finally:
            connection.close()

    def value(self, sql: str, *params: Any) -> Any:
        """Return one value of the memory."""
        with self.memory() as memory:
            return memory.value(sql, params)

    def chunk_ids(self, item_key: str) -> set[str]:
        """Return the ids of an item's chunks."""
        with self.memory() as memory:
            return {
                row[0] for row in memory.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_key = ?", (item_key,))
            }

    def depth(self, item_key: str) -> int:
        """Return how many summaries stand above a leaf of a document, in its own tree and in the folder's."""
        with self.memory() as memory:
            return sum(
                int(memory.value(f"SELECT coalesce(max(max_level), 0) FROM mem_tree_trees WHERE {which}", params))
                for which, params in (
                    ("kind = 'document' AND item_key = ?", (item_key,)),
                    ("kind = 'source' AND source_id = 'vault'", ()),
                )
            )


def make_living(folder: Path, *, notes: int, messages: int, seed: int = 1) -> Living:
    """Write the sources and an empty home into a folder."""
    paths = paths_under(folder / "home").make()
    write_vault(folder / "vault", notes, seed)
    return Living(paths, folder / "vault", write_exports(folder / "mail", messages, seed))


def _count_from_here(memory: Connection) -> None:
    with memory.write():
        memory.run("CREATE TABLE IF NOT EXISTS counted (what TEXT PRIMARY KEY, made INTEGER NOT NULL)")
        for what, table in COUNTED.items():
            memory.run("INSERT OR REPLACE INTO counted VALUES (?, 0)", (what,))
            for event in ("INSERT", "UPDATE") if what == "embeddings" else ("INSERT",):
                memory.run(
                    f"""
                    CREATE TRIGGER IF NOT EXISTS count_{what}_{event.lower()} AFTER {event} ON {table}
                    BEGIN UPDATE counted SET made = made + 1 WHERE what = '{what}'; END
                    """
                )
