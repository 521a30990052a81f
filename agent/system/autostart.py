"""Start at login: off until its owner asks for it, and read back from the system, which alone says what is.

One protocol, ``LoginEntry``, with one class for each system (``autostart_xdg``, ``autostart_launch_agent``,
``autostart_registry``) and a fake. There is one entry for each account: it says which program is started and which
memory it belongs to, and an entry of another memory is neither shown as ours nor changed.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol

NAME = "Sapwood"
AT_LOGIN = "--at-login"
HOME_OPTION = "--home"
WINDOWLESS = "sapwoodw.exe"
GONE = "it points to a program that is no longer there"


class Mechanism(StrEnum):
    """How a system starts programs at the login of their owner."""

    XDG = "xdg-autostart"
    LAUNCH_AGENT = "launch-agent"
    RUN_KEY = "registry-run"


@dataclass(frozen=True)
class Autostart:
    """What the system says of the entry. ``path`` is where it stands, or would.

    ``problem``: why an entry that is there does not start us, in words, or, with ``enabled``, where it might not.
    """

    enabled: bool
    mechanism: str
    path: str
    problem: str = ""
    is_broken: bool = False
    """It would start us and cannot: it has to be made anew, or taken away."""


@dataclass(frozen=True)
class Start:
    """What a login starts: our program (one word, or an interpreter with its words) and what follows it."""

    program: tuple[str, ...]
    arguments: tuple[str, ...] = ("run", AT_LOGIN)

    @classmethod
    def of_home(cls, program: Sequence[str], home: Path | None) -> Start:
        """Return the start of the agent of a home; ``None`` is the platform's own places.

        A home of its own (portable use) is an option of ours: a Run value has no environment, and so all three systems
        say it in the same way.
        """
        return cls(tuple(program), ("run", AT_LOGIN, *(() if home is None else (HOME_OPTION, str(home)))))

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Start:
        """Return the start in the words of an entry: the program is what stands before ``run``."""
        at = list(argv).index("run") if "run" in argv[1:] else len(argv)
        return cls(tuple(argv[:at]), tuple(argv[at:]))

    @property
    def argv(self) -> tuple[str, ...]:
        """All words."""
        return (*self.program, *self.arguments)

    @property
    def home(self) -> str | None:
        """The home that it carries."""
        for at, word in enumerate(self.arguments[:-1]):
            if word == HOME_OPTION:
                return self.arguments[at + 1]
        return None

    @property
    def is_ours(self) -> bool:
        """Whether we wrote it; another one with our name is its owner's own."""
        return AT_LOGIN in self.arguments

    def with_home(self, home: str) -> Start:
        """Return the same with another home in the place of the one that it carries."""
        words = list(self.arguments)
        words[words.index(HOME_OPTION) + 1] = home
        return replace(self, arguments=tuple(words))


@dataclass(frozen=True)
class Found:
    """An entry as it stands in the system, in words: ``disabled``, where it was switched off; ``doubt``, where the
    systems that read it do not agree about what it says.
    """

    start: Start
    disabled: str = ""
    doubt: str = ""


class LoginEntry(Protocol):
    """The one entry of this account. Calls take some milliseconds and raise ``OSError``."""

    @property
    def mechanism(self) -> Mechanism:
        """How it works here."""
        ...

    @property
    def path(self) -> str:
        """Where the entry stands."""
        ...

    def read(self) -> Found | None:
        """Return the entry, ``None`` where there is none. Raises ``ValueError`` where it cannot be understood."""
        ...

    def write(self, start: Start) -> None:
        """Make the entry anew, switched on. Raises ``ValueError`` where this system cannot say such a start."""
        ...

    def mend(self, start: Start) -> None:
        """Put another start into the entry that is there; whatever else its owner set in it stays."""
        ...

    def remove(self) -> bool:
        """Take the entry away; return whether there was one."""
        ...


def read_back(entry: LoginEntry, home: Path | None) -> Autostart:
    """Return what an entry means for the agent of a home. Raises ``OSError``."""
    off = Autostart(False, str(entry.mechanism), entry.path)
    try:
        found = entry.read()
    except ValueError as error:
        return replace(off, problem=f"the entry cannot be understood: {error}", is_broken=True)
    if found is None:
        return off
    if not is_of_home(found.start, home):
        return replace(
            off, problem=f"the login starts Sapwood for another folder: {found.start.home or 'the usual one'}"
        )
    if found.disabled:
        return replace(off, problem=found.disabled)
    if not is_there(found.start):
        gone = found.start.program[0] if found.start.program else ""
        return replace(off, problem=f"{GONE}: {gone}", is_broken=True)
    return replace(off, enabled=True, problem=found.doubt)


def repair(entry: LoginEntry, program: Sequence[str], home: Path | None) -> bool:
    """Point an entry of ours whose program is gone to the one that runs now; return whether that was needed.

    An entry that its owner took away is not made again, one that was switched off stays so, and one whose program is
    still there stays as it is. A home that went along with its program (a stick with another name) is mended too.
    Raises ``OSError`` and ``ValueError``.
    """
    found = entry.read()
    if found is None or not found.start.is_ours or is_there(found.start):
        return False
    start = replace(found.start, program=tuple(program))
    if not is_of_home(start, home):
        if home is None or start.home is None or Path(start.home).exists():
            return False
        start = start.with_home(str(home))
    entry.mend(start)
    return True


def is_of_home(start: Start, home: Path | None) -> bool:
    """Return whether a start is that of a home's agent."""
    if start.home is None or home is None:
        return start.home is None and home is None
    return os.path.normcase(os.path.abspath(start.home)) == os.path.normcase(os.path.abspath(home))


def is_there(start: Start) -> bool:
    """Return whether the program of a start can be started now."""
    if not start.program:
        return False
    program = start.program[0]
    if not os.path.isabs(program):
        from shutil import which

        return which(program) is not None
    return os.path.isfile(program) and os.access(program, os.X_OK)


def program_argv(
    environ: Mapping[str, str] | None = None, *, frozen: bool | None = None, executable: str | None = None
) -> tuple[str, ...]:
    """Return the words by which our program can be started again at any later time, the first one absolute.

    An AppImage runs from a mount that is gone afterwards: the file itself is meant. Its variables reach whatever is
    started from it, though (a terminal, for one), so they count only where we are in that mount.
    """
    environ = os.environ if environ is None else environ
    frozen = bool(getattr(sys, "frozen", False)) if frozen is None else frozen
    executable = os.path.abspath(sys.executable if executable is None else executable)
    image, mount = environ.get("APPIMAGE", ""), environ.get("APPDIR", "")
    if image and os.path.isabs(image) and (not mount or Path(executable).is_relative_to(mount)):
        return (image,)
    if frozen:
        # On Windows a login would open a console window for the program that terminals use.
        windowless = os.path.join(os.path.dirname(executable), WINDOWLESS)
        return (windowless if os.path.isfile(windowless) else executable,)
    if sys.platform == "win32":
        # So would the script and python.exe.
        windowless = os.path.join(os.path.dirname(executable), "pythonw.exe")
        return (windowless if os.path.isfile(windowless) else executable, "-m", "agent.cli.main")
    for folder in (os.path.dirname(executable), sysconfig.get_path("scripts")):
        script = os.path.join(folder, "sapwood")
        if os.path.isfile(script) and os.access(script, os.X_OK):
            return (os.path.abspath(script),)
    return (executable, "-m", "agent.cli.main")


def system_entry(environ: Mapping[str, str] | None = None) -> LoginEntry:
    """Return the entry of the system that this runs on. Touches nothing."""
    environ = os.environ if environ is None else environ
    if sys.platform == "win32":
        from agent.system.autostart_registry import RegistryEntry, system_values

        return RegistryEntry(system_values())
    if sys.platform == "darwin":
        from agent.system.autostart_launch_agent import LaunchAgentEntry, Launchctl

        return LaunchAgentEntry(Path.home() / "Library" / "LaunchAgents", Launchctl())
    from agent.system.autostart_xdg import XdgEntry, autostart_folder

    return XdgEntry(autostart_folder(environ))


class FakeEntry:
    """An entry in memory. ``disabled`` is what the owner did in the system's settings; ``fault`` is raised by all."""

    def __init__(self) -> None:
        self.found: Found | None = None
        self.fault: OSError | None = None
        self.changes = 0

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism.XDG

    @property
    def path(self) -> str:
        return "fake"

    def read(self) -> Found | None:
        self._fail()
        return self.found

    def write(self, start: Start) -> None:
        self._fail()
        self.changes += 1
        self.found = Found(start)

    def mend(self, start: Start) -> None:
        self._fail()
        self.changes += 1
        self.found = Found(start, self.found.disabled if self.found is not None else "")

    def remove(self) -> bool:
        self._fail()
        self.changes += 1
        was, self.found = self.found, None
        return was is not None

    def _fail(self) -> None:
        if self.fault is not None:
            raise self.fault
