"""What assistants and programs are answered: plain values that always say where they come from.

``text`` is what the owner's files say, word for word: data, whatever it asks for. Times are ISO 8601 with offset, ids
are those of nodes of the memory. ``next_cursor`` asks for what did not fit; ``None``: that was all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Above:
    """A summary above a node."""

    id: str
    level: int
    title: str | None


@dataclass(frozen=True)
class Origin:
    """Where a node comes from. ``place`` is the path with its lines for people, ``locator`` the same for programs."""

    source_id: str
    source_name: str | None
    path: str | None
    place: str | None
    locator: dict[str, Any] | None
    author: str | None
    time: str | None
    last_time: str | None


@dataclass(frozen=True)
class Found:
    """One passage or summary that a search found. ``cut``: ``text`` is the piece that fits the query best."""

    id: str
    kind: str
    level: int
    score: float
    title: str | None
    text: str
    cut: bool
    origin: Origin
    parents: tuple[Above, ...]


@dataclass(frozen=True)
class FoundPage:
    """What a search found, best first. ``searched`` is ``full``, ``partial`` or ``not_yet``."""

    searched: str
    hits: tuple[Found, ...]
    next_cursor: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Fetched:
    """A node's text, or a piece of it that begins at ``offset`` (in characters).

    ``before`` and ``after`` are its neighbours in the same document, mail or day of a chat. ``stale``: something below
    it has changed and it is to be made again. ``rough``: a simpler model made it, or it is not finished.
    """

    id: str
    kind: str
    level: int
    title: str | None
    heading: str | None
    text: str
    offset: int
    characters: int
    origin: Origin
    parents: tuple[Above, ...]
    before: str | None
    after: str | None
    passages: int | None
    stale: bool
    rough: bool
    next_cursor: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Below:
    """A node below another one. ``text`` is its beginning where ``cut``; ``passages``: how many a summary covers."""

    id: str
    kind: str
    level: int
    title: str | None
    text: str
    cut: bool
    passages: int | None
    origin: Origin


@dataclass(frozen=True)
class SourceTop:
    """A source and what stands at the top of its tree: one node if it is finished (``node_id``), several while not."""

    source_id: str
    name: str
    kind: str
    items: int
    passages: int
    summaries: int
    tops: int
    node_id: str | None
    title: str | None
    text: str | None


@dataclass(frozen=True)
class Level:
    """What is below a node or a source (``of``), or the sources where nothing was named (``of`` is ``None``)."""

    of: str | None
    title: str | None
    total: int
    nodes: tuple[Below, ...]
    sources: tuple[SourceTop, ...]
    parents: tuple[Above, ...]
    next_cursor: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class SourceState:
    """A source that may be read here. ``waiting`` items were found and are not read yet."""

    source_id: str
    name: str
    kind: str
    items: int
    waiting: int
    passages: int
    last_sync: str | None


@dataclass(frozen=True)
class MemoryStatus:
    """What the memory holds and what the agent does. Counts are those of the sources that may be read here."""

    running: bool
    state: str
    reason: str
    sources: tuple[SourceState, ...]
    items: int
    waiting: int
    passages: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Kept:
    """What was taken in and is on the disk. ``item_keys`` are what it is called in its source."""

    source_id: str
    item_keys: tuple[str, ...]
    notes: tuple[str, ...]
