"""The eight kinds as the seed and the design name them."""

from __future__ import annotations

import sys
from subprocess import run

import pytest

from agent.config import Intent
from agent.queue.registry import Registry
from agent.states import JobKind
from agent.worker.kinds import KIND_NAMES

TABLE = [
    # kind, LLM-bound, rank, attempts, time limit in seconds
    ("extract_chunk", True, 4, 5, 120),
    ("append_buffer", False, 3, 5, 30),
    ("seal", True, 1, 5, 300),
    ("flush_stale", False, 2, 5, 30),
    ("reembed_backfill", True, 4, 3, 120),
    ("seal_document", True, 4, 5, 300),
    ("sync_source", False, 4, 5, 300),
    ("ingest_file", False, 4, 5, 300),
]


def test_there_are_exactly_the_eight_kinds() -> None:
    assert {str(kind) for kind in JobKind} == {row[0] for row in TABLE}
    assert {str(spec.kind) for spec in Registry.load(KIND_NAMES)} == {row[0] for row in TABLE}


@pytest.mark.parametrize(("kind", "llm_bound", "rank", "attempts", "limit_s"), TABLE)
def test_each_kind_is_as_the_seed_and_the_design_say(
    kind: str, llm_bound: bool, rank: int, attempts: int, limit_s: int
) -> None:
    spec = Registry.load(KIND_NAMES)[kind]
    assert (spec.llm_bound, spec.rank, spec.max_attempts, spec.time_limit_s) == (llm_bound, rank, attempts, limit_s)
    assert JobKind(kind).is_llm_bound() == llm_bound
    assert Intent().time_limit_s(kind) == limit_s


def test_each_kind_owns_a_sweep() -> None:
    assert all(spec.sweep is not None for spec in Registry.load(KIND_NAMES))


def test_loading_the_kinds_loads_nothing_heavy() -> None:
    # The supervisor loads them for their sweeps; a fresh worker is 14 MB, one with numpy and a table 53.
    heavy = (
        "numpy regex rich click tomlkit filelock psutil keyring pydantic asyncio httpx httpx2 ollama openai anthropic"
    )
    code = (
        "import sys; from agent.queue.registry import Registry; from agent.worker.kinds import KIND_NAMES; "
        "Registry.load(KIND_NAMES); "
        f"print(sorted(set({heavy!r}.split()) & set(sys.modules)))"
    )
    found = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
