"""A planted word, forgotten: in no byte of the home, and never again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from agent.actions.erasing import apply_ledger, find_forgotten
from agent.actions.forgetting import forget, keep_ledger, preview, wanted_of
from agent.actions.home import open_home
from agent.cli.program import main
from agent.ledger import read_ledger
from agent.paths import Paths
from agent.tree.check import problems
from tests.forget.planted import MARKER, found_in, grow


def let_go(paths: Paths, **filters: str) -> tuple[int, int]:
    with open_home(paths) as home:
        wanted = wanted_of(home, **filters)
        _, chosen = preview(home, wanted)
        assert chosen
        found = forget(home, wanted, chosen)
        assert found.words == ""
        return found.chunks_removed, found.summaries_removed


def where(paths: Paths) -> list[str]:
    """Return the files of a home with the word in them; what is still in the log counts."""
    return sorted(
        {place.path for place in found_in([paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir])}
    )


def count(paths: Paths, table: str = "mem_tree_chunks") -> int:
    with open_home(paths) as home:
        return int(home.connection.value(f"SELECT count(*) FROM {table}"))


def test_words_are_nowhere_and_stay_out(planted: Paths) -> None:
    assert set(where(planted)) >= {"chunks.db"}
    before = count(planted)
    chunks, summaries = let_go(planted, mentions=MARKER.upper())
    assert 10 < chunks < before / 2
    assert summaries
    assert where(planted) == []
    assert count(planted) == before - chunks
    grow(planted)
    with open_home(planted) as home:
        assert problems(home.connection) == []
        assert find_forgotten(home.connection, read_ledger(planted)) == []
    assert where(planted) == []
    for suffix in ("", "-wal", "-shm"):
        Path(f"{planted.database}{suffix}").unlink(missing_ok=True)
    grow(planted)
    assert where(planted) == []
    with open_home(planted) as home:
        assert problems(home.connection) == []
        # What was beside the word in its paragraph's chunk went with it; everything else is here again.
        assert home.connection.value("SELECT count(*) FROM mem_tree_chunks") >= before - chunks


def test_no_command_shows_it(planted: Paths, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_home(planted) as home:
        nodes = [
            node
            for (node,) in home.connection.all(
                "SELECT chunk_id FROM mem_tree_chunks WHERE text LIKE ?", (f"%{MARKER}%",)
            )
        ]
    assert main(["search", MARKER, "--json"]) == 0
    assert MARKER in capsys.readouterr().out
    assert main(["forget", "--mentions", MARKER, "--yes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chunks_removed"] > 10
    assert told["summaries_removed"] > 3
    assert main(["search", MARKER, "--json"]) == 0
    assert MARKER.lower() not in capsys.readouterr().out.lower().replace(f'"query": "{MARKER.lower()}"', "")
    for node in nodes:
        assert main(["show", node]) == 2
    capsys.readouterr()
    for command in (["jobs", "--json", "-n", "10000"], ["sources", "--json"], ["tree", "--json"], ["status", "--json"]):
        assert main(command) == 0
        assert MARKER.lower() not in capsys.readouterr().out.lower()
    assert main(["export", str(tmp_path / "out")]) == 0
    assert found_in([tmp_path / "out"]) == []


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({"source": "notes", "item": "in-text.md"}, "in-title.md"),
        ({"source": "notes", "item": "in-front.md"}, "in-text.md"),
    ],
)
def test_an_item_goes_whole_and_no_other(planted: Paths, filters: dict[str, str], kept: str) -> None:
    let_go(planted, **filters)
    grow(planted)
    with open_home(planted) as home:
        keys = {key for (key,) in home.connection.all("SELECT item_key FROM mem_tree_items")}
        assert filters["item"] not in keys
        assert kept in keys
        assert problems(home.connection) == []
    assert filters["item"].encode() not in planted.database.read_bytes()


def test_a_whole_source_is_forgotten_and_still_read(planted: Paths, tmp_path: Path) -> None:
    let_go(planted, source="post")
    grow(planted)
    with open_home(planted) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_items WHERE source_id = 'post'") == 0
    box = tmp_path / "things" / "post.mbox"
    mail = box.read_bytes().split(b"\nFrom x ")[1].replace(b"<m1@", b"<new1@").replace(b"1.", b"1 anew.")
    with box.open("ab") as file:
        file.write(b"\nFrom x " + mail + b"\n")
    grow(planted)
    with open_home(planted) as home:
        assert home.connection.all("SELECT item_key FROM mem_tree_items WHERE source_id = 'post'") == [
            ("new1@mail.example",)
        ]


def test_a_time_range_goes(planted: Paths) -> None:
    sql = (
        "SELECT count(*) FROM mem_tree_chunks WHERE source_id = 'post' "
        "AND time_ms BETWEEN 1749254400000 AND 1749599999999"
    )
    with open_home(planted) as home:
        inside = home.connection.value(sql)
    assert inside
    chunks, _ = let_go(planted, source="post", since="2025-06-07T00:00:00+00:00", until="2025-06-10T23:59:59+00:00")
    assert chunks == inside
    grow(planted)
    with open_home(planted) as home:
        assert home.connection.value(sql) == 0
        assert problems(home.connection) == []


def test_one_chunk_goes_and_its_neighbours_keep_their_rows(planted: Paths) -> None:
    with open_home(planted) as home:
        rows = home.connection.all(
            "SELECT chunk_id, seq FROM mem_tree_chunks WHERE item_key = 'in-text.md' ORDER BY order_key"
        )
    assert len(rows) > 2
    assert let_go(planted, chunk=rows[1][0][:12])[0] == 1
    grow(planted)
    with open_home(planted) as home:
        left = home.connection.all(
            "SELECT chunk_id, seq FROM mem_tree_chunks WHERE item_key = 'in-text.md' ORDER BY order_key"
        )
        assert left == [rows[0], *rows[2:]]
        assert problems(home.connection) == []


def test_what_mentions_an_entity_goes(planted: Paths) -> None:
    with open_home(planted) as home:
        entity, mentions = home.connection.one(  # type: ignore[misc]
            "SELECT entity, count(*) FROM mem_tree_entity_index GROUP BY entity HAVING count(*) BETWEEN 2 AND 9"
        )
    assert let_go(planted, entity=entity.upper())[0] == mentions
    grow(planted)
    with open_home(planted) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_entity_index WHERE entity = ?", (entity,)) == 0


def test_all_filters_must_hold(planted: Paths) -> None:
    let_go(planted, source="chat", mentions=MARKER)
    with open_home(planted) as home:
        sources = {
            source
            for (source,) in home.connection.all(
                "SELECT DISTINCT source_id FROM mem_tree_chunks WHERE text LIKE ?", (f"%{MARKER}%",)
            )
        }
    assert "chat" not in sources
    assert {"notes", "post", "remembered", "pushed"} <= sources


def test_only_ancestors_are_made_again(planted: Paths) -> None:
    sql = "SELECT summary_id, seq FROM mem_tree_summaries"
    with open_home(planted) as home:
        before = dict(home.connection.all(sql))
    _, removed = let_go(planted, source="notes", item="in-text.md")
    with open_home(planted) as home:
        standing = dict(home.connection.all(sql))
    assert len(before) - len(standing) == removed
    grow(planted)
    with open_home(planted) as home:
        after = dict(home.connection.all(sql))
        assert problems(home.connection) == []
    assert {one: seq for one, seq in after.items() if one in before} == {
        one: seq for one, seq in standing.items() if one in after
    }


def test_forgetting_needs_no_model(planted: Paths) -> None:
    planted.config_file.write_text('[models]\nactive = "gone"\n\n' + planted.config_file.read_text())
    let_go(planted, mentions=MARKER)
    assert where(planted) == []


def test_a_memory_that_was_put_back_loses_it_at_the_next_start(planted: Paths, tmp_path: Path) -> None:
    shutil.copy(planted.database, tmp_path / "kept.db")
    shutil.copytree(planted.inbox, tmp_path / "kept-inbox")
    let_go(planted, mentions=MARKER)
    shutil.copy(tmp_path / "kept.db", planted.database)
    shutil.rmtree(planted.inbox)
    shutil.copytree(tmp_path / "kept-inbox", planted.inbox)
    assert where(planted)
    with open_home(planted) as home:
        found = find_forgotten(home.connection, read_ledger(planted))
        assert found
        assert MARKER.lower() not in " ".join(found).lower()
        keep_ledger(planted, home.connection, home.clock.now_ms())
        assert find_forgotten(home.connection, read_ledger(planted)) == []
    assert where(planted) == []
    grow(planted)
    assert where(planted) == []


def test_the_ledger_is_applied_once(planted: Paths) -> None:
    let_go(planted, source="notes", item="in-text.md")
    with open_home(planted) as home:
        ledger = read_ledger(planted)
        erased = apply_ledger(home.connection, ledger, home.clock.now_ms())
        assert (erased.chunks, erased.summaries) == (0, 0)
        changes = home.connection.raw.total_changes()
        keep_ledger(planted, home.connection, home.clock.now_ms())
        assert home.connection.raw.total_changes() == changes


def test_copies_put_aside_go_too(planted: Paths, capsys: pytest.CaptureFixture[str]) -> None:
    aside = planted.database.with_name("chunks.db.damaged-20250614T101010Z")
    shutil.copy(planted.database, aside)
    assert main(["forget", "--mentions", MARKER, "--yes"]) == 0
    assert "chunks.db.damaged-20250614T101010Z" in capsys.readouterr().out
    assert not aside.exists()
    assert where(planted) == []


def test_a_damaged_memory_that_had_forgotten_it_already_is_kept_as_its_owner_was_told(planted: Paths) -> None:
    let_go(planted, mentions=MARKER)
    before = planted.database.with_name("chunks.db.damaged-20250614T101010Z")
    after = planted.database.with_name("chunks.db.damaged-20990614T101010Z")
    before.write_bytes(b"put aside before, so it may hold the words")
    os.replace(planted.database, after)
    for suffix in ("-wal", "-shm"):
        planted.database.with_name(f"chunks.db{suffix}").unlink(missing_ok=True)
    with open_home(planted) as home:
        keep_ledger(planted, home.connection, home.clock.now_ms())
    assert after.exists()
    assert not before.exists()
