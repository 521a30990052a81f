"""What a person or a program is told where a request is refused or fails: what happened, and what to do.

These pages need no template and no session. Programs (RPC, MCP, scripts of the page) get the same words as JSON.
"""

from __future__ import annotations

import html
import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, JSONResponse, Response

from agent.db.faults import FaultClass, classify, is_database_fault
from agent.errors import AgentFault, AgentNotRunning, SapwoodError, UsageFault
from agent.gateway.links import Entered

if TYPE_CHECKING:
    from starlette.requests import Request

STYLESHEET = "/static/page.css"

OPEN_HINT = "Open it from the icon in your panel, or with the command `sapwood open`."
REASONS: dict[Entered, tuple[str, str]] = {
    Entered.USED: (
        "This link was used already",
        "A link opens the page once, so that nobody else can follow it after you.",
    ),
    Entered.EXPIRED: ("This link is too old", "A link opens the page for one minute after it was made."),
    Entered.UNKNOWN: (
        "This link is not known",
        "It is of an earlier start of Sapwood, or was copied in part.",
    ),
}

_COMMAND = re.compile("`([^`]+)`")
_log = logging.getLogger("sapwood.gateway")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} – Sapwood</title>
<link rel="stylesheet" href="{stylesheet}">
</head>
<body>
<main>
<h1>{title}</h1>
{paragraphs}
</main>
</body>
</html>
"""


def told(
    status: int,
    title: str,
    detail: str = "",
    hint: str = "",
    *,
    as_json: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an answer that says what happened, to what, and what to do next."""
    if as_json:
        body = {"error": title, "detail": detail, "hint": hint}
        return JSONResponse(body, status, headers=headers)
    # What it happened to may be a name or a path, and stays as it is.
    paragraphs = "\n".join(f"<p>{text}</p>" for text in (html.escape(detail), _prose(hint)) if text)
    page = _PAGE.format(title=html.escape(title[:1].upper() + title[1:]), stylesheet=STYLESHEET, paragraphs=paragraphs)
    return HTMLResponse(page, status, headers=headers)


def _prose(text: str) -> str:
    return _COMMAND.sub(r"<code>\1</code>", html.escape(text[:1].upper() + text[1:]))


def wants_json(accept: str) -> bool:
    """Return whether an ``Accept`` header asks for JSON rather than for a page."""
    return "application/json" in accept and "text/html" not in accept


def status_of(error: SapwoodError) -> int:
    """Return the HTTP status of an error of ours."""
    if isinstance(error, UsageFault):
        return 400
    if isinstance(error, AgentNotRunning):
        return 409
    return 500 if isinstance(error, AgentFault) else 422


async def on_fault(request: Request, error: Exception) -> Response:
    """Answer an error of ours that no handler caught."""
    assert isinstance(error, SapwoodError)
    return await _answered(request, error, status_of(error))


async def on_http(request: Request, error: Exception) -> Response:
    """Answer what routing refuses: no such page, no such method."""
    assert isinstance(error, HTTPException)
    titles = {404: "There is no such page", 405: "This address does not take that"}
    said = SapwoodError(titles.get(error.status_code, error.detail), "", "Go back, or open the first page.")
    answer = await _answered(request, said, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _answered(request: Request, error: SapwoodError, status: int) -> Response:
    as_json = wants_json(request.headers.get("accept", ""))
    if as_json or "sapwood.session" not in request.scope:
        return told(status, error.title, error.detail, error.hint, as_json=as_json)
    # Who has been let in keeps the menu.
    from agent.gateway.pages.rendering import show_page

    return await show_page(request, "error.html", place="", status=status, error=error, again="/")


_MEMORY: dict[FaultClass, tuple[str, str]] = {
    FaultClass.BUSY: ("The memory is busy just now", "Try again in a moment."),
    FaultClass.IO_TRANSIENT: ("The memory cannot be read just now", "Try again in a moment."),
    FaultClass.DISK_FULL: ("The disk is full", "Make some room on it: Sapwood goes on by itself then."),
    FaultClass.HOST_IO: (
        "The disk does not answer as it should",
        "Check the disk: `sapwood doctor` says what it finds.",
    ),
}


def unexpected(error: Exception, *, as_json: bool) -> Response:
    """Return the answer to an error that no handler foresaw; its place, never its words, goes into the log."""
    known = _MEMORY.get(classify(error)) if is_database_fault(error) or isinstance(error, OSError) else None
    if known is not None:
        _log.warning("a request failed: %s", known[0], exc_info=error)
        return told(503, known[0], "Nothing was lost.", known[1], as_json=as_json, headers={"retry-after": "1"})
    _log.error("a request failed by an error nobody caught", exc_info=error)
    hint = "Try again. If it stays: `sapwood doctor`, and `sapwood bug-report` has what a maintainer needs."
    return told(500, "Something went wrong in Sapwood", "The error is in the log.", hint, as_json=as_json)
