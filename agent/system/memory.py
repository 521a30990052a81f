"""How much memory a process uses, and how much is left, where that can be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class MemoryProbe(Protocol):
    """Reads the memory of processes."""

    def rss_bytes(self, pid: int) -> int | None:
        """Return the resident memory in bytes, or ``None`` for *unknown*: it may just have died. Never raises."""
        ...

    def available_bytes(self) -> int | None:
        """Return what programs may still take without swapping (bytes), or ``None`` for *unknown*. Never raises."""
        ...


class SystemMemory:
    """The machine's own figures."""

    def rss_bytes(self, pid: int) -> int | None:
        import psutil  # type: ignore[import-untyped,unused-ignore]

        # AccessDenied or a bare OSError is what some systems say of a process that is going (psutil 1901, 2650).
        try:
            return int(psutil.Process(pid).memory_info().rss)
        except (psutil.Error, OSError):
            return None

    def available_bytes(self) -> int | None:
        import psutil

        try:
            return int(psutil.virtual_memory().available)
        except (psutil.Error, OSError, RuntimeError):
            return None


class FakeMemory:
    """Figures that a test sets."""

    def __init__(self, by_pid: Mapping[int, int] | None = None, available: int | None = None) -> None:
        self.by_pid = dict(by_pid or {})
        self.available = available

    def rss_bytes(self, pid: int) -> int | None:
        return self.by_pid.get(pid)

    def available_bytes(self) -> int | None:
        return self.available
