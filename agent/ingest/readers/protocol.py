"""What every reader does: scan a source cheaply, read one of its items whole.

To add a reader, write a module with a class like these two methods and name it in ``readers/registry.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from agent.errors import SapwoodError
from agent.ids import content_hash, content_id
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

Part = dict[str, Any]
"""One stretch of one file that (a part of) an item was found in: ``path``, ``hash`` and what the reader needs."""


class SourceMissing(SapwoodError):
    """A source is not there as a whole (an unmounted disk): nothing about its items may be concluded."""


class Unreadable(SapwoodError):
    """One item cannot be read; the title is the reason in words."""


class Unreachable(Unreadable):
    """The file of an item cannot be opened now; that says nothing about its content, so the next look tries again."""


class Moved(SapwoodError):
    """A file no longer holds what was seen there: the source has to be looked at again. ``path`` names the file."""

    def __init__(self, path: str) -> None:
        super().__init__("the file changed since it was seen", path)
        self.path = path


@dataclass(frozen=True, slots=True)
class Stamp:
    """What spares the reading of a file: its size, times and inode as of the last look.

    ``tail_hash`` is what a later look needs to see that the file only grew (``growth.py``).
    """

    size: int
    mtime_ns: int
    inode: int
    file_hash: str | None = None
    state: str = "current"
    reason: str | None = None
    tail_hash: str | None = None

    def same_file(self, other: Stamp) -> bool:
        """Return whether nothing says that the file was touched."""
        return (self.size, self.mtime_ns, self.inode) == (other.size, other.mtime_ns, other.inode)

    def unreadable(self, reason: str, *, now_only: bool = False) -> Stamp:
        """Return the stamp of a file that cannot be read, with the reason in words.

        ``now_only``: it cannot be opened, which a permission mends without touching it: each look tries again.
        """
        return replace(self, size=-1 if now_only else self.size, state="unreadable", reason=reason, tail_hash=None)


@dataclass(frozen=True, slots=True)
class Found:
    """A part of an item. ``resume`` is where a later scan may go on behind it (readers of large files)."""

    item_key: str
    source_kind: SourceKind
    part: Part
    time_ms: int | None
    title: str | None
    resume: int | None = None


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file was looked at. It comes after everything found in it.

    ``unchanged``: its stamp is the old one, nothing was read. ``whole``: everything in it was found in this scan, so
    what is not among it is no longer there. ``grown``: only what was added behind the last look was, and all that was
    found by then is still in it (``whole`` is false then).
    """

    path: str
    stamp: Stamp
    unchanged: bool = False
    whole: bool = True
    grown: bool = False


@dataclass(frozen=True, slots=True)
class Hidden:
    """A folder could not be looked into; what lies below ``path`` is unknown, not gone."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Where the scan before this one stopped: inside this file, at this byte."""

    path: str
    offset: int


Event = Found | FileSeen | Hidden


class Reader(Protocol):
    """One kind of source."""

    kind: str
    source_kind: SourceKind

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        """Yield what there is, streaming. A file whose stamp is known costs a ``stat``; a touched one its hash.

        Blocks on the disk. Raises ``SourceMissing``.
        """
        ...

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        """Return one item whole, from the parts that were found. Raises ``Unreadable`` or ``Moved``. Blocks."""
        ...


def hash_of_parts(parts: Sequence[Part]) -> str:
    """Return the content hash of an item found in these parts: equal copies count once, order does not count."""
    hashes = sorted({str(part["hash"]) for part in parts})
    return hashes[0] if len(hashes) == 1 else content_id("parts", *hashes)


def checked(data: bytes, part: Part) -> bytes:
    """Return the bytes of a part if they are those that were found. Raises ``Moved``."""
    if content_hash(data) != part["hash"]:
        raise Moved(str(part["path"]))
    return data
