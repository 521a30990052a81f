"""Help: what the doctor finds, the report for a maintainer with everything in it to look at first, the last log lines.

Nothing here needs a healthy memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.gateway.pages.forms import query_of
from agent.gateway.pages.rendering import done, on_place, show_without_home
from agent.gateway.serving import context_of, in_thread

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.paths import Paths

PLACE = "/help"
LINES = 200
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@on_place(PLACE)
async def show_help(request: Request) -> Response:
    """Show what there is to look at, and where things are."""

    def load(paths: Paths) -> Mapping[str, Any]:
        import agent

        return {
            "places": (
                ("settings", paths.config_file),
                ("memory", paths.database),
                ("logs", paths.log_dir),
            ),
            "version_of": getattr(agent, "__version__", ""),
        }

    return await show_without_home(request, "help.html", load, place=PLACE)


@on_place(PLACE)
async def show_doctor(request: Request) -> Response:
    """Look at everything and show what was found; takes as long as reading the memory once."""

    def load(paths: Paths) -> Mapping[str, Any]:
        from agent.actions.doctor import doctor

        found = doctor(paths)
        return {"found": found, "wrong": [each for each in found.checks if not each.ok]}

    return await show_without_home(request, "doctor.html", load, place=PLACE, waits=True)


@on_place(PLACE)
async def show_report(request: Request) -> Response:
    """Show every file of the report, whole, before anything is saved."""

    def load(paths: Paths) -> Mapping[str, Any]:
        from agent.actions.bug_report import collect

        return {"report": collect(paths)}

    return await show_without_home(request, "bug_report.html", load, place=PLACE, waits=True)


@on_place(PLACE)
async def save_report(request: Request) -> Response:
    """Save the report as one file on this machine. Nothing is sent anywhere."""
    from agent.actions.bug_report import collect, save

    paths = context_of(request).paths
    saved = await in_thread(request, lambda: save(collect(paths)), waits=True)
    hint = "Look into it before you give it to anybody. Nothing was sent."
    return await done(request, PLACE, f"the report is saved as {saved}", hint=hint)


@on_place(PLACE)
async def show_logs(request: Request) -> Response:
    """Show the last lines of the logs."""
    asked = query_of(request).text("level").upper()
    level = asked if asked in LEVELS else None

    def load(paths: Paths) -> Mapping[str, Any]:
        from agent.actions.log_reading import last_lines

        return {"found": last_lines(paths, LINES, level), "level": level or "", "levels": LEVELS}

    return await show_without_home(request, "logs.html", load, place=PLACE)


ROUTES = [
    Route("/help", show_help, methods=["GET"]),
    Route("/help/doctor", show_doctor, methods=["GET"]),
    Route("/help/bug-report", show_report, methods=["GET"]),
    Route("/help/bug-report", save_report, methods=["POST"]),
    Route("/help/logs", show_logs, methods=["GET"]),
]
