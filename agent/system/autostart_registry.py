"""Start at login on Windows: a value under the owner's Run key, whose place in Task Manager is read back.

Task Manager and the settings keep what was switched off there in a list beside it (StartupApproved): the first byte is
odd where it is off. Registry access is a small seam, so that all of this is tried on any system.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

from agent.system.autostart import NAME, Found, Mechanism, Start

RUN_KEY = r"Software\Microsoft\Windows\CurrentVersion\Run"
APPROVED_KEY = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
LONGEST_COMMAND = 260
SWITCHED_OFF = "it is switched off in the system's settings (startup apps)"


class Values(Protocol):
    """Values under the owner's own part of the registry (HKEY_CURRENT_USER). Raises ``OSError``."""

    def get(self, key: str, name: str) -> str | bytes | None:
        """Return a value, ``None`` where it is missing."""
        ...

    def put(self, key: str, name: str, value: str) -> None:
        """Store a text, as it is (REG_SZ)."""
        ...

    def delete(self, key: str, name: str) -> bool:
        """Take a value away; return whether it was there."""
        ...


if sys.platform == "win32":
    import winreg

    class SystemValues:
        """The real registry."""

        def get(self, key: str, name: str) -> str | bytes | None:
            try:
                with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key) as opened:
                    value, _kind = winreg.QueryValueEx(opened, name)
            except FileNotFoundError:
                return None
            return value if isinstance(value, (str, bytes)) else None

        def put(self, key: str, name: str, value: str) -> None:
            with winreg.CreateKeyEx(winreg.HKEY_CURRENT_USER, key, 0, winreg.KEY_SET_VALUE) as opened:
                winreg.SetValueEx(opened, name, 0, winreg.REG_SZ, value)

        def delete(self, key: str, name: str) -> bool:
            try:
                with winreg.OpenKey(winreg.HKEY_CURRENT_USER, key, 0, winreg.KEY_SET_VALUE) as opened:
                    winreg.DeleteValue(opened, name)
            except FileNotFoundError:
                return False
            return True


def system_values() -> Values:
    """Return the registry of this system. Raises ``OSError`` where there is none."""
    if sys.platform == "win32":
        return SystemValues()
    raise OSError("this system has no registry")


class FakeValues:
    """A registry in memory."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], str | bytes] = {}

    def get(self, key: str, name: str) -> str | bytes | None:
        return self.held.get((key, name))

    def put(self, key: str, name: str, value: str) -> None:
        self.held[key, name] = value

    def delete(self, key: str, name: str) -> bool:
        return self.held.pop((key, name), None) is not None


class RegistryEntry:
    """The value ``Sapwood`` of the Run key."""

    def __init__(self, values: Values) -> None:
        self._values = values

    @property
    def mechanism(self) -> Mechanism:
        return Mechanism.RUN_KEY

    @property
    def path(self) -> str:
        return rf"HKEY_CURRENT_USER\{RUN_KEY}\{NAME}"

    def read(self) -> Found | None:
        command = self._values.get(RUN_KEY, NAME)
        if command is None:
            return None
        if not isinstance(command, str) or not command.strip():
            raise ValueError("the value is no command")
        approved = self._values.get(APPROVED_KEY, NAME)
        is_off = isinstance(approved, bytes) and bool(approved) and approved[0] % 2 == 1
        return Found(Start.parse(command_words(command)), SWITCHED_OFF if is_off else "")

    def write(self, start: Start) -> None:
        self.mend(start)
        # Who switches it on here means it, whatever was said in Task Manager before.
        self._values.delete(APPROVED_KEY, NAME)

    def mend(self, start: Start) -> None:
        command = command_line(start.argv)
        if len(command) > LONGEST_COMMAND:
            raise ValueError(f"Windows starts nothing whose path and options are longer than {LONGEST_COMMAND} letters")
        self._values.put(RUN_KEY, NAME, command)

    def remove(self) -> bool:
        self._values.delete(APPROVED_KEY, NAME)
        return self._values.delete(RUN_KEY, NAME)


def command_line(argv: Sequence[str]) -> str:
    """Return words as one line that Windows takes apart again; the program is always in quotes.

    Without them a path with a space may start another program, whose name ends before that space.
    """
    return " ".join(_quoted(word, always=at == 0) for at, word in enumerate(argv))


def _quoted(word: str, *, always: bool) -> str:
    if word and not always and not set(word) & set(' \t"'):
        return word
    quoted, backslashes = "", 0
    for letter in word:
        if letter == "\\":
            backslashes += 1
            continue
        # Backslashes count double before a quote alone.
        quoted += "\\" * (2 * backslashes + 1 if letter == '"' else backslashes) + letter
        backslashes = 0
    quoted += "\\" * (2 * backslashes)
    return f'"{quoted}"'


def command_words(command: str) -> tuple[str, ...]:
    """Return the words of a command line by the rules of ``CommandLineToArgvW``."""
    words: list[str] = []
    word: str | None = None
    quoting, backslashes = False, 0
    for letter in command + " ":
        if letter == "\\":
            backslashes += 1
            continue
        if letter == '"':
            word = (word or "") + "\\" * (backslashes // 2)
            if backslashes % 2:
                word += '"'
            else:
                quoting = not quoting
            backslashes = 0
            continue
        if backslashes:
            word = (word or "") + "\\" * backslashes
            backslashes = 0
        if letter in " \t" and not quoting:
            if word is not None:
                words.append(word)
            word = None
        else:
            word = (word or "") + letter
    if quoting and word is not None:
        words.append(word.removesuffix(" "))
    return tuple(words)
