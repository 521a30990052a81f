"""Whether a model call that is under way may go on: asked four times a second, in the thread that waits for it.

The owner leaves the profile, withdraws consent, breaks ``config.toml`` or pauses, and the call ends within a second
(openhuman, by reading: withdrawn consent was not honoured before a restart). Its job is put off and burns no attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import LeaseLost, Postponed
from agent.states import Hold
from agent.worker.capacity import read_pause

if TYPE_CHECKING:
    from agent.profile_intent import ProfileIntent
    from agent.queue.registry import JobContext

BROKEN_PAUSE_MS = 5_000


class JobGuard:
    """The guard of one job's calls."""

    def __init__(self, context: JobContext) -> None:
        self._context = context

    def look(self, profile: ProfileIntent) -> Exception | None:
        """Return why the call must end, or ``None``. One ``stat`` and a row, mostly."""
        try:
            self._context.check()
        except LeaseLost as lost:
            return lost
        now_ms = self._context.clock.now_ms()
        intent = self._context.intent_now
        is_local = intent.is_local(profile)
        if not is_local and self._context.intent_problem is not None:
            words = "config.toml cannot be read: nothing goes to a cloud before that is mended"
            return Postponed(now_ms + BROKEN_PAUSE_MS, words, Hold.CONFIG_BROKEN, profile.name)
        current = intent.active_profile
        if current is None or current.name != profile.name or current.address != profile.address:
            return Postponed(now_ms, "the owner has switched to another model", "", profile.name)
        if not is_local and not current.has_consent():
            words = (
                f"text may not be sent to {current.host} before its owner agrees: `sapwood model use {profile.name}`"
            )
            return Postponed(now_ms, words, Hold.NO_CONSENT, profile.name)
        if is_local:
            # What runs here is ended at once; what a cloud does is paid for and loads nobody.
            until_ms = read_pause(self._context.connection)
            if until_ms is not None and until_ms > now_ms:
                return Postponed(now_ms, "paused by its owner", "", None)
        return None
