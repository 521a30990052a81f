"""The levels of the memory as an assistant walks them down, and what each of their nodes tells of itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from agent.actions.assistants_answers import Above, Below, Level, Origin, SourceTop
from agent.actions.assistants_paging import ROOM_CHARS, cursor_at, cut, fill, offset_of
from agent.errors import AgentFault
from agent.states import NodeKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from agent.actions.home import Home
    from agent.config import SourceIntent
    from agent.recall.levels import Page
    from agent.recall.provenance import Origin as StoredOrigin
    from agent.recall.provenance import Parent

BELOW_CHARS = 500
TITLE_CHARS = 160
AUTHOR_CHARS = 160
PLACES = 3
PAGE_NODES = 60
PAGE_SOURCES = 200
PRIVATE_NOTE = "Sources that their owner named private are left out."
EMPTY_NOTE = "The memory is empty: its owner has named nothing to read yet (`sapwood add PATH`, then `sapwood run`)."


def origin_of(stored: StoredOrigin) -> Origin:
    """Return where something comes from, cut to what an answer has room for."""
    return Origin(
        source_id=stored.source_id,
        source_name=cut(stored.source_name, TITLE_CHARS),
        path=stored.path,
        place=place(stored.path, stored.locator),
        locator=short_locator(stored.locator),
        author=cut(stored.author, AUTHOR_CHARS),
        time=stored.time,
        last_time=stored.last_time,
    )


def place(path: str | None, locator: dict[str, Any] | None) -> str | None:
    """Return where it stands, as a person would write it; ``None`` where that is not known."""
    from agent.actions.memory import place_words

    return place_words(path, locator) or None


def short_locator(locator: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a locator with its first few places."""
    if locator is None or not isinstance(locator.get("places"), list):
        return locator
    return {**locator, "places": locator["places"][:PLACES]}


def above(parents: Iterable[Parent]) -> tuple[Above, ...]:
    """Return the summaries above a node, the nearest first."""
    return tuple(Above(parent.node_id, parent.level, cut(parent.title, TITLE_CHARS)) for parent in parents)


def source_level(home: Home, sources: Sequence[SourceIntent], cursor: str | None) -> Level:
    """Return the level above all nodes: these sources, each with the top of its tree."""
    question = ("sources", *(each.id for each in sources))
    offset = offset_of(cursor, *question)
    tops = fill(partial(_source_top, home, each) for each in sources[offset : offset + PAGE_SOURCES])
    end = offset + len(tops)
    notes = [] if home.intent.sources else [EMPTY_NOTE]
    if len(sources) < len(home.intent.sources):
        notes.append(PRIVATE_NOTE)
    return Level(
        of=None,
        title=None,
        total=len(sources),
        nodes=(),
        sources=tops,
        parents=(),
        next_cursor=cursor_at(end, *question) if end < len(sources) else None,
        notes=tuple(notes),
    )


def _source_top(home: Home, source: SourceIntent, room: int) -> SourceTop:
    from agent.recall.levels import count_source, top_of
    from agent.recall.show import node_of

    page = top_of(home.connection, source.id, 1)
    counts = count_source(home.connection, source.id)
    only = node_of(home.connection, *page.nodes[0]) if page.total == 1 and page.nodes else None
    return SourceTop(
        source_id=source.id,
        name=cut(source.name, TITLE_CHARS) or source.id,
        kind=source.kind,
        items=counts.items,
        passages=counts.chunks,
        summaries=counts.summaries,
        tops=page.total,
        node_id=None if only is None else only.node_id,
        title=None if only is None else cut(only.title, TITLE_CHARS),
        text=None if only is None else cut(only.text, min(BELOW_CHARS, room)),
    )


def level(
    home: Home,
    of: str,
    title: str | None,
    look: Callable[[int, int], Page],
    parents: tuple[Above, ...],
    cursor: str | None,
) -> Level:
    """Return a page of what is below a node or at the top of a source, as ``look(limit, offset)`` finds it."""
    # What is there is a part of the question: a cursor through a level that has changed since is refused.
    total = look(0, 0).total
    question = ("below", of, total)
    offset = offset_of(cursor, *question)
    page = look(PAGE_NODES, offset)
    nodes = fill((partial(_below, home, *each) for each in page.nodes), ROOM_CHARS - 3_000)
    end = offset + len(nodes)
    return Level(
        of=of,
        title=cut(title, TITLE_CHARS),
        total=page.total,
        nodes=nodes,
        sources=(),
        parents=parents,
        next_cursor=cursor_at(end, *question) if end < page.total else None,
        notes=() if page.total else ("Nothing of it is read yet.",),
    )


def _below(home: Home, node_id: str, kind: NodeKind, room: int) -> Below:
    from agent.recall.provenance import chunk_origin, summary_origin
    from agent.recall.show import node_of

    node = node_of(home.connection, node_id, kind)
    origin = (chunk_origin if kind is NodeKind.LEAF else summary_origin)(home.connection, node_id, home.intent)
    if node is None or origin is None:
        raise AgentFault("the memory was changed meanwhile", node_id, "ask the same again without a cursor")
    width = min(BELOW_CHARS, room)
    return Below(
        id=node_id,
        kind=node.kind,
        level=node.level,
        title=cut(node.title, TITLE_CHARS),
        text=cut(node.text, width) or "",
        cut=len(node.text) > width,
        passages=node.leaves,
        origin=origin_of(origin),
    )
