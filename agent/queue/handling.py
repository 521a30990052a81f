"""What a worker is handling right now, readable after its death and after its supervisor's.

One small mapped file per worker in ``runtime/workers``: writing it costs no system call and no database write, and the
pages outlive a ``kill -9``. Two slots and an index byte: a writer fills the slot that is not current and then turns the
index, so that a death in the middle leaves the last whole record. Design points 5 and 6: the supervisor reads here when
a run passes its time limit and which row a death counts against.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.queue.worker_args import workers_dir

if TYPE_CHECKING:
    from agent.paths import Paths

NO_JOB = 0

_MAGIC = b"sapwood1"
_HEAD = struct.Struct("<8s32sQd")  # magic, worker id, pid, start of the process (seconds since the epoch)
_RECORD = struct.Struct("<qqq32s")  # job id, start (wall ms), time limit (ms), kind
_INDEX_AT = _HEAD.size
_SLOT_AT = (64, 128)
_SIZE = 192


@dataclass(frozen=True)
class Handling:
    """One reading: whose file it is and what that worker was handling. Times in UTC milliseconds.

    ``job_id`` is ``None`` between jobs. ``process_started_s`` is the process's start as psutil gives it: a pid counts
    only together with it.
    """

    worker_id: str
    pid: int
    process_started_s: float
    job_id: int | None
    kind: str
    started_ms: int
    limit_ms: int

    def is_over_limit(self, now_ms: int) -> bool:
        """Return whether the run has taken longer than its kind may."""
        return self.job_id is not None and now_ms - self.started_ms > self.limit_ms


class HandlingFile:
    """The writer's side: one per worker process, used by one thread."""

    def __init__(self, path: Path, mapped: mmap.mmap) -> None:
        self.path = path
        self._mapped = mapped
        self._current = 0

    @classmethod
    def create(cls, paths: Paths, worker_id: str, *, pid: int, process_started_s: float) -> HandlingFile:
        """Make the file of a worker that handles nothing yet. Raises ``OSError``; ``ValueError`` for a strange id."""
        path = handling_path(paths, worker_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        head = _HEAD.pack(_MAGIC, worker_id.encode("ascii"), pid, process_started_s)
        # Written whole under another name first: a reader never meets a file without its head.
        fresh = path.with_suffix(".new")
        fresh.write_bytes(head.ljust(_SIZE, b"\0"))
        fresh.chmod(0o600)
        os.replace(fresh, path)
        with path.open("r+b") as file:
            return cls(path, mmap.mmap(file.fileno(), _SIZE))

    def begin(self, job_id: int, kind: str, *, started_ms: int, limit_ms: int) -> None:
        """Say that this row is being handled from now on. No system call."""
        self._put(job_id, started_ms, limit_ms, kind.encode("utf-8", "replace")[:32])

    def end(self) -> None:
        """Say that nothing is being handled."""
        self._put(NO_JOB, 0, 0, b"")

    def _put(self, job_id: int, started_ms: int, limit_ms: int, kind: bytes) -> None:
        other = 1 - self._current
        _RECORD.pack_into(self._mapped, _SLOT_AT[other], job_id, started_ms, limit_ms, kind)
        self._mapped[_INDEX_AT] = other
        self._current = other

    def close(self) -> None:
        """Unmap the file and leave it: removing it is the supervisor's, once it has read it."""
        self._mapped.close()


def handling_path(paths: Paths, worker_id: str) -> Path:
    """Return where a worker's file is. Raises ``ValueError`` for an id that is not 1 to 32 letters and digits."""
    if not worker_id.isascii() or not worker_id.isalnum() or len(worker_id) > 32:
        raise ValueError(f"not a worker id: {worker_id!r}")
    return workers_dir(paths) / worker_id


def read_handling(path: Path) -> Handling | None:
    """Return what a worker's file says, or ``None`` where there is none or it is not ours. Never raises."""
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    if len(raw) != _SIZE or not raw.startswith(_MAGIC):
        return None
    _, worker_id, pid, process_started_s = _HEAD.unpack_from(raw)
    job_id, started_ms, limit_ms, kind = _RECORD.unpack_from(raw, _SLOT_AT[1 if raw[_INDEX_AT] else 0])
    return Handling(
        worker_id=worker_id.rstrip(b"\0").decode("ascii", "replace"),
        pid=pid,
        process_started_s=process_started_s,
        job_id=job_id if job_id != NO_JOB else None,
        kind=kind.rstrip(b"\0").decode("utf-8", "replace"),
        started_ms=started_ms,
        limit_ms=limit_ms,
    )


def all_handling(paths: Paths) -> list[Handling]:
    """Return every worker's file: what a new supervisor finds of the workers before it."""
    try:
        found = sorted(entry for entry in workers_dir(paths).iterdir() if not entry.suffix)
    except OSError:
        return []
    return [reading for reading in map(read_handling, found) if reading is not None]


def remove_handling(paths: Paths, worker_id: str) -> None:
    """Remove the file of a worker that is gone, once its row was dealt with. Blocks nobody, never raises."""
    with suppress(OSError):
        handling_path(paths, worker_id).unlink(missing_ok=True)
