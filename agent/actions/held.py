"""What an owner is told while the models of the active profile cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.clock import iso
from agent.queue.holds import HoldRow, read_hold
from agent.states import AgentState, Hold

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.counts import QueueCounts

NEEDS_OWNER = frozenset({Hold.AUTH_FAILED, Hold.BUDGET_EXHAUSTED, Hold.MODEL_MISSING, Hold.NO_CONSENT})
"""What nobody but the owner can mend; all other holds end by themselves."""


def hold_of(connection: Connection, intent: Intent, now_ms: int) -> HoldRow | None:
    """Return the active profile's hold as far as it concerns its owner; ``None`` where models can be had."""
    profile = intent.active_profile
    hold = None if profile is None else read_hold(connection, profile.name)
    if hold is None or not hold.openings:
        return None
    # Between two tries such a cause is what it was.
    return hold if hold.code in NEEDS_OWNER or hold.is_on(now_ms) else None


def unusable_words(intent: Intent, queue: QueueCounts) -> tuple[AgentState, str] | None:
    """Return state and reason where the active profile cannot be used and anything waits for it, else ``None``."""
    problem = intent.active_problem
    if problem is None or not (queue.ready or queue.running or queue.deferred or queue.failed):
        return None
    return AgentState.ATTENTION, f"{problem[0]}: {problem[1]}"


def hold_words(hold: HoldRow | None, queue: QueueCounts, growing: str) -> tuple[AgentState, str] | None:
    """Return state and reason while a hold is on and anything waits for it; ``None`` where it changes nothing.

    ``growing`` is what is said of the rest, which goes on.
    """
    if hold is None or not (queue.ready or queue.running or queue.deferred or queue.failed):
        return None
    if hold.code in NEEDS_OWNER:
        return AgentState.ATTENTION, f"{hold.scope}: {hold.reason}"
    words = f"{hold.scope}: {hold.reason}; until {iso(hold.until_ms)}"
    if queue.running:
        return AgentState.GROWING, f"{growing}; {words}"
    return AgentState.IDLE, words


def failing_words(connection: Connection, intent: Intent, queue: QueueCounts) -> tuple[AgentState, str] | None:
    """Return state and reason where the last call failed and all that is left waits for its next try, else ``None``.

    A hold opens after several failures in a row, and two rows take minutes to fail as often: until then, and between
    two tries, their owner would be told that something is due later, and not why.
    """
    profile = intent.active_profile
    if profile is None or queue.ready or queue.running or not queue.deferred:
        return None
    hold = read_hold(connection, profile.name)
    if hold is None or not hold.failures or hold.code in NEEDS_OWNER:
        return None
    return AgentState.IDLE, f"{hold.scope}: {hold.reason}; it is tried again by itself"
