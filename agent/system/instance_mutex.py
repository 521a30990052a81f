"""The named mutex by which the Windows installer sees that the agent runs: it has no window to be found by.

``installer.iss`` names the same. The mutex is the system's, so it is gone the moment the agent is, however that ends.
Other systems have no use for it.
"""

from __future__ import annotations

import logging
import sys
from typing import Protocol

MUTEX_NAME = "SapwoodAgent"

_log = logging.getLogger("sapwood.process")


class Mutexes(Protocol):
    """Named mutexes of this login."""

    def hold(self, name: str) -> None:
        """Have a mutex of this name for as long as this process lives, as others may. Raises ``OSError``."""
        ...


if sys.platform == "win32":
    import ctypes
    from ctypes import wintypes

    class SystemMutexes:
        """The real ones. A handle is never closed: the system does that when the process ends."""

        def hold(self, name: str) -> None:
            kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            kernel.CreateMutexW.restype = wintypes.HANDLE
            kernel.CreateMutexW.argtypes = (wintypes.LPVOID, wintypes.BOOL, wintypes.LPCWSTR)
            # Not owned: it counts that it is there. One that is there already is opened.
            if not kernel.CreateMutexW(None, False, name):
                raise ctypes.WinError(ctypes.get_last_error())


def system_mutexes() -> Mutexes | None:
    """Return those of this system, ``None`` where it has none that anybody looks at."""
    if sys.platform == "win32":
        return SystemMutexes()
    return None


class FakeMutexes:
    """Mutexes in memory; ``fault`` is raised by all."""

    def __init__(self, fault: OSError | None = None) -> None:
        self.held: list[str] = []
        self.fault = fault

    def hold(self, name: str) -> None:
        if self.fault is not None:
            raise self.fault
        self.held.append(name)


def show_that_it_runs(mutexes: Mutexes | None = None) -> bool:
    """Let an installer see, until this process ends, that the agent runs; return whether it can. Never raises."""
    mutexes = system_mutexes() if mutexes is None else mutexes
    if mutexes is None:
        return False
    try:
        mutexes.hold(MUTEX_NAME)
    except OSError as error:
        # An update would find files in use then, and say so.
        _log.warning("an installer will not see that the agent runs: %s", error)
        return False
    return True
