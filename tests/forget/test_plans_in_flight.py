"""A worker that has read the words already, and settles after they were forgotten, stores nothing of them."""

from __future__ import annotations

import pytest

from agent.actions.forgetting import forget, preview, remove, wanted_of
from agent.actions.home import open_home
from agent.paths import Paths
from agent.queue import LocalContext, Registry
from agent.queue.claim import Claim, claim_jobs
from agent.queue.run import handle_jobs
from agent.queue.settle import settle_many
from agent.queue.types import Job, NewJob
from tests.forget.planted import MARKER, grow
from tests.forget.test_nothing_is_left import where


def asked_for(paths: Paths, kind: str) -> list[NewJob]:
    """Make the memory want a job of a kind for something that has the word in it."""
    with open_home(paths) as home:
        connection = home.connection
        like = f"%{MARKER}%"
        (chunk,) = connection.one(  # type: ignore[misc]
            "SELECT chunk_id FROM mem_tree_chunks WHERE text LIKE ? AND source_id = 'post' LIMIT 1", (like,)
        )
        with connection.write():
            if kind == "extract_chunk":
                connection.run(
                    "UPDATE mem_tree_chunks SET lifecycle = 'pending_extraction' WHERE chunk_id = ?", (chunk,)
                )
                return [NewJob.extract_chunk(chunk)]
            if kind == "reembed_backfill":
                connection.run("UPDATE mem_tree_chunks SET embedded_signature = NULL")
                connection.run("DELETE FROM mem_tree_vectors")
                (signature,) = connection.one("SELECT signature FROM mem_tree_signatures")  # type: ignore[misc]
                return [NewJob.reembed_backfill(signature)]
            if kind == "seal_document":
                connection.run("UPDATE mem_tree_trees SET version_hash = NULL WHERE item_key = 'in-text.md'")
                connection.run("UPDATE mem_tree_items SET grown_hash = NULL WHERE item_key = 'in-text.md'")
                (version,) = connection.one(  # type: ignore[misc]
                    "SELECT version_ms FROM mem_tree_items WHERE item_key = 'in-text.md'"
                )
                return [NewJob.seal_document("notes/in-text.md", version)]
            if kind == "seal":
                connection.run("UPDATE mem_tree_summaries SET stale = 1 WHERE source_id = 'post'")
                return [NewJob.seal("source:post@1", 0)]
            if kind == "ingest_file":
                connection.run(
                    "UPDATE mem_tree_items SET state = 'found', held_hash = NULL WHERE item_key = 'in-text.md'"
                )
                return [NewJob.ingest_file("notes", "in-text.md")]
            connection.run("DELETE FROM mem_tree_files WHERE source_id = 'notes'")
            connection.run("UPDATE mem_tree_items SET seen_hash = NULL WHERE source_id = 'notes'")
            return [NewJob.sync_source("notes")]


KINDS = ("extract_chunk", "reembed_backfill", "seal_document", "seal", "ingest_file", "sync_source")


def plan_then(paths: Paths, kind: str, meanwhile: str) -> None:
    from agent.worker.kinds import KIND_NAMES

    jobs = asked_for(paths, kind)
    registry = Registry.load(KIND_NAMES)
    with open_home(paths) as home:
        for job in jobs:
            home.enqueue(job)
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        only = Registry({kind: registry[kind]})
        claimed: list[Job] = claim_jobs(home.connection, Claim(only, "somebody"), home.clock.now_ms())
        assert claimed
        planned = handle_jobs(context, registry, claimed)
        if meanwhile == "forget":
            wanted = wanted_of(home, mentions=MARKER)
            forget(home, wanted, preview(home, wanted)[1])
        else:
            remove(home, {"extract_chunk": "post", "seal": "post"}.get(kind, "notes"))
        settle_many(home.connection, planned, home.clock.now_ms())


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_made_before_brings_nothing_back(planted: Paths, kind: str) -> None:
    plan_then(planted, kind, "forget")
    assert where(planted) == []
    grow(planted)
    assert where(planted) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_removed_source_does_not_come_back(planted: Paths, kind: str) -> None:
    plan_then(planted, kind, "remove")
    source = "post" if kind in ("extract_chunk", "seal") else "notes"
    with open_home(planted) as home:
        for table in ("items", "chunks", "summaries", "trees", "files", "sources"):
            held = home.connection.value(f"SELECT count(*) FROM mem_tree_{table} WHERE source_id = ?", (source,))
            assert held == 0, table
