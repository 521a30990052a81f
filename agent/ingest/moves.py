"""Renames: what is gone at one path and found at another in one look is the same document, and its memory moves along.

The row, its chunks with their vectors, scores, entities and results are kept under the new key; a normal reading of the
new key then puts titles and places right. Nothing is embedded or extracted again where the title is the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent import ids
from agent.db.items import forget_jobs, remove_item, remove_tree
from agent.db.nodes import detach_node, rename_in_results
from agent.ids import content_hash
from agent.ingest.order import item_sort_key
from agent.ingest.readers.protocol import Part, Stamp, Unreadable
from agent.ingest.readers.walk import locate, open_file
from agent.ingest.removal import seal_source
from agent.queue.types import NewJob, StalePlan
from agent.states import ItemState, Lifecycle, SourceKind, TreeKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.config import SourceIntent
    from agent.db import Connection

COST = 8
"""One document that moves holds the write lock for as long as so many that are only found."""
_ON_THE_WAY = "\0moving:"  # no key and no chunk's id begins with it


@dataclass(frozen=True, slots=True)
class Move:
    """A document that is to be found under another key. ``left``: there is nothing at its old path."""

    item_seq: int
    old_key: str
    new_key: str
    held_hash: str
    part: Part
    time_ms: int | None
    left: bool


class Origins:
    """Where the documents of a source that a look finds may have come from."""

    def __init__(self, connection: Connection, source: SourceIntent, known: Mapping[str, Stamp]) -> None:
        self._connection = connection
        self._source = source
        self._known = known
        self._holders: dict[str, list[tuple[int, str]]] | None = None
        self._taken: set[int] = set()

    def find(self, new_key: str, part: Part, time_ms: int | None) -> Move | None:
        """Return the move of a document with this content that is no longer where it was, or ``None``.

        Of several the one of the same name is taken, then the first by its path. Looks at the disk.
        """
        wanted = str(part["hash"])
        holders = [each for each in self._held().get(wanted, ()) if each[1] != new_key and each[0] not in self._taken]
        name = new_key.rpartition("/")[2]
        still: set[int] = set()
        found: Move | None = None
        for item_seq, old_key in sorted(holders, key=lambda each: (each[1].rpartition("/")[2] != name, each[1])):
            place = self._place(item_seq, old_key)
            if not self._holds_still(place, old_key, part):
                self._taken.add(item_seq)
                left = place is None or not os.path.lexists(place)
                found = Move(item_seq, old_key, new_key, wanted, part, time_ms, left)
                break
            if old_key.casefold() != new_key.casefold():
                still.add(item_seq)
        if still:
            # Once in a look: a folder may hold ten thousand equal notes made from one template.
            self._held()[wanted] = [each for each in self._held()[wanted] if each[0] not in still]
        return found

    def _held(self) -> dict[str, list[tuple[int, str]]]:
        if self._holders is None:
            self._holders = {}
            for held_hash, item_seq, item_key in self._connection.all(
                """
                SELECT held_hash, item_seq, item_key
                  FROM mem_tree_items
                 WHERE source_id = ? AND source_kind = 'document' AND held_hash IS NOT NULL
                """,
                (self._source.id,),
            ):
                self._holders.setdefault(held_hash, []).append((item_seq, item_key))
        return self._holders

    def _place(self, item_seq: int, old_key: str) -> str | None:
        place = self._connection.value("SELECT place FROM mem_tree_items WHERE item_seq = ?", (item_seq,))
        parts = json.loads(place)["parts"] if place else []
        try:
            return locate(self._source, parts[0] if parts else {"path": old_key})
        except Unreadable:
            return None

    def _holds_still(self, place: str | None, old_key: str, part: Part) -> bool:
        if place is None:
            return False
        try:
            found = os.lstat(place)
        except OSError:
            return False
        if old_key.casefold() == str(part["path"]).casefold() and _is_other_spelling(place, self._source, part):
            return False
        old = self._known.get(old_key)
        if old is not None and old.same_file(Stamp(found.st_size, found.st_mtime_ns, found.st_ino)):
            return True
        # Touched, or another content by now (two files that swapped their names).
        try:
            with open_file(place) as stream:
                return content_hash(stream.read()) == str(part["hash"])
        except OSError:
            return True


def _is_other_spelling(place: str, source: SourceIntent, part: Part) -> bool:
    """Return whether an old path is only another spelling of the new one, on a disk that tells no case apart."""
    try:
        if not os.path.samefile(place, locate(source, part)):
            return False
        return os.path.basename(place) not in os.listdir(os.path.dirname(place))
    except (OSError, Unreadable):
        return False


def move_tx(connection: Connection, source_id: str, moves: Sequence[Move]) -> list[NewJob]:
    """Let documents be found under their new keys, inside the caller's transaction, and return what has to be done.

    Their items wait to be read (``found``). What else is held at a new key is replaced. Raises ``StalePlan`` where an
    item is not what the look saw.
    """
    for move in moves:
        held = connection.one("SELECT item_key, held_hash FROM mem_tree_items WHERE item_seq = ?", (move.item_seq,))
        if held != (move.old_key, move.held_hash):
            raise StalePlan(f"item {move.item_seq}")
        _lift(connection, source_id, move)
    jobs: list[NewJob] = []
    for move in moves:
        there = connection.value(
            "SELECT item_seq FROM mem_tree_items WHERE source_id = ? AND item_key = ?", (source_id, move.new_key)
        )
        if there is not None:
            remove_item(connection, there)
        jobs.extend(_put_down(connection, source_id, move))
        if move.left:
            connection.run("DELETE FROM mem_tree_files WHERE source_id = ? AND path = ?", (source_id, move.old_key))
    return [*jobs, *seal_source(connection, source_id)] if moves else []


def _lift(connection: Connection, source_id: str, move: Move) -> None:
    """Take a document out of the trees and its names out of the way: two may be about to swap theirs."""
    remove_tree(connection, ids.tree_id(TreeKind.DOCUMENT, source_id, move.old_key))
    forget_jobs(connection, source_id, move.old_key)
    connection.run(
        "UPDATE mem_tree_items SET item_key = ? WHERE item_seq = ?", (f"{_ON_THE_WAY}{move.item_seq}", move.item_seq)
    )
    for (chunk_id,) in connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ?", (move.item_seq,)):
        detach_node(connection, chunk_id)
    connection.run(
        "UPDATE mem_tree_chunks SET chunk_id = ? || chunk_id WHERE item_seq = ?", (_ON_THE_WAY, move.item_seq)
    )


def _put_down(connection: Connection, source_id: str, move: Move) -> list[NewJob]:
    sort_key = item_sort_key(SourceKind.DOCUMENT, move.new_key, move.time_ms)
    jobs: list[NewJob] = []
    for seq, lifted, position, body_hash, lifecycle in connection.all(
        "SELECT seq, chunk_id, position, body_hash, lifecycle FROM mem_tree_chunks WHERE item_seq = ?",
        (move.item_seq,),
    ):
        old_id = lifted.removeprefix(_ON_THE_WAY)
        new_id = ids.chunk_id(SourceKind.DOCUMENT, source_id, move.new_key, position, body_hash)
        waits = lifecycle == Lifecycle.PENDING_EXTRACTION
        kept = lifecycle if waits or lifecycle == Lifecycle.DROPPED else str(Lifecycle.ADMITTED)
        connection.run(
            "UPDATE mem_tree_chunks SET chunk_id = ?, item_key = ?, sort_key = ?, lifecycle = ? WHERE seq = ?",
            (new_id, move.new_key, sort_key, kept, seq),
        )
        rename_in_results(connection, old_id, new_id)
        if waits:
            connection.run(
                "DELETE FROM mem_tree_jobs WHERE dedupe_key = ? AND status = 'ready'", (f"extract:{old_id}",)
            )
            jobs.append(NewJob.extract_chunk(new_id))
    connection.run(
        """
        UPDATE mem_tree_items
           SET item_key = ?, sort_key = ?, place = ?, time_ms = coalesce(?, time_ms), seen_hash = held_hash,
               grown_hash = NULL, state = ?, reason = NULL
         WHERE item_seq = ?
        """,
        (
            move.new_key,
            sort_key,
            json.dumps({"parts": [move.part]}, ensure_ascii=False, separators=(",", ":")),
            move.time_ms,
            str(ItemState.FOUND),
            move.item_seq,
        ),
    )
    return jobs
