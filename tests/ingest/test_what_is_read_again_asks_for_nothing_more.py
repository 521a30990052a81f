"""An item that is read again and comes out as it was costs its reading; who waited for it is not left waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.ids import tree_id
from agent.ingest.pipeline import plan_ingest
from agent.ingest.reading import READING_VERSION
from agent.queue.types import IngestFilePayload
from tests.ingest.conftest import Grown, paragraphs

SEPARATOR = b"From a@example.org Sat Jan  3 01:05:34 2026\n"
AGAIN = "UPDATE mem_tree_sources SET reading_version = ?"


@pytest.fixture
def both(grown: Grown, mail_bytes: Callable[..., bytes]) -> Grown:
    """Return a grown memory of 40 mails and 12 notes."""
    mails = [mail_bytes(number, paragraphs(1, seed=number)[0]) for number in range(40)]
    mailbox = grown.folder.parent / "a.mbox"
    mailbox.write_bytes(b"".join(SEPARATOR + mail + b"\n" for mail in mails))
    for number in range(12):
        grown.write(f"{number:02d}.md", f"# Note {number}\n\n" + "\n\n".join(paragraphs(8, seed=number)))
    grown.add("mail", "mbox", mailbox)
    grown.add("notes", "folder", grown.folder)
    grown.grow()
    return grown


def _asked(grown: Grown) -> list[str]:
    """Return what is asked for beside looks and readings."""
    return [
        key
        for (key,) in grown.connection.all(
            "SELECT dedupe_key FROM mem_tree_jobs WHERE kind NOT IN ('sync_source', 'ingest_file') AND status = 'ready'"
        )
    ]


def _read_again(grown: Grown, source_id: str, item_key: str) -> None:
    """Let one item be on its way and come out as it was."""
    grown.connection.run(
        "UPDATE mem_tree_items SET state = 'queued' WHERE source_id = ? AND item_key = ?", (source_id, item_key)
    )
    plan = plan_ingest(grown.context, IngestFilePayload(source_id, item_key))
    assert plan.writes is not None
    with grown.connection.write():
        jobs = plan.writes(grown.connection)
    assert grown.items(source_id)[item_key] == "current"
    for job in jobs:
        grown.connection.run(
            """
            INSERT INTO mem_tree_jobs (
              kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, created_at_ms
            ) VALUES (?, ?, ?, 'ready', 5, 0, 0)
            """,
            (job.kind, job.payload_json, job.dedupe_key),
        )


def test_readings_that_change_nothing_are_all_there_is_to_do(both: Grown) -> None:
    chunks = both.chunks()
    both.connection.run(AGAIN, (READING_VERSION - 1,))
    assert both.sync() == 52
    assert _asked(both) == []
    assert set(both.items().values()) == {"current"}
    assert both.chunks() == chunks
    both.settle_down()


@pytest.mark.parametrize(("source_id", "item_key"), [("mail", "m12@example.org"), ("notes", "05.md")])
@pytest.mark.parametrize(
    "waits",
    [
        "UPDATE mem_tree_summaries SET stale = 1 WHERE tree_seq = ?1 AND level = 1",
        """
        INSERT INTO mem_tree_buffers
        SELECT tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break,
               last_key, provisional, 0
          FROM mem_tree_edges
         WHERE tree_seq = ?1 AND level = 0
         LIMIT 1
        """,
        "UPDATE mem_tree_trees SET root_id = NULL, root_kind = NULL WHERE tree_seq = ?1",
    ],
    ids=["stale", "buffered", "rootless"],
)
def test_a_tree_that_waits_is_looked_at_when_an_item_is_back(
    both: Grown, source_id: str, item_key: str, waits: str
) -> None:
    seq = both.connection.value(
        "SELECT tree_seq FROM mem_tree_trees WHERE source_id = ? AND item_key IS NULL", (source_id,)
    )
    _read_again(both, source_id, item_key)
    assert _asked(both) == []
    both.connection.run(waits, (seq,))
    _read_again(both, source_id, item_key)
    assert _asked(both) == [f"seal:{tree_id('source', source_id)}:0"]


def test_a_note_that_cannot_be_read_any_more_keeps_no_group_waiting(both: Grown) -> None:
    seq = both.connection.value("SELECT tree_seq FROM mem_tree_trees WHERE source_id = 'notes' AND item_key IS NULL")
    both.connection.run("UPDATE mem_tree_summaries SET stale = 1 WHERE tree_seq = ? AND level = 1", (seq,))
    both.connection.run("UPDATE mem_tree_items SET state = 'queued' WHERE item_key = '05.md'")
    both.write("05.md", b"no text\0at all")
    plan = plan_ingest(both.context, IngestFilePayload("notes", "05.md"))
    assert plan.writes is not None
    with both.connection.write():
        jobs = plan.writes(both.connection)
    assert both.items("notes")["05.md"] == "unreadable"
    assert [job.kind for job in jobs] == ["seal"]


def test_a_version_that_does_not_stand_yet_is_asked_for(both: Grown) -> None:
    both.connection.run("UPDATE mem_tree_items SET grown_hash = NULL WHERE item_key = '05.md'")
    _read_again(both, "notes", "05.md")
    assert [key.split("@")[0] for key in _asked(both)] == ["seal_doc:notes/05.md"]
    both.settle_down()
