"""What the agent is doing, in the words that the command line and the tray share. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.clock import iso
from agent.states import AgentState


@dataclass(frozen=True)
class Facts:
    """What the state is told from."""

    problem: str | None = None
    needs_owner: bool = False
    notice: str | None = None
    is_prepared: bool = True
    is_stopping: bool = False
    given_up: int = 0
    last_failure: str = ""
    config_problem: str | None = None
    paused_until_ms: int | None = None
    held_by_power: str = ""
    """Why the power policy holds rows that are due."""
    is_resting: bool = True


def state_of(facts: Facts) -> tuple[AgentState, str]:
    """Return the state and its reason (``""`` where the state says all). What needs the owner comes first."""
    if facts.problem is not None:
        return AgentState.ATTENTION if facts.needs_owner else AgentState.ERROR, facts.problem
    if facts.is_stopping:
        return AgentState.STOPPED, "ending"
    if not facts.is_prepared:
        return AgentState.STARTING, ""
    if facts.given_up:
        which = "a worker ends" if facts.given_up == 1 else f"{facts.given_up} workers end"
        return AgentState.ATTENTION, f"{which} again and again: {facts.last_failure}; see `sapwood logs`"
    if facts.config_problem is not None:
        return (
            AgentState.ATTENTION,
            f"the last good config.toml is in use, the new one is broken: {facts.config_problem}",
        )
    if facts.paused_until_ms is not None:
        return AgentState.PAUSED, f"until {iso(facts.paused_until_ms) or 'resumed'}"
    if facts.notice is not None:
        return AgentState.ATTENTION, facts.notice
    if facts.held_by_power:
        return AgentState.PAUSED, facts.held_by_power
    return (AgentState.IDLE, "") if facts.is_resting else (AgentState.GROWING, "")
