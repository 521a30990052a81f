"""When a run has taken too long.

A worker's handling file says when a run began by the wall clock, which goes on while the machine sleeps: eight hours of
night are not eight hours of work. So a run is timed by the monotonic clock from when it was first seen, and what the
wall clock says for the time before that is believed only up to the interval between two looks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Run:
    job_id: int
    started_ms: int
    deadline: float


class RunWatch:
    """The runs of all workers by worker id. Monotonic seconds and wall ms are handed in."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    def look(
        self,
        worker_id: str,
        job_id: int | None,
        started_ms: int,
        limit_ms: int,
        *,
        wall_ms: int,
        monotonic: float,
        looked_s_ago: float,
    ) -> bool:
        """Take in what a worker handles; return whether that run is over its limit."""
        if job_id is None:
            self._runs.pop(worker_id, None)
            return False
        run = self._runs.get(worker_id)
        if run is None or (run.job_id, run.started_ms) != (job_id, started_ms):
            before = min(max((wall_ms - started_ms) / 1000, 0.0), max(looked_s_ago, 0.0))
            run = self._runs[worker_id] = _Run(job_id, started_ms, monotonic - before + limit_ms / 1000)
        return monotonic >= run.deadline

    def slept(self, seconds: float) -> None:
        """Move every deadline on by a time in which nothing ran (where the monotonic clock counts sleep)."""
        for run in self._runs.values():
            run.deadline += seconds

    def forget(self, worker_id: str) -> None:
        """The worker is gone."""
        self._runs.pop(worker_id, None)

    @property
    def next_deadline(self) -> float | None:
        """When the next run is over its limit, or ``None``."""
        return min((run.deadline for run in self._runs.values()), default=None)
