"""Forgetting one of a thousand documents: what is left of its words in the bytes, and what was made again."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.actions.forgetting import forget, preview, wanted_of
from agent.actions.home import Home, open_home
from agent.actions.sources import add
from agent.paths import Paths, paths_under
from agent.queue import LocalContext, Registry, drain_until_idle
from agent.tree.flush import close_all_tails
from tests.bench.harness import Result
from tests.generated.vault import write_vault

DOCUMENTS = 1_000
PLANTED = tuple(f"qwiz{letter}{letter}rblatt{number}" for number, letter in enumerate("abdefgkmnoprstuvwz"))
"""Words that only the forgotten document says."""

_SINCE = 5  # letters: an index may keep the beginning of a word apart


def measure_forgetting(result: Result) -> None:
    """Add the figures of ``forget_*``; grows a vault with the built-in profile (about a minute)."""
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder, _home(Path(folder)) as paths:
        vault = Path(folder) / "vault"
        write_vault(vault, DOCUMENTS - 1)
        sentences = (
            f"{word.capitalize()} met {PLANTED[at - 1]} at the {word} pier." for at, word in enumerate(PLANTED)
        )
        (vault / f"about-{PLANTED[0]}.md").write_text("# A walk\n\n" + "\n\n".join(f"{one} " * 12 for one in sentences))
        with open_home(paths) as home:
            add(home, [str(vault)])
        _grow(paths)
        if not _count_bytes(paths):
            raise RuntimeError("the planted words were not there before they were forgotten")
        with open_home(paths) as home:
            before = _rows(home)
            wanted = wanted_of(home, source="vault", item=f"about-{PLANTED[0]}.md")
            chosen = preview(home, wanted)[1]
            above = _ancestors(home)
            begun = time.perf_counter()
            found = forget(home, wanted, chosen)
            result.figures["forget_s"] = round(time.perf_counter() - begun, 3)
            result.figures["forget_summaries_removed"] = found.summaries_removed
        left = _count_bytes(paths)
        _grow(paths)
        with open_home(paths) as home:
            after = _rows(home)
            home.connection.value("PRAGMA wal_checkpoint(TRUNCATE)")
        result.figures["forget_bytes_found"] = left + _count_bytes(paths)
        result.figures["forget_made_again"] = len(after.keys() - before.keys())
        result.figures["forget_not_ancestor"] = sum(
            one in above or before[one] != after[one] for one in before.keys() & after.keys()
        )
    result.hold("forget_bytes_found", "==", 0)
    result.hold("forget_not_ancestor", "==", 0)


@contextmanager
def _home(folder: Path) -> Iterator[Paths]:
    held = os.environ.get("SAPWOOD_HOME")
    os.environ["SAPWOOD_HOME"] = str(folder / "home")
    try:
        yield paths_under(folder / "home").make()
    finally:
        del os.environ["SAPWOOD_HOME"]
        if held is not None:
            os.environ["SAPWOOD_HOME"] = held


def _grow(paths: Paths) -> None:
    from agent.queue.types import NewJob
    from agent.worker.kinds import KIND_NAMES

    with open_home(paths) as home:
        home.enqueue(NewJob.sync_source("vault"))
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        drain_until_idle(context, Registry.load(KIND_NAMES), flush=close_all_tails)


def _rows(home: Home) -> dict[str, int]:
    return dict(home.connection.all("SELECT summary_id, seq FROM mem_tree_summaries"))


def _ancestors(home: Home) -> set[str]:
    """Return the summaries above the chunks that say one of the words."""
    waiting = {
        node
        for (node,) in home.connection.all(
            "SELECT chunk_id FROM mem_tree_chunks WHERE item_key LIKE ?", (f"%{PLANTED[0]}%",)
        )
    }
    found: set[str] = set()
    while waiting:
        node = waiting.pop()
        for (parent,) in home.connection.all("SELECT parent_id FROM mem_tree_edges WHERE node_id = ?", (node,)):
            if parent not in ("", node) and parent not in found:
                found.add(parent)
                waiting.add(parent)
    return found


def _count_bytes(paths: Paths) -> int:
    """Return how often a planted word stands in the database and its side files, in any form."""
    data = b"".join(
        Path(f"{paths.database}{suffix}").read_bytes()
        for suffix in ("", "-wal", "-shm")
        if Path(f"{paths.database}{suffix}").exists()
    ).lower()
    forms = {form for word in PLANTED for form in (word, word[_SINCE:])}
    return sum(data.count(form.encode()) for form in forms)
