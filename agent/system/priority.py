"""Background work steps aside: low CPU and I/O priority for the calling process."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Protocol

NICE = 10
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE_OF_BEST_EFFORT = (2 << 13) | 7  # best effort, lowest: the idle class can starve for ever on a busy disk


class Priority(Protocol):
    """Sets how much the calling process counts."""

    def lower(self) -> None:
        """Step aside for whatever the owner does. Never raises: a system that refuses is no reason to stop."""
        ...


class SystemPriority:
    """The machine's scheduler."""

    def lower(self) -> None:
        if sys.platform == "win32":
            _lower_on_windows()
            return
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, max(NICE, os.getpriority(os.PRIO_PROCESS, 0)))
        if sys.platform == "linux":
            _lower_io()


class FakePriority:
    """Counts what it was asked."""

    def __init__(self) -> None:
        self.lowered = 0

    def lower(self) -> None:
        self.lowered += 1


def _lower_on_windows() -> None:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    with contextlib.suppress(psutil.Error, OSError, AttributeError):
        psutil.Process().nice(psutil.BELOW_NORMAL_PRIORITY_CLASS)


def _lower_io() -> None:
    import ctypes
    import platform

    # glibc has no wrapper; the number differs by architecture.
    number = {"x86_64": 251, "aarch64": 30, "riscv64": 30}.get(platform.machine())
    if number is not None:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE_OF_BEST_EFFORT)
