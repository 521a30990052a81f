"""Starting external programs: one cleaned environment, no console window.

A frozen build's library path breaks the browser it opens (pyinstaller 1759, 3668); console windows flash on Windows
(ollama 4287). So nothing outside this module starts a program that is not our own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent.errors import AgentFault

# What a frozen build's loader sets for itself; it keeps the owner's value, if any, under the name with _ORIG.
_LOADER_PATHS = ("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "LIBPATH")
REFUSAL_S = 2.0
"""So long the desktop has to say that it has no program for what is to be opened."""
_PREFIXES_OF_OURS = ("_MEIPASS", "_PYI", "PYTHON", "SAPWOOD_")
_OF_OUR_BUNDLE = ("QT_PLUGIN_PATH", "GTK_PATH", "GDK_PIXBUF_MODULE_FILE", "GI_TYPELIB_PATH", "GIO_MODULE_DIR")


def clean_environment(environ: Mapping[str, str] | None = None, *, frozen: bool | None = None) -> dict[str, str]:
    """Return the environment for a program that is not ours: the owner's, without what is meant for us alone.

    Loader paths are put back to what they were before a frozen build started; outside one they are the owner's own and
    stay. ``PYTHON*`` and ``SAPWOOD_*`` never leave.
    """
    source = os.environ if environ is None else environ
    frozen = bool(getattr(sys, "frozen", False)) if frozen is None else frozen
    cleaned = {name: value for name, value in source.items() if not name.startswith(_PREFIXES_OF_OURS)}
    for name in _LOADER_PATHS:
        original = cleaned.pop(f"{name}_ORIG", None)
        if original:
            cleaned[name] = original
        elif frozen:
            cleaned.pop(name, None)
    if frozen:
        for name in _OF_OUR_BUNDLE:
            cleaned.pop(name, None)
    return cleaned


def start_program(argv: Sequence[str], *, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a program that goes on by itself, without our streams, signals or console; does not block.

    On Windows it leaves the job whose members end with the agent: a browser does not close because the agent ends.
    Raises ``OSError`` where it cannot be started.
    """
    try:
        return _start(argv, cwd, _breakaway())
    except PermissionError:
        if not _breakaway():
            raise
        # Somebody else's job, that of a terminal for one, lets nobody leave.
        return _start(argv, cwd, 0)


def _start(argv: Sequence[str], cwd: Path | None, more_flags: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        list(argv),
        cwd=cwd,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=True,
        start_new_session=sys.platform != "win32",
        creationflags=_no_window() | more_flags,
    )


def open_outside(target: str) -> None:
    """Have the desktop open an address or a folder with whatever its owner chose for that; blocks for ``REFUSAL_S``.

    Raises ``AgentFault`` where this machine has nothing that opens it. What opens it may stay for as long as its window
    does; what has no program for it says so soon.
    """
    opener = _opener()
    if opener is None:
        raise _nothing_opens(target)
    try:
        program = start_program([*opener, target])
    except OSError as error:
        raise _nothing_opens(target) from error
    with suppress(subprocess.TimeoutExpired):
        if program.wait(REFUSAL_S) != 0:
            raise _nothing_opens(target)


def _opener() -> list[str] | None:
    if sys.platform == "win32":
        # Not os.startfile: what that starts is a child of ours in every respect, and ends with us.
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        return [os.path.join(system, "System32", "rundll32.exe"), "url.dll,FileProtocolHandler"]
    found = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    return None if found is None else [found]


def _nothing_opens(target: str) -> AgentFault:
    return AgentFault("this desktop could not be asked to open it", "", f"open it yourself: {target}")


def run_program(argv: Sequence[str], *, timeout_s: float, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it said; blocks for at most ``timeout_s`` seconds.

    Raises ``subprocess.TimeoutExpired`` after ending it, ``OSError`` where it cannot be started.
    """
    return subprocess.run(
        list(argv),
        env=clean_environment(),
        input=text,
        stdin=subprocess.DEVNULL if text is None else None,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=timeout_s,
        check=False,
        creationflags=_no_window(),
    )


def run_in_terminal(argv: Sequence[str]) -> int:
    """Run a program on our own streams, an editor for one, and return its exit code; blocks for as long as it runs.

    Ctrl-C is the program's meanwhile. Raises ``OSError`` where it cannot be started.
    """
    with subprocess.Popen(list(argv), env=clean_environment()) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def _no_window() -> int:
    return int(getattr(subprocess, "CREATE_NO_WINDOW", 0))


def _breakaway() -> int:
    return int(getattr(subprocess, "CREATE_BREAKAWAY_FROM_JOB", 0))
