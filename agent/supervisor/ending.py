"""The last seconds: children end within the budget, and what they held is given back."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from agent.queue.handling import remove_handling
from agent.queue.recovery import reclaim_worker, release_running_locks
from agent.queue.wake import unregister_workers

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.paths import Paths
    from agent.supervisor.stopping import StopBudget
    from agent.supervisor.storage import Storage
    from agent.supervisor.workforce import Workforce

_log = logging.getLogger("sapwood.supervisor")


def end_children(workforce: Workforce, budget: StopBudget, clock: Clock) -> None:
    """Ask, terminate, kill, as the budget says; blocks until all have ended or the budget is over."""
    children = workforce.children
    while len(children) and not budget.is_over(clock.monotonic()):
        now = clock.monotonic()
        force = budget.next_force(now)
        if force is not None:
            workforce.use_force(force, now)
        ready = wait(children.sentinels, budget.wait_s(clock.monotonic()))
        workforce.bury(ready, clock.monotonic())


def release_all(
    paths: Paths, storage: Storage, workforce: Workforce, other_ids: Sequence[str], now_ms: int, *, crash_limit: int
) -> bool:
    """Give back the leases of the own workers without burning an attempt; return whether it was done.

    Waits 300 ms for the database at most. What is not done here the next start does: it finds the handling files.
    """
    connection = storage.connection
    if connection is None or storage.is_corrupt:
        return False
    ids = [fallen.worker_id for fallen in workforce.fallen]
    try:
        for fallen in workforce.fallen:
            if fallen.crashed_job is not None:
                # It died just before the stop was asked for: that is no less a crash.
                job = fallen.crashed_job
                reclaim_worker(connection, fallen.worker_id, job, ordered=False, now_ms=now_ms, crash_limit=crash_limit)
        release_running_locks(connection, ids, now_ms)
        unregister_workers(connection, [*ids, *other_ids])
    except Exception as error:
        _log.warning("leases are left to the next start: %s", error)
        return False
    for worker_id in ids:
        remove_handling(paths, worker_id)
    workforce.fallen.clear()
    return True
