"""A child that does not outlive its parent.

The life line (a pipe whose closing ends the child) works everywhere but needs the child's own code to run; on Linux
the kernel ends it as well, on Windows the parent's job object does.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Protocol

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent's spawning thread ends (Linux; elsewhere do nothing).

    Ends the process at once where the parent is already gone: the signal is sent only for deaths after the call.
    """
    if sys.platform != "linux":
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


class ProcessGroup(Protocol):
    """Children that end with this process, whatever ends it."""

    def adopt(self, pid: int) -> None:
        """Tie a child to this process. Never raises: the life line remains."""
        ...


class NoGroup:
    """Where the kernel ties a child itself, or cannot."""

    def adopt(self, pid: int) -> None:
        return


class FakeGroup:
    """Remembers whom it was given."""

    def __init__(self) -> None:
        self.adopted: list[int] = []

    def adopt(self, pid: int) -> None:
        self.adopted.append(pid)


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    _BREAKAWAY_OK = 0x0800
    _KILL_ON_JOB_CLOSE = 0x2000
    _EXTENDED_LIMIT_INFORMATION = 9
    _SET_QUOTA_AND_TERMINATE = 0x0101

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class JobObject:
        """A Windows job whose members the kernel ends when its last handle closes, which our death does.

        ``may_break_away``: what a member starts outside of it (``CREATE_BREAKAWAY_FROM_JOB``), a browser for one, is
        no member and lives on.
        """

        def __init__(self, *, may_break_away: bool = False) -> None:
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.CreateJobObjectW.restype = wintypes.HANDLE
            kernel.OpenProcess.restype = wintypes.HANDLE
            kernel.OpenProcess.argtypes = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
            kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
            kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
            kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
            self._kernel = kernel
            self._job = kernel.CreateJobObjectW(None, None)
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE | (_BREAKAWAY_OK if may_break_away else 0)
            kernel.SetInformationJobObject(
                self._job, _EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
            )

        def adopt(self, pid: int) -> None:
            process = self._kernel.OpenProcess(_SET_QUOTA_AND_TERMINATE, False, pid)
            if process:
                self._kernel.AssignProcessToJobObject(self._job, process)
                self._kernel.CloseHandle(process)

    def child_group(*, may_break_away: bool = False) -> ProcessGroup:
        """Return what ties children to this process on this system, and what they start unless that may break away."""
        return JobObject(may_break_away=may_break_away)

else:

    def child_group(*, may_break_away: bool = False) -> ProcessGroup:
        """Return what ties children to this process on this system, and what they start unless that may break away."""
        return NoGroup()
