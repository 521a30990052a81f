"""Cutting canonical items into chunks: pure, deterministic, anchored (``boundaries.py``).

A chunk's text is the text of its place, character for character. Documents and mail aim at 350–450 tokens, chats at
ten turns (``numbers.md``). Cuts prefer headings, then paragraphs; sentences, lines and words only where one block is
too long by itself.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from agent.ids import content_hash
from agent.ingest.boundaries import NEVER, Pieces, cut
from agent.ingest.canonical import HEADING_SEPARATOR, Block, BlockKind, CanonicalItem, Section, break_key
from agent.states import SourceKind
from agent.tokens import count_tokens

WINDOW_TOKENS = 190
MAX_TOKENS = 1200
WINDOW_TURNS = 5
MAX_TURNS = 30
LONG_BLOCK_TOKENS = 420
LONG_SENTENCE_TOKENS = 120
LONG_WORD = 96  # characters
QUIET_MS = 30 * 60_000
MAX_AUTHORS = 8

_PARAGRAPH, _LINE_GROUP, _LINE, _WORD, _LETTERS = 0, -1, -2, -3, -4
_LEVELS = (_PARAGRAPH, _LINE_GROUP, _LINE, _WORD, _LETTERS)
SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？；][”』」’）]*\s*|\n(?=[ \t]*\n)")
_SPACES = re.compile(r"\s+")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\d{1,4}[.)])[ \t]")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A leaf before it is stored. ``position`` is the occurrence number of its body within the item."""

    text: str
    tokens: int
    body_hash: str
    position: int
    time_ms: int | None
    author: str | None
    reference: str | None
    title: str | None
    heading_path: str | None
    locator: dict[str, Any]
    break_key: int
    source_kind: SourceKind
    kinds: frozenset[BlockKind]
    turns: int = 0
    authors: int = 0


@dataclass(frozen=True, slots=True)
class _Piece:
    begin: int  # offsets in the section's text
    end: int
    tokens: int
    rank: int
    block: int


def chunk_markdown(item: CanonicalItem) -> list[Chunk]:
    """Return the chunks of an item in order; none of them is empty. Pure."""
    chunks: list[Chunk] = []
    seen: Counter[str] = Counter()
    for section in item.sections:
        for chunk in _chunk_section(item, section, seen):
            chunks.append(chunk)
    return chunks


def _chunk_section(item: CanonicalItem, section: Section, seen: Counter[str]) -> Iterator[Chunk]:
    text = "\n".join(section.lines)
    line_starts = array("q", accumulate((len(line) + 1 for line in section.lines), initial=0))
    chat = item.source_kind is SourceKind.CHAT
    for first, last in _runs(section.blocks):
        pieces = _pieces(section, text, line_starts, first, last, chat)
        if not pieces:
            continue
        for low, high in _groups(text, pieces, section, chat):
            chunk = _make(item, section, text, line_starts, pieces[low:high], seen)
            if chunk is not None:
                yield chunk


def _runs(blocks: Sequence[Block]) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks between hard cuts: before what a mail only quotes at its end, its author's words end."""
    tail = len(blocks)
    while tail > 0 and blocks[tail - 1].kind in (BlockKind.SIGNATURE, BlockKind.ATTACHMENT):
        tail -= 1
    quote = tail
    while quote > 0 and blocks[quote - 1].kind is BlockKind.QUOTE:
        quote -= 1
    if 0 < quote < tail and any(block.kind is not BlockKind.ADDRESSES for block in blocks[:quote]):
        yield 0, quote
        yield quote, len(blocks)
    else:
        yield 0, len(blocks)


def _groups(text: str, pieces: list[_Piece], section: Section, chat: bool) -> Iterator[tuple[int, int]]:
    ranks = [piece.rank for piece in pieces]
    hashes = [_anchor(text[piece.begin : piece.end]) for piece in pieces]
    by_tokens = Pieces(list(accumulate((piece.tokens for piece in pieces), initial=0)), ranks, hashes)
    total = len(pieces)
    if chat:
        weights = (1 if section.blocks[piece.block].kind is BlockKind.TURN else 0 for piece in pieces)
        by_turns = Pieces(list(accumulate(weights, initial=0)), ranks, hashes)
        points = cut(by_turns, 0, total, window=WINDOW_TURNS, maximum=MAX_TURNS, levels=_LEVELS[:1])
    else:
        points = [0]
    for begin, end in zip(points, [*points[1:], total], strict=True):
        starts = (
            cut(by_tokens, begin, end, window=WINDOW_TOKENS, maximum=MAX_TOKENS, levels=_LEVELS)
            if (not chat or by_tokens.starts[end] - by_tokens.starts[begin] > MAX_TOKENS)
            else [begin]
        )
        yield from zip(starts, [*starts[1:], end], strict=True)


def _anchor(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _pieces(section: Section, text: str, line_starts: Sequence[int], first: int, last: int, chat: bool) -> list[_Piece]:
    found: list[_Piece] = []
    blocks = section.blocks
    after_heading = True
    last_time: int | None = None
    for index in range(first, last):
        block = blocks[index]
        begin = line_starts[block.line - 1]
        end = line_starts[block.end_line] - 1
        body = text[begin:end]
        tokens = count_tokens(body)
        rank = _rank(block)
        if chat and block.kind is BlockKind.TURN and block.time_ms is not None:
            if last_time is not None and block.time_ms - last_time >= QUIET_MS:
                rank = 1
            last_time = block.time_ms
        if after_heading:
            rank = NEVER
        # What is said under a heading, or under the addresses of a mail, is never parted from it.
        after_heading = block.kind in (BlockKind.HEADING, BlockKind.ADDRESSES)
        if tokens <= LONG_BLOCK_TOKENS:
            if tokens or body.strip():
                found.append(_Piece(begin, end, max(tokens, 1), rank, index))
            continue
        for piece in _split_block(text, begin, end, block, index):
            found.append(piece if piece.begin != begin else _Piece(begin, piece.end, piece.tokens, rank, index))
    return found


def _rank(block: Block) -> int:
    if block.kind is BlockKind.HEADING:
        return 7 - block.level
    if block.kind in (BlockKind.SIGNATURE, BlockKind.ATTACHMENT, BlockKind.EVENT):
        return _LINE_GROUP
    return _PARAGRAPH


def _split_block(text: str, begin: int, end: int, block: Block, index: int) -> Iterator[_Piece]:
    if block.kind in (BlockKind.PARAGRAPH, BlockKind.TURN, BlockKind.QUOTE):
        # Where a sentence ends with its line, whole lines stay together.
        ends = [
            (match.end(), _LINE_GROUP if "\n" in match[0] else _LINE)
            for match in SENTENCE_END.finditer(text, begin, end)
        ]
        yield from _spans(text, begin, end, ends, index)
        return
    marks: list[tuple[int, int]] = []
    at = text.find("\n", begin, end) + 1
    blank = False
    while at > 0:
        following = text.find("\n", at, end)
        line = text[at : following if following >= 0 else end]
        if line.strip():
            strong = blank or _LIST_ITEM.match(line) is not None
            marks.append((at, _LINE_GROUP if strong else _LINE))
        blank = not line.strip()
        at = following + 1
    yield from _spans(text, begin, end, marks, index)


def _spans(text: str, begin: int, end: int, marks: list[tuple[int, int]], index: int) -> Iterator[_Piece]:
    at, rank = begin, _LINE_GROUP
    for mark, next_rank in [*marks, (end, _LINE_GROUP)]:
        if mark > at:
            tokens = count_tokens(text[at:mark])
            if tokens > LONG_SENTENCE_TOKENS:
                yield from _words(text, at, mark, rank, index)
            else:
                yield _Piece(at, mark, tokens, rank, index)
            at = mark
        rank = next_rank


def _words(text: str, begin: int, end: int, rank: int, index: int) -> Iterator[_Piece]:
    at = begin
    for match in _SPACES.finditer(text, begin, end):
        if match.end() > at:
            yield from _letters(text, at, match.end(), rank, index)
            rank = _WORD
            at = match.end()
    if at < end:
        yield from _letters(text, at, end, rank, index)


def _letters(text: str, begin: int, end: int, rank: int, index: int) -> Iterator[_Piece]:
    """Yield a word, or, where it is endless, pieces of it that end after letters chosen by what they are."""
    if end - begin <= LONG_WORD:
        yield _Piece(begin, end, count_tokens(text[begin:end]), rank, index)
        return
    at = begin
    for place in range(begin + 1, end):
        if place - at >= LONG_WORD or (place - at >= 8 and (ord(text[place - 1]) * 2_654_435_761 >> 16) & 7 == 0):
            yield _Piece(at, place, count_tokens(text[at:place]), rank, index)
            rank = _LETTERS
            at = place
    yield _Piece(at, end, count_tokens(text[at:end]), rank, index)


def _make(
    item: CanonicalItem,
    section: Section,
    text: str,
    line_starts: Sequence[int],
    pieces: Sequence[_Piece],
    seen: Counter[str],
) -> Chunk | None:
    begin, end = pieces[0].begin, pieces[-1].end
    body = text[begin:end].rstrip()
    if not body.strip():
        return None
    blocks = section.blocks[pieces[0].block : pieces[-1].block + 1]
    line = bisect_right(line_starts, begin)
    end_line = bisect_right(line_starts, max(begin, begin + len(body) - 1))
    parts = [piece.rank for piece in pieces[1:]]
    tokens = count_tokens(body) if _LETTERS in parts else sum(piece.tokens for piece in pieces)
    body_hash = content_hash(body)
    position = seen[body_hash]
    seen[body_hash] += 1
    first = blocks[0]
    authors = list(dict.fromkeys(block.author for block in blocks if block.author))
    time_ms = next((block.time_ms for block in blocks if block.time_ms is not None), section.time_ms)
    title = section.title
    return Chunk(
        text=body,
        tokens=tokens,
        body_hash=body_hash,
        position=position,
        time_ms=time_ms,
        author=", ".join(authors[:MAX_AUTHORS]) or section.author,
        reference=next((block.reference for block in blocks if block.reference), section.reference),
        title=title if title is not None else item.title,
        heading_path=_below_title(first.heading_path, title),
        locator=_locator(item, section, blocks, line, end_line),
        break_key=break_key(item.source_kind, section, first, time_ms),
        source_kind=item.source_kind,
        kinds=frozenset(block.kind for block in blocks),
        turns=sum(block.kind is BlockKind.TURN for block in blocks),
        authors=len(authors),
    )


def _below_title(heading_path: str | None, title: str | None) -> str | None:
    """Return the path without the heading that is the title already: it would be indexed twice."""
    if heading_path is None or title is None:
        return heading_path
    head, _, rest = heading_path.partition(HEADING_SEPARATOR)
    return (rest or None) if head == title else heading_path


def _locator(
    item: CanonicalItem, section: Section, blocks: Sequence[Block], line: int, end_line: int
) -> dict[str, Any]:
    if item.source_kind is SourceKind.DOCUMENT:
        if section.spans is not None:
            spanned = section.spans[line - 1 : end_line]
            line, end_line = spanned[0][0], max(last for _, last in spanned)
        return {**section.places[0], "line": line, "end_line": end_line}
    if item.source_kind is SourceKind.EMAIL:
        return dict(section.places[0])
    spans: dict[int, tuple[int, int]] = {}
    for block in blocks:
        low, high = spans.get(block.place, (block.place_line, block.place_line))
        spans[block.place] = (min(low, block.place_line), max(high, block.place_line))
    places = [{**section.places[place], "line": low, "end_line": high} for place, (low, high) in sorted(spans.items())]
    found: dict[str, Any] = dict(places[0])
    if len(places) > 1:
        found["places"] = places
    turns = [block.reference for block in blocks if block.reference]
    if turns:
        found["turns"] = turns
    return found
