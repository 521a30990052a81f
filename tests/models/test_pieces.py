from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.models.builtin import pieces as pieces_module
from agent.models.builtin.pieces import VOCABULARY, Pieces

AWKWARD = [
    "",
    " \t\r\n ",
    "The café's naïve Ångström résumé — ‘quoted’ “twice”…",
    "word.another,third;fourth",
    "a\x00b\x0bc\x0cd\x1ce\x1ff\x85g\xadh\u200bi\ufffdj\ufeffk",
    "non\u00a0breaking\u2003spaces\u2028and\u3000wide\u2029ones",
    "中文和English混在一起,日本語のカナ、한국어도",
    "ΑΒΓΣ ΣΊΣΥΦΟΣ σς",
    "İstanbul ǅ ẞ ﬁne",
    "x" * 100,
    "x" * 101,
    "日" * 150,
    "unaffable electroencephalographically",
    "@user #tag $100 50% ^_^ `code` {json: [1, 2]} <b>~|~</b>",
    "👍🏽 emoji 🇩🇪 and zwj 👩‍👩‍👧",
    "zalgo t̸̡̕e̵͓͝x̶̢̛t̷̰̀",
    "e\u0301 vs é vs e\u0301\u0323",
    "हिन्दी भाषा ไทย العربية עברית русский ё й",
    "½ ² Ⅷ ① № ™",
    "U+F900: \uf900 U+20000: \U00020000 U+2F800: \U0002f800",
]


@pytest.fixture(scope="module")
def reference() -> Callable[[str], list[int]]:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.BertWordPieceTokenizer(str(VOCABULARY), lowercase=True, strip_accents=True)

    def ids(text: str) -> list[int]:
        found: list[int] = made.encode(text, add_special_tokens=False).ids
        return found

    return ids


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces()


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_gives_the_pieces_of_the_tokenizers_package(
    text: str, pieces: Pieces, reference: Callable[[str], list[int]]
) -> None:
    assert pieces.ids(text) == reference(text)


def test_abstracts_give_the_pieces_of_the_tokenizers_package(
    scifact: dict[str, Any], pieces: Pieces, reference: Callable[[str], list[int]]
) -> None:
    documents = list(scifact["documents"].values())[::10]
    for text in [*scifact["queries"].values(), *(f"{each['title']}. {each['text']}" for each in documents)]:
        assert pieces.ids(text) == reference(text), text


@pytest.mark.parametrize("folder", ["irc", "mail", "chat"])
def test_mail_and_chats_give_the_pieces_of_the_tokenizers_package(
    folder: str, test_data: Callable[[str], Path], pieces: Pieces, reference: Callable[[str], list[int]]
) -> None:
    lines: set[str] = set()
    for path in sorted(test_data(folder).rglob("*")):
        if path.is_file():
            lines.update(path.read_bytes()[:60_000].decode("utf-8", "replace").split("\n"))
    assert len(lines) > 20
    for line in sorted(lines):
        assert pieces.ids(line) == reference(line), line


def test_random_characters_give_the_pieces_of_the_tokenizers_package(
    pieces: Pieces, reference: Callable[[str], list[int]]
) -> None:
    """Scripts that have not changed since either side's tables were made; control and private characters among them."""
    draw = random.Random(11)
    ranges = [
        (0x20, 0x7F),
        (0x20, 0x7F),
        (0x01, 0x250),
        (0x391, 0x3CF),
        (0x410, 0x450),
        (0x3041, 0x30FB),
        (0x4E00, 0x9FA5),
    ]
    ranges += [(0xAC00, 0xD7A3), (0xE000, 0xE100), (0x2010, 0x2028), (0x300, 0x340), (0xFF01, 0xFF5E)]
    for _ in range(1_500):
        text = "".join(chr(draw.randrange(*draw.choice(ranges))) for _ in range(draw.randrange(1, 40)))
        assert pieces.ids(text) == reference(text), [hex(ord(char)) for char in text]


def test_the_cache_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces_module, "_CACHE_WORDS", 50)
    small = Pieces()
    first = small.ids("reproducible")
    for number in range(500):
        small.ids(f"word{number}")
        assert len(small._cache) <= 50
    assert small.ids("reproducible") == first
