"""``sync_source``: look at one source and find what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.ingest.sweeps import sweep_sync
from agent.queue.registry import JobSpec
from agent.queue.types import Job, Plan, SyncSourcePayload
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that writes down what the source holds now and asks for what is new. Calls no model."""
    from agent.ingest.sync import plan_sync
    from agent.ingest.wary import warily

    payload = job.payload(SyncSourcePayload)
    limit_s = context.intent.limits.sync_source
    return warily(context, job, payload.source_id, limit_s, lambda: plan_sync(context, payload), whole=True)


SPEC = JobSpec(kind=JobKind.SYNC_SOURCE, handle=handle, time_limit_s=300.0, sweep=sweep_sync)
