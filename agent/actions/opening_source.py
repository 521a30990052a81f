"""Opening the file that a node comes from, with the program that its owner uses for such files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import AgentFault
from agent.launch import open_outside

if TYPE_CHECKING:
    from agent.actions.home import Home


# What programs begin with: scripts, and those of Linux, Windows and macOS.
_PROGRAMS = (b"#!", b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
# Folders that macOS starts or installs where others are shown.
_BUNDLES = frozenset(
    {".app", ".action", ".bundle", ".mpkg", ".pkg", ".prefpane", ".saver", ".scptd", ".service", ".workflow"}
)


@dataclass(frozen=True)
class OpenedSource:
    """What was opened: the file, or its folder where a file of its kind is nothing that an editor shows."""

    path: Path
    is_folder: bool


def open_source(home: Home, node: str) -> OpenedSource:
    """Have the desktop open the file of a node; does not block. No other path can be asked for.

    Only documents and single mails are opened as such. For a mailbox of gigabytes, and for whatever a desktop might
    run instead of showing it, the folder is opened. Raises ``UsageFault`` for an unknown node, ``AgentFault`` where
    the file is not there (any more), lies outside its source, or nothing opens it.
    """
    from agent.actions.memory import show
    from agent.ingest.readers.eml import is_mail_name
    from agent.ingest.readers.folder import is_text_name

    origin = show(home, node, depth=0).origin
    source = home.intent.source(origin.source_id)
    if origin.path is None or source is None:
        raise AgentFault("it comes from no file that can be opened", origin.source_id, "its text is on its own page")
    path = Path(origin.path)
    if not path.is_absolute() or not path.exists():
        raise AgentFault(
            "the file is not there",
            str(path),
            "it was moved or deleted, or its disk is not plugged in; its text is kept",
        )
    real = path.resolve()
    if not any(real.is_relative_to(Path(root).resolve()) for root in source.paths):
        raise AgentFault("the file lies outside its source", str(path), "open it yourself, if you know it")
    is_shown = is_text_name(real.name) or is_mail_name(real.name)
    target = real if is_shown and real.is_file() and not _is_program(real) else _plain_folder(real.parent)
    if not any(target.is_relative_to(Path(root).resolve().parent) for root in source.paths):
        raise AgentFault("a desktop would start this instead of showing it", str(path), "its text is on its own page")
    open_outside(str(target))
    return OpenedSource(target, target != real)


def _is_program(path: Path) -> bool:
    """Return whether a file may be run and begins like a program, whatever it is called."""
    try:
        with path.open("rb") as file:
            return os.access(path, os.X_OK) and file.read(4).startswith(_PROGRAMS)
    except OSError:
        return True


def _plain_folder(folder: Path) -> Path:
    """Return the innermost folder that is shown rather than started, and lies in none that is started."""
    bundles = [each for each in (folder, *folder.parents) if each.suffix.lower() in _BUNDLES]
    return bundles[-1].parent if bundles else folder
