"""What a process holds in its memory stays there: no core dump of it, and no other program of its owner reads it."""

from __future__ import annotations

import contextlib
import sys

_PR_SET_DUMPABLE = 4
_SEM_FAILCRITICALERRORS = 0x0001
_SEM_NOGPFAULTERRORBOX = 0x0002


def forbid_core_dumps() -> None:
    """Have the system write no core dump of this process from now on. Never raises; may be called again.

    On Linux it is marked as not dumpable as well: programs that take cores through a pipe (apport) ask no limit. That
    also closes ``/proc/PID/mem`` to the owner's other programs, and leaves open what we read of our own processes
    (memory, processor time, start; tests/system/test_core_dumps.py). A program that it starts is not marked.
    """
    if sys.platform == "win32":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.WinDLL("kernel32").SetErrorMode(_SEM_FAILCRITICALERRORS | _SEM_NOGPFAULTERRORBOX)
        return
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
