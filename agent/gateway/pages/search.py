"""Search: the first page. The same answer as ``sapwood search``, for reading; as one types, where the script runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agent.errors import UsageFault
from agent.gateway.pages.forms import Fields, query_of
from agent.gateway.pages.rendering import clean, on_place, show_fragment, show_page
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home
    from agent.recall.search import Hit
    from agent.recall.snippet import Snippet

PIECE = 280
LIMIT = 20
MORE = 100

# The built-in model is not for two threads at once, and one of it is enough for one reader.
_one_at_a_time = threading.Lock()
_kept: dict[str, Any] = {}


@dataclass(frozen=True)
class Found:
    """One hit as it is shown: ``pieces`` are stretches of text, each with whether it is one of the words asked for."""

    hit: Hit
    pieces: tuple[tuple[str, bool], ...]
    place: str
    cut_before: bool
    cut_after: bool


@on_place("/")
async def show_search(request: Request) -> Response:
    """Show the search, with what was found where something was asked; the welcome where nothing is named yet."""
    from agent.actions.welcoming import is_welcome_due

    asked = query_of(request)
    if not asked.text("q") and await with_home(request, is_welcome_due):
        return RedirectResponse("/welcome", status_code=303)
    return await show_page(request, "search.html", lambda home: _searched(home, asked), waits=True)


async def show_hits(request: Request) -> Response:
    """Return the hits alone, for the script."""
    asked = query_of(request)
    return await show_fragment(request, "_hits.html", lambda home: _searched(home, asked), waits=True)


def _searched(home: Home, asked: Fields) -> Mapping[str, Any]:
    shown: dict[str, Any] = {
        "asked": {name: asked.text(name) for name in ("q", "source", "kind", "since", "until", "entity")},
        "sources": [(source.id, source.name) for source in home.intent.sources],
        "is_live": is_free(home),
        "found": None,
        "hits": (),
        "fault": None,
        "is_more": False,
        "is_all": asked.is_set("more"),
    }
    shown["is_filtered"] = any(shown["asked"][name] for name in ("source", "kind", "since", "until", "entity"))
    if asked.text("q"):
        limit = MORE if asked.is_set("more") else LIMIT
        try:
            shown.update(_look(home, asked, limit))
        except UsageFault as fault:
            shown["fault"] = fault
    return shown


def _look(home: Home, asked: Fields, limit: int) -> dict[str, Any]:
    from agent.actions.memory import place_words, search, snippet

    kind = asked.given("kind")
    if kind not in (None, "leaf", "summary"):
        raise UsageFault("there is no such kind of result", str(kind), "choose passages or summaries")
    with _one_at_a_time:
        found = search(
            home,
            asked.text("q"),
            limit=limit,
            source=asked.given("source"),
            kind=kind,
            since=asked.given("since"),
            until=asked.given("until"),
            entity=asked.given("entity"),
            shared=_kept,
        )
    hits = []
    for hit in found.hits:
        piece = snippet(home, clean(hit.text), asked.text("q"), PIECE)
        hits.append(Found(hit, pieces_of(piece), place_words(hit.path, hit.locator), piece.cut_before, piece.cut_after))
    return {"found": found, "hits": tuple(hits), "is_more": len(hits) == limit and limit < MORE}


def is_free(home: Home) -> bool:
    """Return whether a search asks no model of anybody: only then it may go on at each letter that is typed."""
    return not any(profile.embedding_model for profile in home.intent.profiles)


def pieces_of(piece: Snippet) -> tuple[tuple[str, bool], ...]:
    """Return a snippet as stretches of text, each with whether it is to be marked. Pure; loses no letter."""
    found: list[tuple[str, bool]] = []
    at = 0
    for start, end in piece.spans:
        if start > at:
            found.append((piece.text[at:start], False))
        found.append((piece.text[start:end], True))
        at = end
    if at < len(piece.text):
        found.append((piece.text[at:], False))
    return tuple(found)


ROUTES = [
    Route("/", show_search, methods=["GET"]),
    Route("/search/hits", show_hits, methods=["GET"]),
]
