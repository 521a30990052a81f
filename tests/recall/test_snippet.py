"""The piece of a text that people are shown."""

from __future__ import annotations

import pytest

from agent.db import Connection
from agent.recall.snippet import snippet

LONG = (
    "Nothing is said here about it. " * 40 + "Then Anna repaired the old boiler in the cellar. " + "The end came. " * 40
)


def _marked(connection: Connection, text: str, query: str, width: int = 240) -> list[str]:
    piece = snippet(connection, text, query, width)
    return [piece.text[start:end] for start, end in piece.spans]


def test_the_piece_has_the_most_words_of_the_query_and_says_that_it_is_cut(connection: Connection) -> None:
    piece = snippet(connection, LONG, "who repairs boilers", width=80)
    assert "repaired the old boiler" in piece.text
    assert len(piece.text) <= 80
    assert (piece.cut_before, piece.cut_after) == (True, True)
    assert [piece.text[start:end] for start, end in piece.spans] == ["repaired", "boiler"]
    assert LONG.split(piece.text)[0].endswith(" ")


def test_words_are_marked_as_the_index_finds_them(connection: Connection) -> None:
    assert _marked(connection, "Die Cafés öffnen — née 🎉 Boilers!", "cafe boiler") == ["Cafés", "Boilers"]


def test_pairs_of_cjk_are_marked_and_joined(connection: Connection) -> None:
    assert _marked(connection, "私は東京都に住んでいます", "東京都") == ["東京都"]


@pytest.mark.parametrize(("text", "query"), [("", "boiler"), ("some text", ""), ("some text", "zebra"), ("   ", '"')])
def test_without_a_match_the_beginning_is_shown(connection: Connection, text: str, query: str) -> None:
    piece = snippet(connection, text, query)
    assert (piece.text, piece.spans) == (text.strip(), ())
    assert (piece.cut_before, piece.cut_after) == (False, False)


def test_lines_become_one_and_no_width_is_exceeded(connection: Connection) -> None:
    assert snippet(connection, "a\n\n  b\tc", "b").text == "a b c"
    for width in (1, 10, 50, 200):
        piece = snippet(connection, "x" * 500 + " boiler " + LONG, "boiler anna", width)
        assert len(piece.text) <= width
        assert all(0 <= start < end <= len(piece.text) for start, end in piece.spans)
