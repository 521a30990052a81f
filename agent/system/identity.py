"""Which process is meant: a pid counts only together with its start, since pids are used again."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessIdentity:
    """A process of this machine. ``started`` is opaque: compare it, never read it."""

    pid: int
    started: str


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a live process, or ``None`` where there is none (a zombie is none)."""
    started = _start_of(pid)
    return None if started is None else ProcessIdentity(pid, started)


def own_identity() -> ProcessIdentity:
    """Return the identity of the calling process."""
    found = identify(os.getpid())
    return found if found is not None else ProcessIdentity(os.getpid(), "unknown")


def is_alive(identity: ProcessIdentity) -> bool:
    """Return whether exactly this process still runs."""
    return identify(identity.pid) == identity


def was_running_at(pid: int, wall_ms: int) -> bool:
    """Return whether the process with this pid was already there at an instant (UTC ms, two seconds of tolerance).

    For records that know a pid and a time but no start; the tolerance covers a clock that was adjusted since.
    """
    started = _create_time(pid)
    return started is not None and started * 1000 <= wall_ms + 2000


def _create_time(pid: int) -> float | None:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except (psutil.Error, OSError):
        return None


if sys.platform == "linux":
    # psutil derives a start from the wall clock's boot time, which moves when the clock is set; ticks do not.

    def _start_of(pid: int) -> str | None:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return None
        # The name in parentheses may hold anything, parentheses too: fields count from behind the last one.
        fields = stat[stat.rfind(b")") + 2 :].split()
        if fields[0] in (b"Z", b"X"):
            return None
        return f"{_boot()}-{int(fields[19])}"

    def _boot() -> str:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
        except OSError:
            return "boot"

else:

    def _start_of(pid: int) -> str | None:
        started = _create_time(pid)
        return None if started is None else f"{started:.2f}"
