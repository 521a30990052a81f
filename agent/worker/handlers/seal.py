"""``seal``: one level of one tree comes closer to its shape (lane 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.registry import JobSpec
from agent.queue.types import NOTHING_TO_DO, Job, Plan, SealPayload
from agent.states import JobKind
from agent.tree.seal import plan_seal
from agent.tree.store import find_tree
from agent.tree.sweeps import sweep_seal
from agent.worker.profile import active_profile, builtin_summariser, with_reembed

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that seals the payload's level: at most one call of a model."""
    payload = job.payload(SealPayload)
    tree = find_tree(context.connection, payload.tree_id)
    if tree is None:
        return NOTHING_TO_DO
    profile = active_profile(context, JobKind.SEAL, [tree.source_id])
    plan = plan_seal(context, payload, profile.summariser, builtin_summariser(profile))
    return with_reembed(plan, context, profile)


SPEC = JobSpec(kind=JobKind.SEAL, handle=handle, llm_bound=True, rank=1, time_limit_s=300.0, sweep=sweep_seal)
