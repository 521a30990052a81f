"""A rebuild grows the same memory again, and loses nothing that no source can give without being told to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent.actions.home import open_home
from agent.actions.rebuilding import look, look_leniently, rebuild
from agent.actions.sources import sync
from agent.config_edit import add_source
from agent.db import Connection, connect
from agent.db.aside import DAMAGED, copies
from agent.db.integrity import findings
from agent.db.state import PAUSE_KEY, get_state, set_state
from agent.db.wipe import KEPT_TABLES
from agent.errors import ConfigBroken
from agent.ingest.push import ChatContent, ChatMessage, DocumentContent, push_item
from agent.ledger import append_forgotten, prepare_ledger
from agent.paths import Paths, paths_under
from agent.states import Answer
from tests.cli.agents import Ids, copy_samples, grow, ids_of, name_sources


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Notes, mail, chat, an inbox and a ledger: what a memory is grown from, grown."""
    folder = tmp_path_factory.mktemp("whole")
    paths = paths_under(folder / "home").make()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAPWOOD_HOME", str(folder / "home"))
        name_sources(paths, copy_samples(folder / "samples"))
        add_source(paths, push_item(paths, "kept", DocumentContent("The kettle is under the stairs.")).source)
        turns = tuple(ChatMessage("Anna", f"Row {number} of beans is sown.", 1_750_000_000_000) for number in range(4))
        add_source(paths, push_item(paths, "talk", ChatContent(turns)).source)
        ledger = prepare_ledger(paths)
        append_forgotten(paths, 1, items=[ledger.item_hash("notes", "people.txt")])
        grow(paths)
    return folder


@pytest.fixture
def home(whole: Path, tmp_path: Path) -> Paths:
    """A copy of it, its database copied while nobody has it open."""
    shutil.copytree(whole / "home" / "config", tmp_path / "home" / "config", dirs_exist_ok=True)
    paths = paths_under(tmp_path / "home").make()
    shutil.copy(whole / "home" / "data" / "chunks.db", paths.database)
    return paths


@pytest.fixture
def before(home: Paths) -> Ids:
    found = ids_of(home.database)
    assert {row[1] for row in found["chunks"]} == {"notes", "club-mail", "club-chat", "kept", "talk"}
    assert "people.txt" not in {row[2] for row in found["chunks"]}
    return found


def counts(connection: Connection) -> dict[str, int]:
    tables = connection.all(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'mem\\_tree\\_%' ESCAPE '\\'"
    )
    return {name: connection.value(f"SELECT count(*) FROM {name}") for (name,) in tables}


def test_same_memory_grows_again(home: Paths, before: Ids) -> None:
    done = rebuild(home)
    assert (done.chunks, done.summaries) == (len(before["chunks"]), len(before["summaries"]))
    assert set(done.queued) == {"notes", "club-mail", "club-chat", "kept", "talk"}
    assert ids_of(home.database)["chunks"] == []
    grow(home)
    assert ids_of(home.database) == before


def test_every_table_is_emptied_but_what_its_owner_said(home: Paths) -> None:
    connection = connect(home.database)
    set_state(connection, PAUSE_KEY, "4000000000000")
    set_state(connection, "cursor of a sweep", "7")
    marker = "kettle"
    assert connection.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH ?", (marker,)) > 0
    last = connection.value("SELECT max(seq) FROM mem_tree_chunks")
    rebuild(home)
    left = {name for name, count in counts(connection).items() if count and not name.startswith("mem_tree_text_")}
    assert left <= {"mem_tree_jobs", *KEPT_TABLES}
    assert connection.value("SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH ?", (marker,)) == 0
    assert connection.value("SELECT count(*) FROM mem_tree_text_docsize") == 0
    assert get_state(connection, PAUSE_KEY) == "4000000000000"
    assert get_state(connection, "cursor of a sweep") is None
    assert findings(connection, deep=True) == []
    secure = "SELECT v FROM mem_tree_text_config WHERE k = 'secure-delete'"
    assert connection.value(secure) == 1, "forgetting still reaches the index"
    set_state(connection, PAUSE_KEY, None)
    grow(home)
    assert connection.value("SELECT min(seq) FROM mem_tree_chunks") > last, "a number never means another chunk"
    connection.close()
    assert b"The kettle is under the stairs" in home.database.read_bytes()


@pytest.mark.parametrize("many", [1, 1_000_000])
def test_summaries_alone_are_made_again(many: int, home: Paths, before: Ids, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.db.text_index.MANY_NODES", many)
    connection = connect(home.database)
    found = "SELECT count(*) FROM mem_tree_text WHERE mem_tree_text MATCH 'the' AND rowid {} 0"
    passages = connection.value(found.format(">"))
    assert connection.value(found.format("<")) > 0
    vectors = connection.value("SELECT count(*) FROM mem_tree_vectors")
    done = rebuild(home, summaries=True)
    assert (done.chunks, done.summaries, done.queued) == (0, len(before["summaries"]), ())
    held = ids_of(home.database)
    assert (held["summaries"], held["edges"]) == ([], [])
    assert [row[0] for row in held["chunks"]] == [row[0] for row in before["chunks"]]
    assert findings(connection, deep=True) == []
    assert (connection.value(found.format("<")), connection.value(found.format(">"))) == (0, passages)
    grow(home)
    assert ids_of(home.database) == before
    assert connection.value("SELECT count(*) FROM mem_tree_vectors") == vectors
    reads = "SELECT count(*) FROM mem_tree_jobs WHERE kind IN ('ingest_file', 'extract_chunk') AND completed_at_ms > ?"
    made = connection.value("SELECT min(created_at_ms) FROM mem_tree_summaries")
    assert connection.value(reads, (made,)) == 0, "nothing was read again"
    connection.close()


def test_what_could_not_be_read_again_is_named(home: Paths, whole: Path, tmp_path: Path) -> None:
    assert look(home).at_risk == ()
    moved = (whole / "samples").rename(whole / "elsewhere")
    try:
        risks = {risk.source_id: risk for risk in look(home).at_risk}
        assert set(risks) == {"notes", "club-mail", "club-chat"}
        assert risks["club-chat"].passages == 12
        assert str(whole / "samples" / "club-chat") in risks["club-chat"].why
    finally:
        moved.rename(whole / "samples")
    connection = connect(home.database)
    connection.run("INSERT INTO mem_tree_questions VALUES ('club-mail', 'q', 20, 25, '[]', 1)")
    connection.close()
    assert [(risk.source_id, risk.passages > 0) for risk in look(home).at_risk] == [("club-mail", True)]
    with open_home(home):
        home.config_file.write_text("")
    assert len(look(home).at_risk) == 5, "what the settings no longer name is not read again"


def test_what_was_kept_although_it_is_gone_is_named(tmp_path: Path, paths: Paths) -> None:
    name_sources(paths, samples := copy_samples(tmp_path / "samples"))
    grow(paths)
    whole = len(ids_of(paths.database)["chunks"])
    for note in sorted((samples / "notes").rglob("*.*"))[:9]:
        note.unlink()
    mails = samples / "club-mail.mbox"
    first, *others = mails.read_bytes().split(b"\nFrom ")
    mails.write_bytes(b"\nFrom ".join([first, *others[:4]]) + b"\n")
    grow(paths)
    with open_home(paths) as home:
        assert {risk.source_id for risk in look(paths).at_risk} == {"notes", "club-mail"}, "asked about"
        for source in ("notes", "club-mail"):
            sync(home, source, answer=Answer.REFUSE)
    for _ in range(2):
        grow(paths)
    assert len(ids_of(paths.database)["chunks"]) == whole
    risks = {risk.source_id: risk for risk in look(paths).at_risk}
    assert set(risks) == {"notes", "club-mail"}, "what is there is read again, chat and all"
    assert "kept" in risks["club-mail"].why
    rebuild(paths)
    grow(paths)
    left = len(ids_of(paths.database)["chunks"])
    assert whole - left == sum(risk.passages for risk in risks.values())
    assert look(paths).at_risk == ()


def test_agent_that_is_slow_to_answer_is_not_called_ended(home: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not rebuild(home).running
    monkeypatch.setattr("agent.actions.rebuilding.is_running", lambda _: True)
    assert rebuild(home).running, "it was asked, was busy, and does the work all the same"


def test_damaged_memory_is_moved_aside_and_its_pause_kept(home: Paths, before: Ids) -> None:
    connection = connect(home.database)
    set_state(connection, PAUSE_KEY, "4000000000000")
    page = connection.value("SELECT rootpage FROM sqlite_schema WHERE name = 'mem_tree_chunks'")
    connection.close()
    with home.database.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\0" * 4096)
    assert not look(home).is_sound
    done = rebuild(home)
    assert done.moved_to == str(copies(home.database, DAMAGED)[0].path)
    connection = connect(home.database)
    assert get_state(connection, PAUSE_KEY) == "4000000000000"
    set_state(connection, PAUSE_KEY, None)
    connection.close()
    grow(home)
    assert ids_of(home.database) == before


def test_no_file_at_all_begins_one(home: Paths, before: Ids) -> None:
    home.database.unlink()
    done = rebuild(home)
    assert (done.moved_to, done.ok) == (None, True)
    grow(home)
    assert ids_of(home.database) == before


def test_sound_memory_is_not_emptied_without_settings(home: Paths, before: Ids) -> None:
    home.config_file.write_text("= broken")
    home.last_good_config.write_text("= broken")
    with pytest.raises(ConfigBroken):
        rebuild(home)
    assert ids_of(home.database) == before
    home.database.write_bytes(b"no database " * 1_000)
    assert not look_leniently(home).is_sound
    assert rebuild(home).moved_to, "a damaged one is moved aside all the same"


def test_rebuild_that_breaks_off_changes_nothing(home: Paths, before: Ids, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.db import wipe

    monkeypatch.setattr(wipe, "_IN_ORDER", (*wipe._IN_ORDER[:6], "DELETE FROM no_such_table"))
    with pytest.raises(Exception, match="no such table"):
        rebuild(home)
    assert ids_of(home.database) == before
