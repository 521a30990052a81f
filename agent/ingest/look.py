"""One scan of a source: a reader's events in, what they mean for the memory out.

Nothing is written here. Items are told apart by content: a touched file costs its hash, one that was renamed is the
same document elsewhere. What is gone is only known once everything was seen.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.ingest.holdback import Loss
from agent.ingest.moves import COST, Move, Origins
from agent.ingest.readers.protocol import (
    FileSeen,
    Found,
    Hidden,
    Part,
    Resume,
    Stamp,
    Unreadable,
)
from agent.ingest.readers.rules import Rules
from agent.ingest.readers.walk import locate, shut_out_by_owner
from agent.ingest.stamps import KnownFiles, veil
from agent.states import ItemState, SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.db import Connection
    from agent.ledger import Ledger


@dataclass(slots=True)
class SeenItem:
    """An item as a look sees it: what is stored of it, and its parts with what was found.

    ``moved``: where a part of it lies now, by where it lay (path, offset).
    """

    item_key: str
    source_kind: SourceKind
    parts: list[Part]
    time_ms: int | None
    title: str | None
    stored: bool
    unread: bool = False
    moved: dict[tuple[str, int], Part] = field(default_factory=dict)

    def lose(self, kept: list[Part]) -> None:
        """Keep these of the parts; what an equal one holds elsewhere has moved there."""
        for part in self.parts:
            if part in kept:
                continue
            twin = next((other for other in kept if other["hash"] == part["hash"]), None)
            if twin is not None:
                self.moved[_spot(part)] = twin
        self.parts = kept


def _spot(part: Part) -> tuple[str, int]:
    return str(part["path"]), int(part.get("offset", 0))


@dataclass(slots=True)
class Departure:
    """An item that loses parts: what stays without them, and what stays if the loss is held back.

    ``by_gone``: a content goes with its file. What an edit inside a file replaced is no loss.
    """

    item: SeenItem
    stay: list[Part]
    stay_held_back: list[Part]
    by_gone: bool

    @property
    def leaves(self) -> bool:
        """Whether the item goes whole, and not by the owner's own rules alone."""
        return not self.stay and bool(self.stay_held_back)

    @property
    def is_loss(self) -> bool:
        """Whether contents go that nothing else in the source holds."""
        return self.leaves or self.by_gone


class Look:
    """One scan. ``finished`` once everything was seen; until then nothing is said to be gone."""

    def __init__(
        self, connection: Connection, source: SourceIntent, known: KnownFiles, ledger: Ledger, most: int
    ) -> None:
        self.connection = connection
        self.source = source
        self.known = known
        self.ledger = ledger
        self.most = most
        self.items: dict[str, SeenItem] = {}
        self.moves: dict[str, Move] = {}
        self.stamps: dict[str, Stamp] = {}  # by path or veil
        self.unnamed: set[str] = set()  # paths and veils whose rows are to go
        self.left: dict[str, set[str]] = {}  # changed files scanned whole: the hashes that are still in them
        self.here: set[str] = set()
        self.hidden: list[Hidden] = []
        self.gone: set[str] = set()  # paths with nothing on the disk
        self.ruled: set[str] = set()  # paths that the owner's rules shut out by now
        self.shut: set[str] = set()  # paths that are left out by now though no owner said so
        self.departures: list[Departure] = []
        self.loss = Loss()
        self.finished = False
        self.cursor: Resume | None = None
        self._origins = Origins(connection, source, known)
        self._rules = Rules(source)
        self._away: set[str] = set()
        self._hashes: set[str] = set()
        self._found = 0
        self._forgotten = 0

    # -- a reader's events --------------------------------------------------------------------------------------------

    def take(self, event: Found | FileSeen | Hidden) -> bool:
        """Take an event in; return whether the look is full and may stop behind it."""
        if isinstance(event, Hidden):
            self.hidden.append(event)
            return False
        if isinstance(event, Found):
            self._take_found(event)
            if event.resume is not None and self._is_full():
                self.cursor = Resume(str(event.part["path"]), event.resume)
                return True
            return False
        self._take_file(event)
        return self._is_full()

    def _is_full(self) -> bool:
        return len(self.items) + COST * len(self.moves) >= self.most

    def _take_file(self, event: FileSeen) -> None:
        self.here.add(event.path)
        hashes, self._hashes = self._hashes, set()
        found, forgotten, self._found, self._forgotten = self._found, self._forgotten, 0, 0
        standing = self.known.veil_of(event.path)
        if standing is not None:
            self.here.add(standing)
        if event.unchanged:
            return
        old = self.known.get(event.path)
        touched_only = old is not None and old.file_hash is not None and old.file_hash == event.stamp.file_hash
        stamp = event.stamp
        if not event.whole and not event.grown and old is not None and old.size >= 0:
            # Its beginning was scanned by an earlier run. If there was a version before, a scan of the whole file has
            # to tell what went: a size that cannot be makes the next look read it again.
            stamp = replace(stamp, size=-1)
        elif event.whole and old is not None and not touched_only and stamp.state == "current":
            self.left[event.path] = hashes
        # All that is in it was forgotten, or was when it was last read.
        part_only = not event.whole and standing is None  # what was in it before is not forgotten
        if forgotten == found if found and not part_only else standing is not None:
            self.stamps[veil(self.ledger, self.source.id, event.path)] = stamp
            self.unnamed.add(event.path)
        else:
            self.stamps[event.path] = stamp
            if standing is not None:
                self.unnamed.add(standing)

    def _take_found(self, event: Found) -> None:
        part = event.part
        self._hashes.add(str(part["hash"]))
        self._found += 1
        if self.ledger.forgets_item(self.source.id, event.item_key, str(part["hash"])):
            self._forgotten += 1
            self._drop_forgotten(event)
            return
        item = self.items.get(event.item_key)
        fresh = item is None
        if item is None:
            item = self._load(event)
            if self._comes_from_elsewhere(event, item):
                return
        if not _merge(item, part):
            return
        if item.time_ms is None or (event.time_ms is not None and event.time_ms < item.time_ms):
            item.time_ms = event.time_ms
        item.title = item.title or event.title
        if fresh:
            self.items[event.item_key] = item

    def _comes_from_elsewhere(self, event: Found, item: SeenItem) -> bool:
        part = event.part
        if event.source_kind is not SourceKind.DOCUMENT or event.item_key != part["path"]:
            return False  # its key is not its path: another path changes nothing
        if any(other["hash"] == part["hash"] for other in item.parts):
            return False
        move = self._origins.find(event.item_key, part, event.time_ms)
        if move is None or self._is_hidden(move.old_key):
            return False
        self.moves[event.item_key] = move
        return True

    def _drop_forgotten(self, event: Found) -> None:
        """Let what is still held under the name of a forgotten content go: it is that content by now."""
        item = self.items.get(event.item_key) or self._load(event)
        kept = [other for other in item.parts if other["path"] != event.part["path"]]
        if item.stored and len(kept) < len(item.parts):
            item.parts = kept
            self.items[event.item_key] = item

    def _load(self, event: Found) -> SeenItem:
        row = self.connection.one(
            "SELECT place, time_ms, title, state FROM mem_tree_items WHERE source_id = ? AND item_key = ?",
            (self.source.id, event.item_key),
        )
        if row is None:
            return SeenItem(event.item_key, event.source_kind, [], event.time_ms, event.title, stored=False)
        parts, unread = json.loads(row[0])["parts"], row[3] == ItemState.UNREADABLE
        return SeenItem(event.item_key, event.source_kind, parts, row[1], row[2], stored=True, unread=unread)

    # -- what is gone -------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Work out what is gone, once everything was seen."""
        self.finished = True
        moved = {move.old_key for move in self.moves.values() if move.left}
        missing = [
            path
            for path in self.known.plain
            if path not in self.here and path not in moved and not self._is_hidden(path)
        ]
        for path in missing:
            self._tell_why(path)
        self._away = self.gone | self.shut
        self.unnamed |= self.known.veiled.keys() - self.here - self.stamps.keys()
        self.departures = list(self._depart())
        held, away = self._count_held(), sum(each.leaves for each in self.departures)
        self.loss = Loss(
            tuple(each.item.item_key for each in self.departures if each.is_loss),
            away,
            held,
            len(self._away),
            len(self.known.plain) - len(moved) - len(self.ruled),
            everything=away >= held > 0 and not self.moves and all(item.stored for item in self.items.values()),
        )

    def _is_hidden(self, path: str) -> bool:
        return any(path.startswith(f"{folder.path}/") for folder in self.hidden)

    def _tell_why(self, path: str) -> None:
        """Decide why a file was not seen: it is gone, or it is there as it was and is left out by now.

        What the owner's own rules leave out goes; what is left out because its folder looks like a cache by now is a
        loss like any other, and asked about where it is much.
        """
        found = on_disk(self.source, self._part_of(path))
        if found is None:
            self.gone.add(path)
            return
        old = self.known.plain[path]
        # A fault in a list of rules was told under the list's name, which is no file of the source.
        if old.state == "unreadable" or (old.mtime_ns, old.inode) == (found.st_mtime_ns, found.st_ino):
            by_owner = old.state == "unreadable" or shut_out_by_owner(self._rules, path)
            (self.ruled if by_owner else self.shut).add(path)
        else:
            # It was not there a moment ago, or it is shut out and was changed: the next look can tell.
            self.stamps[path] = replace(old, size=-1, mtime_ns=found.st_mtime_ns, inode=found.st_ino)

    def _part_of(self, path: str) -> Part:
        """Return what finds a file again: its key may not say how the disk spells it; a document's item does."""
        if path.isascii() and "\\" not in path:
            return {"path": path}
        place = self.connection.value(
            "SELECT place FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (self.source.id, path)
        )
        return next(iter(json.loads(place)["parts"]), {"path": path}) if place else {"path": path}

    def _depart(self) -> Iterator[Departure]:
        if not self.gone and not self.ruled and not self.shut and not self.left:
            return
        for item in self.items.values():
            if (departure := self._departure(item)) is not None:
                yield departure
        taken = {move.item_seq for move in self.moves.values()}
        for item_seq, item_key, source_kind, place, time_ms, title in self._concerned():
            if item_key in self.items or item_key in self.moves or item_seq in taken:
                continue
            parts = json.loads(place)["parts"]
            item = SeenItem(item_key, SourceKind(source_kind), parts, time_ms, title, stored=True)
            if (departure := self._departure(item)) is not None:
                yield departure

    def _departure(self, item: SeenItem) -> Departure | None:
        stay, held_back = [], []
        for part in item.parts:
            path = str(part["path"])
            if path in self.ruled:
                continue
            held_back.append(part)
            if (
                path not in self.gone
                and path not in self.shut
                and (path not in self.left or str(part["hash"]) in self.left[path])
            ):
                stay.append(part)
        if len(stay) == len(item.parts):
            return None
        kept = {part["hash"] for part in stay}
        by_gone = any(part["path"] in self._away and part["hash"] not in kept for part in held_back)
        return Departure(item, stay, held_back, by_gone)

    def _concerned(self) -> Iterator[tuple[Any, ...]]:
        columns = "SELECT item_seq, item_key, source_kind, place, time_ms, title FROM mem_tree_items"
        if self.source.kind == "folder":
            # A document's key is its path.
            for path in sorted(self.gone | self.ruled | self.shut):
                yield from self.connection.all(
                    f"{columns} WHERE source_id = ? AND item_key = ?", (self.source.id, path)
                )
            return
        last = 0
        while rows := self.connection.all(
            f"{columns} WHERE source_id = ? AND item_seq > ? AND state <> 'gone' ORDER BY item_seq LIMIT 1000",
            (self.source.id, last),
        ):
            yield from rows
            last = rows[-1][0]

    def _count_held(self) -> int:
        held: int = self.connection.value(
            "SELECT count(*) FROM mem_tree_items WHERE source_id = ? AND state <> 'gone'", (self.source.id,)
        )
        return held

    # -- the verdict --------------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """Take what is missing for gone."""
        for departure in self.departures:
            departure.item.lose(departure.stay)
            self.items[departure.item.item_key] = departure.item
        self.unnamed |= self.gone | self.ruled | self.shut

    def hold_back(self, *, look_again: bool) -> None:
        """Keep what is missing; only what the owner's own rules shut out goes.

        ``look_again``: the files that lost something are read at every look, so that the answer finds the loss.
        """
        for departure in self.departures:
            kept = departure.stay_held_back if departure.is_loss else departure.stay
            if len(kept) < len(departure.item.parts):
                departure.item.lose(kept)
                self.items[departure.item.item_key] = departure.item
        self.unnamed |= self.ruled
        if look_again:
            for path in self.left:
                self.stamps[path] = replace(self.stamps[path], size=-1)


def on_disk(source: SourceIntent, part: Part) -> os.stat_result | None:
    """Return what is known of the file that stands where a part names one, or ``None`` where there is none."""
    try:
        found = os.lstat(locate(source, part))
    except (OSError, ValueError, Unreadable):
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _merge(item: SeenItem, part: Part) -> bool:
    """Take a part into an item; return whether anything changed by it."""
    path, offset = part["path"], part.get("offset", 0)
    for at, other in enumerate(item.parts):
        if other["path"] != path:
            continue
        if other == part:
            # Unread: the content is the one that was seen, but it could not be read then.
            return item.unread
        if other["hash"] == part["hash"]:
            item.moved[_spot(other)] = part
            item.parts[at] = part
            return True
        if other.get("offset", 0) == offset:
            item.parts[at] = part
            return True
    item.parts.append(part)
    return True
