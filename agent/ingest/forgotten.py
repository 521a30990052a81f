"""What was forgotten stays out of what is read: pieces of text, and chunks without those that the ledger names.

A piece is the smallest unit that cuts go around: a line, and in it a sentence. It is found in a chunk's text alone, so
it is the same piece whichever chunk it lands in after an edit elsewhere. Three kinds need a thought of their own:

- What only holds the words together (a heading, the addresses of a mail, who speaks in a chat) goes with the words
  under it, and is remembered by itself only where it says what is to be forgotten: else forgetting one paragraph would
  take the same heading, the same sender out of all others.
- Quoted words are the words: the marks of a quote do not count.
- A sentence so long that a cut may stand inside it is also known by its runs of a few words: whatever part of it lands
  in a chunk is made of these.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.ids import content_hash, content_id
from agent.ingest.canonical import HEADING_SEPARATOR
from agent.ingest.chunker import LONG_SENTENCE_TOKENS, LONG_WORD, SENTENCE_END, Chunk
from agent.ledger import LONG_PIECE
from agent.states import SourceKind
from agent.tokens import count_tokens

if TYPE_CHECKING:
    from agent.ledger import Ledger

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*|={1,6}[ \t]+(.+?)[ \t]*")
_ADDRESSES = re.compile(r"(?:From|To|Cc): ")
_QUOTE_MARKS = re.compile(r"(?:[ \t]*>)+[ \t]?")
# Time and name before what is said: "[12:04] <anna> ", "12:04 <@anna> ", "[01.02.24, 12:04] Anna: ".
_SPEAKER = re.compile(
    r"(?:\[[^\]\n]{1,40}\]|\d{4}-\d\d-\d\d[T ]\S{4,20}|\d{1,2}:\d\d(?::\d\d)?)?[ \t]*"
    r"(?:<[^>\n]{1,80}>|\* \S{1,40})[ \t]*"
)
_WORD = re.compile(r"\S+")
SURE_STRETCH = 80
"""So many letters in a row of a forgotten sentence are no coincidence."""
_SAYS_SOMETHING = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a chunk's text. ``words`` is what is hashed; ``frame``: it only holds other pieces together."""

    begin: int
    end: int
    words: str
    frame: bool = False


def pieces_of(text: str, source_kind: SourceKind | str) -> list[Piece]:
    """Return the pieces of a chunk's text in order; every letter that is not white space is in one. Pure."""
    found: list[Piece] = []
    addresses = source_kind == SourceKind.EMAIL
    begin = 0
    for line in text.split("\n"):
        end = begin + len(line)
        if line.strip():
            addresses = addresses and _ADDRESSES.match(line) is not None
            if addresses:
                found.append(Piece(begin, end, line.strip(), frame=True))
            else:
                found.extend(_of_line(text, begin, end, source_kind))
        begin = end + 1
    return found


def _of_line(text: str, begin: int, end: int, source_kind: SourceKind | str) -> Iterator[Piece]:
    if source_kind == SourceKind.DOCUMENT:
        heading = _HEADING.fullmatch(text, begin, end)
        if heading is not None:
            yield Piece(begin, end, (heading[1] or heading[2] or "").strip(), frame=True)
            return
    prefix = _QUOTE_MARKS.match(text, begin, end)
    if source_kind == SourceKind.CHAT:
        prefix = _SPEAKER.match(text, begin, end) or prefix
    at = begin
    if prefix is not None and prefix.end() < end:
        at = prefix.end()
        yield Piece(begin, at, text[begin:at].strip(), frame=True)
    for match in SENTENCE_END.finditer(text, at, end):
        if match.end() > at:
            yield Piece(at, match.end(), text[at : match.end()].strip())
            at = match.end()
    if text[at:end].strip():
        yield Piece(at, end, text[at:end].strip())


def hashes_to_forget(
    ledger: Ledger,
    source_id: str,
    item_key: str,
    text: str,
    source_kind: SourceKind | str,
    says: Callable[[str], bool] | None = None,
) -> set[str]:
    """Return the hashes under which a whole chunk is forgotten.

    ``says`` tells whether a text is what the owner wants gone by its words; then a heading or an address that says it
    is remembered too. Of a chunk that is nothing but such, all of it is.
    """
    pieces = pieces_of(text, source_kind)
    bare = all(piece.frame for piece in pieces)
    found: set[str] = set()
    for at, piece in enumerate(pieces):
        if piece.frame and not bare and (says is None or not says(piece.words)):
            continue
        found.add(ledger.piece_hash(source_id, item_key, piece.words))
        if not piece.frame and _may_be_parted(piece, at in (0, len(pieces) - 1)):
            found.update(ledger.piece_hash(source_id, item_key, run) for _, _, run in _runs(text, piece))
    return found


def hash_of_words(time_ms: int | None, body_hashes: Sequence[str]) -> str:
    """Return the hash of what a mail says, by its date and its chunks in order.

    One without a Message-ID is known by its bytes alone, and a mail program writes into its headers that it was read.
    """
    return content_id("words", str(time_ms), *body_hashes)


def _may_be_parted(piece: Piece, at_edge: bool) -> bool:
    """Return whether a cut may stand in this sentence, or may have made it what it is."""
    length = len(piece.words)
    if at_edge and length >= SURE_STRETCH:
        return True
    return length > LONG_SENTENCE_TOKENS and count_tokens(piece.words) > LONG_SENTENCE_TOKENS


def _units(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    units: list[tuple[int, int]] = []
    for match in _WORD.finditer(text, begin, end):
        if match.end() - match.start() > LONG_WORD:
            units.extend((at, at + 1) for at in range(match.start(), match.end()))
        else:
            units.append(match.span())
    return units


def _runs(text: str, piece: Piece) -> Iterator[tuple[int, int, str]]:
    """Yield the shortest runs of whole words of enough letters, from each word on and up to each word.

    They depend on nothing around them, so every part of a sentence is covered by runs that were there before.
    """
    units = _units(text, piece.begin, piece.end)
    spans: set[tuple[int, int]] = set()
    last = 0
    for first in range(len(units)):
        while last < len(units) and units[last][1] - units[first][0] < LONG_PIECE:
            last += 1
        if last == len(units):
            break
        spans.add((units[first][0], units[last][1]))
    first = len(units) - 1
    for at in range(len(units) - 1, -1, -1):
        first = min(first, at)
        while first >= 0 and units[at][1] - units[first][0] < LONG_PIECE:
            first -= 1
        if first < 0:
            break
        spans.add((units[first][0], units[at][1]))
    for begin, end in sorted(spans):
        yield begin, end, text[begin:end]


def without_forgotten(chunks: Sequence[Chunk], ledger: Ledger, source_id: str, item_key: str) -> list[Chunk]:
    """Return the chunks of an item without the pieces that the ledger forgets. Pure.

    A chunk of which nothing is left that says anything is dropped; one that lost a part has that part's hashes, tokens
    and position anew. All others are the same objects.
    """
    if not ledger.pieces:
        return list(chunks)
    kept: list[Chunk] = []
    for chunk in chunks:
        text = text_left(ledger, source_id, item_key, chunk.text, chunk.source_kind)
        if text is None:
            continue
        path = path_left(ledger, source_id, item_key, chunk.heading_path)
        if text != chunk.text:
            chunk = replace(
                chunk,
                text=text,
                tokens=count_tokens(text),
                body_hash=content_hash(text),
                author=_authors_left(chunk, text),
            )
        kept.append(chunk if path == chunk.heading_path else replace(chunk, heading_path=path))
    seen: Counter[str] = Counter()
    numbered: list[Chunk] = []
    for chunk in kept:
        position = seen[chunk.body_hash]
        seen[chunk.body_hash] += 1
        numbered.append(chunk if chunk.position == position else replace(chunk, position=position))
    return numbered


def text_left(ledger: Ledger, source_id: str, item_key: str, text: str, source_kind: SourceKind | str) -> str | None:
    """Return a chunk's text without what the ledger forgets; the same object where it forgets none of it.

    ``None`` where nothing is left that says anything.
    """
    pieces = pieces_of(text, source_kind)
    gone = [False] * len(pieces)
    parts: list[tuple[int, int]] = []
    for at, piece in enumerate(pieces):
        if ledger.forgets_piece(source_id, item_key, piece.words):
            gone[at] = True
        elif not piece.frame:
            found = _stretches(ledger, source_id, item_key, text, piece, at in (0, len(pieces) - 1))
            if found == [(piece.begin, piece.end)]:
                gone[at] = True
            else:
                parts += found
    if not parts and not any(gone):
        return text
    _drop_speakers(text, pieces, gone)
    cuts = [(piece.begin, piece.end) for at, piece in enumerate(pieces) if gone[at]] + parts
    left = _cut_out(text, sorted(cuts))
    says = any(not piece.frame and _SAYS_SOMETHING.search(left) for piece in pieces_of(left, source_kind))
    return left if says else None


def _stretches(
    ledger: Ledger, source_id: str, item_key: str, text: str, piece: Piece, at_edge: bool
) -> list[tuple[int, int]]:
    """Return the stretches of a sentence that are part of a forgotten one: all of it, or long ones.

    Two sentences may have a turn of phrase in common; that is no reason to cut it out of either.
    """
    if not (at_edge and len(piece.words) >= LONG_PIECE) and not _may_be_parted(piece, at_edge):
        return []
    found: list[tuple[int, int]] = []
    for begin, end, run in _runs(text, piece):
        if not ledger.forgets_piece(source_id, item_key, run):
            continue
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    last = piece.begin + len(text[piece.begin : piece.end].rstrip())
    if found and found[0][0] <= piece.begin and found[-1][1] >= last and len(found) == 1:
        return [(piece.begin, piece.end)]
    return [(begin, end) for begin, end in found if end - begin >= SURE_STRETCH]


def _drop_speakers(text: str, pieces: Sequence[Piece], gone: list[bool]) -> None:
    """Let the marks before a line go where everything behind them in the line goes."""
    for at, piece in enumerate(pieces):
        if not piece.frame or gone[at] or text[piece.end : piece.end + 1] in ("\n", ""):
            continue
        behind = at + 1
        while behind < len(pieces) and "\n" not in text[piece.end : pieces[behind].begin] and gone[behind]:
            behind += 1
        if behind == len(pieces) or "\n" in text[piece.end : pieces[behind].begin]:
            gone[at] = True


def _cut_out(text: str, cuts: Sequence[tuple[int, int]]) -> str:
    """Return the text without these stretches, and without the lines that are empty for it."""
    kept: list[str] = []
    begin = 0
    next_cut = 0
    for line in text.split("\n"):
        end = begin + len(line)
        left, at = "", begin
        while next_cut < len(cuts) and cuts[next_cut][0] < end:
            left += text[at : max(at, cuts[next_cut][0])]
            at = max(at, cuts[next_cut][1])
            next_cut += 1
        left += text[at:end]
        if left == line:
            if line.strip() or not kept or kept[-1].strip():
                kept.append(line)
        elif left.strip():
            kept.append(left.rstrip())
        begin = end + 1
    return "\n".join(kept).strip("\n")


def path_left(ledger: Ledger, source_id: str, item_key: str, path: str | None) -> str | None:
    """Return a heading path without the headings that the ledger forgets."""
    if path is None:
        return None
    parts = path.split(HEADING_SEPARATOR)
    kept = [part for part in parts if not ledger.forgets_piece(source_id, item_key, part)]
    return path if len(kept) == len(parts) else (HEADING_SEPARATOR.join(kept) or None)


def _authors_left(chunk: Chunk, text: str) -> str | None:
    """Return the authors of a chat's turns that are left; a mail has its sender whatever is left of it."""
    if chunk.author is None or chunk.source_kind is not SourceKind.CHAT:
        return chunk.author
    return ", ".join(name for name in chunk.author.split(", ") if name in text) or None
