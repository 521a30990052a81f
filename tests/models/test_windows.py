from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some

from agent.models.builtin.embedding import BuiltinEmbedder
from agent.models.builtin.pieces import Pieces
from agent.models.builtin.windows import MOST_PIECES, cut_windows

PIECES = Pieces()

_PARTS = some.sampled_from(
    [
        "word",
        "The end. ",
        "\n",
        "\n\n",
        "<kim> ",
        "Kim: ",
        "- ",
        "電気",
        "。",
        "x" * 150,
        "!?",
        "  ",
        "a b c d e f. " * 30,
        "\t",
    ]
)


@settings(max_examples=150, deadline=None)
@given(some.lists(_PARTS, max_size=60).map("".join))
def test_windows_lose_nothing_and_fit(text: str) -> None:
    windows = cut_windows(text, PIECES.ids)
    assert "".join("".join(windows).split()) == "".join(text.split())
    assert all(len(PIECES.ids(window)) <= MOST_PIECES for window in windows)
    assert all(window.strip() for window in windows)


def test_a_text_without_any_seam_is_cut_all_the_same() -> None:
    text = "湖" * 1_000
    windows = cut_windows(text, PIECES.ids)
    assert "".join(windows) == text
    assert all(len(PIECES.ids(window)) <= MOST_PIECES for window in windows)


def test_long_paragraphs_stand_alone_and_short_ones_together(embedder: BuiltinEmbedder) -> None:
    long = "The ferry leaves the harbour every morning at six and comes back in the evening. " * 5
    short = "We will see."
    windows = embedder.windows(f"{long}\n\n{long}\n\n{short}\n\n{short}\n\n{short}")
    assert [window.count("ferry") for window in windows] == [5, 5, 0]
    assert windows[-1].count(short) == 3


def test_a_chat_is_cut_between_turns(embedder: BuiltinEmbedder) -> None:
    turns = [
        f"<nick{number}> turn {number} says a good many things about the weather and the sea" for number in range(24)
    ]
    windows = embedder.windows("\n".join(turns))
    assert len(windows) > 2
    assert [line for window in windows for line in window.split("\n")] == turns


def test_a_paragraph_too_long_is_cut_between_sentences(embedder: BuiltinEmbedder) -> None:
    text = " ".join(f"Sentence number {number} is about a garden with a wall." for number in range(60))
    windows = embedder.windows(text)
    assert len(windows) >= 3
    assert all(window.startswith("Sentence") and window.endswith("wall.") for window in windows)


def test_nothing_has_no_windows(embedder: BuiltinEmbedder) -> None:
    assert embedder.windows(" \n\n\t") == []
