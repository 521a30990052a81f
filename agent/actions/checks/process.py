"""The agent itself: whether it runs and answers, and what it watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent.actions.checks.result import Check
from agent.errors import SapwoodError

if TYPE_CHECKING:
    from agent.paths import Paths

PATIENCE_S = 3.0


def look_at_agent(paths: Paths) -> Iterator[Check]:
    """Yield whether a running agent answers, and whether it hears of changes at once. Not to run is no fault."""
    from agent.actions.home import NOT_RUNNING
    from agent.supervisor.control import call, running_agent

    found = running_agent(paths)
    if found is None:
        # Not a fault: an owner may well want to look only.
        yield Check("agent", True, NOT_RUNNING)
        return
    try:
        answer = call(paths, "status", PATIENCE_S)
    except SapwoodError as error:
        yield Check("agent", False, str(error), "end it with `sapwood stop`, then `sapwood run`")
        return
    yield Check("agent", True, f"running, process {found.pid}")
    watching = answer.get("watching")
    if watching is not None:
        yield Check("watching", True, watching_words(watching))


def watching_words(watching: Any) -> str:
    """Return in words what the agent says of its watching; where it watches nothing it looks now and then."""
    if isinstance(watching, Mapping):
        return ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in watching.items()) or "nothing"
    return str(watching)
