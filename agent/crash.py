"""What is left of a process that ends by a fault: a file of its own in the log folder, for the bug report.

``faulthandler`` writes the stacks when a library brings the interpreter down (SIGSEGV, SIGABRT and their kin); the
hooks write what nobody caught, in any thread and in any loop: class and places, none of an exception's words, because
those may quote what the owner wrote. The file is opened at the start, since a crashing process can open none any more,
and is removed at the end where nothing is in it.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from agent.paths import Paths

SUFFIX = ".crash.log"
KEPT_DUMPS = 20
KEPT_BYTES = 1_000_000
FILE_BYTES = 64 * 1024
"""Further faults of one process are not written down: something fails again and again, and the first ones say why."""

_log = logging.getLogger("sapwood.process")
_PID = re.compile(r"-(\d+)\.crash\.log")


@dataclass(frozen=True)
class Dump:
    """One crash dump: when it was written (UTC ms), by which process (its role), and how large it is."""

    path: Path
    at_ms: int
    process: str
    size: int


class _Armed:
    """What this process has set up, and how it was before."""

    def __init__(self, process: str, path: Path | None, file: TextIO | None) -> None:
        self.process = process
        self.path = path
        self.file = file
        self.had_faulthandler = faulthandler.is_enabled()
        self.before = (sys.excepthook, threading.excepthook, sys.unraisablehook)
        self.lock = threading.Lock()


_armed: _Armed | None = None


def arm(paths: Paths, process: str) -> Path | None:
    """Have every fault of this process written down from now on; return the file, ``None`` where none can be had.

    ``process`` is its role (``worker-1``, ``tray``, ``command``). Called again it takes another role. Never raises and
    makes no folder: without one for logs the hooks still write to the log, wherever that goes.
    """
    global _armed
    disarm()
    path, file = _open(paths, process)
    armed = _Armed(process, path, file)
    if file is not None:
        faulthandler.enable(file)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    _armed = armed
    return path


def disarm() -> None:
    """Put everything back as it was and remove this process's file where nothing is in it; at a clean end."""
    global _armed
    armed, _armed = _armed, None
    if armed is None:
        return
    sys.excepthook, threading.excepthook, sys.unraisablehook = armed.before
    if armed.file is None:
        return
    faulthandler.disable()
    if armed.had_faulthandler and sys.__stderr__ is not None:
        with contextlib.suppress(OSError, ValueError):
            faulthandler.enable(sys.__stderr__)
    with contextlib.suppress(OSError):
        armed.file.close()
    _drop_if_empty(armed.path)


def in_loop(_loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """Write down what a task or a callback of a loop failed by: ``loop.set_exception_handler(crash.in_loop)``."""
    error = context.get("exception")
    # The loop's own message may hold a task's repr, and with it the words of its exception.
    if isinstance(error, BaseException):
        write_down(error, "a task nobody waits for failed")
    elif _log.hasHandlers():
        _log.error("the event loop met a problem")


def dumps(log_dir: Path) -> list[Dump]:
    """Return the crash dumps there are, the newest first; files of live processes without a fault are none."""
    found = []
    try:
        entries = list(os.scandir(log_dir))
    except OSError:
        return []
    for entry in entries:
        if not entry.name.endswith(SUFFIX):
            continue
        with contextlib.suppress(OSError):
            if not entry.is_file(follow_symlinks=False):
                continue
            stat = entry.stat(follow_symlinks=False)
            if stat.st_size:
                role = _PID.sub("", entry.name).removesuffix(SUFFIX)
                found.append(Dump(Path(entry.path), stat.st_mtime_ns // 1_000_000, role, stat.st_size))
    return sorted(found, key=lambda dump: (dump.at_ms, dump.path.name), reverse=True)


def _open(paths: Paths, process: str) -> tuple[Path | None, TextIO | None]:
    try:
        if not paths.log_dir.is_dir():
            return None, None
        _prune(paths.log_dir)
        path = paths.log_dir / f"{process}-{os.getpid()}{SUFFIX}"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        return path, os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")
    except OSError:
        return None, None


def _prune(log_dir: Path) -> None:
    """Keep the newest dumps, and take away what killed processes left empty."""
    total = 0
    for number, dump in enumerate(dumps(log_dir)):
        total += dump.size
        if number >= KEPT_DUMPS - 1 or total > KEPT_BYTES - FILE_BYTES:
            with contextlib.suppress(OSError):
                dump.path.unlink()
    for path in log_dir.glob(f"*{SUFFIX}"):
        owner = _PID.search(path.name)
        if owner is None or not _may_be_alive(int(owner[1])):
            _drop_if_empty(path)


def _may_be_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return False  # a file that is open cannot be removed there, so trying is the question
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _drop_if_empty(path: Path | None) -> None:
    with contextlib.suppress(OSError):
        if path is not None and path.stat().st_size == 0:
            path.unlink()


# -- the hooks --------------------------------------------------------------------------------------------------------


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    write_down(error.with_traceback(trace), "this process ends by an error nobody caught")
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(
                f"error: something unexpected happened ({kind.__name__})\n"
                "  `sapwood bug-report` collects what a maintainer needs\n"
            )


def _uncaught_in_thread(hook: threading.ExceptHookArgs) -> None:
    if hook.exc_value is None or issubclass(hook.exc_type, SystemExit):
        return
    write_down(hook.exc_value, "a thread ends by an error nobody caught")


def _unraisable(hook: sys.UnraisableHookArgs) -> None:
    if hook.exc_value is not None:
        write_down(hook.exc_value, "an error was met where nobody can catch it")


def write_down(error: BaseException, what: str) -> None:
    """Write an error into the log and into this process's crash file: by name and place, none of its words."""
    from agent.logs import trace_of

    # In a hook nothing may go wrong any more: an error here would hide the one that is told of.
    with contextlib.suppress(Exception):
        # Without a log of its own, `logging` would print the whole error, words and all, on the terminal.
        if _log.hasHandlers():
            _log.critical(what, exc_info=error)
    armed = _armed
    if armed is None or armed.file is None:
        return
    with contextlib.suppress(Exception), armed.lock:
        if armed.file.tell() >= FILE_BYTES:
            return
        moment = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
        lines = [f"{moment} pid={os.getpid()} {armed.process}: {what}", *trace_of(error)]
        armed.file.write("\n    ".join(lines) + "\n")
        armed.file.flush()
