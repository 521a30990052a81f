"""Style, script and icon: the same for everybody, so they are served without a session; and the ping of an open tab."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from agent.gateway.pages.rendering import STATIC, static_version

if TYPE_CHECKING:
    from starlette.requests import Request

TYPES = {"page.css": "text/css", "page.js": "text/javascript", "favicon.svg": "image/svg+xml"}
FOR_EVER = "private, max-age=31536000, immutable"


async def show_file(request: Request) -> Response:
    """Return one of the files there are; with their version in the address browsers keep them."""
    name = request.path_params.get("name", "favicon.svg")
    if name not in TYPES:
        raise HTTPException(404)
    is_this = request.query_params.get("v") == static_version()
    return Response(_read(name), media_type=TYPES[name], headers={"cache-control": FOR_EVER if is_this else "no-cache"})


async def ping(request: Request) -> Response:
    """Answer a tab that is open, so that the page does not end under its reader."""
    del request
    return Response(status_code=204)


@functools.cache
def _read(name: str) -> bytes:
    return (STATIC / name).read_bytes()


ROUTES = [
    Route("/static/{name}", show_file),
    Route("/favicon.ico", show_file),
    Route("/ping", ping),
]
