"""What the supervisor before this one left behind: workers that may still be dying, and their leases.

After a ``kill -9`` of a supervisor its workers end within three seconds. Their rows are given back as soon as they are
gone, not when the leases end; the row that one was handling counts a crash, since a job that takes the whole machine
down must not be tried for ever.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.queue.handling import all_handling, remove_handling
from agent.queue.recovery import reclaim_worker
from agent.queue.wake import unregister_workers
from agent.queue.worker_args import workers_dir
from agent.system.identity import was_running_at

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.paths import Paths

Alive = Callable[[int, int], bool]


class Leftovers:
    """The workers that were there before. The caller holds the single instance's lock, so nobody adds to them."""

    def __init__(self, paths: Paths, connection: Connection, *, is_alive: Alive = was_running_at) -> None:
        self._paths = paths
        self._is_alive = is_alive
        self._jobs: dict[str, int | None] = {}
        self._processes: dict[str, tuple[int, int]] = {}
        for reading in all_handling(paths):
            self._jobs[reading.worker_id] = reading.job_id
            self._processes[reading.worker_id] = (reading.pid, round(reading.process_started_s * 1000))
        for worker_id, pid, started_ms in connection.all("SELECT worker_id, pid, started_at_ms FROM mem_tree_workers"):
            self._jobs.setdefault(worker_id, None)
            self._processes.setdefault(worker_id, (pid, started_ms))

    def __len__(self) -> int:
        return len(self._jobs)

    def settle(self, connection: Connection, now_ms: int, *, crash_limit: int) -> int:
        """Give back what those that are gone held, and forget them; return how many are still alive."""
        for worker_id in list(self._jobs):
            if self._is_alive(*self._processes[worker_id]):
                continue
            reclaim_worker(
                connection, worker_id, self._jobs[worker_id], ordered=False, now_ms=now_ms, crash_limit=crash_limit
            )
            unregister_workers(connection, [worker_id])
            remove_handling(self._paths, worker_id)
            del self._jobs[worker_id], self._processes[worker_id]
        return len(self._jobs)


def clear_workers_dir(paths: Paths) -> None:
    """Remove files of writers that died between making a handling file and naming it."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(workers_dir(paths))):
            if entry.name.endswith(".new"):
                os.unlink(entry.path)
