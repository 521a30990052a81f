"""The gateway's application: the routes of page and RPC put together behind the guard.

For those who write handlers (``agent.gateway.pages``, ``agent.gateway.rpc``):

- A package or module names its routes in ``ROUTES``, a list of Starlette's ``Route``. ``/link``, ``/enter/…`` and
  ``/events`` are this module's; ``/static/…`` is the page's, and is served to everybody.
- Before a handler of a page is called, the host, the origin, the session's cookie and, for what changes something, the
  form's token have been checked (``guard``). A form has ``<input type="hidden" name="csrf" value="{{ csrf }}">``
  with ``serving.csrf(request)``; a script sends it as ``X-CSRF-Token``. Forms are plain (urlencoded), 1 MB at most;
  ``await request.form()`` works as usual. ``/rpc`` and ``/mcp`` have had their bearer token checked and take 20 MB.
- A handler is ``async``. All that blocks is done by ``await serving.with_home(request, action)``, where ``action`` is a
  function of an open ``Home``, or ``await serving.in_thread(request, call)``; what may wait for a model says
  ``waits=True``.
- ``SapwoodError`` may be raised: it is told as a page, or as JSON ``{error, detail, hint}`` where ``Accept`` asks for
  it. Other exceptions are a 500 page and a line in the log, without their words.
- ``serving.context_of(request).paths`` are the paths. An optional ``lifespan(app)`` of a module (an async context
  manager) is held open for as long as the gateway serves. What is heavy is imported at its first use.
- ``GET /events`` sends ``event: glance`` with JSON whenever what the agent does has changed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import AsyncIterator, Sequence
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from agent.errors import SapwoodError
from agent.gateway import errors
from agent.gateway.guard import Guard
from agent.gateway.links import Entered, enter_path, is_place
from agent.gateway.serving import Context, context_of
from agent.gateway.sessions import SESSION_SECONDS, cookie_name

if TYPE_CHECKING:
    from starlette.requests import Request

_log = logging.getLogger("sapwood.gateway")

ROOMS = ("agent.gateway.pages", "agent.gateway.rpc", "agent.gateway.mcp.http")

# A redirect would still belong to the navigation that a mail or a chat began, and a strict cookie is not sent with
# that. A page that goes on by itself begins a navigation of our own.
_GO_ON = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="0; url={target}">
<title>Sapwood</title>
</head>
<body><p><a href="{target}">Open Sapwood</a></p></body>
</html>
"""


def build_app(context: Context) -> Starlette:
    """Return the application of one gateway. Must be called where the event loop runs."""
    # One that is missing is said (``agent.system.entry``), and is no page that is not there.
    found: list[ModuleType] = [importlib.import_module(name) for name in ROOMS]

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for room in found:
                if hasattr(room, "lifespan"):
                    try:
                        await stack.enter_async_context(room.lifespan(app))
                    except Exception:
                        # The server ends without a word of it.
                        _log.exception("%s could not be begun", room.__name__)
                        raise
            yield

    routes: list[BaseRoute] = [
        Route("/link", _link, methods=["POST"]),
        Route("/enter/{secret}", _enter, methods=["GET"]),
        Route("/events", _events, methods=["GET"]),
    ]
    for room in found:
        more: Sequence[BaseRoute] = room.ROUTES
        routes.extend(more)
    app = Starlette(
        routes=routes,
        middleware=[Middleware(Guard, context)],
        exception_handlers={SapwoodError: errors.on_fault, HTTPException: errors.on_http},
        lifespan=lifespan,
    )
    app.state.context = context
    return app


async def _link(request: Request) -> Response:
    try:
        asked = await request.json()
        place = asked.get("to", "") if isinstance(asked, dict) else None
    except (ValueError, RecursionError):
        place = None
    if not isinstance(place, str) or not is_place(place):
        return errors.told(400, "This is no place of the page", "", 'send {"to": "tree"}, or {"to": ""}', as_json=True)
    return JSONResponse({"path": enter_path(context_of(request).links.mint(), place)})


async def _enter(request: Request) -> Response:
    context = context_of(request)
    place = request.query_params.get("to", "")
    if not is_place(place):
        return errors.told(400, "This link leads to no page of Sapwood", "", errors.OPEN_HINT)
    if "prefetch" in request.headers.get("sec-purpose", request.headers.get("purpose", "")):
        # A browser that loads ahead would use the link up before its owner follows it.
        return errors.told(503, "This link is not loaded ahead")
    entered = context.links.enter(request.path_params["secret"])
    known = "sapwood.session" in request.scope
    if entered is not Entered.WELCOME and not known:
        title, detail = errors.REASONS[entered]
        return errors.told(403, title, detail, errors.OPEN_HINT)
    page = HTMLResponse(_GO_ON.format(target=escape(f"/{place}")), headers={"referrer-policy": "no-referrer"})
    if not known:
        secret, _ = context.sessions.begin()
        page.set_cookie(
            cookie_name(context.port), secret, max_age=int(SESSION_SECONDS), path="/", httponly=True, samesite="strict"
        )
    return page


async def _events(request: Request) -> Response:
    return context_of(request).live.open()
