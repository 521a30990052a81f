"""Which items and chunks an owner's words choose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.actions.choosing import Wanted, choose, folded
from agent.actions.erasing import Erasure, find_forgotten, find_items
from agent.actions.forgetting import forget, preview, wanted_of
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.errors import UsageFault
from agent.ingest.push import ChatContent, ChatMessage, DocumentContent, EmailContent, forget_in_inbox, push_item
from agent.ingest.stamps import VEIL
from agent.ledger import Ledger, append_forgotten, prepare_ledger, read_ledger
from agent.paths import Paths
from tests.forget.planted import grow, prose


@pytest.fixture
def grown(paths: Paths, tmp_path: Path) -> Paths:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "plain.md").write_text(f"{prose(1)} The Ｈｅｒｏｎ\n  Project begins. {prose(2)}")
    (folder / "heron project.md").write_text(prose(3))
    (folder / "titled.md").write_text(f"# Heron project\n\n{prose(4)}")
    (folder / "other.md").write_text(prose(5))
    with open_home(paths) as home:
        add(home, [str(folder)])
    grow(paths)
    return paths


def keys(paths: Paths, words: str) -> tuple[set[str], set[str]]:
    with open_home(paths) as home:
        chosen = choose(home.connection, Wanted(words=folded(words)))
        whole = {item.item_key for item in chosen.items.values()}
        return whole, {chunk.item_key for chunk in chosen.chunks.values()}


def test_case_width_and_line_ends_do_not_count(grown: Paths) -> None:
    whole, parts = keys(grown, "HERON  project")
    assert whole == {"heron project.md", "titled.md"}
    assert parts == {"plain.md"}


def test_the_names_of_a_locators_fields_are_nobodys_words(grown: Paths) -> None:
    for word in ("end_line", "path"):
        assert keys(grown, word) == (set(), set())


def test_filters_that_say_nothing_are_wrong_usage(grown: Paths) -> None:
    with open_home(grown) as home:
        for filters in ({}, {"mentions": "  "}, {"entity": ""}, {"source": "nowhere"}, {"since": "some day"}):
            with pytest.raises(UsageFault):
                wanted_of(home, **filters)


def test_words_that_a_quotation_breaks_over_lines_are_found(paths: Paths, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "reply.md").write_text(f"{prose(1)}\n\n> She said that the Heron\n> project begins in May.\n")
    (folder / "more.md").write_text("a > b and so on, the heron is > project\n")
    with open_home(paths) as home:
        add(home, [str(folder)])
    grow(paths)
    assert keys(paths, "heron project") == (set(), {"reply.md"})


def test_an_equal_copy_goes_with_the_item_it_is_a_copy_of(grown: Paths, tmp_path: Path) -> None:
    (tmp_path / "notes" / "copy.md").write_bytes((tmp_path / "notes" / "other.md").read_bytes())
    grow(grown)
    with open_home(grown) as home:
        wanted = wanted_of(home, source="notes", item="other.md")
        shown, chosen = preview(home, wanted)
        assert (shown.items, sorted(shown.titles)) == (2, ["copy", "other"])
        forget(home, wanted, chosen)
        assert find_forgotten(home.connection, read_ledger(grown)) == []
    grow(grown)
    with open_home(grown) as home:
        left = {key for (key,) in home.connection.all("SELECT item_key FROM mem_tree_items")}
    assert left == {"plain.md", "heron project.md", "titled.md"}


def forget_pieces(paths: Paths, source: str, key: str, *pieces: str) -> int:
    ledger = prepare_ledger(paths)
    ledger = append_forgotten(paths, 0, pieces=[ledger.piece_hash(source, key, piece) for piece in pieces])
    return forget_in_inbox(paths, ledger)


def test_a_piece_leaves_the_file_of_a_pushed_document(paths: Paths) -> None:
    gone = "The door code of the boat house is four times seven."
    pushed = push_item(paths, "kept", DocumentContent(f"{prose(1)}\n\n{gone}\n\n{prose(2)}", key="k"))
    assert forget_pieces(paths, "kept", "k", gone) == 1
    text = pushed.path.read_text()
    assert "door code" not in text
    assert prose(1) in text
    assert forget_pieces(paths, "kept", "k", gone) == 0


def test_a_document_that_says_nothing_else_goes_with_its_file(paths: Paths) -> None:
    gone = "The door code of the boat house is four times seven."
    pushed = push_item(paths, "kept", DocumentContent(gone, key="k"))
    forget_pieces(paths, "kept", "k", gone)
    assert not pushed.path.exists()


def test_one_message_leaves_a_pushed_chat_and_the_others_stay(paths: Paths) -> None:
    gone = "* The door code of the boat house is four times seven."
    messages = (
        ChatMessage("ines", "Good morning, all of you.", 1_750_000_000_000),
        ChatMessage("ines", gone, 1_750_000_001_000),
    )
    pushed = push_item(paths, "club", ChatContent(messages, "club"))
    forget_pieces(paths, "club", "club/2025-06-15", gone)
    text = pushed.path.read_text()
    assert "door code" not in text
    assert "Good morning" in text


def test_a_forgotten_day_of_a_pushed_chat_goes_and_other_days_stay(paths: Paths) -> None:
    messages = (
        ChatMessage("ines", "The first day of it.", 1_750_000_000_000),
        ChatMessage("ines", "The second day of it.", 1_750_000_000_000 + 86_400_000),
    )
    pushed = push_item(paths, "club", ChatContent(messages, "club"))
    ledger = prepare_ledger(paths)
    ledger = append_forgotten(paths, 0, items=[ledger.item_hash("club", "club/2025-06-15")])
    assert forget_in_inbox(paths, ledger) == 1
    assert "first day" not in pushed.path.read_text()
    assert "second day" in pushed.path.read_text()


def test_an_address_line_leaves_a_pushed_mail(paths: Paths) -> None:
    mail = EmailContent(
        "Some words.", "A subject", "ines@mail.example", to=("Heron <heron@mail.example>",), message_id="m"
    )
    pushed = push_item(paths, "post", mail)
    forget_pieces(paths, "post", "m", "To: Heron <heron@mail.example>")
    assert "heron" not in pushed.path.read_text().lower()
    assert "Some words." in pushed.path.read_text()


def test_what_a_push_that_died_left_behind_goes_too(paths: Paths) -> None:
    pushed = push_item(paths, "pages", DocumentContent("Heron begins.", "A page", key="k"))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, live = (pushed.path.with_name(f".{pushed.path.name}.{pid}.tmp") for pid in (dead.pid, os.getpid()))
    for draft in (left, live):
        draft.write_text(pushed.path.read_text())
    append_forgotten(paths, 0, items=[prepare_ledger(paths).item_hash("pages", "k")])
    forget_in_inbox(paths, read_ledger(paths))
    assert not pushed.path.exists()
    assert not left.exists()
    assert live.exists()


class _AskedFor(Ledger):
    """A ledger that forgets every item, and so every file that it is asked about."""

    def forgets_item(self, source_id: str, item_key: str, held_hash: str | None = None) -> bool:
        return True


def test_a_file_under_its_veil_is_not_forgotten_once_more(grown: Paths) -> None:
    with open_home(grown) as home:
        forget(home, wanted := Wanted(source_id="notes", item_key="other.md"), choose(home.connection, wanted))
        paths = {path for (path,) in home.connection.all("SELECT path FROM mem_tree_files")}
        assert sum(path.startswith(VEIL) for path in paths) == 1
        erasure = Erasure()
        find_items(home.connection, _AskedFor(items=frozenset({"some"})), erasure)
    assert {path for _, path in erasure.files} == {"plain.md", "heron project.md", "titled.md"}
