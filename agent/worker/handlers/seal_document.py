"""``seal_document``: the tree of one document's current version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.registry import JobSpec
from agent.queue.types import Job, Plan, SealDocumentPayload
from agent.states import JobKind
from agent.tree.documents import plan_seal_document
from agent.tree.sweeps import sweep_seal_document
from agent.worker.profile import active_profile, builtin_summariser, with_reembed

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that builds the document's tree, or its next part: at most one call of a model."""
    payload = job.payload(SealDocumentPayload)
    profile = active_profile(context, JobKind.SEAL_DOCUMENT, [payload.source_id])
    plan = plan_seal_document(context, payload, profile.summariser, builtin_summariser(profile))
    return with_reembed(plan, context, profile)


SPEC = JobSpec(kind=JobKind.SEAL_DOCUMENT, handle=handle, llm_bound=True, time_limit_s=300.0, sweep=sweep_seal_document)
