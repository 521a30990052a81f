"""The same sentences for whoever has no terminal before them: where a text names a command, what to click instead.

Texts of the house name commands, for the command line is where all can be done. The page and the tray say the same
texts in the names of their own menus. What can be done in a terminal only keeps its command.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from agent.states import AgentState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import tzinfo

    from agent.actions.glance import Glance

_COMMAND = re.compile(r"`sapwood ([a-z-]+)((?: [^`]*)?)`")
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_IN_A_TERMINAL_ONLY = re.compile(r" (?:edit|path)\b")
"""Of ``config``: a broken file cannot be mended on the page, which has none to change."""

_ON_THE_PAGE = {
    "add": "Sources › Add a source",
    "autostart": "Settings › Start at login",
    "bug-report": "Help › Save a bug report",
    "cancel": "Work",
    "config": "Settings",
    "doctor": "Help › Look at everything",
    "forget": "Sources › Forget something",
    "jobs": "Work",
    "logs": "Help › Read the logs",
    "model": "Models",
    "pause": "Work › Pause",
    "remove": "Sources",
    "resume": "Work › Resume",
    "retry": "Work › Try again",
    "search": "Search",
    "setup": "Help › The first questions",
    "show": "Tree",
    "sources": "Sources",
    "status": "Work",
    "sync": "Sources",
    "tree": "Tree",
    "usage": "Models",
}
"""What a command is on the page, by the names of its menu."""

_IN_THE_TRAY = {
    **{command: f"Open Sapwood › {place}" for command, place in _ON_THE_PAGE.items()},
    "add": "Add folder…",
    "autostart": "Start at login",
    "bug-report": "Save bug report…",
    "logs": "Open logs",
    "pause": "Pause",
    "resume": "Resume",
}


def on_the_page(text: str) -> str:
    """Return a text of ours with the page's own names in the place of commands. Pure."""
    return _said(text, _ON_THE_PAGE)


def in_the_tray(text: str) -> str:
    """Return a text of ours with the names of the tray's menu in the place of commands. Pure."""
    return _said(text, _IN_THE_TRAY)


def _said(text: str, names: Mapping[str, str]) -> str:
    def name(found: re.Match[str]) -> str:
        command, rest = found.groups()
        if command not in names or (command == "config" and _IN_A_TERMINAL_ONLY.match(rest)):
            return found[0]
        return f"“{names[command]}”"

    return _COMMAND.sub(name, text)


def words_on_the_page(found: Glance, now_ms: int, zone: tzinfo | None = None) -> str:
    """Return what stands behind the state's name on a page. Pure."""
    if found.state is AgentState.STOPPED:
        return "Sapwood was ended; what is asked for now is done once it runs again"
    if found.state is AgentState.PAUSED and found.paused_until_ms is not None:
        return pause_words(found, now_ms, zone)
    return with_moments(on_the_page(found.words), now_ms, zone)


def needs_on_the_page(found: Glance, now_ms: int, zone: tzinfo | None = None) -> tuple[str, ...]:
    """Return what wants its owner beside what the state's words say, as a page says it. Pure."""
    words = "" if found.state is AgentState.STOPPED else found.words
    return tuple(with_moments(on_the_page(need), now_ms, zone) for need in needs_beside(found, words))


def needs_beside(found: Glance, words: str) -> tuple[str, ...]:
    """Return what wants the owner that these words do not say already, of themselves or of the same cause. Pure."""
    return tuple(need for need in found.needs if (need.partition(": ")[2] or need) not in words)


def pause_words(found: Glance, now_ms: int, zone: tzinfo | None = None) -> str:
    """Return until when the owner's own pause lasts, as they would say it. Pure."""
    if found.is_paused_for_good or found.paused_until_ms is None:
        return "until you resume"
    return f"until {moment_words(found.paused_until_ms, now_ms, zone)}"


def with_moments(text: str, now_ms: int, zone: tzinfo | None = None) -> str:
    """Return a text whose times, as machines write them, are said as a person says them. Pure."""

    def say(found: re.Match[str]) -> str:
        at = datetime.fromisoformat(found[0])
        return moment_words(int(at.timestamp() * 1000), now_ms, zone)

    return _MOMENT.sub(say, text)


def moment_words(at_ms: int, now_ms: int, zone: tzinfo | None = None) -> str:
    """Return a moment (UTC ms) for a person, in this machine's zone where none is given.

    As in ``14:30``, ``tomorrow 06:00``, ``Fri 5 June 06:00``.
    """
    at, now = (datetime.fromtimestamp(ms / 1000, UTC).astimezone(zone) for ms in (at_ms, now_ms))
    if at.date() == now.date():
        return f"{at:%H:%M}"
    if at.date() == now.date() + timedelta(days=1):
        return f"tomorrow {at:%H:%M}"
    return f"{at:%a} {at.day} {at:%B %H:%M}"
