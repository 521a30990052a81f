"""The first screen: what to remember, which model, whether to start at login. Each can be skipped, and all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agent.gateway.pages.rendering import on_place, show_page
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home

PLACE = "/welcome"
"""None of the menu's."""


@on_place(PLACE)
async def show_welcome(request: Request) -> Response:
    """Show the three questions, each with what was answered already."""

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.setting_up import questions

        return {
            "asked": questions(home),
            "named": [(source.id, source.name) for source in home.intent.sources],
        }

    return await show_page(request, "welcome.html", load, place=PLACE, waits=True)


@on_place(PLACE)
async def leave_welcome(request: Request) -> Response:
    """Go on to the search; the questions are not asked again by themselves."""
    from agent.actions.welcoming import skip_welcome

    await with_home(request, skip_welcome)
    return RedirectResponse("/", status_code=303)


ROUTES = [
    Route("/welcome", show_welcome, methods=["GET"]),
    Route("/welcome/done", leave_welcome, methods=["POST"]),
]
