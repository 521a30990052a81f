"""A memory grown with a model while its workers are killed: which questions were asked twice. ``models`` calls it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.actions.home import open_home
from agent.actions.sources import add
from agent.config_edit import edit_intent
from agent.db import Database
from agent.paths import Paths, paths_under
from agent.queue.handling import all_handling
from agent.states import JobKind
from tests.bench.model_ground import profile_table
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault
from tests.scripted.behaviour import behave
from tests.scripted.process import Spawned, spawned

NOTES, MAILS = 60, 120
BETWEEN_S = (0.1, 0.5)
OTHERS = 0.2  # the share of moments without a job that may call at which another one's worker is killed
PATIENCE_S = 240.0
SEED = 1


@dataclass
class Grown:
    """Figures by their names, and what is to be said about them."""

    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def grow_with_kills(*, kills: int) -> Grown:
    """Grow notes and mail with a scripted local model, killing a busy worker so many times; then let it finish.

    Raises ``RuntimeError`` where it does not come to its end: then nothing was measured.
    """
    with (
        tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder,
        spawned(Path(folder) / "calls.jsonl") as server,
    ):
        server.use(behave("slow", first_byte_s=0.1, between_s=0.0))
        paths = _home(Path(folder), server)
        environ = {
            **os.environ,
            "SAPWOOD_HOME": str(paths.config_dir.parent),
            "SAPWOOD_QUEUE__CRASH_LIMIT": "1000000",
            "SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "1000000",
            "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.01",
            "SAPWOOD_SUPERVISOR__BACKOFF_CAP_SECONDS": "0.02",
            "SAPWOOD_POWER__ENABLED": "false",
        }
        argv = [sys.executable, "-m", "agent.cli.main", "run", "--once", "--workers", "4"]
        with subprocess.Popen(
            argv, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            killed, in_call = _kill(paths, process, kills)
            said = process.communicate(timeout=PATIENCE_S)[0]
        if process.returncode:
            raise RuntimeError(f"it did not finish: {said.strip()[-300:]}")
        return _counted(paths, server, killed, in_call)


def _home(folder: Path, server: Spawned) -> Paths:
    paths = paths_under(folder / "home").make()
    write_vault(folder / "notes", NOTES, SEED)
    exports = write_exports(folder / "mail", MAILS, SEED, 1)

    def write(document: Any) -> None:
        document["models"] = {"active": "near"}
        document["profiles"] = [profile_table("near", server)]

    edit_intent(paths, write)
    with open_home(paths) as home:
        add(home, [str(folder / "notes")])
        add(home, [str(exports[0])])
    return paths


def _kill(paths: Paths, process: subprocess.Popen[str], kills: int) -> tuple[int, int]:
    """Kill workers at random moments, mostly in a job that may call a model; return how many, and how many such."""
    chance = random.Random(SEED)
    killed = in_call = 0
    while killed < kills and process.poll() is None:
        time.sleep(chance.uniform(*BETWEEN_S))
        busy = [each for each in all_handling(paths) if each.job_id is not None]
        if not busy:
            continue
        asking = [each for each in busy if JobKind(each.kind).is_llm_bound()]
        victim = chance.choice(asking or busy)
        if not asking and chance.random() > OTHERS:
            continue
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed += 1
        in_call += JobKind(victim.kind).is_llm_bound()
    return killed, in_call


def _counted(paths: Paths, server: Spawned, killed: int, in_call: int) -> Grown:
    calls = server.calls("chat")
    asked = [hashlib.sha256(json.dumps(call.body, sort_keys=True).encode()).hexdigest() for call in calls]
    again = len(asked) - len(set(asked))
    database = Database(paths.database, paths.write_turn)
    try:
        metered, tokens = database.connection.all(
            "SELECT coalesce(sum(calls), 0), coalesce(sum(tokens_in + tokens_out), 0) FROM mem_tree_usage"
        )[0]
        chunks = database.connection.value("SELECT count(*) FROM mem_tree_chunks")
        summaries = database.connection.value("SELECT count(*) FROM mem_tree_summaries WHERE signature LIKE 'openai:%'")
    finally:
        database.close()
    grown = Grown()
    grown.figures = {
        "calls_repeated": max(0, again - in_call),
        "calls_again": again,
        "kills": killed,
        "kills_in_a_job_that_may_call": in_call,
        "calls": len(calls),
        "calls_metered": metered,
        "calls_per_1000_chunks": round(1_000 * len(set(asked)) / chunks, 1),
        "tokens_per_1000_chunks": round(1_000 * tokens / chunks),
        "chunks": chunks,
        "model_summaries": summaries,
    }
    grown.notes.append(
        "calls_repeated: questions asked again beyond one for each kill in the middle of a job that may call a model "
        "(such a kill cuts off one call at most); calls_again counts all of them"
    )
    return grown
