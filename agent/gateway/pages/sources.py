"""The sources: naming one, what is known of each, what is asked about it, looking again, taking it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.errors import SapwoodError, UsageFault
from agent.gateway.errors import status_of
from agent.gateway.pages.forms import Fields, form_of
from agent.gateway.pages.rendering import count_words, done, on_place, segment, show_page
from agent.gateway.serving import with_home
from agent.states import Answer

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home
    from agent.actions.sources import Added, SourceRow

PLACE = "/sources"
UNREADABLE_SHOWN = 200


@on_place(PLACE)
async def show_sources(request: Request) -> Response:
    """Show all sources, each with its counts and what is asked about it."""
    return await show_page(request, "sources.html", _listed, place=PLACE)


@on_place(PLACE)
async def show_source(request: Request) -> Response:
    """Show one source with everything that is known of it."""
    source_id = request.path_params["source_id"]

    def load(home: Home) -> Mapping[str, Any]:
        row = _row(home, source_id)
        return {
            "row": row,
            "unreadable": row.unreadable[:UNREADABLE_SHOWN],
            "more_unreadable": max(0, len(row.unreadable) - UNREADABLE_SHOWN),
        }

    return await show_page(request, "source.html", load, place=PLACE)


@on_place(PLACE)
async def show_adding(request: Request) -> Response:
    """Show the form that names a source."""
    return await _adding(request, Fields({}))


async def _adding(request: Request, typed: Fields, error: SapwoodError | None = None) -> Response:
    from agent.ingest.readers.registry import BUILT_KINDS

    typed_words = {name: typed.text(name) for name in ("path", "kind", "name", "include", "exclude", "then")}
    ticks = {name: typed.is_set(name) for name in ("private", "hidden")}
    status = 200 if error is None else status_of(error)
    return await show_page(
        request, "source_add.html", place=PLACE, status=status,
        typed={**typed_words, **ticks}, kinds=BUILT_KINDS, kind_words=kind_words, fault=error,
    )  # fmt: skip


def kind_words(kind: str) -> str:
    """Return what a kind of source is to a person, with its name where that says nothing to them."""
    return {"mbox": "mailbox (mbox)", "eml": "single mails (eml)", "irc": "chat log (irc)"}.get(kind, kind)


async def add_source(request: Request) -> Response:
    """Name a source. What was typed stays in the form where it cannot be one."""
    typed = await form_of(request)
    try:
        added = await with_home(request, lambda home: _add(home, typed), waits=True)
    except SapwoodError as error:
        return await _adding(request, typed, error)
    words = f"the source {added.source_id} is named: {count_words(added.items, 'item')} found"
    hints = []
    if added.unreadable:
        files = count_words(len(added.unreadable), "file")
        hints.append(f"{files} cannot be read: once it was looked at, the reasons are listed below.")
    if added.overlaps:
        hints.append(f"It overlaps with {', '.join(added.overlaps)}: what is in both is read for each.")
    then = typed.then(f"/sources/{segment(added.source_id)}")
    return await done(request, then, words, hint=" ".join(hints))


def _add(home: Home, typed: Fields) -> Added:
    from agent.actions.sources import AUTO, add

    if not typed.text("path"):
        raise UsageFault("no path was given", "", "write where the file or the folder is, as in /home/me/Documents")
    return add(
        home,
        [typed.text("path")],
        kind=typed.given("kind") or AUTO,
        name=typed.given("name"),
        private=typed.is_set("private"),
        include=typed.lines("include"),
        exclude=typed.lines("exclude"),
        hidden=typed.is_set("hidden"),
    )


@on_place(PLACE)
async def sync_source(request: Request) -> Response:
    """Have a source looked at again, or all of them."""
    from agent.actions.sources import sync

    source_id = request.path_params.get("source_id")
    found = await with_home(request, lambda home: (sync(home, source_id), home.notice))
    what = "all sources are" if source_id is None else f"the source {source_id} is"
    back = PLACE if source_id is None else f"/sources/{segment(source_id)}"
    return await done(request, back, f"{what} looked at again", hint=found[1] or "")


@on_place(PLACE)
async def answer_question(request: Request) -> Response:
    """Keep the owner's answer to what is asked about a source that shrank."""
    from agent.actions.sources import sync

    source_id = request.path_params["source_id"]
    said = (await form_of(request)).text("answer")
    if said not in [str(each) for each in Answer]:
        raise UsageFault("this is no answer", said, "choose one of the two")
    found = await with_home(request, lambda home: sync(home, source_id, answer=Answer(said)))
    items = count_words(found.gone or 0, "item")
    words = f"{items} will be taken out of the memory" if found.answer is Answer.ACCEPT else f"{items} will be kept"
    return await done(request, f"/sources/{segment(source_id)}", words)


@on_place(PLACE)
async def show_removing(request: Request) -> Response:
    """Show what taking a source out would delete, and ask."""
    source_id = request.path_params["source_id"]

    def load(home: Home) -> Mapping[str, Any]:
        from agent.actions.choosing import Wanted
        from agent.actions.forgetting import is_only_copy, preview, source_id_of

        whole = source_id_of(home, source_id)
        shown, _ = preview(home, Wanted(source_id=whole))
        return {"source_id": whole, "shown": shown, "is_only_copy": is_only_copy(home, whole)}

    return await show_page(request, "source_remove.html", load, place=PLACE)


@on_place(PLACE)
async def remove_source(request: Request) -> Response:
    """Take a source out of intent and memory."""
    from agent.actions.forgetting import remove

    source_id = request.path_params["source_id"]
    found = await with_home(request, lambda home: remove(home, source_id), waits=True)
    words = (
        f"the source {source_id} is removed: {count_words(found.items_removed, 'item')}, "
        f"{count_words(found.chunks_removed, 'passage')} and "
        f"{count_words(found.summaries_removed, 'summary', 'summaries')} deleted"
    )
    return await done(request, PLACE, words, hint=found.words)


def _listed(home: Home) -> Mapping[str, Any]:
    from agent.actions.sources import sources

    return {"rows": sources(home).sources}


def _row(home: Home, source_id: str) -> SourceRow:
    from agent.actions.sources import sources

    wanted = home.source(source_id).id
    return next(row for row in sources(home).sources if row.id == wanted)


ROUTES = [
    Route("/sources", show_sources, methods=["GET"]),
    Route("/sources/add", show_adding, methods=["GET"]),
    Route("/sources/add", add_source, methods=["POST"]),
    Route("/sources/sync", sync_source, methods=["POST"]),
    Route("/sources/{source_id}", show_source, methods=["GET"]),
    Route("/sources/{source_id}/sync", sync_source, methods=["POST"]),
    Route("/sources/{source_id}/answer", answer_question, methods=["POST"]),
    Route("/sources/{source_id}/remove", show_removing, methods=["GET"]),
    Route("/sources/{source_id}/remove", remove_source, methods=["POST"]),
]
