"""What an assistant or a program may ask of the memory: the façade of MCP and JSON-RPC.

Every answer is bounded and says where what it holds comes from. Sources that their owner named private are left out of
all of it, unless ``assistants.private`` says otherwise: searches look past them, their nodes are not there, their names
are not told. What nobody names any more counts as private, and while ``config.toml`` cannot be read nothing private is
shown: its owner may be taking it back.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.actions.assistants_answers import (
    Fetched,
    Found,
    FoundPage,
    Kept,
    Level,
    MemoryStatus,
    Origin,
    SourceState,
)
from agent.actions.assistants_levels import (
    AUTHOR_CHARS,
    EMPTY_NOTE,
    PAGE_SOURCES,
    PRIVATE_NOTE,
    TITLE_CHARS,
    above,
    level,
    origin_of,
    place,
    short_locator,
    source_level,
)
from agent.actions.assistants_paging import ROOM_CHARS, cursor_at, cut, fill, fitting, offset_of
from agent.actions.home import NOT_RUNNING
from agent.errors import AgentFault, UsageFault
from agent.ids import content_hash
from agent.states import NodeKind, Searched

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.config import SourceIntent
    from agent.recall.search import Hit

HITS = 8
MAX_HITS = 20
DEPTH = 50
"""How many hits a query has in all. Deeper ones answer it no better than another query would."""
HIT_CHARS = 1_800
MAX_REMEMBERED_CHARS = 200_000

PARTIAL_NOTE = "Not everything is read or understood yet: what is missing here may be found later."
NOT_YET_NOTE = "Nothing is searchable yet: what the owner named is still to be read. This is not the same as no result."
BROKEN_NOTE = "config.toml cannot be read, so private sources are left out until its owner has mended it."


class _Held(threading.local):
    """What a thread keeps from one search to the next; the built-in model is not for two threads at once."""

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}


_held = _Held()


def readable_sources(home: Home) -> tuple[str, ...] | None:
    """Return the ids of the sources that assistants may read; ``None``: all that is held."""
    if home.intent.assistants.private and home.config_problem is None:
        return None
    return tuple(source.id for source in home.intent.sources if not source.private)


def search_memory(
    home: Home,
    query: str,
    *,
    limit: int = HITS,
    cursor: str | None = None,
    source: str | None = None,
    kind: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> FoundPage:
    """Return the best passages and summaries for a query, ``limit`` (1 … 20) of them at most, 50 over all pages.

    ``source`` is a source's id or name, ``kind`` leaf or summary; ``since`` and ``until`` are dates or spans as an
    owner writes them. Raises ``UsageFault`` for what cannot be asked, ``AgentFault`` where there is no memory.
    """
    from agent.actions.times import moment_ms
    from agent.recall.search import search
    from agent.recall.serving import serving_profile

    if not query.strip():
        raise UsageFault("there is nothing to search for", "query is empty", "say what to look for in a few words")
    if not 1 <= limit <= MAX_HITS:
        raise UsageFault("limit is out of range", str(limit), f"use 1 to {MAX_HITS}; a cursor leads to more")
    _need_memory(home)
    question = ("search", query, limit, source, kind, since, until)
    offset = offset_of(cursor, *question)
    now_ms = home.clock.now_ms()
    readable = _narrowed(home)
    found = search(
        home.connection,
        serving_profile(
            *(home.connection, home.intent, home.paths, home.clock),
            is_intent_sure=home.config_problem is None,
            shared=_held.shared,
        ),
        query,
        limit=DEPTH,
        source=None if source is None else _source(home, source).id,
        kind=kind,
        since_ms=None if since is None else moment_ms(since, now_ms),
        until_ms=None if until is None else moment_ms(until, now_ms, end=True),
        readable=readable,
        intent=home.intent,
    )
    hits = fill(partial(_found, home, hit, query) for hit in found.hits[offset : offset + limit])
    end = offset + len(hits)
    return FoundPage(
        searched=found.searched.value,
        hits=hits,
        next_cursor=cursor_at(end, *question) if end < len(found.hits) else None,
        notes=_search_notes(home, found.searched, found.note, bool(found.hits), readable is not None),
    )


def fetch(home: Home, id: str, *, cursor: str | None = None) -> Fetched:
    """Return the text of a node (by its id or the beginning of one), in pieces where it is long.

    Raises ``UsageFault`` for what is no node, or none that may be read here.
    """
    from agent.recall.levels import beside
    from agent.recall.show import show

    whole, kind = _node(home, id)
    shown = show(home.connection, whole, 0, home.intent)
    node = shown.node
    question = ("fetch", whole, content_hash(node.text))
    offset = offset_of(cursor, *question)
    before, after = beside(home.connection, whole) if kind is NodeKind.LEAF else (None, None)
    empty = Fetched(
        id=whole,
        kind=node.kind,
        level=node.level,
        title=cut(node.title, TITLE_CHARS),
        heading=cut(shown.origin.heading_path, TITLE_CHARS),
        text="",
        offset=offset,
        characters=len(node.text),
        origin=origin_of(shown.origin),
        parents=above(shown.parents),
        before=before,
        after=after,
        passages=node.leaves,
        stale=node.stale,
        rough=node.degraded or node.provisional,
        next_cursor=None,
        notes=(),
    )
    end = offset + fitting(node.text[offset:], ROOM_CHARS - 4_000)
    return replace(
        empty,
        text=node.text[offset:end],
        next_cursor=cursor_at(end, *question) if end < len(node.text) else None,
        notes=("This summary is out of date: something below it has changed.",) if node.stale else (),
    )


def drill_down(home: Home, id: str | None = None, *, cursor: str | None = None) -> Level:
    """Return what is below a node, or at the top of a source (``id`` is a source's); without an id the sources.

    Raises ``UsageFault`` as ``fetch``.
    """
    from agent.recall.levels import below, top_of
    from agent.recall.show import show

    _need_memory(home)
    if id is None or not id.strip():
        return source_level(home, _readable(home), cursor)
    source = home.intent.source(id.strip())
    if source is not None and _is_readable(home, source.id):
        return level(home, source.id, source.name, partial(top_of, home.connection, source.id), (), cursor)
    whole, kind = _node(home, id)
    if kind is NodeKind.LEAF:
        raise UsageFault("nothing is below a passage", whole, "fetch it: it is the owner's own words")
    shown = show(home.connection, whole, 0, home.intent)
    children = partial(below, home.connection, whole)
    return level(home, whole, shown.node.title, children, above(shown.parents), cursor)


def status(home: Home) -> MemoryStatus:
    """Return what the memory holds, what the agent does, and what an assistant has to know of both.

    Works without a memory. Blocks for a second at most, where the agent is asked.
    """
    from agent.actions.glance import glance
    from agent.clock import iso
    from agent.recall.levels import count_source

    exists = home.paths.database.exists()
    readable = readable_sources(home)
    sources = [each for each in home.intent.sources if readable is None or each.id in readable]
    found = []
    state, reason = "not_running", "there is no memory yet"
    if exists:
        seen = glance(home)
        state, reason = str(seen.state), _unnamed(home, readable, seen.reason)
        for each in sources:
            counts = count_source(home.connection, each.id)
            synced = home.connection.value("SELECT last_sync_ms FROM mem_tree_sources WHERE source_id = ?", (each.id,))
            found.append(
                SourceState(
                    source_id=each.id,
                    name=cut(each.name, TITLE_CHARS) or each.id,
                    kind=each.kind,
                    items=counts.items,
                    waiting=counts.waiting,
                    passages=counts.chunks,
                    last_sync=iso(synced),
                )
            )
    running = home.running
    notes = [] if running else [f"{NOT_RUNNING[0].upper()}{NOT_RUNNING[1:]}."]
    if not home.intent.sources:
        notes.append(EMPTY_NOTE)
    if home.config_problem is not None:
        notes.append(BROKEN_NOTE)
    elif len(sources) < len(home.intent.sources):
        notes.append(PRIVATE_NOTE)
    shown = fill((partial(_as_is, each) for each in found), ROOM_CHARS - 2_000)
    if len(shown) < len(found):
        notes.append(f"{len(found) - len(shown)} more sources are not listed.")
    return MemoryStatus(
        running=running,
        state=state,
        reason=cut(reason, 400) or "",
        sources=shown,
        items=sum(each.items for each in found),
        waiting=sum(each.waiting for each in found),
        passages=sum(each.passages for each in found),
        notes=tuple(notes),
    )


def remember(home: Home, text: str, *, title: str | None = None) -> Kept:
    """Keep a note as ``sapwood remember`` does: on the disk before this returns, whether or not the agent runs.

    Raises ``UsageFault`` for an empty or overlong text, ``AgentFault`` for words that were forgotten.
    """
    from agent.actions.remembering import remember as keep

    if len(text) > MAX_REMEMBERED_CHARS:
        raise UsageFault(
            "this note is too long",
            f"{len(text):,} characters",
            f"keep at most {MAX_REMEMBERED_CHARS:,}: say what matters in it, or hand it in in parts",
        )
    done = keep(home, text, title=title)
    return Kept(done.source_id, (done.item_key,), kept_notes(home))


def kept_notes(home: Home) -> tuple[str, ...]:
    """Return what is said of something that was just taken in: that nobody reads it while the agent does not run."""
    if home.running:
        return ()
    return (f"It is kept. {NOT_RUNNING[0].upper()}{NOT_RUNNING[1:]}: until then it is not found.",)


# -- who may see what -------------------------------------------------------------------------------------------------


def _need_memory(home: Home) -> None:
    if not home.paths.database.exists():
        raise AgentFault(
            "there is no memory yet",
            "nothing was read so far",
            "its owner names what to read with `sapwood add PATH`, and `sapwood run` reads it",
        )


def _narrowed(home: Home) -> tuple[str, ...] | None:
    """Return the readable sources, or ``None`` where nothing else is held: a search need not look then."""
    from agent.recall.levels import held_sources

    readable = readable_sources(home)
    if readable is None or set(held_sources(home.connection)) <= set(readable):
        return None
    return readable


def _is_readable(home: Home, source_id: str) -> bool:
    readable = readable_sources(home)
    return readable is None or source_id in readable


def _readable(home: Home) -> list[SourceIntent]:
    readable = readable_sources(home)
    return [each for each in home.intent.sources if readable is None or each.id in readable]


def _source(home: Home, word: str) -> SourceIntent:
    sources = _readable(home)
    named = [each for each in sources if each.id == word] or [each for each in sources if each.name == word]
    if len(named) == 1:
        return named[0]
    known = ", ".join(each.id for each in sources[:PAGE_SOURCES])
    hint = f"there are: {cut(known, 2_000)}" if known else "ask status what there is"
    raise UsageFault("there is no source with this name", cut(word, TITLE_CHARS) or "", hint)


def _node(home: Home, id: str) -> tuple[str, NodeKind]:
    from agent.recall.show import MIN_PREFIX, find_node, node_of

    _need_memory(home)
    missing = UsageFault(
        "there is nothing with this id",
        cut(id.strip(), TITLE_CHARS) or "nothing was given",
        f"take an id from search_memory or drill_down, whole or at least its first {MIN_PREFIX} characters; "
        "what was changed or forgotten since has another id, or none",
    )
    try:
        whole, kind = find_node(home.connection, id)
    except UsageFault as error:
        raise missing from error
    node = node_of(home.connection, whole, kind)
    if node is None or not _is_readable(home, node.source_id):
        raise missing
    return whole, kind


def _unnamed(home: Home, readable: tuple[str, ...] | None, words: str) -> str:
    """Return words about the agent, without those that name a source that may not be read."""
    if home.config_problem is not None:
        return "config.toml cannot be read"
    hidden = [each for each in home.intent.sources if readable is not None and each.id not in readable]
    if any(word in words for each in hidden for word in (each.id, each.name, *each.paths)):
        return "it has something to tell its owner: `sapwood status`"
    return words


# -- the parts of answers ---------------------------------------------------------------------------------------------


def _search_notes(home: Home, searched: Searched, note: str | None, any_hit: bool, narrowed: bool) -> tuple[str, ...]:
    notes = []
    if searched is Searched.NOT_YET:
        notes.append(NOT_YET_NOTE)
    elif searched is Searched.PARTIAL:
        notes.append(PARTIAL_NOTE)
    elif not any_hit and not home.intent.sources:
        notes.append(EMPTY_NOTE)
    if searched is not Searched.FULL and not home.running:
        notes.append(f"{NOT_RUNNING[0].upper()}{NOT_RUNNING[1:]}.")
    if note is not None:
        notes.append(f"Words alone were compared: {note}.")
    if home.config_problem is not None:
        notes.append(BROKEN_NOTE)
    elif narrowed:
        notes.append(PRIVATE_NOTE)
    return tuple(notes)


def _found(home: Home, hit: Hit, query: str, room: int) -> Found:
    from agent.recall.snippet import snippet

    width = min(HIT_CHARS, room)
    text = hit.text
    if len(text) > width:
        text = snippet(home.connection, text, query, width).text
    source = home.intent.source(hit.source_id)
    return Found(
        id=hit.node_id,
        kind=hit.kind,
        level=hit.level,
        score=round(hit.score, 3),
        title=cut(hit.title, TITLE_CHARS),
        text=text,
        cut=len(hit.text) > width,
        origin=Origin(
            source_id=hit.source_id,
            source_name=None if source is None else cut(source.name, TITLE_CHARS),
            path=hit.path,
            place=place(hit.path, hit.locator),
            locator=short_locator(hit.locator),
            author=cut(hit.author, AUTHOR_CHARS),
            time=hit.time,
            last_time=hit.time,
        ),
        parents=above(hit.parents),
    )


def _as_is(item: SourceState, _room: int) -> SourceState:
    return item
