"""Notifications of the desktop: a title and a line of our own words, shown where that is possible.

On Linux a short-lived child of ours (``sapwood _notify``, ``notifications_child.py``) asks the session bus, so that a
dead bus or a notification service that fails to start costs nobody anything; on macOS and Windows a program of the
system does. What is said goes to its stdin: arguments are there for every program to read.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.launch import clean_environment
from agent.system.keyring import child_argv, child_environment

CHILD_COMMAND = "_notify"
APP_NAME = "Sapwood"
BUS_LIMIT_S = 3.0
LIMIT_S = 5.0
"""On Linux it is the bus that is given three seconds; an interpreter has to start before."""
WINDOWS_LIMIT_S = 20.0
"""PowerShell takes seconds to start on a machine that is busy with a login."""
LONGEST = 200


class Notifier(Protocol):
    """Shows notifications."""

    def show(self, key: str, title: str, body: str) -> bool:
        """Show one and return whether the desktop took it. Blocks for some seconds at most, and raises nothing.

        ``key`` names what it is about; nothing of what the memory holds may stand in title or body.
        """
        ...


@dataclass(frozen=True)
class Asked:
    """A program to run, what it gets on its stdin, and how long it may take."""

    argv: tuple[str, ...]
    text: str
    limit_s: float


class SystemNotifier:
    """The desktop of this login."""

    def show(self, key: str, title: str, body: str) -> bool:
        asked = asked_of(sys.platform, title, body)
        try:
            return (
                subprocess.run(
                    asked.argv,
                    # Where our own package lies: with -m a folder that the owner happens to be in would come first.
                    cwd=Path(__file__).resolve().parents[2],
                    env=child_environment() if sys.platform == "linux" else clean_environment(),
                    input=asked.text.encode(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=asked.limit_s,
                    check=False,
                    close_fds=True,
                    creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
                ).returncode
                == 0
            )
        except (OSError, subprocess.SubprocessError):
            return False


def asked_of(platform: str, title: str, body: str) -> Asked:
    """Return how a platform is asked to show this."""
    title, body = _tame(title), _tame(body)
    if platform == "darwin":
        return Asked(("/usr/bin/osascript", "-"), apple_script(title, body), LIMIT_S)
    if platform == "win32":
        argv = ("powershell.exe", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", "-")
        return Asked(argv, power_shell(title, body), WINDOWS_LIMIT_S)
    said = json.dumps({"title": title, "body": body, "parent": os.getpid(), "limit_s": BUS_LIMIT_S})
    return Asked(tuple(child_argv(CHILD_COMMAND)), said + "\n", LIMIT_S)


def _tame(text: str) -> str:
    """Return a text on one line without control characters and without the marks of markup, cut at 200 letters."""
    line = "".join(letter if letter.isprintable() and letter not in "<>&" else " " for letter in text)
    return " ".join(line.split())[:LONGEST]


def apple_script(title: str, body: str) -> str:
    """Return the script that has macOS show it."""
    return f"display notification {_apple_text(body)} with title {_apple_text(title)}\n"


def _apple_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def power_shell(title: str, body: str) -> str:
    """Return the lines that have Windows show it as a toast under our name.

    Each text is base64 of UTF-8: its stdin is read in the console's code page, and nothing in it has to be quoted.
    """

    def text(value: str) -> str:
        held = base64.b64encode(value.encode()).decode()
        return f"[Text.Encoding]::UTF8.GetString([Convert]::FromBase64String('{held}'))"

    manager = "Windows.UI.Notifications.ToastNotificationManager"
    lines = (
        "$ErrorActionPreference = 'Stop'",
        "trap { exit 1 }",
        # A name of an application is all that Windows wants of one that it did not install itself.
        f"$key = 'HKCU:\\Software\\Classes\\AppUserModelId\\{APP_NAME}'",
        f"$null = New-Item -Force $key; $null = New-ItemProperty -Force $key DisplayName -Value '{APP_NAME}'",
        f"$null = [{manager}, Windows.UI.Notifications, ContentType = WindowsRuntime]",
        f"$toast = [{manager}]::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02)",
        "$texts = $toast.GetElementsByTagName('text')",
        f"$null = $texts.Item(0).AppendChild($toast.CreateTextNode({text(title)}))",
        f"$null = $texts.Item(1).AppendChild($toast.CreateTextNode({text(body)}))",
        f"[{manager}]::CreateToastNotifier('{APP_NAME}').Show("
        "(New-Object Windows.UI.Notifications.ToastNotification -ArgumentList $toast))",
        "exit 0",
    )
    return "".join(f"{line}\r\n" for line in lines)


@dataclass
class FakeNotifier:
    """Keeps what it was asked to show. ``takes``: whether the desktop takes it."""

    takes: bool = True
    shown: list[tuple[str, str, str]] = field(default_factory=list)

    def show(self, key: str, title: str, body: str) -> bool:
        self.shown.append((key, title, body))
        return self.takes
