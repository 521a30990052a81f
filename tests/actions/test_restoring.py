"""A restore brings a memory back, keeps what was there, and brings nothing back that was forgotten."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from agent.actions.backing_up import back_up
from agent.actions.home import open_home
from agent.actions.restoring import restore
from agent.actions.sources import add
from agent.clock import FakeClock
from agent.db import Connection, backup, connect
from agent.db.aside import BEFORE_RESTORE, DAMAGED, copies
from agent.db.backup import CarriedFile, carry
from agent.db.integrity import findings
from agent.db.schema import SCHEMA_VERSION
from agent.db.state import PAUSE_KEY, get_state, set_state
from agent.errors import SapwoodError, UsageFault
from agent.ingest.push import DocumentContent, push_item
from agent.ledger import append_forgotten, prepare_ledger, read_ledger
from agent.paths import Paths, paths_under
from agent.queue.types import NewJob
from tests.cli.agents import grow, ids_of
from tests.db.earlier import earlier_schemas, unpack

MARKER = "zanthoxylum"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "kettle.md").write_text("# Kettle\n\nThe kettle stands under the stairs, beside the blue lantern.\n")
    (folder / "pepper.md").write_text(f"# Pepper\n\nThe {MARKER} bush by the wall is pruned in February.\n")
    return folder


@pytest.fixture
def home(paths: Paths, notes: Path) -> Paths:
    with open_home(paths) as opened:
        add(opened, [str(notes)])
    grow(paths)
    return paths


@pytest.fixture
def file(home: Paths, tmp_path: Path) -> Path:
    target = tmp_path / "memory.backup"
    assert back_up(home, target).ok
    return target


@pytest.fixture
def live(home: Paths, file: Path) -> Iterator[Connection]:
    connection = connect(home.database, home.write_turn)
    yield connection
    connection.close()


def texts(paths: Paths) -> str:
    return "\n".join(row[3] for row in ids_of(paths.database)["chunks"])


def test_memory_is_what_it_was_and_what_was_there_is_kept(home: Paths, file: Path, notes: Path) -> None:
    before = ids_of(home.database)
    (notes / "kettle.md").unlink()
    (notes / "new.md").write_text("# New\n\nThe gutter was mended in October by the two brothers.\n")
    grow(home)
    changed = ids_of(home.database)
    assert changed != before

    done = restore(home, file)
    assert (done.ok, done.path, done.chunks) == (True, str(file), len(before["chunks"]))
    assert ids_of(home.database) == before
    assert done.kept_as == str(copies(home.database, BEFORE_RESTORE)[0].path)
    assert ids_of(Path(done.kept_as)) == changed
    assert Path(done.kept_as).stat().st_mode & 0o777 == 0o600
    connection = connect(home.database)
    assert findings(connection, deep=True) == []
    assert connection.value("SELECT count(*) FROM sqlite_schema WHERE name = 'sapwood_files'") == 0
    connection.close()
    assert not list(home.data_dir.glob("*restoring*"))


def test_who_reads_meanwhile_sees_one_memory_or_the_other(home: Paths, file: Path, live: Connection) -> None:
    set_state(live, "only now", "here")
    with live.snapshot():
        assert get_state(live, "only now") == "here"
        restore(home, file)
        assert get_state(live, "only now") == "here", "an open view does not change"
    assert get_state(live, "only now") is None
    assert live.value("SELECT count(*) FROM mem_tree_chunks") == 2
    assert live.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'kettle'") > 0


def test_jobs_are_ready_again_and_who_is_alive_is_still_woken(home: Paths, tmp_path: Path) -> None:
    connection = connect(home.database)
    connection.run(
        """
        INSERT INTO mem_tree_jobs (kind, payload_json, dedupe_key, status, attempts, max_attempts, available_at_ms,
                                   locked_until_ms, locked_by, lease_token, created_at_ms)
        VALUES ('sync_source', '{"source_id":"notes"}', 'sync:notes', 'running', 1, 5, 1, 99, 'dead', 'token', 1)
        """
    )
    connection.run("INSERT INTO mem_tree_workers VALUES ('dead', 1, 1, 1)")
    back_up(home, tmp_path / "busy.backup")
    connection.run("DELETE FROM mem_tree_workers")
    connection.run("INSERT INTO mem_tree_workers VALUES ('alive', 2, 2, 2)")
    set_state(connection, PAUSE_KEY, "4000000000000")
    restore(home, tmp_path / "busy.backup")
    held = (
        "SELECT status, attempts, locked_by, lease_token FROM mem_tree_jobs WHERE dedupe_key = ? AND status <> 'done'"
    )
    assert connection.all(held, (NewJob.sync_source("notes").dedupe_key,)) == [("ready", 0, None, None)]
    assert connection.all("SELECT worker_id FROM mem_tree_workers") == [("alive",)]
    assert get_state(connection, PAUSE_KEY) == "4000000000000", "what the owner said since"
    connection.close()


def test_what_was_forgotten_since_does_not_come_back(home: Paths, file: Path) -> None:
    ledger = prepare_ledger(home)
    append_forgotten(home, 1, items=[ledger.item_hash("notes", "pepper.md")])
    restore(home, file)
    assert MARKER not in texts(home)
    assert MARKER.encode() not in home.database.read_bytes()
    assert read_ledger(home).forgets_item("notes", "pepper.md")
    grow(home)
    assert MARKER not in texts(home)
    assert "kettle" in texts(home)


def test_what_the_backup_had_forgotten_is_forgotten_here(home: Paths, tmp_path: Path) -> None:
    ledger = prepare_ledger(home)
    append_forgotten(home, 1, items=[ledger.item_hash("notes", "pepper.md")])
    back_up(home, tmp_path / "late.backup")
    here = paths_under(tmp_path / "another home").make()
    mine = prepare_ledger(here)
    append_forgotten(here, 1, items=[mine.item_hash("notes", "kettle.md")])
    restore(here, tmp_path / "late.backup")
    united = read_ledger(here)
    assert united.salt == mine.salt != ledger.salt
    assert united.forgets_item("notes", "pepper.md")
    assert united.forgets_item("notes", "kettle.md")
    assert texts(here) == ""
    lines = len(here.ledger.read_bytes().splitlines())
    restore(here, tmp_path / "late.backup")
    assert len(here.ledger.read_bytes().splitlines()) == lines, "the same lines are not added twice"


def test_missing_items_of_the_inbox_come_back(home: Paths, tmp_path: Path) -> None:
    kept, edited, forgotten = (
        push_item(home, "remembered", DocumentContent(f"The {word} is under the stairs.", key=word)).path
        for word in ("kettle", "lantern", "ladder")
    )
    file = tmp_path / "inbox.backup"
    back_up(home, file)
    content = kept.read_bytes()
    moment = kept.stat().st_mtime_ns
    kept.unlink()
    forgotten.unlink()
    edited.write_bytes(b"another version")
    ledger = prepare_ledger(home)
    append_forgotten(home, 1, items=[ledger.item_hash("remembered", "ladder")])
    assert restore(home, file).inbox_files == 1
    assert (kept.read_bytes(), kept.stat().st_mtime_ns) == (content, moment)
    assert edited.read_bytes() == b"another version"
    assert not forgotten.exists(), "what was forgotten is not written down again"


def test_forgotten_part_of_an_item_of_the_inbox_stays_forgotten(home: Paths, tmp_path: Path) -> None:
    words = f"The {MARKER} bush by the wall is pruned in February."
    pushed = push_item(home, "remembered", DocumentContent(f"The kettle is under the stairs.\n\n{words}\n", key="two"))
    file = tmp_path / "inbox.backup"
    back_up(home, file)
    pushed.path.unlink()
    append_forgotten(home, 1, pieces=[prepare_ledger(home).piece_hash("remembered", "two", words)])
    restore(home, file)
    held = b"".join(path.read_bytes() for path in (home.inbox / "remembered").iterdir())
    assert b"kettle" in held
    assert MARKER.encode() not in held


def test_item_of_which_every_part_was_forgotten_is_not_counted_as_put_back(home: Paths, tmp_path: Path) -> None:
    words = f"The {MARKER} bush by the wall is pruned in February."
    pushed = push_item(home, "remembered", DocumentContent(words, key="one"))
    file = tmp_path / "inbox.backup"
    back_up(home, file)
    pushed.path.unlink()
    append_forgotten(home, 1, pieces=[prepare_ledger(home).piece_hash("remembered", "one", words)])
    assert restore(home, file).inbox_files == 0
    assert not pushed.path.exists()


def test_names_that_lead_elsewhere_are_not_followed(home: Paths, file: Path, tmp_path: Path) -> None:
    names = (
        "inbox/../config.toml",
        "inbox/a/../../x",
        "inbox//etc/x",
        "/etc/x",
        "inbox/a/b/c",
        "inbox/a/b\\c",
        "other",
    )
    carry(file, [CarriedFile(name, 1, b"x") for name in names])
    before = home.config_file.read_bytes()
    assert restore(home, file).inbox_files == 0
    assert home.config_file.read_bytes() == before
    assert not home.inbox.exists() or not list(home.inbox.rglob("*"))


def test_settings_come_back_only_where_there_are_none(home: Paths, file: Path, tmp_path: Path) -> None:
    text = home.config_file.read_text()
    home.config_file.write_text(f"# my own\n{text}")
    assert any("stay as they are" in note for note in restore(home, file).notes)
    assert home.config_file.read_text().startswith("# my own")
    home.config_file.unlink()
    home.last_good_config.unlink()
    assert any("were put back" in note for note in restore(home, file).notes)
    assert home.config_file.read_text() == text
    home.config_file.write_text("")
    assert any("no longer in your settings" in note and "notes" in note for note in restore(home, file).notes)


def test_inbox_is_read_where_this_home_is(tmp_path: Path, paths: Paths) -> None:
    pushed = push_item(paths, "remembered", DocumentContent("The kettle is under the stairs."))
    from agent.config_edit import add_source

    add_source(paths, pushed.source)
    grow(paths)
    back_up(paths, tmp_path / "moved.backup")
    here = paths_under(tmp_path / "another home").make()
    restore(here, tmp_path / "moved.backup")
    with open_home(here) as home:
        assert home.intent.sources[0].paths == (str(here.inbox / "remembered"),)
    grow(here)
    assert ids_of(here.database)["chunks"] == ids_of(paths.database)["chunks"]


@pytest.mark.parametrize("schema", earlier_schemas())
def test_memory_of_an_earlier_version_is_brought_up(schema: int, home: Paths, tmp_path: Path) -> None:
    old = tmp_path / "old.db"
    unpack(schema, old)
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    assert restore(home, old).chunks == 30
    connection = connect(home.database)
    assert connection.value("PRAGMA user_version") == SCHEMA_VERSION
    connection.close()
    assert hashlib.sha256(old.read_bytes()).hexdigest() == before, "the backup stays as it is"


def test_damaged_memory_is_moved_aside(home: Paths, file: Path) -> None:
    before = ids_of(home.database)
    home.database.write_bytes(b"this is no database " * 1_000)
    done = restore(home, file)
    assert done.kept_as == str(copies(home.database, DAMAGED)[0].path)
    assert ids_of(home.database) == before


@pytest.mark.parametrize("table", ["mem_tree_items", "mem_tree_chunks", "mem_tree_state", "mem_tree_workers"])
def test_memory_that_opens_and_is_damaged_further_in_is_healed(table: str, home: Paths, file: Path) -> None:
    before = ids_of(home.database)
    _damaged(home.database, table)
    restore(home, file)
    connection = connect(home.database)
    assert findings(connection, deep=True) == []
    connection.close()
    assert ids_of(home.database) == before


def test_older_of_the_kept_copies_can_be_restored(home: Paths, file: Path) -> None:
    clock = FakeClock(1_750_000_000_000)
    for _ in range(2):
        restore(home, file, clock=clock)
        clock.advance(60)
    older = copies(home.database, BEFORE_RESTORE)[-1].path
    assert restore(home, older, clock=clock).chunks == 2
    assert older.exists(), "what is restored from is not removed as an old copy"
    restore(home, file, clock=clock)
    assert len(copies(home.database, BEFORE_RESTORE)) == 2
    assert not older.exists()


def test_home_without_a_memory_gets_one(file: Path, tmp_path: Path, home: Paths) -> None:
    here = paths_under(tmp_path / "new machine")
    done = restore(here, file)
    assert done.kept_as is None
    assert ids_of(here.database) == ids_of(home.database)
    assert here.database.stat().st_mode & 0o777 == 0o600


def _garbage(file: Path) -> None:
    file.write_bytes(b"no database at all " * 500)


def _damaged(file: Path, table: str = "mem_tree_chunks") -> None:
    raw = apsw.Connection(str(file))
    page = raw.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchall()[0][0]
    raw.close()
    with file.open("r+b") as stream:
        stream.seek(4096 * (page - 1))
        stream.write(b"\xa5" * 4096)


def _newer(file: Path) -> None:
    raw = apsw.Connection(str(file))
    raw.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}").fetchall()
    raw.close()


def _others(file: Path) -> None:
    file.unlink()
    raw = apsw.Connection(str(file))
    raw.execute("CREATE TABLE photos (id)").fetchall()
    raw.close()


@pytest.mark.parametrize("spoil", [_garbage, _damaged, _newer, _others, Path.unlink])
def test_unfit_file_is_refused_before_anything_is_touched(spoil, home: Paths, file: Path) -> None:
    spoil(file)
    append_forgotten(home, 1, items=[prepare_ledger(home).item_hash("notes", "x")])

    def all_files() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for folder in (home.data_dir, home.config_dir)
            for path in folder.rglob("*")
            if path.is_file()
        }

    before = all_files()
    with pytest.raises(SapwoodError) as caught:
        restore(home, file)
    assert caught.value.hint
    assert all_files() == before


def test_memory_itself_is_no_backup(home: Paths) -> None:
    for place in (home.database, home.data_dir):
        with pytest.raises(UsageFault):
            restore(home, place)


def test_no_settings_at_all_are_no_obstacle(home: Paths, file: Path) -> None:
    home.config_file.write_text("= broken")
    home.last_good_config.write_text("= broken")
    assert restore(home, file).ok


def _restore_and_die(root: str, file: str) -> None:
    """End this process by force in the middle of the last copy, into the memory itself."""
    backup.PAGES_A_STEP = 5
    begun = 0

    def progress(done: int, total: int) -> None:
        nonlocal begun
        begun += done <= 5
        if begun == 2 and done * 2 > total:
            os.kill(os.getpid(), signal.SIGKILL)

    restore(paths_under(Path(root)), Path(file), progress=progress)


def test_killed_in_the_middle_it_changed_nothing(home: Paths, file: Path, notes: Path) -> None:
    (notes / "new.md").write_text("# New\n\nThe gutter was mended in October by the two brothers.\n")
    grow(home)
    before = ids_of(home.database)
    process = multiprocessing.get_context("spawn").Process(
        target=_restore_and_die, args=(str(home.config_dir.parent), str(file))
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert ids_of(home.database) == before
    connection = connect(home.database)
    assert findings(connection, deep=True) == []
    connection.close()
    assert list(home.data_dir.glob("*restoring*")), "it died where it should"
    restore(home, file)
    assert not list(home.data_dir.glob("*restoring*")), "what it left behind is cleared away"
