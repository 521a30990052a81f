"""Reading on after a disk that did not answer ended a worker.

A run that hangs is ended by its time limit, and nobody knows at which file. The next run of the same job is *wary*: it
waits for each call to the disk a while only, lists what hangs, and goes on (``readers/patience.py``). A source where
anything hung is read warily until a whole look met nothing of the kind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.db.state import get_state, set_state
from agent.ingest.readers.patience import Patience, patience
from agent.states import JobKind

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import JobContext
    from agent.queue.types import Job, NewJob, Plan

log = logging.getLogger("sapwood.ingest")

FIRST_S = 10.0
"""How long the first call that hangs is waited for: longer than a disk takes to begin to turn."""
AGAIN_S = 3.0
"""The same where it hung at the last look already."""
_SHARE = 3  # of the time limit: a call may take this part, and all that hang together


def wary_key(source_id: str) -> str:
    """Return under which key of the state it stands that something of a source hung."""
    return f"wary:{source_id}"


def warily(
    context: JobContext, job: Job, source_id: str, limit_s: float, make: Callable[[], Plan], *, whole: bool
) -> Plan:
    """Return the plan that ``make`` makes, with patience where the job ended a worker or the source hung before.

    ``limit_s`` is the time limit of its kind. ``whole``: it reads all of the source, so that one without anything that
    hangs ends the wariness.
    """
    connection = context.connection
    hung_before = get_state(connection, wary_key(source_id)) is not None
    if not hung_before and not job.crashes:
        return make()
    part_s = limit_s / _SHARE
    held = Patience(min(AGAIN_S if hung_before else FIRST_S, part_s), part_s)
    with patience(held):
        plan = make()
    if held.stuck:
        log.warning("%d calls to the disk of %s did not come to an end", held.stuck, source_id)
    if bool(held.stuck) == hung_before or not (held.stuck or whole):
        return plan
    return replace(plan, writes=_remembering(plan, source_id, hangs=bool(held.stuck)))


def _remembering(plan: Plan, source_id: str, *, hangs: bool) -> Callable[[Connection], list[NewJob]]:
    def writes(connection: Connection) -> list[NewJob]:
        jobs = [] if plan.writes is None else list(plan.writes(connection) or ())
        goes_on = any(job.kind == JobKind.SYNC_SOURCE for job in jobs)  # the rest of the look is still to come
        if hangs or not goes_on:
            set_state(connection, wary_key(source_id), "1" if hangs else None)
        return jobs

    return writes
