"""``flush_stale``: tails that have waited too long are closed, fallbacks are tried again (lane 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.registry import JobSpec
from agent.queue.types import FlushStalePayload, Job, Plan
from agent.states import JobKind
from agent.tree.flush import plan_flush_stale
from agent.tree.sweeps import sweep_flush

if TYPE_CHECKING:
    from agent.queue.registry import JobContext


def handle(context: JobContext, job: Job) -> Plan:
    """Return the plan that asks for the seals of old tails. Calls no model."""
    return plan_flush_stale(context, job.payload(FlushStalePayload))


SPEC = JobSpec(kind=JobKind.FLUSH_STALE, handle=handle, rank=2, time_limit_s=30.0, sweep=sweep_flush)
