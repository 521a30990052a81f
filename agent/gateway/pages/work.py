"""The work: what is queued, who works on what, what failed and what helps, why it waits; pausing and going on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.errors import UsageFault
from agent.gateway.pages.forms import form_of
from agent.gateway.pages.rendering import count_words, done, on_place, show_page
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.home import Home

PLACE = "/work"
SHOWN = 50
WAITING_SHOWN = 10
PAUSES = (("1h", "for an hour"), ("tomorrow", "until tomorrow"), ("", "until I resume"))


@on_place(PLACE)
async def show_work(request: Request) -> Response:
    """Show all of it."""
    return await show_page(request, "work.html", _load, place=PLACE, pauses=PAUSES)


def _load(home: Home) -> Mapping[str, Any]:
    from agent.actions.jobs import jobs
    from agent.actions.remedies import remedy_of
    from agent.actions.status import status

    failed = jobs(home, status="failed", limit=SHOWN)
    running = jobs(home, status="running", limit=WAITING_SHOWN)
    waiting = jobs(home, status="ready", limit=WAITING_SHOWN)
    now = status(home)
    return {
        "now": now,
        "failed": failed,
        "running": running,
        "waiting": waiting,
        "about": {job["id"]: remedy_of(str(job["failure_reason"]), job["failure_scope"]) for job in failed.jobs},
        "is_paused": now.paused_until_ms is not None,
    }


@on_place(PLACE)
async def pause_work(request: Request) -> Response:
    """Pause the work for as long as the form says."""
    from agent.actions.pausing import pause

    until = (await form_of(request)).given("until")
    paused = await with_home(request, lambda home: pause(home, until))
    words = "the work is paused until you resume it" if paused.indefinite else "the work is paused"
    return await done(request, PLACE, words)


@on_place(PLACE)
async def resume_work(request: Request) -> Response:
    """Let the work go on."""
    from agent.actions.pausing import resume

    found = await with_home(request, lambda home: (resume(home), home.notice))
    in_spite = f"It works on in spite of this: {found[0].in_spite_of}." if found[0].in_spite_of else ""
    return await done(request, PLACE, "the work goes on", hint=found[1] or in_spite)


@on_place(PLACE)
async def retry_jobs(request: Request) -> Response:
    """Make one failed job ready again, or all of them."""
    from agent.actions.jobs import retry

    job_id = _job_id((await form_of(request)).text("job"))
    found = await with_home(request, lambda home: (retry(home, job_id), home.notice))
    words = f"{count_words(found[0].requeued, 'job')} tried again"
    return await done(request, PLACE, words, hint=found[1] or "")


@on_place(PLACE)
async def cancel_job(request: Request) -> Response:
    """Cancel one job."""
    from agent.actions.jobs import cancel

    job_id = _job_id((await form_of(request)).text("job"))
    if job_id is None:
        raise UsageFault("no job was named", "", "choose one from the list")
    await with_home(request, lambda home: cancel(home, job_id))
    return await done(request, PLACE, f"job {job_id} is cancelled")


def _job_id(word: str) -> int | None:
    if not word:
        return None
    if not (word.isascii() and word.isdigit() and len(word) < 19):
        raise UsageFault("this is no job's number", word, "choose one from the list")
    return int(word)


ROUTES = [
    Route("/work", show_work, methods=["GET"]),
    Route("/jobs/pause", pause_work, methods=["POST"]),
    Route("/jobs/resume", resume_work, methods=["POST"]),
    Route("/jobs/retry", retry_jobs, methods=["POST"]),
    Route("/jobs/cancel", cancel_job, methods=["POST"]),
]
