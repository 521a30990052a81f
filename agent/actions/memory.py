"""Looking into the memory: search, one node, the trees."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.actions.times import moment_ms
from agent.errors import UsageFault
from agent.ids import tree_id
from agent.states import ItemState, TreeKind

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.recall.search import SearchResult
    from agent.recall.show import Shown
    from agent.recall.snippet import Snippet
    from agent.recall.trees import Outline, TreeInfo


@dataclass(frozen=True)
class TreeList:
    """The trees, each with the ids of its live summaries."""

    trees: tuple[TreeInfo, ...]

    def as_json(self) -> dict[str, Any]:
        return {"trees": [tree.as_json() for tree in self.trees]}


@dataclass(frozen=True)
class SourceOutline:
    """The top of one source's tree. A finished tree has one top node; ``more`` of a growing one are left out."""

    source_id: str
    name: str
    kind: str
    items: int
    chunks: int
    summaries: int
    tops: tuple[Outline, ...]
    more: int


def search(
    home: Home,
    query: str,
    *,
    limit: int = 10,
    source: str | None = None,
    kind: str | None = None,
    since: str | None = None,
    until: str | None = None,
    entity: str | None = None,
    shared: dict[str, Any] | None = None,
) -> SearchResult:
    """Return the best nodes for a query. ``since`` and ``until`` are dates or spans as an owner writes them.

    ``shared`` is what a process that searches often keeps from one search to the next, a tenth of a second each; it is
    for one thread at a time.

    Raises ``UsageFault`` for an empty query, an unknown source, a time that cannot be read.
    """
    from agent.recall.search import search as find
    from agent.recall.serving import serving_profile

    if not query.strip():
        raise UsageFault("there is nothing to search for", "", "say some words: `sapwood search spare key`")
    now_ms = home.clock.now_ms()
    since_ms = None if since is None else moment_ms(since, now_ms)
    until_ms = None if until is None else moment_ms(until, now_ms, end=True)
    source_id = None if source is None else home.source(source).id
    sure = home.config_problem is None
    return find(
        home.connection,
        serving_profile(home.connection, home.intent, home.paths, home.clock, is_intent_sure=sure, shared=shared),
        query,
        limit=limit,
        source=source_id,
        kind=kind,
        since_ms=since_ms,
        until_ms=until_ms,
        entity=entity,
        intent=home.intent,
    )


def snippet(home: Home, text: str, query: str, width: int) -> Snippet:
    """Return the piece of a text, ``width`` characters at most, that has most of the query in it."""
    from agent.recall.snippet import snippet as cut

    return cut(home.connection, text, query, width)


def show(home: Home, node: str, *, depth: int = 1) -> Shown:
    """Return a node by its id or by the beginning of one, with ``depth`` levels below it, its parents, its origin.

    Raises ``UsageFault`` for what is no id, or no node's.
    """
    from agent.recall.show import show as look

    return look(home.connection, node, depth, home.intent)


def trees(home: Home, source: str | None = None) -> TreeList:
    """Return all trees, or those of one source: its own first, then its documents'."""
    from agent.recall.trees import trees as look

    return TreeList(look(home.connection, None if source is None else home.source(source).id))


def outlines(home: Home, source: str | None = None, *, depth: int = 3, breadth: int = 8) -> tuple[SourceOutline, ...]:
    """Return the top of each source's tree, or of one's: ``depth`` levels, ``breadth`` children a node."""
    from agent.recall.trees import outline, outline_more

    found = []
    for each in home.intent.sources if source is None else (home.source(source),):
        tree = tree_id(TreeKind.SOURCE, each.id)
        tops = outline(home.connection, tree, depth, breadth)
        items, chunks, summaries = home.connection.all(
            """
            SELECT (SELECT count(*) FROM mem_tree_items WHERE source_id = ?1 AND state = ?2),
                   (SELECT count(*)
                      FROM mem_tree_items AS i
                      JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
                     WHERE i.source_id = ?1),
                   (SELECT count(*)
                      FROM mem_tree_trees AS t
                      JOIN mem_tree_summaries AS s ON s.tree_seq = t.tree_seq
                     WHERE t.source_id = ?1)
            """,
            (each.id, str(ItemState.CURRENT)),
        )[0]
        more = outline_more(home.connection, tree, breadth)
        found.append(SourceOutline(each.id, each.name, each.kind, items, chunks, summaries, tops, more))
    return tuple(found)


def place_words(path: str | None, locator: dict[str, Any] | None) -> str:
    """Return a path, short where it is below the owner's home, with the lines in it."""
    if path is None:
        return ""
    shown = path
    with contextlib.suppress(ValueError, RuntimeError):  # not below it, or nobody's home
        shown = f"~/{Path(path).relative_to(Path.home()).as_posix()}"
    place = locator or {}
    if isinstance(place.get("places"), list) and place["places"]:
        place = place["places"][0]
    if "line" in place:
        end = place.get("end_line", place["line"])
        return f"{shown}:{place['line']}" + (f"–{end}" if end != place["line"] else "")
    if "offset" in place:
        return f"{shown} at byte {place['offset']}"
    return shown
