"""The piece of a text that answers a query, with the words that matched, for people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.db.text_index import index_text
from agent.recall.query import parse_query, stem_spans, stem_words

if TYPE_CHECKING:
    from agent.db.connection import Connection

WIDTH = 240

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True)
class Snippet:
    """A piece of a text in one line. ``spans`` are ``(start, end)`` in characters of ``text``, in order, apart."""

    text: str
    spans: tuple[tuple[int, int], ...]
    cut_before: bool
    cut_after: bool


def snippet(connection: Connection, text: str, query: str, width: int = WIDTH) -> Snippet:
    """Return the piece, at most ``width`` characters, that has the most different words of the query in it."""
    line = _SPACE.sub(" ", text).strip()
    matches = _matches(connection, line, query)
    start = _best_start(matches, width)
    # The match is not the first word that is seen: what leads to it explains it.
    start = _word_start(line, start - width // 4, start) if start > width // 4 else 0
    end = len(line) if start + width >= len(line) else _word_end(line, start, start + width)
    spans = _apart([(a - start, b - start) for a, b, _ in matches if a >= start and b <= end])
    return Snippet(line[start:end], spans, start > 0, end < len(line))


def _matches(connection: Connection, line: str, query: str) -> list[tuple[int, int, str]]:
    """Return ``(start, end, term)`` of each place in a line that the index would find by the query's terms."""
    stems: set[str] = set()
    pairs: set[str] = set()
    for term in parse_query(query).terms:
        # A pair of CJK characters stands inside a longer run of the text, where the tokenizer sees one word.
        if index_text(term) != term:
            pairs.add(term)
        else:
            stems.update(stem_words(connection, term))
    found = _word_matches(connection, line, stems)
    for pair in pairs:
        found += [(at.start(), at.end(), pair) for at in re.finditer(re.escape(pair), line)]
    return sorted(found)


def _word_matches(connection: Connection, line: str, stems: set[str]) -> list[tuple[int, int, str]]:
    if not stems:
        return []
    raw = line.encode("utf-8", "replace")
    found: list[tuple[int, int, str]] = []
    at_byte = at_character = 0
    for start, end, stem in stem_spans(connection, line):
        if stem in stems:
            at_character += len(raw[at_byte:start].decode("utf-8", "replace"))
            length = len(raw[start:end].decode("utf-8", "replace"))
            found.append((at_character, at_character + length, stem))
            at_byte, at_character = end, at_character + length
    return found


def _best_start(matches: list[tuple[int, int, str]], width: int) -> int:
    best, most = 0, 0
    first = 0
    counts: dict[str, int] = {}
    for _, end, term in matches:
        counts[term] = counts.get(term, 0) + 1
        while counts and end - matches[first][0] > width * 3 // 4:
            gone = matches[first][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            first += 1
        if len(counts) > most:
            best, most = matches[first][0], len(counts)
    return best


def _word_start(line: str, at: int, match: int) -> int:
    space = line.find(" ", at, match)
    return space + 1 if space >= 0 else at


def _word_end(line: str, start: int, at: int) -> int:
    space = line.rfind(" ", max(start + 1, at - 40), at + 1)
    return space if space >= 0 else at


def _apart(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return the spans with those that overlap or touch joined (neighbouring pairs of one CJK word)."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
