"""What SQLite's own checks find, told and never raised."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from agent.db import Connection, Database, connect
from agent.db.integrity import damage, findings
from agent.paths import Paths


def _never() -> bool:
    return False


def spoil(path: Path, pages: range, page_bytes: int = 4096) -> None:
    """Overwrite pages of a closed database (the first has number 0) with a pattern."""
    content = bytearray(path.read_bytes())
    for page in pages:
        content[page * page_bytes : (page + 1) * page_bytes] = b"\xa5" * page_bytes
    path.write_bytes(bytes(content))


def test_sound_memory_has_no_findings(connection: Connection) -> None:
    assert findings(connection, deep=False) == []
    assert findings(connection, deep=True) == []
    assert damage(connection, _never, deep=True) == []


def test_damaged_pages_are_findings_not_errors(database: Database, paths: Paths) -> None:
    root = database.connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'mem_tree_chunks'")
    database.close()
    spoil(paths.database, range(root - 1, root))
    connection = connect(paths.database)
    assert findings(connection, deep=False)
    assert findings(connection, deep=True)
    assert damage(connection, _never, deep=False)
    connection.close()


def test_row_without_its_parent_is_a_finding(connection: Connection) -> None:
    connection.run("PRAGMA foreign_keys = OFF")
    connection.run("INSERT INTO mem_tree_score (chunk_seq, fast, signals, score_version) VALUES (7, 0.5, '{}', 1)")
    assert findings(connection, deep=False) == []
    assert findings(connection, deep=True) == [
        "row 7 of mem_tree_score names a row of mem_tree_chunks that is not there"
    ]


def test_index_of_the_words_is_asked_for_its_own_check(connection: Connection) -> None:
    connection.run("INSERT INTO mem_tree_text (rowid, body) VALUES (1, 'quince and medlar')")
    assert findings(connection, deep=True) == []
    connection.run("DELETE FROM mem_tree_text_idx")
    connection.run("UPDATE mem_tree_text_data SET block = X'0000' WHERE id > 10")
    assert any("mem_tree_text" in found for found in findings(connection, deep=True))


def test_look_goes_on_beside_a_writer_and_holds_none_up(connection: Connection, paths: Paths) -> None:
    other = connect(paths.database, busy_timeout_ms=0)
    with other.write():
        assert findings(connection, deep=True) == []
    with connection.snapshot():
        assert findings(connection, deep=True) == []
        other.run("INSERT INTO mem_tree_state (key, value) VALUES ('written', 'meanwhile')")
    other.close()


def test_index_that_misses_a_row_is_found_deep(connection: Connection, paths: Paths) -> None:
    connection.run("INSERT INTO mem_tree_sources (source_id, kind) VALUES ('notes', 'folder')")
    connection.run("PRAGMA writable_schema = ON")
    root = connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_mem_tree_sources_1'")
    empty = connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'mem_tree_vectors'")
    connection.run("UPDATE sqlite_schema SET rootpage = ? WHERE name = 'sqlite_autoindex_mem_tree_sources_1'", (empty,))
    connection.run("UPDATE sqlite_schema SET rootpage = ? WHERE name = 'mem_tree_vectors'", (root,))
    other = connect(paths.database)
    assert any("missing from index" in found for found in findings(other, deep=True))
    other.close()


def test_look_can_be_broken_off(connection: Connection) -> None:
    connection.many(
        "INSERT INTO mem_tree_state (key, value) VALUES (?, 'x')", [(f"{number}",) for number in range(20_000)]
    )
    assert damage(connection, lambda: True, deep=True) is None


def test_unreadable_disk_is_no_damage(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> object:
        raise apsw.IOError("disk I/O error")

    monkeypatch.setattr(connection, "_execute", refuse)
    with pytest.raises(apsw.IOError):
        damage(connection, _never, deep=False)
