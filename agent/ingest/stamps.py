"""What is remembered of each file of a source, so that an unchanged one is not read again.

A file whose content was forgotten keeps its stamp, but not its name: the row stands under a *veil*, a salted hash of
its path. Who has the path finds the row; who has only the row learns nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agent.ids import content_id
from agent.ingest.readers.protocol import Stamp
from agent.states import ItemState

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.ledger import Ledger

VEIL = "\0"  # no path begins with it


def veil(ledger: Ledger, source_id: str, path: str) -> str:
    """Return the path under which the stamp of a forgotten file is kept."""
    return VEIL + content_id(ledger.salt, "path", source_id, path)


class KnownFiles(Mapping[str, Stamp]):
    """What the last look knew of the files of a source, by path. Iterates over those whose names are known."""

    def __init__(self, stamps: Mapping[str, Stamp], ledger: Ledger, source_id: str) -> None:
        self.plain = {path: stamp for path, stamp in stamps.items() if not path.startswith(VEIL)}
        self.veiled = {path: stamp for path, stamp in stamps.items() if path.startswith(VEIL)}
        self._ledger = ledger
        self._source_id = source_id

    def veil_of(self, path: str) -> str | None:
        """Return the veil under which the stamp of a file stands, or ``None`` where it is under none."""
        if not self.veiled:
            return None
        name = veil(self._ledger, self._source_id, path)
        return name if name in self.veiled else None

    def __getitem__(self, path: str) -> Stamp:
        found = self.plain.get(path)
        if found is None and (name := self.veil_of(path)) is not None:
            found = self.veiled[name]
        if found is None:
            raise KeyError(path)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.plain)

    def __len__(self) -> int:
        return len(self.plain)


def load_stamps(connection: Connection, source_id: str) -> dict[str, Stamp]:
    """Return what the last look knew of each file of a source, by its path or its veil."""
    rows = connection.all(
        """
        SELECT path, size, mtime_ns, inode, file_hash, state, reason, tail_hash
          FROM mem_tree_files
         WHERE source_id = ?
        """,
        (source_id,),
    )
    return {row[0]: Stamp(*row[1:]) for row in rows}


def store_stamp(connection: Connection, source_id: str, path: str, stamp: Stamp, *, document: bool) -> None:
    """Write down what was seen of a file, inside the caller's transaction.

    ``document``: the file is an item too. One that was read before and cannot be read now keeps what is held of it,
    and says that this is old.
    """
    connection.run(
        """
        INSERT INTO mem_tree_files (source_id, path, size, mtime_ns, inode, file_hash, state, reason, tail_hash)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
        ON CONFLICT (source_id, path) DO UPDATE
           SET size = excluded.size, mtime_ns = excluded.mtime_ns, inode = excluded.inode,
               file_hash = excluded.file_hash, state = excluded.state, reason = excluded.reason,
               tail_hash = excluded.tail_hash
        """,
        (
            source_id,
            path,
            stamp.size,
            stamp.mtime_ns,
            stamp.inode,
            stamp.file_hash,
            stamp.state,
            stamp.reason,
            stamp.tail_hash,
        ),
    )
    if document and stamp.state == "unreadable":
        connection.run(
            "UPDATE mem_tree_items SET state = ?, reason = ? WHERE source_id = ? AND item_key = ?",
            (str(ItemState.UNREADABLE), stamp.reason, source_id, path),
        )


def drop_stamp(connection: Connection, source_id: str, path: str) -> None:
    """Delete what is remembered of a file, inside the caller's transaction."""
    connection.run("DELETE FROM mem_tree_files WHERE source_id = ? AND path = ?", (source_id, path))


def distrust_stamp(connection: Connection, source_id: str, path: str) -> None:
    """Let the next look read a file whatever its stamp says. The row stays: without it nobody would miss the file."""
    connection.run(
        "UPDATE mem_tree_files SET size = -1, file_hash = NULL WHERE source_id = ? AND path = ?", (source_id, path)
    )


def read_anew_tx(connection: Connection, source_id: str) -> None:
    """Let the next look read every file of a source whatever its stamp says, inside the caller's transaction."""
    connection.run(
        "UPDATE mem_tree_files SET size = -1, file_hash = NULL WHERE source_id = ? AND state = 'current'", (source_id,)
    )
