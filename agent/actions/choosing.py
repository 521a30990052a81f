"""What an owner's filters choose to be forgotten: whole items, single chunks, summaries that say it.

All filters that are given must hold. Words are looked for in everything that is stored of a chunk, letter by letter:
the full-text index knows stems, and forgetting must not depend on stems.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from agent.ingest.forgotten import hash_of_words, hashes_to_forget
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.ledger import Ledger

PAGE = 2_000
_QUOTE_MARKS = re.compile(r"^[ \t]*(?:>[ \t]?)+", re.MULTILINE)
Progress = Callable[[int, int], None]
"""``(done, total)``: called now and then while chunks are looked through."""


def folded(text: str) -> str:
    """Return a text as it is compared: case, width and white space do not count."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


@dataclass(frozen=True)
class Wanted:
    """The filters. Times are UTC ms, both included; ``words`` is folded, ``entity`` as it is stored."""

    source_id: str | None = None
    item_key: str | None = None
    chunk_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    words: str | None = None
    entity: str | None = None

    def says(self, text: str | None) -> bool:
        """Return whether a text has the words in it; never without words to look for."""
        return self.words is not None and text is not None and self.words in folded(text)

    @property
    def takes_items(self) -> bool:
        """Whether items are chosen by what they are, not by some of their chunks."""
        return self.chunk_id is None and self.entity is None and self.since_ms is None and self.until_ms is None


@dataclass(frozen=True)
class ChosenItem:
    """An item that goes as a whole."""

    item_seq: int
    source_id: str
    item_key: str
    source_kind: str
    title: str | None
    held_hash: str | None
    seen_hash: str | None
    words_hash: str | None = None  # of a mail that is known by its bytes alone


@dataclass(frozen=True)
class ChosenChunk:
    """A chunk that goes while its item stays."""

    chunk_id: str
    item_seq: int
    source_id: str
    item_key: str
    source_kind: str
    title: str | None
    text: str


@dataclass
class Chosen:
    """What goes. The last numbers are how far was looked: what is stored later has higher ones."""

    items: dict[int, ChosenItem] = field(default_factory=dict)
    chunks: dict[str, ChosenChunk] = field(default_factory=dict)
    picked: dict[str, ChosenChunk] = field(default_factory=dict)  # also those whose items go as a whole
    summaries: set[str] = field(default_factory=set)
    files: set[tuple[str, str]] = field(default_factory=set)
    last_chunk: int = 0
    last_summary: int = 0

    def __bool__(self) -> bool:
        return bool(self.items or self.chunks or self.summaries or self.files)

    @property
    def titles(self) -> list[str]:
        """Some of the titles, each once, for a question."""
        found = [item.title or item.item_key for item in self.items.values()]
        found += [chunk.title or chunk.item_key for chunk in self.chunks.values()]
        return list(dict.fromkeys(found))

    @property
    def source_ids(self) -> set[str]:
        """The sources that lose something."""
        found = {item.source_id for item in self.items.values()} | {path[0] for path in self.files}
        return found | {chunk.source_id for chunk in self.chunks.values()}

    def covers(self, other: Chosen) -> bool:
        """Return whether all of another choice is in this one."""
        chunks = (chunk for chunk in other.chunks.values() if chunk.chunk_id not in self.chunks)
        return (
            other.items.keys() <= self.items.keys()
            and all(chunk.item_seq in self.items for chunk in chunks)
            and other.files <= self.files
        )


def choose(
    connection: Connection, wanted: Wanted, *, before: Chosen | None = None, progress: Progress | None = None
) -> Chosen:
    """Return what the filters choose now. Reads only; looking for words reads every chunk that the others allow.

    ``before`` is an earlier choice by the same filters: chunks that were stored by then are not read again.
    """
    found = Chosen()
    if before is not None:
        found.picked.update(before.picked)
        found.summaries |= before.summaries
        found.last_chunk, found.last_summary = before.last_chunk, before.last_summary
    items = {row[0]: row for row in _items(connection, wanted)}
    picked: dict[int, int] = {}
    for row in _chunks(connection, wanted, found, progress):
        _, chunk_id, item_seq, title, author, heading_path, reference, locator, text = row
        if wanted.words is not None and not _says_chunk(
            wanted, (text, title, author, heading_path, reference), locator
        ):
            item = items.get(item_seq)
            if item is None or not _says_item(wanted, item):
                continue
        item = items[item_seq]
        found.picked[chunk_id] = ChosenChunk(chunk_id, item_seq, item[1], item[2], item[3], title, text)
    # Of an earlier choice some may be gone by now, as ingest goes on.
    for chunk_id in [one for one, chunk in found.picked.items() if not _is_there(connection, one, chunk.item_seq)]:
        del found.picked[chunk_id]
    for chunk in found.picked.values():
        picked[chunk.item_seq] = picked.get(chunk.item_seq, 0) + 1
    for item_seq, row in items.items():
        if _goes_whole(connection, wanted, row, picked.get(item_seq, 0)):
            _, source_id, item_key, source_kind, title, _, _, held_hash, seen_hash = row
            found.items[item_seq] = ChosenItem(item_seq, source_id, item_key, source_kind, title, held_hash, seen_hash)
    if wanted.item_key is not None or not wanted.takes_items or wanted.words is not None:
        _take_twins(connection, found)
    for item_seq, one in found.items.items():
        if one.source_kind == SourceKind.EMAIL and one.item_key == one.held_hash:
            found.items[item_seq] = replace(one, words_hash=_words_hash(connection, item_seq))
    found.chunks = {one: chunk for one, chunk in found.picked.items() if chunk.item_seq not in found.items}
    if wanted.words is not None and wanted.takes_items and wanted.item_key is None:
        _take_summaries(connection, wanted, found)
        _take_files(connection, wanted, found)
    return found


def _is_there(connection: Connection, chunk_id: str, item_seq: int) -> bool:
    row = connection.one("SELECT item_seq FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,))
    return row is not None and row[0] == item_seq


def _items(connection: Connection, wanted: Wanted) -> list[tuple[Any, ...]]:
    return connection.all(
        """
        SELECT item_seq, source_id, item_key, source_kind, title, place, time_ms, held_hash, seen_hash
          FROM mem_tree_items
         WHERE (?1 IS NULL OR source_id = ?1) AND (?2 IS NULL OR item_key = ?2)
        """,
        (wanted.source_id, wanted.item_key),
    )


def paths_in(place: str) -> list[str]:
    """Return the files that an item lies in, from what is stored of its place."""
    parts = msgspec.json.decode(place).get("parts", ())
    return [str(part["path"]) for part in parts if "path" in part]


def _says_item(wanted: Wanted, row: tuple[Any, ...]) -> bool:
    _, _, item_key, _, title, place, *_ = row
    return wanted.says(item_key) or wanted.says(title) or any(map(wanted.says, paths_in(place)))


def _names_entity(entity: str, row: tuple[Any, ...]) -> bool:
    """Return whether an item is called after an entity: then its name says who was to be forgotten."""
    _, _, item_key, _, title, place, *_ = row
    named = re.compile(rf"(?<!\w){re.escape(folded(entity))}(?!\w)")
    return any(named.search(folded(text)) for text in (item_key, title or "", *paths_in(place)))


def _says_chunk(wanted: Wanted, texts: tuple[str | None, ...], locator: str) -> bool:
    if any(map(wanted.says, texts)):
        return True
    # A quotation goes on behind a mark at each line: the words are the words all the same.
    if texts[0] is not None and ">" in texts[0] and wanted.says(_QUOTE_MARKS.sub("", texts[0])):
        return True
    # The names of a locator's fields are nobody's words.
    return wanted.says(locator) and any(map(wanted.says, _strings(msgspec.json.decode(locator))))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)


def _goes_whole(connection: Connection, wanted: Wanted, row: tuple[Any, ...], picked: int) -> bool:
    """Return whether an item goes with its name: it was chosen by what it is, or it says the words itself.

    One that is called after an entity goes where nothing of it is left without. A mail never changes, so one that loses
    all of its words goes too. A document and a day of a chat may say something else tomorrow: of those only what they
    say now is forgotten.
    """
    item_seq, _, _, source_kind, _, _, time_ms, *_ = row
    if wanted.takes_items and (wanted.words is None or _says_item(wanted, row)):
        return True
    is_named = wanted.entity is not None and picked > 0 and _names_entity(wanted.entity, row)
    if source_kind != SourceKind.EMAIL and not is_named:
        return False
    chunks: int = connection.value("SELECT count(*) FROM mem_tree_chunks WHERE item_seq = ?", (item_seq,))
    if chunks or wanted.chunk_id is not None or wanted.entity is not None:
        return 0 < picked == chunks
    # Not read yet, or nothing in it: its date is all there is to go by.
    is_in_time = time_ms is not None and _in_time(wanted, time_ms)
    return not wanted.takes_items and is_in_time and (wanted.words is None or _says_item(wanted, row))


def _in_time(wanted: Wanted, time_ms: int) -> bool:
    return (wanted.since_ms is None or time_ms >= wanted.since_ms) and (
        wanted.until_ms is None or time_ms <= wanted.until_ms
    )


def _chunks(
    connection: Connection, wanted: Wanted, found: Chosen, progress: Progress | None
) -> Iterator[tuple[Any, ...]]:
    """Yield the chunks that every filter but the words allows, from where an earlier choice ended."""
    if wanted.takes_items and wanted.words is None:
        return
    total = int(connection.value("SELECT coalesce(max(seq), 0) FROM mem_tree_chunks"))
    # Who mentions an entity is decided after a chunk is stored, so these are always looked at from the beginning.
    after = found.last_chunk if wanted.entity is None else 0
    while True:
        rows = connection.all(
            """
            SELECT c.seq, c.chunk_id, c.item_seq, c.title, c.author, c.heading_path, c.reference,
                   c.locator, c.text
              FROM mem_tree_chunks AS c
              JOIN mem_tree_items AS i ON i.item_seq = c.item_seq
             WHERE c.seq > ?1
               AND (?2 IS NULL OR i.source_id = ?2)
               AND (?3 IS NULL OR i.item_key = ?3)
               AND (?4 IS NULL OR c.chunk_id = ?4)
               AND (?5 IS NULL OR coalesce(c.time_ms, i.time_ms) >= ?5)
               AND (?6 IS NULL OR coalesce(c.time_ms, i.time_ms) <= ?6)
               AND (?7 IS NULL OR EXISTS (
                     SELECT 1 FROM mem_tree_entity_index AS e WHERE e.entity = ?7 AND e.chunk_seq = c.seq))
             ORDER BY c.seq
             LIMIT ?8
            """,
            (
                after,
                wanted.source_id,
                wanted.item_key,
                wanted.chunk_id,
                wanted.since_ms,
                wanted.until_ms,
                wanted.entity,
                PAGE,
            ),
        )
        yield from rows
        if len(rows) < PAGE:
            break
        after = rows[-1][0]
        if progress is not None:
            progress(after, total)
    found.last_chunk = max(found.last_chunk, total)


def _take_twins(connection: Connection, found: Chosen) -> None:
    """Choose what else in a source has the content of an item that goes: the ledger forgets it by its content."""
    contents: dict[str, set[str]] = {}
    for item in found.items.values():
        contents.setdefault(item.source_id, set()).update(filter(None, (item.held_hash, item.seen_hash)))
    for source_id, hashes in contents.items():
        for row in connection.all(
            """
            SELECT item_seq, source_id, item_key, source_kind, title, held_hash, seen_hash
              FROM mem_tree_items
             WHERE source_id = ?1
               AND (held_hash IN (SELECT value FROM json_each(?2)) OR seen_hash IN (SELECT value FROM json_each(?2)))
            """,
            (source_id, msgspec.json.encode(sorted(hashes)).decode()),
        ):
            found.items.setdefault(row[0], ChosenItem(*row))


def _words_hash(connection: Connection, item_seq: int) -> str | None:
    rows = connection.all(
        """
        SELECT i.time_ms, c.body_hash
          FROM mem_tree_items AS i
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE i.item_seq = ?
         ORDER BY c.order_key
        """,
        (item_seq,),
    )
    return hash_of_words(rows[0][0], [body_hash for _, body_hash in rows]) if rows else None


def _take_summaries(connection: Connection, wanted: Wanted, found: Chosen) -> None:
    """Choose summaries that say the words: what they were made of may have changed since."""
    while rows := connection.all(
        """
        SELECT seq, summary_id, title, text
          FROM mem_tree_summaries
         WHERE seq > ? AND (?2 IS NULL OR source_id = ?2)
         ORDER BY seq
         LIMIT ?3
        """,
        (found.last_summary, wanted.source_id, PAGE),
    ):
        found.summaries.update(row[1] for row in rows if wanted.says(row[3]) or wanted.says(row[2]))
        found.last_summary = rows[-1][0]


def _take_files(connection: Connection, wanted: Wanted, found: Chosen) -> None:
    """Choose files that have the words in their names, also those that could not be read."""
    for source_id, path in connection.all(
        "SELECT source_id, path FROM mem_tree_files WHERE ?1 IS NULL OR source_id = ?1", (wanted.source_id,)
    ):
        if wanted.says(path):
            found.files.add((source_id, path))


def hashes_of(ledger: Ledger, wanted: Wanted, chosen: Chosen) -> tuple[set[str], set[str]]:
    """Return under which hashes the ledger forgets a choice: those of items and those of pieces."""
    items: set[str] = set()
    for item in chosen.items.values():
        items.add(ledger.item_hash(item.source_id, item.item_key))
        for content in (item.held_hash, item.seen_hash, item.words_hash):
            if content is not None:
                items.add(ledger.content_hash(item.source_id, content))
    # The key of a document is its path; one that could not be read has no row to say so.
    items.update(ledger.item_hash(source_id, path) for source_id, path in chosen.files)
    pieces: set[str] = set()
    says = wanted.says if wanted.words is not None else None
    for chunk in chosen.chunks.values():
        pieces |= hashes_to_forget(ledger, chunk.source_id, chunk.item_key, chunk.text, chunk.source_kind, says)
    return items, pieces
