"""Looking at a source: what is there, what changed, what is gone.

A scan costs a ``stat`` for each unchanged file. One run writes at most ``RUN_LIMIT`` changed items, then asks for its
own next run, which goes on behind what is already known. Items are told apart by content: a touched file costs its
hash. Nothing is deleted here; an item that is no longer there is marked ``gone`` and its chunks stay.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.db.state import get_state, set_state
from agent.errors import UsageFault
from agent.ingest.order import item_sort_key
from agent.ingest.readers.protocol import (
    FileSeen,
    Found,
    Hidden,
    Part,
    Resume,
    SourceMissing,
    Stamp,
    hash_of_parts,
)
from agent.ingest.readers.registry import find_source, reader_for
from agent.ingest.window import top_up
from agent.queue.types import NOTHING_TO_DO, NewJob, Plan, SyncSourcePayload
from agent.states import ItemState, SourceKind

if TYPE_CHECKING:
    from agent.config import Intent, SourceIntent
    from agent.db import Connection
    from agent.queue.registry import JobContext

log = logging.getLogger("sapwood.ingest")

RUN_LIMIT = 2_000
MISSING_SHARE = 0.5
_FEW = 3  # files; of so few, half may be gone without a disk having been unmounted


@dataclass(slots=True)
class _Item:
    """An item as this run sees it: what is stored of it, and its parts with what was found."""

    item_key: str
    source_kind: SourceKind
    parts: list[Part]
    time_ms: int | None
    title: str | None
    stored: bool
    unread: bool = False
    moved: dict[str, tuple[int, int]] = field(default_factory=dict)  # path → (old offset, new offset)


class _Run:
    """One scan: events in, rows to write out."""

    def __init__(self, connection: Connection, source: SourceIntent, known: Mapping[str, Stamp], most: int) -> None:
        self.connection = connection
        self.source = source
        self.known = known
        self.most = most
        self.items: dict[str, _Item] = {}
        self.stamps: dict[str, Stamp] = {}
        self.left: dict[str, set[str]] = {}  # changed files scanned whole: the hashes that are still in them
        self.here: set[str] = set()
        self.hidden: list[Hidden] = []
        self.gone: set[str] = set()
        self.hashes: set[str] = set()
        self.finished = False
        self.cursor: Resume | None = None

    def take(self, event: Found | FileSeen | Hidden) -> bool:
        """Take an event in; return whether the run is full and may stop behind it."""
        if isinstance(event, Hidden):
            self.hidden.append(event)
            return False
        if isinstance(event, Found):
            self._found(event)
            if event.resume is not None and len(self.items) >= self.most:
                self.cursor = Resume(str(event.part["path"]), event.resume)
                return True
            return False
        self._file(event)
        return len(self.items) >= self.most

    def _file(self, event: FileSeen) -> None:
        self.here.add(event.path)
        hashes, self.hashes = self.hashes, set()
        if event.unchanged:
            return
        old = self.known.get(event.path)
        touched_only = old is not None and old.file_hash is not None and old.file_hash == event.stamp.file_hash
        if event.whole:
            self.stamps[event.path] = event.stamp
            if old is not None and not touched_only and event.stamp.state == "current":
                self.left[event.path] = hashes
        else:
            # Its beginning was scanned by an earlier run. If there was a version before, a scan of the whole file has
            # to tell what went: a size that cannot be makes the next look read it again.
            again = old is not None and old.size >= 0
            self.stamps[event.path] = replace(event.stamp, size=-1) if again else event.stamp

    def _found(self, event: Found) -> None:
        part = event.part
        self.hashes.add(str(part["hash"]))
        item = self.items.get(event.item_key)
        fresh = item is None
        if item is None:
            item = self._load(event)
        path, offset = part["path"], part.get("offset", 0)
        for at, other in enumerate(item.parts):
            if other["path"] != path:
                continue
            if other == part:
                if item.unread:
                    break  # the content is the one that was seen, but it could not be read then
                return
            if other["hash"] == part["hash"]:
                item.moved[str(path)] = (int(other.get("offset", 0)), int(offset))
                item.parts[at] = part
                break
            if other.get("offset", 0) == offset:
                item.parts[at] = part
                break
        else:
            item.parts.append(part)
        if item.time_ms is None or (event.time_ms is not None and event.time_ms < item.time_ms):
            item.time_ms = event.time_ms
        item.title = item.title or event.title
        if fresh:
            self.items[event.item_key] = item

    def _load(self, event: Found) -> _Item:
        row = self.connection.one(
            "SELECT place, time_ms, title, state FROM mem_tree_items WHERE source_id = ? AND item_key = ?",
            (self.source.id, event.item_key),
        )
        if row is None:
            return _Item(event.item_key, event.source_kind, [], event.time_ms, event.title, stored=False)
        parts, unread = json.loads(row[0])["parts"], row[3] == ItemState.UNREADABLE
        return _Item(event.item_key, event.source_kind, parts, row[1], row[2], stored=True, unread=unread)

    def end(self) -> str | None:
        """Work out what is gone once everything was seen; return the reason where nothing may be concluded."""
        self.finished = True
        gone = {path for path in self.known if path not in self.here and not self._is_hidden(path)}
        problem = None
        if len(gone) > max(_FEW, MISSING_SHARE * len(self.known)) or (gone and not self.here):
            problem = f"{len(gone)} of {len(self.known)} files are no longer there: nothing was changed"
            gone = set()
        if self.hidden:
            problem = problem or f"{self.hidden[0].path}: {self.hidden[0].reason}"
        self._drop_parts(gone)
        self.gone = gone
        return problem

    def _is_hidden(self, path: str) -> bool:
        return any(path.startswith(f"{folder.path}/") for folder in self.hidden)

    def _drop_parts(self, gone: set[str]) -> None:
        if not gone and not self.left:
            return

        def stays(part: Part) -> bool:
            path = str(part["path"])
            return path not in gone and (path not in self.left or str(part["hash"]) in self.left[path])

        for item in self.items.values():
            item.parts = [part for part in item.parts if stays(part)]
        for item_key, source_kind, place, time_ms, title in self._concerned(gone):
            if item_key in self.items:
                continue
            parts = json.loads(place)["parts"]
            kept = [part for part in parts if stays(part)]
            if len(kept) < len(parts):
                self.items[item_key] = _Item(item_key, SourceKind(source_kind), kept, time_ms, title, stored=True)

    def _concerned(self, gone: set[str]) -> Iterable[tuple[Any, ...]]:
        columns = "SELECT item_key, source_kind, place, time_ms, title FROM mem_tree_items"
        if self.source.kind == "folder":
            # A document's key is its path.
            for path in sorted(gone):
                yield from self.connection.all(
                    f"{columns} WHERE source_id = ? AND item_key = ?", (self.source.id, path)
                )
            return
        last = 0
        while rows := self.connection.all(
            """
            SELECT item_key, source_kind, place, time_ms, title, item_seq
              FROM mem_tree_items
             WHERE source_id = ? AND item_seq > ? AND state <> 'gone'
             ORDER BY item_seq
             LIMIT 1000
            """,
            (self.source.id, last),
        ):
            for row in rows:
                yield row[:5]
            last = rows[-1][5]


def plan_sync(context: JobContext, payload: SyncSourcePayload, *, run_limit: int = RUN_LIMIT) -> Plan:
    """Return the plan of one look at a source. Blocks on the disk; writes at most about ``run_limit`` changed items.

    A source that is not there, or of a kind that is not built, is recorded as that, and nothing about its items is
    concluded.
    """
    connection, intent, now_ms = context.connection, context.intent, context.clock.now_ms()
    source = find_source(intent, context.paths, payload.source_id)
    if source is None:
        return NOTHING_TO_DO
    try:
        reader = reader_for(source.kind)
    except UsageFault as error:
        # An intent written by another version: said, not retried.
        refusal = str(error)
        return Plan(lambda connection: _record_tx(connection, source, now_ms, refusal))
    run = _Run(connection, source, load_stamps(connection, source.id), run_limit)
    problem: str | None = None
    try:
        for event in reader.scan(source, run.known, _load_cursor(connection, source.id)):
            context.check()
            if run.take(event):
                break
        else:
            problem = run.end()
    except SourceMissing as error:
        reason = str(error)
        log.warning("source %s is not there", source.id)
        return Plan(lambda connection: _record_tx(connection, source, now_ms, reason))
    return Plan(lambda connection: _write_tx(connection, intent, run, now_ms, problem))


def load_stamps(connection: Connection, source_id: str) -> dict[str, Stamp]:
    """Return what the last look knew of each file of a source, by its path."""
    rows = connection.all(
        "SELECT path, size, mtime_ns, inode, file_hash, state, reason FROM mem_tree_files WHERE source_id = ?",
        (source_id,),
    )
    return {row[0]: Stamp(*row[1:]) for row in rows}


def _write_tx(connection: Connection, intent: Intent, run: _Run, now_ms: int, problem: str | None) -> list[NewJob]:
    source = run.source
    for item in run.items.values():
        _store_item(connection, source, item)
    for path, stamp in run.stamps.items():
        _store_stamp(connection, source, path, stamp)
    for path in run.gone:
        connection.run("DELETE FROM mem_tree_files WHERE source_id = ? AND path = ?", (source.id, path))
    _save_cursor(connection, source.id, run.cursor)
    jobs = top_up(connection, intent, first=source.id, always=True)
    if run.finished:
        _record_tx(connection, source, now_ms, problem)
    else:
        jobs.append(NewJob.sync_source(source.id))
    return jobs


def _store_item(connection: Connection, source: SourceIntent, item: _Item) -> None:
    row = connection.one(
        "SELECT item_seq, seen_hash, held_hash, state FROM mem_tree_items WHERE source_id = ? AND item_key = ?",
        (source.id, item.item_key),
    )
    parts = sorted(item.parts, key=lambda part: (str(part["path"]), int(part.get("offset", 0))))
    place = json.dumps({"parts": parts}, ensure_ascii=False, separators=(",", ":"))
    seen = hash_of_parts(parts) if parts else None
    if row is None:
        if seen is not None:
            connection.run(
                """
                INSERT INTO mem_tree_items
                       (source_id, item_key, source_kind, place, title, time_ms, sort_key, seen_hash, state)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    source.id,
                    item.item_key,
                    str(item.source_kind),
                    place,
                    item.title,
                    item.time_ms,
                    item_sort_key(item.source_kind, item.item_key, item.time_ms),
                    seen,
                    str(ItemState.FOUND),
                ),
            )
        return
    item_seq, old_seen, held, state = row
    connection.run(
        """
        UPDATE mem_tree_items
           SET place = ?, seen_hash = ?, state = ?, reason = CASE WHEN ? = 'unreadable' THEN reason END
         WHERE item_seq = ?
        """,
        (place, seen, after := _next_state(item, seen, old_seen, held, ItemState(state)), after, item_seq),
    )
    if item.moved and item.source_kind is SourceKind.EMAIL:
        _move_locators(connection, item_seq, item.moved)


def _next_state(item: _Item, seen: str | None, old_seen: str | None, held: str | None, state: ItemState) -> ItemState:
    if seen is None:
        return ItemState.GONE
    if item.moved and item.source_kind is SourceKind.CHAT:
        return ItemState.FOUND  # the lines that its chunks point at are others now
    if seen == old_seen and state in (ItemState.FOUND, ItemState.QUEUED):
        return state
    # What could not be read and is found with the same content was another in between, or could not be opened.
    return ItemState.CURRENT if seen == held else ItemState.FOUND


def _move_locators(connection: Connection, item_seq: int, moved: Mapping[str, tuple[int, int]]) -> None:
    """Let a mail's chunks point at where it lies now: deleting one mail of a mailbox shifts all behind it."""
    for path, (before, after) in moved.items():
        connection.run(
            """
            UPDATE mem_tree_chunks
               SET locator = json_set(locator, '$.offset', ?)
             WHERE item_seq = ?
               AND json_extract(locator, '$.path') = ?
               AND json_extract(locator, '$.offset') = ?
            """,
            (after, item_seq, path, before),
        )


def _store_stamp(connection: Connection, source: SourceIntent, path: str, stamp: Stamp) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_files (source_id, path, size, mtime_ns, inode, file_hash, state, reason)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (source_id, path) DO UPDATE
           SET size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode,
               file_hash = excluded.file_hash, state = excluded.state, reason = excluded.reason
        """,
        (source.id, path, stamp.size, stamp.mtime_ns, stamp.inode, stamp.file_hash, stamp.state, stamp.reason),
    )
    if stamp.state == "unreadable" and source.kind == "folder":
        # A document that was read before keeps what is held of it, and says that this is old.
        connection.run(
            "UPDATE mem_tree_items SET state = ?, reason = ? WHERE source_id = ? AND item_key = ?",
            (str(ItemState.UNREADABLE), stamp.reason, source.id, path),
        )


def _record_tx(connection: Connection, source: SourceIntent, now_ms: int, problem: str | None) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms, last_error, synced_items)
        VALUES (?, ?, ?, ?, (SELECT count(*) FROM mem_tree_items WHERE source_id = ?))
        ON CONFLICT (source_id) DO UPDATE
           SET kind = excluded.kind, last_sync_ms = excluded.last_sync_ms, last_error = excluded.last_error,
               synced_items = excluded.synced_items
        """,
        (source.id, source.kind, now_ms, problem, source.id),
    )


def _load_cursor(connection: Connection, source_id: str) -> Resume | None:
    raw = get_state(connection, f"sync_cursor:{source_id}")
    if raw is None:
        return None
    path, offset = json.loads(raw)
    return Resume(path, offset)


def _save_cursor(connection: Connection, source_id: str, cursor: Resume | None) -> None:
    value = None if cursor is None else json.dumps([cursor.path, cursor.offset])
    if value is not None or get_state(connection, f"sync_cursor:{source_id}") is not None:
        set_state(connection, f"sync_cursor:{source_id}", value)
