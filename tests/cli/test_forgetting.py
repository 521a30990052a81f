"""What ``remember``, ``forget`` and ``remove`` ask, print and end with."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from agent.actions.home import open_home
from agent.config import load_intent
from agent.paths import Paths
from tests.cli.conftest import Sapwood, widths
from tests.forget.planted import grow


class Terminal(io.StringIO):
    """A stdin that somebody sits at."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def notes(sapwood: Sapwood, paths: Paths, tmp_path: Path) -> Paths:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "heron.md").write_text("# Project Heron\n\nThe heron stands in the river at dawn, every single day.\n")
    (folder / "other.md").write_text("# Kettle\n\nThe kettle in the boat house is broken and needs a new lid.\n")
    sapwood("add", str(folder))
    grow(paths)
    return paths


def test_a_note_is_kept_without_the_agent(sapwood: Sapwood, paths: Paths) -> None:
    ran = sapwood("remember", "The spare key is with Ines at number 14", "--json")
    assert ran.code == 0
    assert ran.document["source_id"] == "remembered"
    assert [source.id for source in load_intent(paths).intent.sources] == ["remembered"]
    grow(paths)
    found = sapwood("search", "spare key", "--json").document
    assert "number 14" in found["hits"][0]["text"]
    again = sapwood("remember", "The spare key is with Ines at number 14", "--json")
    assert again.document["item_key"] == ran.document["item_key"]


def test_a_note_is_read_from_stdin(sapwood: Sapwood, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Käse \xff".encode() + b"\xff und Brot\n")))
    assert sapwood("remember", "-", "--title", "Shopping").code == 0
    (file,) = (paths.inbox / "remembered").glob("*.json")
    held = json.loads(file.read_text())["document"]
    assert held["title"] == "Shopping"
    assert held["text"].startswith("Käse")


def test_a_note_is_kept_although_the_memory_is_damaged(sapwood: Sapwood, paths: Paths) -> None:
    paths.make().database.write_bytes(b"no database" * 1000)
    ran = sapwood("remember", "The spare key is with Ines at number 14")
    assert ran.code == 0
    assert ran.out.startswith("remembered")
    assert [source.id for source in load_intent(paths).intent.sources] == ["remembered"]
    assert len(list((paths.inbox / "remembered").glob("*.json"))) == 1


def test_an_empty_note_is_refused(sapwood: Sapwood) -> None:
    ran = sapwood("remember", "  \n ")
    assert ran.code == 2
    assert "nothing to remember" in ran.err


def test_words_that_were_forgotten_are_not_kept_again(sapwood: Sapwood, paths: Paths) -> None:
    sapwood("remember", "The spare key is with Ines at number 14")
    grow(paths)
    assert sapwood("forget", "--mentions", "Ines", "--yes").code == 0
    ran = sapwood("remember", "The spare key is with Ines at number 14")
    assert ran.code == 1
    assert "other words" in ran.err
    assert list((paths.inbox / "remembered").iterdir()) == []
    assert sapwood("remember", "Ines has the key").code == 0


def test_nothing_named_is_wrong_usage(sapwood: Sapwood) -> None:
    ran = sapwood("forget", "--yes")
    assert ran.code == 2
    assert "--mentions" in ran.err


def test_nothing_matching_fails_in_words(sapwood: Sapwood, notes: Paths) -> None:
    ran = sapwood("forget", "--mentions", "cormorant", "--yes")
    assert ran.code == 1
    assert "nothing in the memory matches" in ran.err
    assert not notes.ledger.exists()


def test_without_a_terminal_nothing_is_done(sapwood: Sapwood, notes: Paths) -> None:
    for arguments in (("forget", "--mentions", "heron"), ("remove", "notes"), ("forget", "notes", "--json")):
        ran = sapwood(*arguments)
        assert ran.code == 2
        assert "--yes" in ran.err
    with open_home(notes) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_items") == 2


def test_a_person_is_asked_with_counts_and_titles(
    sapwood: Sapwood, notes: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    ran = sapwood("forget", "--mentions", "HERON")
    assert ran.code == 130
    assert "1 whole item" in ran.err
    assert "Project Heron" in ran.err
    assert ran.err.endswith("nothing was changed\n")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    ran = sapwood("forget", "--mentions", "HERON")
    assert ran.code == 0
    assert "forgotten: 1 chunk" in ran.out
    assert "backups" in ran.err
    # The line of the question ends with what is typed.
    assert max(widths(ran.out + ran.err.partition("[y/N]: ")[2])) <= 80
    with open_home(notes) as home:
        assert home.connection.all("SELECT item_key FROM mem_tree_items") == [("other.md",)]


def test_json_says_how_much_went(sapwood: Sapwood, notes: Paths) -> None:
    found = sapwood("forget", "notes", "other.md", "--yes", "--json").document
    assert found["chunks_removed"] == 1
    assert found["summaries_removed"] >= 0


def test_a_removed_source_is_read_no_more_and_can_be_added_again(
    sapwood: Sapwood, notes: Paths, tmp_path: Path
) -> None:
    found = sapwood("remove", "notes", "--yes", "--json").document
    assert found["chunks_removed"] == 2
    assert load_intent(notes).intent.sources == ()
    assert sapwood("remove", "notes", "--yes").code == 2
    sapwood("add", str(tmp_path / "notes"))
    grow(notes)
    with open_home(notes) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_chunks") == 2


def test_a_source_that_only_the_memory_knows_can_be_removed(sapwood: Sapwood, notes: Paths) -> None:
    notes.config_file.write_text("")
    found = sapwood("remove", "notes", "--yes", "--json")
    assert found.code == 0
    assert found.document["chunks_removed"] == 2


def test_removing_what_lies_nowhere_else_says_so(
    sapwood: Sapwood, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    sapwood("remember", "The spare key is with Ines at number 14")
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    ran = sapwood("remove", "remembered")
    assert ran.code == 130
    assert "lies nowhere else" in " ".join(ran.err.split())
    assert sapwood("remove", "remembered", "--yes").code == 0
    assert not (paths.inbox / "remembered").exists()


def test_the_question_counts_what_has_a_sentence_in_common(
    sapwood: Sapwood, paths: Paths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "days"
    folder.mkdir()
    for day in range(5):
        (folder / f"{day}.md").write_text(f"What went well and what did not?\n\nOn day {day} I saw {day} herons.\n")
    sapwood("add", str(folder))
    grow(paths)
    with open_home(paths) as home:
        chunk = home.connection.value("SELECT chunk_id FROM mem_tree_chunks WHERE item_key = '3.md'")
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    ran = sapwood("forget", "--chunk", chunk)
    assert ran.code == 0
    said = " ".join(ran.err.split())
    assert "This forgets 1 chunk of days: 3." in said
    assert "4 other chunks have a sentence in common with it" in said
    assert "forgotten: 5 chunks" in ran.out


def test_what_waits_to_be_read_is_told_of(sapwood: Sapwood, notes: Paths) -> None:
    with open_home(notes) as home, home.connection.write():
        home.connection.run("UPDATE mem_tree_items SET state = 'found', held_hash = NULL WHERE item_key = 'other.md'")
    ran = sapwood("forget", "--mentions", "cormorant", "--yes")
    assert ran.code == 1
    assert "1 item waits to be read" in ran.err
    told = sapwood("forget", "--mentions", "heron", "--yes")
    assert told.code == 0
    assert "1 item waits to be read" in " ".join(told.err.split())
