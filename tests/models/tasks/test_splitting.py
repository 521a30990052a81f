"""Cutting long inputs: every part fits, and together they are the whole."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.splitting import Piece, cut, split
from agent.tokens import count_tokens

TEXTS = st.text(alphabet=st.sampled_from("aé ß.\n漢字 🙂x,1"), max_size=400)


def bare(text: str) -> str:
    return "".join(text.split())


@settings(max_examples=150, deadline=None)
@given(text=TEXTS, limit=st.integers(1, 40))
def test_pieces_fit_and_are_the_whole_text_but_for_white_space(text: str, limit: int) -> None:
    found = cut(text, limit)
    assert all(count_tokens(each) <= limit for each in found)
    assert bare("".join(found)) == bare(text)


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(TEXTS, max_size=6), room=st.integers(8, 60))
def test_parts_fit_and_hold_every_piece_in_order(texts: list[str], room: int) -> None:
    pieces = [Piece(f"[{at}]", text, (f"n{at}",)) for at, text in enumerate(texts)]
    parts = split(pieces, room)
    assert all(sum(piece.tokens for piece in part) <= room for part in parts)
    assert bare("".join(piece.text for part in parts for piece in part)) == bare("".join(texts))
    heads = [piece.head for part in parts for piece in part]
    assert heads == sorted(heads, key=lambda head: int(head[1:-1]))


def test_a_text_is_cut_where_it_pauses() -> None:
    text = "One two three.\n\nFour five six. Seven eight nine."
    assert cut(text, 9) == ["One two three.", "Four five six.", "Seven eight nine."]
    assert cut(text, 11) == ["One two three.", "Four five six. Seven eight nine."]


def test_a_head_that_fills_the_room_is_refused() -> None:
    with pytest.raises(ValueError, match="no room"):
        split([Piece("a very long line " * 10, "text " * 50, ("n",))], 8)
