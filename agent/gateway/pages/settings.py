"""The settings: each value in force, where it comes from, changing it, its default; and the start at login."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from agent.actions.checks.result import size_words
from agent.actions.times import span_words
from agent.errors import SapwoodError, UsageFault
from agent.gateway.errors import status_of
from agent.gateway.pages.forms import form_of
from agent.gateway.pages.rendering import done, on_place, show_without_home
from agent.gateway.serving import context_of, in_thread

if TYPE_CHECKING:
    from starlette.requests import Request

    from agent.actions.settings import Setting
    from agent.paths import Paths

PLACE = "/settings"
SECTIONS: dict[str, tuple[str, str]] = {
    "desktop": ("On the desktop", "The icon in the panel, and what you are told."),
    "schedule": ("When sources are looked at", "Seconds between looks, and the time zone that days are cut in."),
    "power": ("Battery, memory and processor", "When the work waits, so that you have the machine to yourself."),
    "assistants": ("Assistants", "What an assistant that you connect may read."),
    "models": ("Models", "Which profile is used, and which hosts count as yours."),
    "gateway": ("This page", "Its port (0 is any free one), and after how many idle seconds it ends."),
    "pool": ("Workers", "How many processes work at once."),
    "limits": ("Limits", "Seconds that each kind of job may take, and sizes in bytes."),
    "tree": ("Tree", "After how many seconds what is open is summed up."),
    "queue": ("Queue", "Leases, attempts, and how long what is done is kept."),
    "supervisor": ("Supervisor", "Restarts of workers, and how often it looks around."),
    "sweep": ("Sweeps", "How what no job asks for is found again."),
    "sources": ("Sources", "What was said of each when it was named."),
    "profiles": ("Model profiles", "What was said of each when it was added."),
}
LABELS = {
    "desktop.tray": "An icon in the panel",
    "desktop.notifications": "Notifications",
    "schedule.sync_seconds": "Look at each source every so many seconds",
    "schedule.watch": "Notice changes as they happen",
    "schedule.watch_seconds": "Seconds between two looks at a change",
    "schedule.timezone": "Time zone",
    "power.enabled": "Wait on battery and while the machine is busy",
    "power.battery_floor": "Battery below which work waits (0 to 1)",
    "power.memory_bytes": "Free memory below which work waits",
    "power.cpu_busy": "Busy processor (0 to 1)",
    "power.sample_seconds": "Seconds between two looks at the machine",
    "power.dwell_seconds": "Seconds that a state lasts at least",
    "assistants.private": "Assistants may read private sources",
    "models.active": "Profile in use",
    "models.local_hosts": "Hosts that are yours",
    "models.local_permits": "Local models at once",
    "gateway.port": "Port of this page",
    "gateway.idle_seconds": "Idle seconds after which it ends",
    "pool.min_workers": "Fewest workers",
    "pool.max_workers": "Most workers",
    "pool.idle_seconds": "Idle seconds after which a worker ends",
}
"""What the everyday ones are called, besides their key."""
EMPTY = {"schedule.timezone": "the system's"}
LONG_S = 120
FIXED = frozenset({"kind", "id", "provider"})


@on_place(PLACE)
async def show_settings(request: Request) -> Response:
    """Show all of them, the everyday ones first."""

    def load(paths: Paths) -> Mapping[str, Any]:
        from agent.actions.autostart import autostart_status
        from agent.actions.settings import settings

        found = settings(paths)
        groups: dict[str, list[Setting]] = {name: [] for name in SECTIONS}
        for each in found.values:
            groups.setdefault(each.key.partition(".")[0], []).append(each)
        return {
            "found": found,
            "groups": [(name, *SECTIONS.get(name, (name, "")), values) for name, values in groups.items() if values],
            "autostart": autostart_status(paths),
            "shown": _shown,
            "labels": LABELS,
            "fixed": FIXED,
        }

    return await show_without_home(request, "settings.html", load, place=PLACE)


@on_place(PLACE)
async def show_setting(request: Request) -> Response:
    """Show one setting with the form that changes it."""
    return await _setting(request, request.path_params["key"])


async def _setting(request: Request, key: str, typed: str | None = None, error: SapwoodError | None = None) -> Response:
    def load(paths: Paths) -> Mapping[str, Any]:
        from agent.actions.settings import settings

        one = settings(paths).one(key)
        return {
            "one": one,
            "typed": _typed(one.value) if typed is None else typed,
            "fault": error,
            "is_list": isinstance(one.value, list),
            "is_switch": isinstance(one.value, bool),
            "label": LABELS.get(key, ""),
            "shown": _shown,
        }

    status = 200 if error is None else status_of(error)
    return await show_without_home(request, "setting.html", load, place=PLACE, status=status)


async def change_setting(request: Request) -> Response:
    """Write one value, or take it out of the file, so that its default holds."""
    from agent.actions.settings import change, reset, settings

    key, typed, paths = request.path_params["key"], await form_of(request), context_of(request).paths

    def carry_out() -> str:
        if typed.text("do") == "default":
            found = reset(paths, key)
        else:
            is_list = isinstance(settings(paths).one(key).value, list)
            found = change(paths, key, list(typed.lines("value")) if is_list else [typed.text("value")])
        beaten = f"; the environment's {found.overridden_by} beats it" if found.overridden_by else ""
        return f"the setting {key} is {_shown(key, found.value)}{beaten}"

    try:
        words = await in_thread(request, carry_out)
    except SapwoodError as error:
        return await _setting(request, key, typed.text("value"), error)
    return await done(request, PLACE, words)


@on_place(PLACE)
async def switch_autostart(request: Request) -> Response:
    """Switch the start at login on or off."""
    from agent.actions.autostart import set_autostart

    typed = await form_of(request)
    wanted = typed.text("on")
    if wanted not in ("yes", "no"):
        raise UsageFault("this is neither on nor off", wanted, "choose one of the two")
    paths = context_of(request).paths
    found = await in_thread(request, lambda: set_autostart(wanted == "yes", paths))
    words = "Sapwood starts when you log in" if found.enabled else "Sapwood does not start when you log in"
    return await done(request, typed.then(PLACE), words, hint=found.problem)


def _shown(key: str, value: object) -> str:
    """Return a value as a person reads it, with what its seconds or bytes come to."""
    if value is None or value == "" or value == []:
        return EMPTY.get(key, "nothing")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value)
    if not isinstance(value, int | float):
        return str(value)
    number = f"{value:,.0f}" if float(value).is_integer() else f"{value:,}"
    if key.endswith(("seconds", "_s")) and value >= LONG_S:
        return f"{number} ({span_words(value)})"
    return f"{number} ({size_words(value)})" if key.endswith("_bytes") else number


def _typed(value: object) -> str:
    """Return a value as it is typed into its form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "\n".join(str(each) for each in value) if isinstance(value, list) else str(value)


ROUTES = [
    Route("/settings", show_settings, methods=["GET"]),
    Route("/settings/autostart", switch_autostart, methods=["POST"]),
    Route("/settings/{key}", show_setting, methods=["GET"]),
    Route("/settings/{key}", change_setting, methods=["POST"]),
]
