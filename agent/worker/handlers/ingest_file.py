"""``ingest_file``: read, convert and store one item (lane 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.ingest.sweeps import sweep_ingest
from agent.queue.registry import JobSpec
from agent.queue.types import IngestFilePayload, Job, Plan
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that stores the item's current version in one transaction. Calls no model, ever."""
    from agent.ingest.pipeline import plan_ingest
    from agent.ingest.wary import warily

    payload = job.payload(IngestFilePayload)
    limit_s = context.intent.limits.ingest_file
    return warily(context, job, payload.source_id, limit_s, lambda: plan_ingest(context, payload), whole=False)


SPEC = JobSpec(kind=JobKind.INGEST_FILE, handle=handle, time_limit_s=300.0, sweep=sweep_ingest)
