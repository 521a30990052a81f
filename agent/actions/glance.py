"""What the agent does, at a glance: what the tray shows and the head of the page. Cheap enough for every two seconds.

It says the same as ``status``, by the same functions, and leaves out what only a person who asks wants to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.actions.asking import asked_about, asked_words
from agent.actions.growth import growing_words, growth
from agent.actions.held import NEEDS_OWNER, failing_words, hold_of, hold_words, unusable_words
from agent.actions.pausing import read_paused
from agent.actions.status import (
    FULL_DISK_BYTES,
    as_the_agent_says,
    ask_the_agent,
    free_bytes,
    full_words,
    power_of,
    state_of,
)
from agent.db.aside import read_damage
from agent.db.power_row import read_power
from agent.profile_intent import BUILTIN
from agent.queue.counts import count_open
from agent.states import AgentState, Hold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.actions.growth import Growth
    from agent.actions.home import Home
    from agent.config import Intent
    from agent.queue.counts import QueueCounts
    from agent.queue.holds import HoldRow


@dataclass(frozen=True)
class GlanceProfile:
    """A profile to choose: ``where`` is ``here``, ``local`` or ``cloud``; ``consent``: nothing need be asked first."""

    name: str
    where: str
    consent: bool


@dataclass(frozen=True)
class Glance:
    """What the agent does. ``reason`` is a sentence, ``words`` what fits into a menu, without the state's name.

    ``share`` (0 … 1) is how much is grown while it grows, else ``None``; ``paused_until_ms`` (UTC) is the owner's own
    pause. ``needs`` is what wants the owner's attention, whatever else goes on.
    """

    state: AgentState
    reason: str
    words: str
    share: float | None
    profile: str
    profiles: tuple[GlanceProfile, ...]
    paused_until_ms: int | None
    needs: tuple[str, ...] = ()
    is_paused_for_good: bool = False
    """The owner's pause lasts until they resume."""
    is_offline: bool = False
    """The server of the active profile cannot be reached, and something waits for it."""
    running: bool = True


def glance(home: Home, answer: Mapping[str, Any] | None = None) -> Glance:
    """Return what the agent does now, from indexes alone.

    ``answer`` is what the agent said of itself last (``state``, ``reason``, ``power``); without one it is asked, which
    blocks for a second at most.
    """
    now_ms, running = home.clock.now_ms(), home.running
    if answer is None:
        answer = ask_the_agent(home) if running else {}
    with home.connection.snapshot() as connection:
        queue = count_open(connection, now_ms)
        paused = read_paused(connection, now_ms)
        asked = asked_about(connection, home.paths, home.intent)
        power = power_of(answer, read_power(connection)) if running else None
        hold = hold_of(connection, home.intent, now_ms)
        failing = failing_words(connection, home.intent, queue)
        damage = read_damage(connection, now_ms)
        found = growth(connection, now_ms) if queue.ready or queue.running else None
    growing = "" if found is None else growing_words(found)
    held = unusable_words(home.intent, queue) or hold_words(hold, queue, growing) or failing
    sources = len(home.intent.sources)
    state, reason = state_of(running, paused, queue, sources, home.config_problem, growing, asked, power, held)
    if running:
        state, reason = as_the_agent_says(answer) or (state, reason)
        if state is AgentState.GROWING and free_bytes(home) < FULL_DISK_BYTES:
            state, reason = AgentState.ATTENTION, full_words(home)
    needs = _needs(home, queue, asked, hold)
    if damage is not None:
        needs = (*needs, damage.words)
    return Glance(
        state=state,
        reason=reason,
        words=_words(state, reason, found),
        share=found.share if found is not None and state is AgentState.GROWING else None,
        profile=home.intent.models.active,
        profiles=profiles_at_a_glance(home.intent),
        paused_until_ms=paused.paused_until_ms,
        needs=needs,
        is_paused_for_good=paused.indefinite,
        is_offline=held is not None and (held is failing or (hold is not None and hold.code is Hold.UNREACHABLE)),
        running=running,
    )


def profiles_at_a_glance(intent: Intent) -> tuple[GlanceProfile, ...]:
    """Return the profiles that can be chosen, the built-in one first. Pure."""
    found = [GlanceProfile(BUILTIN, "here", True)]
    for each in intent.profiles:
        is_local = intent.is_local(each)
        found.append(GlanceProfile(each.name, "local" if is_local else "cloud", is_local or each.has_consent()))
    return tuple(found)


def _needs(home: Home, queue: QueueCounts, asked: tuple[str, ...], hold: HoldRow | None) -> tuple[str, ...]:
    needs = []
    if home.config_problem is not None:
        needs.append(f"config.toml cannot be read: {home.config_problem}")
    unusable = unusable_words(home.intent, queue)
    if unusable is not None:
        needs.append(unusable[1])
    if hold is not None and hold.code in NEEDS_OWNER:
        needs.append(f"{hold.scope}: {hold.reason}")
    if queue.failed:
        needs.append("1 job failed" if queue.failed == 1 else f"{queue.failed:,} jobs failed")
    if asked:
        needs.append(asked_words(asked))
    return tuple(needs)


def _words(state: AgentState, reason: str, found: Growth | None) -> str:
    """Return what is worth a line of a menu: how far it has grown, or the reason."""
    if state is not AgentState.GROWING or found is None:
        return reason
    if found.unread.looking:
        known = found.unread.waiting + found.unread.read
        return f"{known:,} found so far" if known else "looking at what there is"
    total = max(found.chunks, round(found.grown / found.share)) if found.share else found.chunks
    return f"{found.grown:,} of {total:,}" if total else "reading"
