"""What becomes of a damaged page that an action meets: words that help, and the running agent is told to look."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from agent.db.faults import REBUILD_HINT, FaultClass, classify
from agent.errors import DatabaseCorrupt, SapwoodError

if TYPE_CHECKING:
    from agent.paths import Paths

ASK_PATIENCE_S = 2.0


def as_damage(paths: Paths, error: Exception) -> DatabaseCorrupt | None:
    """Return an error of a damaged memory in an owner's words, ``None`` for any other; blocks two seconds at most.

    A running agent is asked to look at the whole file: it stops its workers, and begins the memory anew if it must.
    """
    if classify(error) is not FaultClass.CORRUPT:
        return None
    hint = REBUILD_HINT
    if ask_agent(paths, "examine"):
        hint = "the agent looks at it now and grows the memory anew if it must: see `sapwood status`"
        # It may have looked already and wait for its owner: `status` meets the same damage and would say no more.
        hint = _agent_says(paths) or hint
    detail = error.detail if isinstance(error, DatabaseCorrupt) else f"{paths.database}: {error}"
    return DatabaseCorrupt("the memory file is damaged or is not a database", detail, hint)


def _agent_says(paths: Paths) -> str | None:
    from agent.states import AgentState
    from agent.supervisor.control import call

    with suppress(SapwoodError, KeyError):
        answer = call(paths, "status", ASK_PATIENCE_S)
        if answer["state"] in (AgentState.ERROR, AgentState.ATTENTION) and answer["reason"]:
            return f"the agent says: {answer['reason']}"
    return None


def ask_agent(paths: Paths, verb: str) -> bool:
    """Return whether a running agent took a request."""
    from agent.supervisor.control import call

    try:
        return bool(call(paths, verb, ASK_PATIENCE_S).get("ok"))
    except SapwoodError:
        return False
