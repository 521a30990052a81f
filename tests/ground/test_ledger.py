"""The ledger: hashes that outlive the memory, on the disk before anybody is told, and never words."""

from __future__ import annotations

import os
import stat

import pytest

from agent.ledger import LedgerWatcher, append_answer, append_forgotten, prepare_ledger, read_ledger
from agent.paths import Paths
from agent.states import Answer


def test_an_absent_ledger_forgets_nothing(paths: Paths) -> None:
    ledger = read_ledger(paths)
    assert not ledger.forgets_anything
    assert not ledger.forgets_item("notes", "a.md", "hash")


def test_items_are_forgotten_by_name_and_by_content_in_their_source(paths: Paths) -> None:
    ledger = prepare_ledger(paths)
    ledger = append_forgotten(
        paths, 0, items=[ledger.item_hash("notes", "a.md"), ledger.content_hash("notes", "content")]
    )
    assert ledger.forgets_item("notes", "a.md")
    assert ledger.forgets_item("notes", "renamed.md", "content")
    assert not ledger.forgets_item("notes", "b.md", "other")
    assert not ledger.forgets_item("other", "a.md", "content")


def test_white_space_does_not_count_and_short_pieces_belong_to_their_item(paths: Paths) -> None:
    ledger = prepare_ledger(paths)
    long, short = "the boat house key is under the stone", "Thank you."
    pieces = [ledger.piece_hash("notes", "a.md", piece) for piece in (long, short)]
    ledger = append_forgotten(paths, 0, pieces=pieces)
    assert ledger.forgets_piece("notes", "b.md", f"  {long.replace(' ', '  ')}\n")
    assert ledger.forgets_piece("notes", "a.md", short)
    assert not ledger.forgets_piece("notes", "b.md", short)


def test_no_word_stands_in_it_and_two_homes_hash_differently(paths: Paths, tmp_path: object) -> None:
    ledger = prepare_ledger(paths)
    append_forgotten(paths, 0, items=[ledger.item_hash("notes", "zanzibarquux.md")])
    assert b"zanzibarquux" not in paths.ledger.read_bytes()
    paths.ledger.unlink()
    assert prepare_ledger(paths).item_hash("notes", "zanzibarquux.md") != ledger.item_hash("notes", "zanzibarquux.md")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_only_its_owner_may_read_it(paths: Paths) -> None:
    prepare_ledger(paths)
    assert stat.S_IMODE(paths.ledger.stat().st_mode) == 0o600


def test_a_line_that_was_cut_short_is_none_and_the_next_begins_anew(paths: Paths) -> None:
    ledger = prepare_ledger(paths)
    append_forgotten(paths, 0, items=["one"])
    with paths.ledger.open("ab") as file:
        file.write(b'{"forgotten": "2025", "items": ["tw')
    found = append_forgotten(paths, 0, items=["three"])
    assert found.items == {"one", "three"}
    assert found.broken == 1
    assert found.salt == ledger.salt


def test_a_ledger_that_cannot_be_read_is_not_taken_for_empty(paths: Paths) -> None:
    paths.ledger.mkdir()
    with pytest.raises(OSError):
        read_ledger(paths)


def test_the_newest_answer_counts(paths: Paths) -> None:
    append_answer(paths, 0, "q1", Answer.REFUSE, "notes")
    assert append_answer(paths, 1, "q1", Answer.ACCEPT, "notes").answers == {"q1": Answer.ACCEPT}


def test_a_watcher_sees_what_others_append(paths: Paths) -> None:
    watcher = LedgerWatcher(paths)
    assert not watcher.current.forgets_anything
    append_forgotten(paths, 0, items=["one"])
    assert watcher.current.items == {"one"}
    assert watcher.current is watcher.current
