"""A backup is one sound file that carries what no source can give again, made while others write, or it is not made."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from agent.actions import backing_up
from agent.actions.backing_up import back_up
from agent.db import Database, backup, connect
from agent.db.backup import carried, verify
from agent.db.state import set_state
from agent.errors import AgentFault, UsageFault
from agent.ingest.push import DocumentContent, push_item
from agent.ledger import append_answer
from agent.paths import Paths
from agent.states import Answer


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "stick").mkdir()
    return tmp_path / "stick" / "memory.backup"


@pytest.fixture
def memory(database: Database) -> Database:
    with database.connection.write():
        for number in range(3_000):
            set_state(database.connection, f"{number:05}", "x" * 400)
    return database


def values(path: Path) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return [str(row[0]) for row in connection.execute("SELECT value FROM mem_tree_state ORDER BY key").fetchall()]
    finally:
        connection.close()


def test_it_is_one_file_that_only_its_owner_reads(memory: Database, paths: Paths, target: Path) -> None:
    done = back_up(paths, target)
    assert done.ok
    assert (done.path, done.bytes) == (str(target), target.stat().st_size)
    assert target.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    target.parent.chmod(0o500)  # nothing can be made beside it: no log, no shared memory
    assert values(target) == ["x" * 400] * 3_000
    assert verify(target).findings == ()
    target.parent.chmod(0o700)


def test_writers_go_on_and_it_shows_one_moment(
    memory: Database, paths: Paths, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup, "PAGES_A_STEP", 20)
    ended = threading.Event()
    written: list[int] = []

    def write() -> None:
        connection = connect(paths.database, paths.write_turn)
        while not ended.is_set():
            number = len(written)
            with connection.write():
                connection.run("UPDATE mem_tree_state SET value = ?", (f"{number}",))
            written.append(number)
        connection.close()

    seen: list[tuple[int, int]] = []

    def look(done: int, total: int) -> None:
        # Somebody commits between any two steps of the copy.
        seen.append((done, total))
        before = len(written)
        while len(written) < before + 2:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert back_up(paths, target, progress=look).ok
    finally:
        ended.set()
        writer.join(10)
    assert seen[-1][0] == seen[-1][1] > 100
    assert seen == sorted(seen), "it never began again"
    assert len(set(values(target))) == 1, "all rows of one commit"


def test_it_carries_what_no_source_can_give_again(memory: Database, paths: Paths, target: Path) -> None:
    pushed = push_item(paths, "remembered", DocumentContent("The kettle is under the stairs."))
    append_answer(paths, 1, "question", Answer.REFUSE, "notes")
    paths.config_file.write_text("# mine\n")
    (paths.inbox / "remembered" / "link.json").symlink_to(paths.config_file)
    assert back_up(paths, target).files == 3
    held = {each.path: each.content for each in carried(target)}
    assert held == {
        "ledger.jsonl": paths.ledger.read_bytes(),
        "config.toml": b"# mine\n",
        f"inbox/remembered/{pushed.path.name}": pushed.path.read_bytes(),
    }
    tables = "SELECT count(*) FROM sqlite_schema WHERE name = 'sapwood_files'"
    assert memory.connection.value(tables) == 0, "in the backup only"


def test_impossible_places_are_refused(memory: Database, paths: Paths, target: Path) -> None:
    target.write_bytes(b"mine")
    link = target.with_name("link")
    link.symlink_to(paths.database)
    os.mkfifo(target.with_name("pipe"))
    for place, says in (
        (target, "--force"),
        (target.parent, "a file, not a folder"),
        (target.parent / "nowhere" / "file", "no such folder"),
        (paths.database, "the memory itself"),
        (Path(f"{paths.database}-wal"), "the memory itself"),
        (link, "the memory itself"),
        (paths.ledger, "what only Sapwood has"),
        (paths.inbox / "notes" / "mine.backup", "no such folder"),
        (target.with_name("pipe"), "no plain file"),
    ):
        with pytest.raises(UsageFault) as caught:
            back_up(paths, place)
        assert says in f"{caught.value} {caught.value.hint}"
        assert caught.value.hint
    assert target.read_bytes() == b"mine"
    for place in (paths.database, link, target.with_name("pipe")):
        with pytest.raises(UsageFault):
            back_up(paths, place, force=True)
    assert back_up(paths, target, force=True).ok


def test_full_disk_leaves_what_was_there(
    memory: Database, paths: Paths, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target.write_bytes(b"the backup of last week")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(AgentFault, match="not enough room"):
        back_up(paths, target, force=True)
    monkeypatch.undo()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backing_up, "carry", full)
    with pytest.raises(AgentFault, match="became full") as caught:
        back_up(paths, target, force=True)
    assert "make room" in caught.value.hint
    assert target.read_bytes() == b"the backup of last week"
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_drafts_of_killed_backups_are_cleared(memory: Database, paths: Paths, target: Path) -> None:
    left = target.with_name(f".{target.name}.999999999.part")
    left.touch()
    other = target.with_name(".other.999999999.part")
    other.touch()
    assert back_up(paths, target).ok
    assert not left.exists()
    assert other.exists()


def test_damaged_memory_gives_what_can_be_copied(memory: Database, paths: Paths, target: Path) -> None:
    push_item(paths, "remembered", DocumentContent("The kettle is under the stairs."))
    page = memory.connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'mem_tree_chunks'")
    memory.close()
    with paths.database.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xa5" * 4096)
    done = back_up(paths, target)
    assert not done.ok
    assert "sapwood rebuild" in done.words
    assert values(target) == ["x" * 400] * 3_000
    assert len(list(carried(target))) == 1


def test_file_that_is_no_memory_still_gives_the_inbox(paths: Paths, target: Path) -> None:
    push_item(paths, "remembered", DocumentContent("The kettle is under the stairs."))
    paths.database.write_bytes(b"this is no database " * 1_000)
    done = back_up(paths, target)
    assert (done.ok, done.files) == (False, 1)
    assert verify(target).findings == ()
    assert list(target.parent.glob("*.lock")) == [], "nothing of ours is left beside a backup"
    assert paths.database.read_bytes().startswith(b"this is no database")


def test_without_a_memory_it_says_so(paths: Paths, target: Path) -> None:
    with pytest.raises(AgentFault, match="no memory yet"):
        back_up(paths, target)
    assert not target.exists()
    assert not paths.database.exists()


def test_broken_settings_are_no_obstacle(memory: Database, paths: Paths, target: Path) -> None:
    paths.config_file.write_text("= what is this")
    assert back_up(paths, target).ok
