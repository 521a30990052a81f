"""Start at login on macOS: a launch agent that runs once at the login and is not kept alive.

A file in ``~/Library/LaunchAgents`` is read at the next login; nothing is loaded now, so switching it on starts
nothing and switching it off ends nothing. Its owner may have switched it off elsewhere: launchd keeps that in a list of
its own.
"""

from __future__ import annotations

import contextlib
import os
import plistlib
import re
import subprocess
from pathlib import Path
from typing import Any, Protocol

from agent.launch import run_program
from agent.system.autostart import Found, Mechanism, Start

LABEL = "org.sapwood.agent"
SWITCHED_OFF = "it is switched off in the system's settings"
LIMIT_S = 3.0


class Switches(Protocol):
    """launchd's own list of what its owner switched off. Each call blocks for 3 s at most and raises nothing."""

    def is_off(self, label: str) -> bool:
        """Return whether an agent is switched off there."""
        ...

    def switch_on(self, label: str) -> None:
        """Take an agent off that list."""
        ...


class Launchctl:
    """That list, by its own command."""

    def is_off(self, label: str) -> bool:
        return is_listed_off(self._ask("print-disabled", _domain()), label)

    def switch_on(self, label: str) -> None:
        self._ask("enable", f"{_domain()}/{label}")

    def _ask(self, *words: str) -> str:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return run_program(["/bin/launchctl", *words], timeout_s=LIMIT_S).stdout
        return ""


def _domain() -> str:
    return f"gui/{getattr(os, 'getuid', int)()}"


def is_listed_off(listing: str, label: str) -> bool:
    """Return whether what ``launchctl print-disabled`` prints has an agent as switched off.

    It says ``=> disabled`` since macOS 13, ``=> true`` before.
    """
    return re.search(rf'"{re.escape(label)}"\s*=>\s*(disabled|true)\b', listing) is not None


def property_list(start: Start) -> dict[str, Any]:
    """Return what stands in the file."""
    return {
        "Label": LABEL,
        "ProgramArguments": list(start.argv),
        "RunAtLoad": True,
        "ProcessType": "Background",
        "LimitLoadToSessionType": "Aqua",
    }


class LaunchAgentEntry:
    """The agent's file in a folder of launch agents."""

    def __init__(self, folder: Path, switches: Switches) -> None:
        self._file = folder / f"{LABEL}.plist"
        self._switches = switches

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism.LAUNCH_AGENT

    @property
    def path(self) -> str:
        return str(self._file)

    def read(self) -> Found | None:
        held = self._read()
        if held is None:
            return None
        argv = held.get("ProgramArguments")
        if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
            raise ValueError("it has no ProgramArguments")
        start = Start.parse(argv)
        if held.get("Disabled") is True:
            return Found(start, f"{SWITCHED_OFF} (Disabled)")
        if not held.get("RunAtLoad"):
            return Found(start, f"{SWITCHED_OFF} (RunAtLoad is not set)")
        return Found(start, f"{SWITCHED_OFF} (launchctl)" if self._switches.is_off(LABEL) else "")

    def write(self, start: Start) -> None:
        self._put(property_list(start))
        if self._switches.is_off(LABEL):
            self._switches.switch_on(LABEL)

    def mend(self, start: Start) -> None:
        self._put({**(self._read() or {}), "ProgramArguments": list(start.argv)})

    def remove(self) -> bool:
        try:
            self._file.unlink()
        except FileNotFoundError:
            return False
        return True

    def _read(self) -> dict[str, Any] | None:
        try:
            held = plistlib.loads(self._file.read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            if isinstance(error, OSError):
                raise
            # plistlib lets through what its parsers raise: expat's errors, lookups, indexes.
            raise ValueError("it is no property list") from error
        if not isinstance(held, dict):
            raise ValueError("it is no dictionary")
        return held

    def _put(self, held: dict[str, Any]) -> None:
        try:
            data = plistlib.dumps(held)
        except UnicodeEncodeError as error:
            raise ValueError("a path is no text that a property list can hold") from error
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        try:
            draft.write_bytes(data)
            os.replace(draft, self._file)
        finally:
            draft.unlink(missing_ok=True)
