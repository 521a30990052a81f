"""Start at login: looked at, switched on and off, and mended when the program has moved."""

from __future__ import annotations

import logging
from pathlib import Path

from agent.errors import AgentFault
from agent.paths import Paths, find_paths, paths_under
from agent.system.autostart import (
    Autostart,
    LoginEntry,
    Start,
    is_of_home,
    program_argv,
    read_back,
    repair,
    system_entry,
)

__all__ = ["Autostart", "autostart_status", "repair_autostart", "set_autostart"]

_log = logging.getLogger("sapwood.autostart")


def autostart_status(paths: Paths | None = None, entry: LoginEntry | None = None) -> Autostart:
    """Return whether the login starts the agent of this home, as the system has it. Never raises."""
    entry = system_entry() if entry is None else entry
    try:
        return read_back(entry, home_of(paths))
    except OSError as error:
        return Autostart(
            False, str(entry.mechanism), entry.path, f"the entry cannot be read: {error.strerror or error}"
        )


def set_autostart(on: bool, paths: Paths | None = None, entry: LoginEntry | None = None) -> Autostart:
    """Switch the start at login on or off and return what the system has then.

    Nothing is started or ended by that. Raises ``AgentFault`` where the system refuses, and where the login starts
    another memory's agent already.
    """
    entry = system_entry() if entry is None else entry
    home = home_of(paths)
    other = _other_home(entry, home)
    try:
        if on:
            if other is not None and other.exists():
                raise _starts_another(other)
            entry.write(Start.of_home(program_argv(), home))
        elif other is None:
            entry.remove()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise AgentFault(
            f"the start at login could not be switched {'on' if on else 'off'}",
            f"{entry.path}: {said}",
            "make that place writable for you, or name `sapwood run` in your desktop's own list of startup programs"
            if on
            else "take the entry away in your desktop's own list of startup programs",
        ) from error
    return autostart_status(paths, entry)


def repair_autostart(paths: Paths | None = None, entry: LoginEntry | None = None) -> bool:
    """Point the entry to this program where the one that it names is gone; return whether that was done. Never raises.

    For the start of the agent. What its owner took away or switched off stays so.
    """
    try:
        entry = system_entry() if entry is None else entry
        mended = repair(entry, program_argv(), home_of(paths))
    except (OSError, ValueError) as error:
        _log.warning("the entry that starts the agent at login could not be looked at: %s", error)
        return False
    if mended:
        _log.info("the entry that starts the agent at login pointed to a program that is gone, and was mended")
    return mended


def home_of(paths: Paths | None = None) -> Path | None:
    """Return the one folder that a home lies in, ``None`` for the platform's own places."""
    paths = find_paths() if paths is None else paths
    if paths == find_paths({}):
        return None
    root = paths.config_dir.parent
    return root if paths == paths_under(root) else None


def _starts_another(other: Path) -> AgentFault:
    usual = other == find_paths({}).config_dir
    there = "without SAPWOOD_HOME" if usual else f"with SAPWOOD_HOME set to {other}"
    return AgentFault(
        "the login starts Sapwood for another folder already",
        str(other),
        f"one of the two can be started at login: switch that one off first, by `sapwood autostart off` {there}",
    )


def _other_home(entry: LoginEntry, home: Path | None) -> Path | None:
    """Return the home of an entry that is another's, ``None`` where it is ours, not there, or not to be understood."""
    try:
        found = entry.read()
    except (OSError, ValueError):
        return None
    if found is None or is_of_home(found.start, home):
        return None
    return Path(found.start.home) if found.start.home is not None else find_paths({}).config_dir
