"""What ended workers held is given back, while the agent goes on and in its last seconds."""

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
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.supervisor.companions import Companions
    from agent.supervisor.stopping import StopBudget
    from agent.supervisor.storage import Storage
    from agent.supervisor.workforce import Workforce

_log = logging.getLogger("sapwood.supervisor")


def end_children(
    workforce: Workforce, companions: Companions, budget: StopBudget, clock: Clock, intent: Intent
) -> None:
    """Ask, terminate, kill, as the budget says; blocks until all have ended or the budget is over."""
    children = workforce.children
    while (len(children) or len(companions)) and not budget.is_over(clock.monotonic()):
        now = clock.monotonic()
        force = budget.next_force(now)
        if force is not None:
            workforce.use_force(force, now)
            companions.use_force(force, now)
        ready = wait([*children.sentinels, *companions.sentinels], budget.wait_s(clock.monotonic()))
        workforce.bury(ready, clock.monotonic())
        companions.bury(ready, clock.monotonic(), intent)


def give_back(
    paths: Paths, storage: Storage, workforce: Workforce, now: float, wall_ms: int, *, crash_limit: int
) -> bool:
    """Give back the leases of workers that are gone; return whether that is all of them.

    Times are monotonic seconds and UTC ms. What the database refuses is to be tried again in a moment.
    """
    for fallen in list(workforce.fallen):

        def settle(connection: Connection, worker_id: str = fallen.worker_id) -> bool:
            job = fallen.crashed_job  # noqa: B023  # called before the loop goes on
            reclaim_worker(connection, worker_id, job, ordered=job is None, now_ms=wall_ms, crash_limit=crash_limit)
            unregister_workers(connection, [worker_id])
            return True

        if storage.attempt("giving leases back", settle, now) is None:
            return False
        remove_handling(paths, fallen.worker_id)
        workforce.fallen.remove(fallen)
    return True


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
