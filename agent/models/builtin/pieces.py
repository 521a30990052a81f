"""Word pieces by the rules of BERT base uncased, in pure Python (design, embeddings).

The same pieces as the ``tokenizers`` package gives for this vocabulary, three times as fast on short texts, because a
word that was seen before costs one look-up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

VOCABULARY = Path(__file__).with_name("vocab.txt")

_WORD_LIMIT = 100  # code points; a longer word is one [UNK]
_CACHE_WORDS = 20_000  # about 4 MB; emptied when full, so that a stream of rare words cannot grow it
_CACHE_LENGTH = 40  # a longer run without white space does not come back

# White space to str.split, but a control character to the rules: it is dropped and separates nothing.
_NO_SPACES = re.compile("[\x0b\x0c\x1c-\x1f\x85]")
_IDEOGRAPH = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f])"
)
_ASCII_WORDS = re.compile(r"[^\W_]+|[^\w\s]|_", re.ASCII)


class Pieces:
    """The vocabulary and a bounded cache of words. Not to be shared between threads that write to it at once."""

    def __init__(self, vocabulary: Path = VOCABULARY) -> None:
        names = vocabulary.read_text("utf-8").rstrip("\n").split("\n")
        self._whole = {name: number for number, name in enumerate(names) if not name.startswith("##")}
        self._rest = {name[2:]: number for number, name in enumerate(names) if name.startswith("##")}
        self._longest = max(map(len, names))
        self._unknown = self._whole["[UNK]"]
        self._cache: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._whole) + len(self._rest)

    def ids(self, text: str) -> list[int]:
        """Return the numbers of a text's pieces, in order; no special ones are added and nothing is cut off."""
        found: list[int] = []
        known = self._cache.get
        for run in _NO_SPACES.sub("", text).split():
            pieces = known(run)
            if pieces is None:
                pieces = self._learn(run)
            found += pieces
        return found

    def is_whole(self, word: str) -> bool:
        """Return whether a normalised word is one piece."""
        return word in self._whole

    def words(self, text: str) -> list[str]:
        """Return the normalised words of a text, punctuation and ideographs apart, before they are cut into pieces."""
        if text.isascii() and text.isprintable():
            return _ASCII_WORDS.findall(text.lower())
        return _normal(text).split()

    def _learn(self, run: str) -> tuple[int, ...]:
        pieces = tuple(piece for word in self.words(run) for piece in self._cut(word))
        if len(run) <= _CACHE_LENGTH:
            if len(self._cache) >= _CACHE_WORDS:
                self._cache.clear()
            self._cache[run] = pieces
        return pieces

    def _cut(self, word: str) -> Sequence[int]:
        whole = self._whole.get(word)
        if whole is not None:
            return (whole,)
        if len(word) > _WORD_LIMIT:
            return (self._unknown,)
        pieces: list[int] = []
        start, table = 0, self._whole
        while start < len(word):
            for end in range(min(len(word), start + self._longest), start, -1):
                number = table.get(word[start:end])
                if number is not None:
                    break
            else:
                return (self._unknown,)
            pieces.append(number)
            start, table = end, self._rest
        return pieces


def _normal(text: str) -> str:
    text = "".join(map(_kept, text))
    text = _IDEOGRAPH.sub(r" \1 ", text)
    text = "".join(char for char in unicodedata.normalize("NFD", text) if unicodedata.category(char) != "Mn")
    # Lower-casing is by character: no final sigma.
    text = text.replace("\u03a3", "\u03c3").lower()
    return "".join(f" {char} " if _is_punctuation(char) else char for char in text)


def _kept(char: str) -> str:
    if char in "\t\n\r":
        return " "
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    # A code point that is not assigned yet (Cn) stays, as in ``tokenizers``: it is newer than our tables, not control.
    return "" if category in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd" else char


def _is_punctuation(char: str) -> bool:
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char)[0] == "P"
