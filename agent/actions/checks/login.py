"""Whether what starts the agent at login would do so. Off is no fault, wherever it was switched off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.actions.checks.result import Check

if TYPE_CHECKING:
    from agent.paths import Paths


def look_at_login(paths: Paths) -> Iterator[Check]:
    """Yield whether the login starts the agent of this home, as the system has it."""
    from agent.actions.autostart import autostart_status

    found = autostart_status(paths)
    words = "on" if found.enabled else "off"
    detail = f"{words}: {found.problem}" if found.problem else words
    remedy = "`sapwood autostart on` makes the entry anew, `sapwood autostart off` takes it away"
    yield Check("start at login", not found.is_broken, detail, remedy if found.is_broken else "")
