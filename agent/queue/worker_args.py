"""What passes between the supervisor and a worker process: how it is started, what its life line says, how it ends.

Both sides import this and nothing of each other. The life line is the reading end of a one-way
``multiprocessing.Pipe``: ``STOP`` on it means *take no new job, leave the running one at its next check, release, exit
with 0*, ``LEAVE`` *finish the running job first*; its end of file means *the supervisor is gone: exit at once,
releasing nothing* (nobody may be left to wait).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.paths import Paths

STOP = b"stop"
LEAVE = b"leave"

EXIT_STOPPED = 0
EXIT_RECYCLE = 80  # grew past limits.recycle_rss_bytes between two jobs: wants a fresh process, is no failure
EXIT_CORRUPT = 81  # SQLite calls the database damaged: all workers stop, the supervisor looks closer
EXIT_ORPHANED = 82  # the life line ended
EXIT_LEASE = 83  # the heartbeat failed for a whole lease: what runs here may run elsewhere


@dataclass(frozen=True)
class WorkerArgs:
    """How one worker process is started. Pickled to the child, so it holds plain values only.

    ``worker_id`` is random per process (``ids.random_id``). ``slot`` counts from 0 and is stable over restarts,
    ``generation`` counts the processes of that slot from 1; both are for the log only.
    ``open_profile`` names the function ``(intent, shared) -> Profile`` by which models are reached.
    """

    paths: Paths
    worker_id: str
    kind_names: tuple[str, ...]
    slot: int = 0
    generation: int = 1
    parent_pid: int = 0
    log_level: str = "INFO"
    open_profile: str = "agent.models.profiles:open_profile"


def workers_dir(paths: Paths) -> Path:
    """Return the folder with one handling file per live worker, named by worker id."""
    return paths.runtime_dir / "workers"
