"""What models need is loaded only where a model is called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

HEAVY = "pydantic asyncio httpx ollama openai anthropic keyring"

GROW = """
import sys, tempfile
from pathlib import Path
from agent.clock import FakeClock
from agent.config import Intent
from agent.db import Database
from agent.paths import paths_under
from agent.queue import LocalContext, drain_until_idle, enqueue
from agent.queue.registry import Registry
from agent.queue.types import NewJob
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES
from tests.worker.memory import add_chunk, add_item
with tempfile.TemporaryDirectory() as home:
    paths = paths_under(Path(home)).make()
    database = Database(paths.database, None)
    connection = database.connection
    with connection.write():
        item = add_item(connection)
        ids = [add_chunk(connection, item, f"Note {n}. " + "Words of it. " * 30, order=n, fast=0.2) for n in range(12)]
    for each in ids:
        enqueue(connection, NewJob.extract_chunk(each), 0)
    context = LocalContext(connection, FakeClock(), Intent(), paths)
    drain_until_idle(context, Registry.load(KIND_NAMES), flush=close_all_tails)
    assert connection.value("SELECT count(*) FROM mem_tree_summaries") > 0
    database.close()
tasks = {"agent.models.extracting", "agent.models.summarising", "agent.models.answers", "agent.models.calls"}
"""

SIGN = """
import sys
from agent.config import Intent, ModelsIntent
from agent.models.profiles import open_profile
from agent.profile_intent import ProfileIntent
box = ProfileIntent("box", "ollama", "small:1b")
profile = open_profile(Intent(models=ModelsIntent(active="box"), profiles=(box,)), {})
assert "summary-" in profile.summariser.signature and "extract-" in profile.extractor.signature
tasks = set()
"""


@pytest.mark.parametrize("code", [GROW, SIGN], ids=["grown by the built-in profile", "opened for its signature"])
def test_nothing_is_loaded_for_a_call_that_is_not_made(fresh_process: Callable[[str], str], code: str) -> None:
    end = f"print(sorted((set({HEAVY!r}.split()) | tasks) & set(sys.modules)))"
    assert fresh_process(code + end).strip() == "[]"
