"""Forgetting: what it would be, shown before it is asked for; then for good."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.errors import AgentFault, UsageFault
from agent.gateway.pages.forms import Fields, form_of, query_of
from agent.gateway.pages.rendering import count_words, done, on_place, show_page
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.choosing import Wanted
    from agent.actions.forgetting import Forgotten
    from agent.actions.home import Home

PLACE = "/sources"
FILTERS = ("source", "item", "chunk", "since", "until", "mentions", "entity")


@on_place(PLACE)
async def show_forgetting(request: Request) -> Response:
    """Show the form, and where something is named in it what would be forgotten, with the question."""
    asked = query_of(request)

    def load(home: Home) -> Mapping[str, Any]:
        named = {name: asked.text(name) for name in FILTERS}
        shown: dict[str, Any] = {
            "asked": named,
            "sources": [(source.id, source.name) for source in home.intent.sources],
            "preview": None,
            "elsewhere": 0,
            "fault": None,
            "unread": "",
        }
        if any(named.values()):
            try:
                shown.update(_preview(home, asked))
            except AgentFault as fault:
                shown["fault"] = fault
        return shown

    return await show_page(request, "forget.html", load, place=PLACE, waits=True)


@on_place(PLACE)
async def forget_it(request: Request) -> Response:
    """Forget for good what the form names."""
    asked = await form_of(request)
    found = await with_home(request, lambda home: _forget(home, asked), waits=True)
    words = (
        f"forgotten: {count_words(found.chunks_removed, 'passage')} and "
        f"{count_words(found.summaries_removed, 'summary', 'summaries')}"
    )
    return await done(request, "/forget", words, hint=_left(found))


def _wanted(home: Home, asked: Fields) -> Wanted:
    from agent.actions.forgetting import wanted_of

    return wanted_of(home, **{name: asked.given(name) for name in FILTERS})


def _preview(home: Home, asked: Fields) -> dict[str, Any]:
    from agent.actions.forgetting import count_elsewhere, preview, unread_words

    wanted = _wanted(home, asked)
    shown, chosen = preview(home, wanted)
    if not chosen:
        return {"unread": unread_words(home.connection, wanted.source_id), "preview": shown}
    return {"preview": shown, "elsewhere": count_elsewhere(home, wanted, chosen)}


def _forget(home: Home, asked: Fields) -> Forgotten:
    from agent.actions.forgetting import forget, preview

    wanted = _wanted(home, asked)
    _, chosen = preview(home, wanted)
    if not chosen:
        raise UsageFault("nothing in the memory matches any more", "so nothing was forgotten", "look at it again")
    return forget(home, wanted, chosen)


def _left(found: Forgotten) -> str:
    from agent.actions.forgetting import BACKUPS

    return ". ".join(each[:1].upper() + each[1:] for each in (found.words, BACKUPS) if each)


ROUTES = [
    Route("/forget", show_forgetting, methods=["GET"]),
    Route("/forget", forget_it, methods=["POST"]),
]
