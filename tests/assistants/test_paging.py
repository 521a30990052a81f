"""Cursors fit one question alone, and answers stay in bounds whatever is in them."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.actions.assistants_paging import cursor_at, fill, fitting, offset_of, size_of
from agent.errors import UsageFault

QUESTION = ("search", "spare key", 8, None)
words = st.text(st.characters(codec="utf-8"), max_size=400)


@given(st.integers(1, 1 << 32), words)
def test_a_cursor_leads_back_to_its_place(offset: int, query: str) -> None:
    assert offset_of(cursor_at(offset, "search", query, None), "search", query, None) == offset


def test_no_cursor_is_the_beginning() -> None:
    assert offset_of(None, *QUESTION) == offset_of(" ", *QUESTION) == 0


@given(st.one_of(words, st.binary(max_size=60).map(lambda data: data.hex()), st.just("LTE.x"), st.just("=" * 9)))
def test_what_is_no_cursor_is_refused_in_words(cursor: str) -> None:
    if not cursor.strip():
        return
    with pytest.raises(UsageFault, match="cursor") as caught:
        offset_of(cursor, *QUESTION)
    assert "without a cursor" in caught.value.hint


@pytest.mark.parametrize(
    "other", [("search", "spare key", 9, None), ("search", "spare kex", 8, None), ("fetch", "spare key", 8, None)]
)
def test_a_cursor_of_another_question_is_refused(other: tuple[str | int | None, ...]) -> None:
    with pytest.raises(UsageFault):
        offset_of(cursor_at(8, *QUESTION), *other)


def test_none_and_its_word_are_different_questions() -> None:
    with pytest.raises(UsageFault):
        offset_of(cursor_at(8, "search", None), "search", "None")


def _shortened(text: str, room: int) -> dict[str, str]:
    return {"text": text[:room]}


@given(st.lists(words, max_size=40), st.integers(40, 3_000))
def test_a_list_fills_its_room_and_no_more(texts: list[str], room: int) -> None:
    items = fill((partial(_shortened, text) for text in texts), room)
    assert bool(items) == bool(texts)
    assert sum(size_of(item) + 2 for item in items) <= room + 2
    # What is left out comes with the next page, from the first one that did not fit.
    assert [item["text"] for item in items[1:]] == texts[1 : len(items)]


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=3_000), st.integers(8, 2_000))
def test_a_text_goes_on_where_it_was_cut_and_each_piece_fits(text: str, room: int) -> None:
    at, pieces = 0, []
    while at < len(text):
        count = fitting(text[at:], room)
        pieces.append(text[at : at + count])
        at += count
    assert "".join(pieces) == text
    assert all(len(json.dumps(piece, ensure_ascii=False)) <= room + 2 for piece in pieces)
