"""Naming what is read, listing it, looking at it again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import SourceIntent
from agent.config_edit import add_source
from agent.errors import UsageFault
from agent.ids import slug
from agent.queue.types import NewJob
from agent.states import ItemState

if TYPE_CHECKING:
    from agent.actions.home import Home

AUTO = "auto"


@dataclass(frozen=True)
class Unreadable:
    """One item or file of a source that could not be read, and why."""

    item: str
    reason: str


@dataclass(frozen=True)
class Added:
    """A new source: its id, its kind, how many items a first look counted, and what that look could not read.

    ``overlaps`` are the ids of sources that lie inside it or around it: what is in both is read for each.
    """

    source_id: str
    kind: str
    name: str
    paths: tuple[str, ...]
    items: int
    unreadable: tuple[Unreadable, ...]
    overlaps: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceRow:
    """One source of the intent with what the memory knows of it. ``last_sync_ms`` is ``None`` before the first look."""

    id: str
    kind: str
    name: str
    paths: tuple[str, ...]
    private: bool
    exclude: tuple[str, ...]
    items: int
    chunks: int
    waiting: int
    unreadable: tuple[Unreadable, ...]
    last_sync_ms: int | None
    error: str | None


@dataclass(frozen=True)
class SourceList:
    """All sources, in the order they were named."""

    sources: tuple[SourceRow, ...]


@dataclass(frozen=True)
class Synced:
    """The sources that will be looked at."""

    queued: tuple[str, ...]


def add(
    home: Home,
    paths: Sequence[str],
    *,
    kind: str = AUTO,
    name: str | None = None,
    private: bool = False,
    exclude: Sequence[str] = (),
) -> Added:
    """Name a source, several paths of one kind being one source, and queue the first look at it.

    Counts what is there, which blocks for as long as listing a folder or reading a mailbox takes. Raises
    ``UsageFault`` for a path that is missing or named already and for a kind that this version does not read.
    """
    from agent.ingest.survey import detect, survey

    found = [_absolute(path) for path in paths]
    _refuse_twice(home, found)
    kinds = {detect(path) for path in found} if kind == AUTO else {kind}
    if len(kinds) > 1:
        raise UsageFault(
            "these paths are of different kinds",
            ", ".join(sorted(kinds)),
            "name them one by one, or say which with --kind",
        )
    kind = kinds.pop()
    looks = [survey(path, kind, exclude=tuple(exclude)) for path in found]
    items = sum(look.items for look in looks)
    unreadable = tuple(Unreadable(each.path, each.reason) for look in looks for each in look.unreadable)
    title = name or found[0].stem if found[0].is_file() else name or found[0].name
    source = SourceIntent(
        id=_free_id(home, title, given=name is not None),
        kind=kind,
        name=title,
        paths=tuple(str(path) for path in found),
        private=private,
        exclude=tuple(exclude),
    )
    add_source(home.paths, source)
    home.enqueue(NewJob.sync_source(source.id))
    return Added(source.id, kind, title, source.paths, items, unreadable, _overlaps(home, found))


def _overlaps(home: Home, paths: Sequence[Path]) -> tuple[str, ...]:
    """Return the ids of sources with a path inside one of these or around one."""

    def meets(held: Path) -> bool:
        return any(held.is_relative_to(path) or path.is_relative_to(held) for path in paths)

    return tuple(source.id for source in home.intent.sources if any(meets(Path(held)) for held in source.paths))


def _absolute(path: str) -> Path:
    if not path.strip():
        # It would be the folder that the command happens to run in.
        raise UsageFault("a path is empty", "", "name a file or a folder; `.` is the folder you are in")
    found = Path(os.path.abspath(Path(path).expanduser()))
    if not found.exists():
        raise UsageFault("there is nothing at this path", str(found), "check its spelling, or plug the disk in")
    return found


def _refuse_twice(home: Home, paths: Sequence[Path]) -> None:
    for path in paths:
        for source in home.intent.sources:
            if any(Path(held) == path for held in source.paths):
                raise UsageFault(
                    "this is a source already",
                    f"{path} is {source.id}",
                    f"look at it again: `sapwood sync {source.id}`",
                )
    if len(set(paths)) < len(paths):
        raise UsageFault("one path is named twice", ", ".join(map(str, paths)), "name each once")


def _free_id(home: Home, title: str, *, given: bool) -> str:
    wanted = slug(title)
    taken = {source.id for source in home.intent.sources}
    if wanted not in taken:
        return wanted
    if given:
        raise UsageFault("a source with this id exists", wanted, "give it another name with --name")
    number = 2
    while f"{wanted}-{number}" in taken:
        number += 1
    return f"{wanted}-{number}"


def sources(home: Home) -> SourceList:
    """Return the sources with their counts, and what of them could not be read and why."""
    with home.connection.snapshot():
        return SourceList(tuple(_row(home, source) for source in home.intent.sources))


def _row(home: Home, source: SourceIntent) -> SourceRow:
    from agent.ingest.unread import list_parked, list_unreadable

    connection = home.connection
    states = {
        str(state): int(count)
        for state, count in connection.all(
            "SELECT state, count(*) FROM mem_tree_items WHERE source_id = ? GROUP BY state", (source.id,)
        )
    }
    chunks = connection.value(
        """
        SELECT count(*)
          FROM mem_tree_items AS i
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE i.source_id = ?
        """,
        (source.id,),
    )
    looked = connection.one(
        "SELECT last_sync_ms, last_error FROM mem_tree_sources WHERE source_id = ?", (source.id,)
    ) or (None, None)
    parked = len(list_parked(connection, source.id))
    return SourceRow(
        id=source.id,
        kind=source.kind,
        name=source.name,
        paths=source.paths,
        private=source.private,
        exclude=source.exclude,
        items=sum(count for state, count in states.items() if state != ItemState.GONE),
        chunks=int(chunks),
        waiting=states.get(ItemState.FOUND, 0) + states.get(ItemState.QUEUED, 0) - parked,
        unreadable=tuple(Unreadable(each.path, each.reason) for each in list_unreadable(connection, source.id)),
        last_sync_ms=looked[0],
        error=looked[1],
    )


def sync(home: Home, source: str | None = None) -> Synced:
    """Queue a look at one source, or at each; one that waits already is not queued twice. Raises ``UsageFault``."""
    wanted = home.intent.sources if source is None else (home.source(source),)
    for each in wanted:
        home.enqueue(NewJob.sync_source(each.id))
    return Synced(tuple(each.id for each in wanted))
