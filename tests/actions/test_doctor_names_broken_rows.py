"""Each invariant of nodes, index, items and jobs: broken by hand, the deep doctor names it and says how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

import apsw
import pytest

from agent.actions.doctor import doctor
from agent.ledger import Ledger, append_forgotten, prepare_ledger
from agent.paths import Paths
from tests.actions.broken import DROPPED, JOB, MAIL, OTHER_MAIL, PART, POST, SUMMARY, damage
from tests.actions.test_doctor_names_broken_trees import BROKEN as BROKEN_TREES

# What is done to a sound memory, by what the doctor calls it: (check, promise, statements).
BROKEN: tuple[tuple[str, str, Sequence[str]], ...] = (
    (
        "chunk ids",
        "a chunk has another's name",
        [f"UPDATE mem_tree_chunks SET position = position + 5 WHERE seq = {MAIL}"],
    ),
    (
        "chunk texts",
        "a chunk's text was changed",
        [f"UPDATE mem_tree_chunks SET text = text || ' more' WHERE seq = {MAIL}"],
    ),
    (
        "token counts",
        "a chunk counts other tokens",
        [f"UPDATE mem_tree_chunks SET tokens = tokens + 1 WHERE seq = {MAIL}"],
    ),
    (
        "token counts",
        "a summary counts other tokens",
        [f"UPDATE mem_tree_summaries SET tokens = tokens + 1 WHERE seq = {SUMMARY}"],
    ),
    (
        "chunks and items",
        "a chunk belongs to another item",
        [f"UPDATE mem_tree_chunks SET item_key = 'x' WHERE seq = {DROPPED}"],
    ),
    (
        "chunks and items",
        "two chunks stand in one place",
        ["UPDATE mem_tree_chunks SET order_key = 5 WHERE item_key = 'long.md'"],
    ),
    (
        "summary ids",
        "a summary is not named after who made it",
        [f"UPDATE mem_tree_summaries SET signature = 'x' WHERE seq = {SUMMARY}"],
    ),
    ("index rows", "a chunk is not in the index", [f"DELETE FROM mem_tree_text_docsize WHERE id = {MAIL}"]),
    ("index rows", "a summary is not in the index", [f"DELETE FROM mem_tree_text_docsize WHERE id = -{SUMMARY}"]),
    ("index rows", "the index holds what is gone", ["INSERT INTO mem_tree_text (rowid, body) VALUES (999999, 'lost')"]),
    (
        "index words",
        "a title changed and the index did not",
        [f"UPDATE mem_tree_chunks SET title = 'Changed' WHERE seq = {MAIL}"],
    ),
    (
        "index words",
        "a summary's words are not those of the index",
        [f"UPDATE mem_tree_summaries SET text = 'Other words' WHERE seq = {SUMMARY}"],
    ),
    (
        "index words",
        "a node is indexed under another's number",
        [f"INSERT INTO mem_tree_text (rowid, body) SELECT {OTHER_MAIL}, text FROM mem_tree_chunks WHERE seq = {MAIL}"],
    ),
    (
        "index",
        "the index is damaged inside",
        ["UPDATE mem_tree_text_data SET block = zeroblob(length(block)) WHERE id > 100"],
    ),
    ("vectors", "a vector is lost", [f"DELETE FROM mem_tree_vectors WHERE node = {MAIL}"]),
    (
        "vectors",
        "a vector belongs to nothing",
        ["INSERT INTO mem_tree_vectors SELECT signature_id, 999999, windows FROM mem_tree_vectors LIMIT 1"],
    ),
    (
        "vectors",
        "a vector is cut short",
        [f"UPDATE mem_tree_vectors SET windows = substr(windows, 1, 9) WHERE node = {MAIL}"],
    ),
    ("vectors", "a signature is lost", ["DELETE FROM mem_tree_signatures"]),
    (
        "vectors",
        "a live chunk is said to need no vector",
        [f"UPDATE mem_tree_chunks SET embedded_signature = -1 WHERE seq = {MAIL}"],
    ),
    (
        "vectors",
        "a dropped chunk waits for a vector",
        [f"UPDATE mem_tree_chunks SET embedded_signature = NULL WHERE seq = {DROPPED}"],
    ),
    (
        "vectors",
        "a summary is embedded under what nobody knows",
        [f"UPDATE mem_tree_summaries SET embedded_signature = 77 WHERE seq = {SUMMARY}"],
    ),
    (
        "vectors",
        "the built-in table refused a text",
        [f"UPDATE mem_tree_vectors SET windows = x'' WHERE node = {MAIL}"],
    ),
    (
        "vectors",
        "a node is private since nobody knows when",
        [
            f"DELETE FROM mem_tree_vectors WHERE node = {MAIL}",
            f"UPDATE mem_tree_chunks SET embedded_signature = -2 WHERE seq = {MAIL}",
        ],
    ),
    (
        "vectors",
        "what serves has no vector",
        ["UPDATE mem_tree_state SET value = 'nobody:nothing@7' WHERE key = 'serving_signature'"],
    ),
    (
        "stray rows",
        "a score outlived its chunk",
        ["INSERT INTO mem_tree_score (chunk_seq, fast, signals, score_version) VALUES (999999, 1, '{}', 1)"],
    ),
    ("stray rows", "a chunk has no score", [f"DELETE FROM mem_tree_score WHERE chunk_seq = {MAIL}"]),
    (
        "stray rows",
        "an entity outlived its chunk",
        ["INSERT INTO mem_tree_entity_index VALUES ('x', 'person', 999999, 'X', 1)"],
    ),
    (
        "stray rows",
        "an answer of a model outlived its node",
        ["INSERT INTO mem_tree_results VALUES ('t', 't', 's', 'i', 'gone', 'words', 0)"],
    ),
    (
        "items",
        "an item counts as current and is not",
        ["UPDATE mem_tree_items SET seen_hash = 'x' WHERE item_key = 'long.md'"],
    ),
    ("items", "an item is in no state of ours", ["UPDATE mem_tree_items SET state = 'odd' WHERE item_key = 'long.md'"]),
    (
        "items",
        "an item stands at another time",
        ["UPDATE mem_tree_items SET time_ms = time_ms + 1 WHERE source_id = 'mail'"],
    ),
    ("items", "a mail counts as grown", ["UPDATE mem_tree_items SET grown_hash = held_hash WHERE source_id = 'mail'"]),
    (
        "items",
        "an unreadable item has no reason",
        ["UPDATE mem_tree_items SET state = 'unreadable', reason = NULL WHERE item_key = 'long.md'"],
    ),
    (
        "files",
        "a file counts as read and nothing was made of it",
        [
            "INSERT INTO mem_tree_files (source_id, path, size, mtime_ns, inode, file_hash, state)"
            " VALUES ('notes', 'a.md', 1, 1, 1, 'h', 'current')"
        ],
    ),
    ("files", "nobody would miss an item's file", ["DELETE FROM mem_tree_files WHERE path = 'long.md'"]),
    (
        "sources held",
        "a source is not in the settings",
        ["UPDATE mem_tree_sources SET source_id = 'lost' WHERE source_id = 'chat'"],
    ),
    (
        "unfinished work",
        "an item of no source waits for ever",
        [
            "INSERT INTO mem_tree_items (source_id, item_key, source_kind, place, sort_key, seen_hash, state)"
            " VALUES ('lost', 'a', 'document', '{}', x'61', 'h', 'found')"
        ],
    ),
    (
        "unfinished work",
        "an admitted chunk waits and its document counts as grown",
        [f"UPDATE mem_tree_chunks SET lifecycle = 'admitted' WHERE seq = {PART}"],
    ),
    ("job rows", "a job is of an unknown kind", [f"{JOB} VALUES ('odd', '{{}}', 'odd', 'ready', 5, 0, 0)"]),
    ("job rows", "a job's payload cannot be read", [f"{JOB} VALUES ('seal', '[', 'seal:x:0', 'ready', 5, 0, 0)"]),
    (
        "job rows",
        "a job has another's key",
        [f"{JOB} VALUES ('sync_source', '{{\"source_id\":\"mail\"}}', 'sync:chat', 'ready', 5, 0, 0)"],
    ),
    (
        "job rows",
        "a job is in no status of ours",
        ["UPDATE mem_tree_jobs SET status = 'odd' WHERE id = (SELECT max(id) FROM mem_tree_jobs)"],
    ),
    (
        "job rows",
        "two jobs with one key are ready",
        [
            "DROP INDEX mem_tree_jobs_dedupe",
            *[f"{JOB} VALUES ('sync_source', '{{\"source_id\":\"mail\"}}', 'sync:mail', 'ready', 5, 0, 0)"] * 2,
        ],
    ),
    (
        "job rows",
        "a job is due in ages",
        [f"{JOB} VALUES ('sync_source', '{{\"source_id\":\"mail\"}}', 'sync:mail', 'ready', 5, 9000000000000, 0)"],
    ),
    (
        "job rows",
        "a job runs for nobody",
        [f"{JOB} VALUES ('sync_source', '{{\"source_id\":\"mail\"}}', 'sync:mail', 'running', 5, 0, 0)"],
    ),
    (
        "times",
        "a row is of the future",
        [f"UPDATE mem_tree_chunks SET created_at_ms = 9000000000000 WHERE seq = {MAIL}"],
    ),
    (
        "looks",
        "a look was in the future",
        ["UPDATE mem_tree_sources SET last_sync_ms = 9000000000000 WHERE source_id = 'mail'"],
    ),
    (
        "integrity",
        "a row names another that is not there",
        [f"UPDATE mem_tree_edges SET tree_seq = 777 WHERE tree_seq = {POST} AND level = 1"],
    ),
)


def test_a_sound_memory_is_well_in_every_respect(copy: Paths) -> None:
    found = doctor(copy, deep=True)
    assert [one for one in found.checks if not one.ok] == []
    assert len({one.name for one in found.checks}) == len(found.checks)
    # Whatever is broken below is looked at here.
    assert {check for check, _, _ in (*BROKEN, *BROKEN_TREES)} <= {one.name for one in found.checks}


@pytest.mark.parametrize(
    ("check", "statements"), [pytest.param(check, sql, id=promise) for check, promise, sql in BROKEN]
)
def test_named(copy: Paths, check: str, statements: Sequence[str]) -> None:
    assert damage(copy, statements) > 0
    found = {one.name: one for one in doctor(copy, deep=True).checks}
    assert not found[check].ok, [one for one in found.values() if not one.ok]
    assert found[check].detail
    assert "sapwood" in found[check].remedy or "clock" in found[check].remedy or "time" in found[check].remedy


FORGOTTEN: tuple[tuple[str, Callable[[Ledger, str], dict[str, list[str]]]], ...] = (
    ("an item by its name", lambda ledger, held: {"items": [ledger.item_hash("notes", "long.md")]}),
    ("an item by its content", lambda ledger, held: {"items": [ledger.content_hash("notes", held)]}),
    (
        "words of a chunk",
        lambda ledger, held: {"pieces": [ledger.piece_hash("notes", "long.md", "The 7th bed holds beans and peas.")]},
    ),
)


@pytest.mark.parametrize("hashes", [pytest.param(hashes, id=promise) for promise, hashes in FORGOTTEN])
def test_what_was_forgotten_and_is_there_is_named_without_its_words(
    copy: Paths, hashes: Callable[[Ledger, str], dict[str, list[str]]]
) -> None:
    with closing(apsw.Connection(str(copy.database))) as raw:
        held = raw.execute("SELECT held_hash FROM mem_tree_items WHERE item_key = 'long.md'").fetchall()[0][0]
    ledger = prepare_ledger(copy)
    assert {one.name: one for one in doctor(copy, deep=True).checks}["forgotten"].ok
    append_forgotten(copy, 0, **hashes(ledger, held))
    found = {one.name: one for one in doctor(copy, deep=True).checks}["forgotten"]
    assert not found.ok
    assert "long.md" not in found.detail
    assert "beans" not in found.detail
