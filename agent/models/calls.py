"""Every call of a model goes through here: see ``calling.py`` for what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.models.calling import CallGuard, ModelCalls
    from agent.profile_intent import ProfileIntent
    from agent.queue.registry import JobContext


def calls_of(context: JobContext, profile: ProfileIntent, kind: str, guard: CallGuard) -> ModelCalls:
    """Return the calls of one job. ``kind`` is what the meter files them under."""
    raise NotImplementedError
