"""Asking the owner for a folder, by the dialog that this desktop has.

On Linux the portal comes first, because it is what the desktop itself shows, Wayland and sandboxes included; then
zenity and kdialog. macOS asks by AppleScript, Windows by its own folder browser. No window is drawn by this program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.launch import run_program

TITLE = "Which folder should Sapwood remember?"
PATIENCE_S = 3_600.0
"""A dialog that was forgotten behind other windows is closed after so long."""
PORTAL_PATIENCE_S = 5.0

_APPLESCRIPT = f'POSIX path of (choose folder with prompt "{TITLE}")'
_POWERSHELL = f"""
[Console]::OutputEncoding = [Text.Encoding]::UTF8
Add-Type -AssemblyName System.Windows.Forms
$owner = New-Object System.Windows.Forms.Form -Property @{{ TopMost = $true }}
$dialog = New-Object System.Windows.Forms.FolderBrowserDialog -Property @{{ Description = '{TITLE}' }}
if ($dialog.ShowDialog($owner) -eq 'OK') {{ [Console]::Out.Write($dialog.SelectedPath) }} else {{ exit 1 }}
"""


class Came(StrEnum):
    """What came of asking."""

    CHOSEN = "chosen"
    CANCELLED = "cancelled"
    NO_DIALOG = "no_dialog"  # this desktop has none that we could show


@dataclass(frozen=True)
class Folder:
    """The answer; ``path`` is empty but for a folder that was chosen."""

    came: Came
    path: str = ""


CANCELLED = Folder(Came.CANCELLED)
NO_DIALOG = Folder(Came.NO_DIALOG)

Run = Callable[[Sequence[str]], "tuple[int, str]"]
"""Runs a program to its end and returns its exit code and what it said. Raises ``OSError``, ``TimeoutExpired``."""


def ask_for_folder() -> Folder:
    """Ask the owner; blocks until they have answered, an hour at most. Not for the thread of a loop. Never raises."""
    if sys.platform == "linux":
        from agent.desktop.portal import choose_folder

        found = choose_folder(TITLE, PORTAL_PATIENCE_S, PATIENCE_S)
        if found is not None:
            return from_uris(found)
    argv = program_for(sys.platform, os.environ, shutil.which)
    return NO_DIALOG if argv is None else ask_program(argv, _run)


def from_uris(uris: Sequence[str]) -> Folder:
    """Return the folder of a portal's answer; none was chosen where that is empty."""
    if not uris:
        return CANCELLED
    parts = urlsplit(uris[0])
    return Folder(Came.CHOSEN, unquote(parts.path)) if parts.scheme == "file" else NO_DIALOG


def program_for(
    platform: str, environ: Mapping[str, str], which: Callable[[str], str | None]
) -> tuple[str, ...] | None:
    """Return the program that asks for a folder on such a desktop, ``None`` where there is none."""
    if platform == "win32":
        shell = which("powershell.exe") or which("powershell")
        return None if shell is None else (shell, "-NoProfile", "-NonInteractive", "-STA", "-Command", _POWERSHELL)
    if platform == "darwin":
        return ("/usr/bin/osascript", "-e", "activate", "-e", _APPLESCRIPT)
    if not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return None
    programs = (
        ("zenity", "--file-selection", "--directory", f"--title={TITLE}"),
        ("kdialog", "--title", TITLE, "--getexistingdirectory", str(Path.home())),
    )
    is_kde = "kde" in environ.get("XDG_CURRENT_DESKTOP", "").lower()
    for name, *rest in reversed(programs) if is_kde else programs:
        found = which(name)
        if found is not None:
            return (found, *rest)
    return None


def ask_program(argv: Sequence[str], run: Run) -> Folder:
    """Return what a program's dialog came to: such programs end with 1 where it was cancelled."""
    try:
        code, said = run(argv)
    except subprocess.TimeoutExpired:
        return CANCELLED
    except OSError:
        return NO_DIALOG
    path = said.rstrip("\r\n")
    if code == 0 and path:
        return Folder(Came.CHOSEN, path)
    # Without an answer and without a word of why it is the owner's no; other codes are a display that is not there.
    return CANCELLED if code in (0, 1) else NO_DIALOG


def _run(argv: Sequence[str]) -> tuple[int, str]:
    ended = run_program(argv, timeout_s=PATIENCE_S)
    return ended.returncode, ended.stdout
