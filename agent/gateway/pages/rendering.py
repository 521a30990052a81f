"""From what an action returns to a page: templates, the head that all pages have, what is said after a form.

Templates escape everything; nothing of the memory is ever marked as safe. A page is made in one of the gateway's
threads, with the home opened once for its head and its content.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import HTMLResponse, RedirectResponse, Response

from agent.actions.capabilities import BUILT, Capability
from agent.clock import iso
from agent.errors import SapwoodError
from agent.gateway.errors import status_of
from agent.gateway.pages.notices import Notice, notices_of
from agent.gateway.serving import context_of, csrf, in_thread

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from starlette.requests import Request

    from agent.actions.glance import Glance
    from agent.actions.home import Home
    from agent.paths import Paths

ROOM = Path(__file__).resolve().parent.parent
TEMPLATES = ROOM / "templates"
STATIC = ROOM / "static"

Load = Callable[["Home"], Mapping[str, Any]]
"""What a page shows, by the names that its template uses."""
Handler = Callable[["Request"], Awaitable[Response]]

PLACES: tuple[tuple[Capability, str, str], ...] = (
    (Capability.SEARCH, "/", "Search"),
    (Capability.TREE, "/tree", "Tree"),
    (Capability.SOURCES, "/sources", "Sources"),
    (Capability.WORK, "/work", "Work"),
    (Capability.MODELS, "/models", "Models"),
    (Capability.SETTINGS, "/settings", "Settings"),
    (Capability.HELP, "/help", "Help"),
)
"""The pages of the menu. What this build cannot do is not in it."""


@dataclass(frozen=True)
class Head:
    """What stands above each page: what the agent does, or why that cannot be said."""

    state: str
    words: str
    needs: tuple[str, ...] = ()
    share: float | None = None
    is_paused: bool = False
    said: str = ""
    """The words as the command line says them."""


async def show_page(
    request: Request,
    template: str,
    load: Load | None = None,
    *,
    place: str = "/",
    status: int = 200,
    waits: bool = False,
    **more: Any,
) -> Response:
    """Return a page: ``load(home)`` and ``more`` put into a template. ``place`` is what the menu shows as current.

    An error of ours becomes a page that says it; a memory that cannot be opened too, with the menu above it.
    ``waits``: it may take seconds, and is not to keep other pages waiting.
    """
    given = {**more, **_of_request(request, place)}
    make = partial(_make, context_of(request).paths, template, load, given, status)
    return await in_thread(request, make, waits=waits)


async def show_without_home(
    request: Request,
    template: str,
    load: Callable[[Paths], Mapping[str, Any]],
    *,
    place: str,
    status: int = 200,
    waits: bool = False,
) -> Response:
    """Return a page whose content needs no memory, so that it is there when the memory is not."""
    given = _of_request(request, place)
    make = partial(_make_apart, context_of(request).paths, template, load, given, status)
    return await in_thread(request, make, waits=waits)


async def show_fragment(request: Request, template: str, load: Load, *, waits: bool = False) -> Response:
    """Return a piece of a page, for the script to put in its place. An error of ours is a piece that says it."""

    def make() -> Response:
        from agent.actions.home import open_home

        given: dict[str, Any] = {"csrf": csrf(request)}
        try:
            with open_home(context_of(request).paths) as home:
                found = load(home)
                return _answer(template, {**given, **_of_home(home), **found}, 200)
        except SapwoodError as error:
            return _answer("_error.html", {**given, "error": error}, status_of(error))

    return await in_thread(request, make, waits=waits)


async def show_error(request: Request, error: SapwoodError, *, place: str) -> Response:
    """Return the page that tells an error of ours: what happened, to what, and what to do."""
    again = _back(request)
    return await show_page(request, "error.html", place=place, status=status_of(error), error=error, again=again)


async def done(request: Request, to: str, words: str, *, hint: str = "") -> Response:
    """Return the answer to a form that was carried out: the page ``to`` says so, once it is loaded."""
    token = notices_of(request.app).put(Notice(words, hint))
    mark = "&" if "?" in to else "?"
    return RedirectResponse(f"{to}{mark}told={token}", status_code=303)


def on_place(place: str) -> Callable[[Handler], Handler]:
    """Return a wrapper for the handlers of a page: an error of ours is told inside that page's frame."""

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def told(request: Request) -> Response:
            try:
                return await handler(request)
            except SapwoodError as error:
                return await show_error(request, error, place=place)

        return told

    return wrap


def segment(word: str) -> str:
    """Return a word as one part of an address."""
    return quote(word, safe="")


def _back(request: Request) -> str:
    """Return where a form was sent from, by its own path; the first page where that is not ours."""
    from urllib.parse import urlsplit

    came = urlsplit(request.headers.get("referer", ""))
    if came.netloc != request.headers.get("host") or not came.path.startswith("/") or came.path.startswith("//"):
        return "/"
    return f"{came.path}?{came.query}" if came.query else came.path


def _of_request(request: Request, place: str) -> dict[str, Any]:
    return {
        "csrf": csrf(request),
        "place": place,
        "menu": [(path, label) for capability, path, label in PLACES if capability in BUILT],
        "notice": notices_of(request.app).find(request.query_params.get("told", "")),
        "version": static_version(),
    }


def _of_home(home: Home) -> dict[str, Any]:
    from agent.models.budget import zone_of

    zone = zone_of(home.intent.schedule.timezone)
    return {"zone": zone, "head": _head(home, zone)}


def _make(paths: Paths, template: str, load: Load | None, given: Mapping[str, Any], status: int) -> Response:
    from agent.actions.home import open_home

    named = dict(given)
    try:
        with open_home(paths) as home:
            named.update(_of_home(home))
            found = {} if load is None else load(home)
    except SapwoodError as error:
        return _made_error(named, error)
    return _answer(template, {**named, **found}, status)


def _make_apart(
    paths: Paths, template: str, load: Callable[[Paths], Mapping[str, Any]], given: Mapping[str, Any], status: int
) -> Response:
    from agent.actions.home import open_home

    named = dict(given)
    try:
        with open_home(paths) as home:
            named.update(_of_home(home))
    except SapwoodError as error:
        named["head"] = Head("error", str(error), (error.hint,) if error.hint else ())
    try:
        found = load(paths)
    except SapwoodError as error:
        return _made_error(named, error)
    return _answer(template, {**named, **found}, status)


def _made_error(named: Mapping[str, Any], error: SapwoodError) -> Response:
    return _answer("error.html", {"again": "/", **named, "error": error}, status_of(error))


def _head(home: Home, zone: tzinfo | None) -> Head:
    from agent.actions.glance import glance

    return head_of(glance(home), home.clock.now_ms(), zone)


def head_of(found: Glance, now_ms: int, zone: tzinfo | None) -> Head:
    """Return what stands above a page. Pure."""
    from agent.actions.by_clicking import needs_on_the_page, words_on_the_page

    is_paused = found.paused_until_ms is not None or found.is_paused_for_good
    words, needs = words_on_the_page(found, now_ms, zone), needs_on_the_page(found, now_ms, zone)
    return Head(str(found.state), words, needs, found.share, is_paused, found.words)


def _answer(template: str, named: Mapping[str, Any], status: int) -> Response:
    text = environment().get_template(template).render(**named)
    # A file's name may have bytes that are no letters; a page has to be sent all the same.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


@functools.cache
def environment() -> Environment:
    """Return the templates, read at their first use."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        segment=segment, clean=clean, sentence=sentence, prose=prose, count=count_words, number=number_words,
        bytes=_size_words, moment=moment_words, day=day_words, machine=machine_time, span=_span_words,
        at_moments=_with_moments,
    )  # fmt: skip
    made.globals.update(head=None, zone=None, notice=None, example_path=_example_path())
    return made


def _example_path() -> str:
    """Return a path as this system's people write it, for the fields that take one."""
    try:
        return str(Path.home() / "Documents")
    except RuntimeError:
        return "Documents"


def _with_moments(text: str, zone: tzinfo | None) -> str:
    from agent.actions.by_clicking import with_moments
    from agent.clock import SYSTEM_CLOCK

    return with_moments(text, SYSTEM_CLOCK.now_ms(), zone)


@functools.cache
def static_version() -> str:
    """Return what changes in the addresses of style and script when they change, so that no old ones are used."""
    held = hashlib.sha256()
    for name in ("page.css", "page.js"):
        held.update((STATIC / name).read_bytes())
    return held.hexdigest()[:12]


def machine_time(when: str | int | None) -> str:
    """Return a time (ISO 8601, or UTC ms) as the attribute ``datetime`` has it."""
    return (iso(when) or "") if isinstance(when, int) else when or ""


def moment_words(when: str | int | None, zone: tzinfo | None = None) -> str:
    """Return a time (ISO 8601, or UTC ms) as its owner reads it: ``14 June 2025, 18:30``, in their zone."""
    found = _local(when, zone)
    return "" if found is None else f"{found.day} {found:%B %Y, %H:%M}"


def day_words(when: str | int | None, zone: tzinfo | None = None) -> str:
    """Return the day of a time (ISO 8601, or UTC ms) in its owner's zone."""
    found = _local(when, zone)
    return "" if found is None else f"{found.day} {found:%B %Y}"


def _local(when: str | int | None, zone: tzinfo | None) -> datetime | None:
    if when is None or when == "":
        return None
    try:
        found = datetime.fromtimestamp(when / 1000, UTC) if isinstance(when, int) else datetime.fromisoformat(when)
        return found.astimezone(zone)
    except (ValueError, OverflowError, OSError):
        return None


def count_words(number: int, one: str, many: str = "") -> str:
    """Return ``1 item`` or ``1,200 items``."""
    return f"1 {one}" if number == 1 else f"{number:,} {many or one + 's'}"


def number_words(number: float) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"


def clean(text: str | None) -> str:
    """Return a text without the control characters that no page can show."""
    if not text:
        return ""
    return "".join(letter for letter in text if letter >= " " or letter in "\n\t")


def sentence(text: str) -> str:
    """Return a text that begins like a sentence; a command or a path at its beginning stays as it is."""
    first = text.split(" ", 1)[0]
    return text if not first.isalpha() and "'" not in first and first[-1:] not in ",:" else text[:1].upper() + text[1:]


def prose(text: str) -> Markup:
    """Return a text of ours with what stands between back quotes as code; all of it is escaped.

    A command that the page has a place for is said by that place.
    """
    from markupsafe import Markup, escape

    from agent.actions.by_clicking import on_the_page

    text = on_the_page(str(text))
    pieces = text.split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if at % 2 else escape(piece) for at, piece in enumerate(pieces)
    )


def _span_words(seconds: float) -> str:
    from agent.actions.times import span_words

    return span_words(seconds)


def _size_words(size: float | None) -> str:
    from agent.actions.doctor import size_words

    return "" if size is None else size_words(size)
