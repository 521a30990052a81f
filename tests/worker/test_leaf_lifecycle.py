"""Lane 6 of the pipeline: the states a leaf goes through, seen job by job through the eight real kinds."""

from __future__ import annotations

from agent.clock import FakeClock
from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.db import Connection
from agent.paths import Paths
from agent.queue.enqueue import enqueue, enqueue_many_tx
from agent.queue.registry import Registry
from agent.queue.run import LocalContext, run_once
from agent.queue.types import NewJob
from agent.tree.flush import close_all_tails
from agent.worker.kinds import KIND_NAMES

ALLOWED = {
    ("", "pending_extraction"),
    ("pending_extraction", "admitted"),
    ("pending_extraction", "dropped"),
    ("admitted", "buffered"),
    ("buffered", "sealed"),
}
BLOB = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0\n" * 12


def _lifecycles(connection: Connection) -> dict[str, str]:
    return dict(connection.all("SELECT chunk_id, lifecycle FROM mem_tree_chunks"))


def test_a_leaf_goes_from_pending_extraction_to_admitted_buffered_and_sealed_or_is_dropped(
    paths: Paths, connection: Connection, clock: FakeClock
) -> None:
    folder = paths.data_dir.parent / "mails"
    folder.mkdir()
    for number in range(12):
        body = (
            BLOB if number == 5 else f"Dear Ines, the roof of shed {number} leaks and will be mended on Friday. Oskar\n"
        )
        head = f"From: oskar@example.org\nMessage-ID: <m{number}@example.org>\nSubject: Shed {number}\n"
        (folder / f"{number}.eml").write_text(f"{head}Date: Mon, {number + 1} Jun 2026 10:00:00 +0000\n\n{body}")
    intent = add_source(paths, SourceIntent("mails", "eml", "Mails", (str(folder),)))
    registry = Registry.load(KIND_NAMES)
    context = LocalContext(connection, clock, intent, paths)
    enqueue(connection, NewJob.sync_source("mails"), clock.now_ms())

    seen: set[tuple[str, str]] = set()
    before: dict[str, str] = {}
    closed = 0
    while closed < 6:
        clock.advance(2)
        if not run_once(connection, registry, context):
            jobs = close_all_tails(connection, clock.now_ms())
            with connection.write():
                enqueue_many_tx(connection, jobs, clock.now_ms())
            closed += 1
        now = _lifecycles(connection)
        seen |= {(before.get(leaf, ""), state) for leaf, state in now.items() if before.get(leaf, "") != state}
        before = now

    assert seen == ALLOWED
    assert set(before.values()) == {"sealed", "dropped"}
    dropped = [leaf for leaf, state in before.items() if state == "dropped"]
    placed = {row[0] for row in connection.all("SELECT node_id FROM mem_tree_edges")}
    assert not placed & set(dropped), "its row stays for provenance, no summary refers to it"
    assert set(before) - set(dropped) <= placed
    assert connection.value("SELECT count(*) FROM mem_tree_buffers") == 0
