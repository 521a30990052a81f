"""``append_buffer``: an admitted node takes its place among the leaves of a tree (lane 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.registry import JobSpec
from agent.queue.types import AppendBufferPayload, Job, Plan
from agent.states import JobKind
from agent.tree.append import plan_append
from agent.tree.sweeps import sweep_append

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that appends the payload's node. Calls no model."""
    return plan_append(context, job.payload(AppendBufferPayload))


# Handling is nothing, settling a millisecond: a few in one transaction.
SPEC = JobSpec(kind=JobKind.APPEND_BUFFER, handle=handle, rank=3, time_limit_s=30.0, batch_size=8, sweep=sweep_append)
