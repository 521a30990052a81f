"""``seal``: one level of one tree comes closer to its shape (lane 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.registry import JobSpec
from agent.queue.types import Job, Plan, SealPayload
from agent.states import JobKind
from agent.tree.seal import plan_seal
from agent.tree.sweeps import sweep_seal
from agent.worker.profile import active_profile, builtin_summariser, with_reembed

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that seals the payload's level: at most one call of a model."""
    profile = active_profile(context)
    plan = plan_seal(context, job.payload(SealPayload), profile.summariser, builtin_summariser(profile))
    return with_reembed(plan, context, profile)


SPEC = JobSpec(kind=JobKind.SEAL, handle=handle, llm_bound=True, rank=1, time_limit_s=300.0, sweep=sweep_seal)
