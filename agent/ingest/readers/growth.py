"""Files that only grow: a mailbox or a log whose end is as it was is read from its last entry on.

What a look leaves behind is one word: where it ended, where the last entry begins, and a hash of the bytes before the
end. Whoever rewrites a file moves its bytes or gives it another inode, and the whole of it is read again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from agent.ingest.readers.protocol import Stamp

TAIL = 64 * 1024
_FORM = "1"  # of the word; another one is not understood and the file is read whole


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a look at a file ended, and what it has to know to go on.

    ``end`` and ``entry`` (where the last entry begins) are bytes; ``note`` is the reader's own.
    """

    end: int
    entry: int
    note: str = ""


def sign(stream: IO[bytes], mark: Mark) -> str:
    """Return the word for a mark: it holds a hash of the bytes before ``end`` as they are now. Reads 64 KiB."""
    return f"{_FORM}:{mark.end}:{mark.entry}:{_hash(stream, mark.end)}:{mark.note}"


def grown_from(stream: IO[bytes], old: Stamp | None, new: Stamp) -> Mark | None:
    """Return the mark of the last look where the file only grew since, or ``None``. Reads 64 KiB."""
    if old is None or old.tail_hash is None or old.state != "current" or old.size < 0 or old.inode != new.inode:
        return None
    form, _, rest = old.tail_hash.partition(":")
    fields = rest.split(":", 3)
    if form != _FORM or len(fields) != 4:
        return None
    end, entry, digest, note = fields
    mark = Mark(int(end), int(entry), note)
    # A file that is as long as it was, and yet was touched, was changed in place.
    if new.size <= old.size or new.size < mark.end or _hash(stream, mark.end) != digest:
        return None
    return mark


def _hash(stream: IO[bytes], end: int) -> str:
    begin = max(0, end - TAIL)
    stream.seek(begin, os.SEEK_SET)
    return blake2b(stream.read(end - begin), digest_size=16).hexdigest()
