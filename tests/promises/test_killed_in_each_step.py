"""``kill -9`` between any two steps of any kind of job costs time and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agent.actions import running
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.config import Intent
from agent.db import Connection, connect
from agent.models.profiles import open_profile
from agent.paths import Paths, paths_under
from agent.tree.check import problems
from agent.worker.kinds import KIND_NAMES
from tests.conftest import REPOSITORY
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault
from tests.naive.builder import grow_memory
from tests.promises.dying import STEPS, marks

KINDS = ("sync_source", "ingest_file", "extract_chunk", "append_buffer", "seal", "seal_document", "reembed_backfill")
PATIENCE_S = 120
# As often as somebody dies here nobody may be given up, and no row be parked.
PATIENT = {
    "SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.02",
    "SAPWOOD_SUPERVISOR__BACKOFF_CAP_SECONDS": "0.1",
    "SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "1000",
    "SAPWOOD_QUEUE__CRASH_LIMIT": "1000",
}


def _grow(paths: Paths, sources: list[Path], worker: str) -> None:
    with open_home(paths) as home:
        for source in sources:
            add(home, [str(path) for path in sorted(source.glob("*.mbox"))] or [str(source)], name=source.name)
    options = {
        "worker": worker,
        "kind_names": KIND_NAMES,
        "once": True,
        "workers": 2,
        "idle_hook": running.IDLE_HOOK,
        "finished_hook": running.FINISHED_HOOK,
        "gate_hook": running.GATE_HOOK,
        "permits_hook": running.PERMITS_HOOK,
    }
    home_dir = str(paths.config_dir.parent)
    ran = subprocess.run(
        [sys.executable, "-m", "tests.supervisor.runner", home_dir, json.dumps(options)],
        cwd=REPOSITORY,
        env={**os.environ, **PATIENT, "SAPWOOD_HOME": home_dir},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    said = json.loads(ran.stdout)
    assert (said["ended"], said["failed"]) == ("finished", 0), (said, ran.stderr)


def _what_is_held(connection: Connection) -> dict[str, Counter[tuple[object, ...]]]:
    """Everything that does not depend on time or on the order of work."""
    queries = {
        "items": "SELECT source_id, item_key, held_hash, state FROM mem_tree_items",
        "chunks": "SELECT chunk_id, body_hash, lifecycle, degraded, embedded_signature IS NULL FROM mem_tree_chunks",
        "scores": "SELECT c.chunk_id, s.fast, s.deep FROM mem_tree_score AS s JOIN mem_tree_chunks AS c"
        " ON c.seq = s.chunk_seq",
        "entities": "SELECT e.entity, e.kind, c.chunk_id, e.mentions FROM mem_tree_entity_index AS e"
        " JOIN mem_tree_chunks AS c ON c.seq = e.chunk_seq",
        "summaries": "SELECT summary_id, tree_seq IS NULL, level, leaves, text FROM mem_tree_summaries",
        "roots": "SELECT tree_id, root_id FROM mem_tree_trees",
        "index": "SELECT count(*) FROM mem_tree_text",
        "vectors": "SELECT count(*) FROM mem_tree_vectors",
        "edges": "SELECT t.tree_id, e.level, e.node_id, e.parent_id FROM mem_tree_edges AS e"
        " JOIN mem_tree_trees AS t ON t.tree_seq = e.tree_seq",
        "waiting": "SELECT count(*) FROM mem_tree_buffers",
    }
    return {name: Counter(connection.all(sql)) for name, sql in queries.items()}


@pytest.mark.slow
def test_a_kill_between_any_two_steps_of_any_kind_costs_time_and_nothing_else(tmp_path: Path) -> None:
    sources = [tmp_path / "notes", tmp_path / "mail"]
    write_vault(sources[0], 40, seed=5)
    write_exports(sources[1], 40, seed=5)
    held = {}
    for name, worker in (("calm", running.WORKER), ("killed", "tests.promises.dying:mortal_worker")):
        paths = paths_under(tmp_path / name).make()
        _grow(paths, sources, worker)
        connection = connect(paths.database, paths.write_turn)
        assert problems(connection) == []
        held[name] = _what_is_held(connection)
        if name == "killed":
            died = {path.name for path in marks(paths.data_dir).iterdir()}
            assert {f"{kind}.{step}" for kind in KINDS for step in STEPS if step != "claimed"} <= died
            assert sum(name.endswith(".claimed") for name in died) >= 3, "the others are claimed while settling"
            assert connection.value("SELECT max(crashes) FROM mem_tree_jobs") > 0
            naive = grow_memory(connection, open_profile(Intent(), {}).summariser)
            texts = connection.all("SELECT summary_id, text FROM mem_tree_summaries")
            found = {
                (summary, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()) for summary, text in texts
            }
            assert found == naive.fingerprints()
        connection.close()
    assert held["killed"] == held["calm"]
    assert sum(held["calm"]["summaries"].values()) > 10
