"""The active profile as a handler sees it, and the arming of what follows from new nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.queue.sweep import has_failed
from agent.queue.types import REEMBED_BACKFILL_REVISIT_MS, NewJob, Plan

if TYPE_CHECKING:
    from agent.models.protocol import Profile, Summariser
    from agent.queue.registry import JobContext

OPENER_KEY = "open_profile"


def active_profile(context: JobContext, kind: str = "", sources: Iterable[str] = ()) -> Profile:
    """Return the profile that the intent names now, its calls bound to this job; read for each job.

    ``sources`` are those that the job's words come from: where one of them is private, nothing of it goes to a cloud
    and the built-in profile stands in. Raises ``JobFailure`` where it cannot be opened. A process that reaches models
    in another way (a test's scripted provider) says so in ``context.shared``.
    """
    from agent.models.profiles import open_builtin, open_profile

    intent = context.intent
    opener = context.shared.get(OPENER_KEY)
    if opener is not None:
        given: Profile = opener(intent, context.shared)
        if given.resource is None or intent.active_profile is None:
            return given
    active = intent.active_profile
    if active is None:
        return open_profile(intent, context.shared)
    if not intent.is_local(active) and any(intent.is_private(source) for source in sources):
        return open_builtin(context.shared)
    from agent.models.calls import calls_of
    from agent.worker.guard import JobGuard

    return open_profile(intent, context.shared, calls_of(context, active, kind, JobGuard(context)))


def builtin_summariser(profile: Profile) -> Summariser:
    """Return the summariser for what no model is to see: tails that may still grow, inputs that pass through."""
    if profile.resource is None:
        return profile.summariser
    from agent.models.builtin.summary import BuiltinSummariser

    return BuiltinSummariser()


def arm_reembed(context: JobContext, profile: Profile) -> list[NewJob]:
    """Return the back-fill of vectors for nodes that this run made; a little later, so that a burst is one batch.

    It is that of the active profile, also where the built-in one stood in for a private source. Nothing where that
    back-fill has failed: as for a sweep, only a mended cause, its rest or its owner opens it again. Otherwise every
    node that grows would have a model asked once more that is missing, or answers in vain and is paid for it.
    """
    signature = profile.embedder.signature
    if profile.resource is None and context.intent.active_profile is not None and OPENER_KEY not in context.shared:
        from agent.models.profiles import open_profile

        signature = open_profile(context.intent, context.shared).embedder.signature
    job = NewJob.reembed_backfill(signature)
    if has_failed(context.connection, job):
        return []
    return [replace(job, available_at_ms=context.clock.now_ms() + REEMBED_BACKFILL_REVISIT_MS)]


def with_reembed(plan: Plan, context: JobContext, profile: Profile) -> Plan:
    """Return a plan of the tree with the back-fill armed, where it writes anything."""
    if plan.writes is None:
        return plan
    return replace(plan, follow_ups=(*plan.follow_ups, *arm_reembed(context, profile)))
