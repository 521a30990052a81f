"""Which kinds nobody will claim for now, as the workers see it: the supervisor counts and watches only the others.

Rows that wait for a model that cannot be had are due and yet no work: they must not call for more workers, keep the
machine awake, or have the gate looked at twenty times a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.holds import HoldRow, read_hold

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.claim import Allowed
    from agent.queue.registry import Registry


def active_hold(connection: Connection, intent: Intent, now_ms: int) -> HoldRow | None:
    """Return the hold that is on for the active profile, ``None`` where there is none. Reads one row at most."""
    profile = intent.active_profile
    hold = None if profile is None else read_hold(connection, profile.name)
    return hold if hold is not None and hold.is_on(now_ms) else None


def claimable_kinds(
    connection: Connection, registry: Registry, intent: Intent, now_ms: int, *, is_barred: bool = False
) -> Allowed | None:
    """Return which kinds workers may claim now, or ``None`` for all of them.

    ``is_barred``: ``config.toml`` cannot be read, so that nothing goes to a cloud.
    """
    if intent.active_problem is not None:
        return lambda kind: not registry[kind].llm_bound
    profile = intent.active_profile
    if profile is None:
        return None
    barred = is_barred and not intent.is_local(profile)
    if not barred and active_hold(connection, intent, now_ms) is None:
        return None

    def allowed(kind: str) -> bool:
        return not (registry[kind].llm_bound and profile.calls_model_for(kind))

    return allowed


def without_heavy(registry: Registry, allowed: Allowed | None) -> Allowed:
    """Return the same without the kinds that load the machine: what the power policy holds."""
    return lambda kind: not registry[kind].llm_bound and (allowed is None or allowed(kind))
