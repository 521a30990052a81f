"""The agent itself: whether it runs and answers, and what it watches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.actions.checks.result import Check
from agent.clock import iso
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
        if running_agent(paths) is None:
            yield Check("agent", True, "it ended while it was asked")
            return
        yield Check("agent", False, str(error), "end it with `sapwood stop`, then `sapwood run`")
        return
    yield Check("agent", True, f"running, process {found.pid}")
    watching = answer.get("watching")
    if isinstance(watching, list):
        # No fault either way: what is not watched is looked at now and then.
        yield Check("watching", True, watching_words(watching))
    yield from look_at_companions(answer)


def look_at_companions(answer: Mapping[str, Any]) -> Iterator[Check]:
    """Yield how tray and page are, as the agent says. One that is not wanted or cannot serve here is no fault."""
    from agent.actions.companions import companion_of
    from agent.states import CompanionState

    for role, name in (("tray", "tray"), ("gateway", "page")):
        found = companion_of(answer, role)
        if found is not None:
            remedy = f"`sapwood logs` says why; a `sapwood bug-report` helps whoever mends the {name}"
            is_well = found.state is not CompanionState.FAILED
            yield Check(name, is_well, found.words, "" if is_well else remedy)


def watching_words(watching: Sequence[Any]) -> str:
    """Return in words how the agent notices what changes in each source, and why where it does not watch it."""
    found = []
    for one in watching:
        if isinstance(one, Mapping):
            reason = f" ({one['reason']})" if one.get("reason") else ""
            found.append(f"{one.get('source')}: {one.get('how')}{reason}")
    return "; ".join(found) or "there is nothing to watch"


def look_at_crashes(paths: Paths) -> Iterator[Check]:
    """Yield whether a process of ours left a crash dump, and which is the newest. It was started again: no fault."""
    from agent.crash import dumps

    found = dumps(paths.log_dir)
    if not found:
        yield Check("crash dumps", True, "none")
        return
    newest = found[0]
    more = f", the newest of {len(found)}" if len(found) > 1 else ""
    yield Check(
        "crash dumps",
        True,
        f"{newest.process} on {iso(newest.at_ms)}{more}: {newest.path}; `sapwood bug-report` takes them along",
    )
