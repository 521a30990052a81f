"""How much of a memory a model is asked about: calls and tokens for 1,000 chunks, by what they are for.

The corpus is grown through every real step with a scripted model that answers at once; nothing is timed here.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agent.models.calls
from agent.clock import SystemClock
from agent.config import Intent, ModelsIntent, SourceIntent
from agent.db import Database
from agent.paths import paths_under
from agent.queue import LocalContext, drain_until_idle, enqueue
from agent.queue.registry import Registry, SweepContext
from agent.queue.types import NewJob
from agent.tokens import count_tokens
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES
from tests.models.tasks.scripted import BOX, MemoryCalls

Corpus = Sequence[tuple[str, str, Path]]
"""Sources: id, kind (folder, eml, irc, mbox) and path."""


def model_share(corpus: Corpus, context_tokens: int = 8_192) -> dict[str, Any]:
    """Return what growing a corpus asks of a model: shares, calls and tokens, the latter two for 1,000 chunks."""
    before = agent.models.calls.calls_of
    calls = MemoryCalls(context=context_tokens)
    try:
        agent.models.calls.calls_of = lambda *_: calls  # type: ignore[assignment]
        with tempfile.TemporaryDirectory() as home:
            return _grow(corpus, calls, Path(home))
    finally:
        agent.models.calls.calls_of = before


def _grow(corpus: Corpus, calls: MemoryCalls, home: Path) -> dict[str, Any]:
    paths = paths_under(home).make()
    database = Database(paths.database, None)
    connection = database.connection
    sources = tuple(SourceIntent(name, kind, name, (str(path),)) for name, kind, path in corpus)
    intent = Intent(models=ModelsIntent(active=BOX.name), profiles=(BOX,), sources=sources)
    context = LocalContext(connection, SystemClock(), intent, paths)
    registry = Registry.load(KIND_NAMES)
    for source in sources:
        enqueue(connection, NewJob.sync_source(source.id), context.clock.now_ms())
    while True:
        drain_until_idle(context, registry, flush=close_all_tails, horizon_ms=3_600_000)
        sweeping = SweepContext(connection, intent, context.clock.now_ms(), 1_000)
        jobs = [job for spec in registry if spec.sweep is not None for job in spec.sweep(sweeping)]
        if not sum(enqueue(connection, job, context.clock.now_ms()) is not None for job in jobs):
            break
    chunks = connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle <> 'dropped'") or 1
    asked = Counter(task for task, *_ in calls.held)
    found: dict[str, Any] = {"chunks": chunks, "asked_share": round(asked["extract"] / chunks, 4)}
    for name in ("items", "summary"):
        asks = [ask for ask in calls.asks if ask.schema_name == name]
        task = "extract" if name == "items" else "summary"
        answers = [count_tokens(str(calls.says(ask))) for ask in asks]
        found[f"{task}_calls_per_1000"] = round(1_000 * len(asks) / chunks, 1)
        found[f"{task}_tokens_in_per_1000"] = round(1_000 * sum(ask.prompt_tokens for ask in asks) / chunks)
        found[f"{task}_tokens_out_per_1000"] = round(1_000 * sum(answers) / chunks)
    found["chunks_a_call"] = round(asked["extract"] / max(1, sum(ask.schema_name == "items" for ask in calls.asks)), 1)
    database.close()
    return found
