"""What a text was called is forgotten with the text, and a text without a name is known again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.actions.forgetting import forget, preview, wanted_of
from agent.actions.home import open_home
from agent.actions.remembering import remember
from agent.actions.sources import add
from agent.ingest.holdback import open_questions
from agent.paths import Paths
from tests.forget.planted import MARKER, grow, places, prose

TITLED = f"# The {MARKER} visits\n\n{prose(2, 3)}\n"


def begin(paths: Paths, folder: Path, **notes: str) -> None:
    folder.mkdir()
    for number in range(6):
        (folder / f"plain{number}.md").write_text(prose(100 + number))
    for name, text in notes.items():
        (folder / f"{name}.md").write_text(text)
    with open_home(paths) as home:
        add(home, [str(folder)], name="notes")
    grow(paths)


def let_go(paths: Paths, **filters: str) -> None:
    with open_home(paths) as home:
        wanted = wanted_of(home, **filters)
        _, chosen = preview(home, wanted)
        assert chosen
        forget(home, wanted, chosen)


def left(paths: Paths) -> list[object]:
    with open_home(paths) as home:
        return list(places(home))


def test_a_document_of_which_nothing_is_left_loses_its_title(paths: Paths, tmp_path: Path) -> None:
    begin(paths, tmp_path / "notes", titled=TITLED)
    with open_home(paths) as home:
        chunk = home.connection.value("SELECT chunk_id FROM mem_tree_chunks WHERE item_key = 'titled.md'")
    assert left(paths)
    let_go(paths, chunk=chunk)
    assert left(paths) == []
    os.utime(tmp_path / "notes" / "titled.md", ns=(1, 1))
    with open_home(paths) as home, home.connection.write():
        # As newer readers do.
        home.connection.run("UPDATE mem_tree_sources SET reading_version = 1")
    grow(paths)
    assert left(paths) == []
    with open_home(paths) as home:
        assert home.connection.value("SELECT state FROM mem_tree_items WHERE item_key = 'titled.md'") == "current"


def test_notes_forgotten_by_their_date_leave_without_a_question(paths: Paths) -> None:
    with open_home(paths) as home:
        remember(home, f"{MARKER} has the spare key of the boat house.")
        remember(home, "The kettle in the harbour is broken.")
    grow(paths)
    assert left(paths)
    let_go(paths, source="remembered", since="1d")
    assert left(paths) == []
    grow(paths)
    assert left(paths) == []
    with open_home(paths) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_items") == 0
        assert open_questions(home.connection) == {}


@pytest.mark.parametrize("name", ["meetings with Anna Zanzibarquux", "zanzibarquux"])
def test_a_document_called_after_an_entity_goes_with_its_name(paths: Paths, tmp_path: Path, name: str) -> None:
    text = f"We met Anna {MARKER} at the mill. Then Anna {MARKER} went home.\n"
    begin(paths, tmp_path / "notes", **{name: text})
    with open_home(paths) as home:
        entity = home.connection.value(
            "SELECT entity FROM mem_tree_entity_index WHERE entity LIKE ?", (f"%{MARKER.lower()}%",)
        )
        wanted = wanted_of(home, entity=entity)
        _, chosen = preview(home, wanted)
        whole = {item.item_key for item in chosen.items.values()}
    assert whole == ({f"{name}.md"} if " " in name else set())


def test_a_mail_without_an_id_stays_forgotten_when_a_program_marks_it_read(paths: Paths, tmp_path: Path) -> None:
    def mailbox(mark: str = "") -> str:
        mails = [
            f"From x Sat Jun 14 10:00:00 2025\n{mark}From: anna@mail.example\nSubject: Mail {number}\n"
            f"Date: Sat, 14 Jun 2025 10:0{number}:00 +0000\n\n{said}\n\n"
            for number, said in enumerate([f"{MARKER} was here.", "Nobody was here.", "The kettle is broken."])
        ]
        return "".join(mails)

    box = tmp_path / "post.mbox"
    box.write_text(mailbox())
    with open_home(paths) as home:
        add(home, [str(box)])
    grow(paths)
    let_go(paths, mentions=MARKER)
    assert left(paths) == []
    box.write_text(mailbox("Status: RO\n"))
    grow(paths)
    assert left(paths) == []
    with open_home(paths) as home:
        titles = home.connection.all("SELECT title FROM mem_tree_items ORDER BY title")
    assert titles == [("Mail 1",), ("Mail 2",)]
