"""The folder that an export writes: each file whole or not at all, and nobody else's ever.

A list of what was written lies in it. A file is entered before it is written, so an export that was cut short is
cleared up by the next one; what the list does not name is not touched.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from agent.actions.note_text import safe_path
from agent.errors import AgentFault, UsageFault
from agent.ids import stable_number

LIST = ".sapwood-export"
# In a folder that is itself a source the export would be read, and exported again.
IGNORE = ".sapwoodignore"
# What systems and Obsidian put into a folder that its owner would call empty.
_NOBODYS = frozenset({".DS_Store", "desktop.ini", "Thumbs.db", ".obsidian"})
_TEMPORARY = ".sapwood-{}.tmp"
_HEADER = {"sapwood": "export", "version": 1}


class ExportFolder:
    """Takes the files of one export; ``finish`` removes what the one before had and this one does not.

    Files have mode 0600 and folders 0700, as the memory has.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written = 0
        self.unchanged = 0
        self.removed = 0
        # Numbers, not names: an export of a hundred thousand notes takes few megabytes.
        self._before: set[int] = set()
        self._now: set[int] = set()
        self._folded: set[int] = set()
        self._temporary = root / _TEMPORARY.format(os.getpid())
        self._list: IO[str] | None = None
        self._prepare()

    @property
    def files(self) -> int:
        """How many files the export has so far."""
        return self.written + self.unchanged

    def _prepare(self) -> None:
        if self.root.exists() and not self.root.is_dir():
            raise UsageFault("an export needs a folder", f"{self.root} is a file", "name a new or an empty folder")
        listed = self.root / LIST
        if not listed.is_file() and self.root.is_dir() and self._holds_anything():
            raise UsageFault(
                "this folder is not empty, and no export made it",
                str(self.root),
                "name a new or an empty folder; an export never writes among other files",
            )
        if listed.is_symlink():
            raise AgentFault(
                "the list of an export leads elsewhere", str(listed), "remove that link, then export again"
            )
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self.root.glob(_TEMPORARY.format("*")):
            left.unlink(missing_ok=True)
        self._before = {_folded(path) for path in self._listed()}
        self._replace(self.root / IGNORE, b"*\n")
        if not listed.exists():
            self._replace(listed, (json.dumps(_HEADER) + "\n").encode())
        self._list = listed.open("a", encoding="utf-8", newline="\n")
        # Behind a line that was cut short a new one begins.
        self._list.write("\n")

    def _holds_anything(self) -> bool:
        return any(entry.name not in _NOBODYS for entry in self.root.iterdir())

    def _listed(self) -> Iterator[str]:
        """Yield what the list names; what would lie outside the folder or is no note was not written by an export."""
        try:
            with (self.root / LIST).open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    try:
                        found = json.loads(line)
                    except ValueError:
                        continue
                    if isinstance(found, str) and safe_path(found):
                        yield found
        except FileNotFoundError:
            return

    def put(self, relative: str, text: str) -> None:
        """Write one file, or leave it where it is the same already. Raises ``AgentFault`` where another's is there."""
        path = self.root / relative
        data = text.encode("utf-8", "replace")
        self._make_folder(path.parent)
        if _folded(relative) in self._folded:
            raise AgentFault("two notes would have one name", relative, "please report this")
        held = _content(path)
        self._enter(relative)
        self._now.add(stable_number(relative))
        self._folded.add(_folded(relative))
        if held == data:
            self.unchanged += 1
            return
        if held is not None and _folded(relative) not in self._before:
            raise AgentFault(
                "another file has the name of a note", str(path), "move it out of the folder, then export again"
            )
        self._replace(path, data)
        self.written += 1

    def _make_folder(self, folder: Path) -> None:
        if folder != self.root:
            if folder.is_symlink():
                raise AgentFault(
                    "a folder of the export leads elsewhere", str(folder), "remove that link, then export again"
                )
            self._make_folder(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)

    def _enter(self, relative: str) -> None:
        if self._list is not None:
            self._list.write(json.dumps(relative, ensure_ascii=True) + "\n")
            self._list.flush()

    def finish(self) -> None:
        """Remove what is gone from the memory, and leave a list of what is there now."""
        self.close()
        # There the file of an old name that differs in case alone is the new one's.
        ignores_case = (self.root / LIST.upper()).exists()
        kept: set[str] = set()
        gone: set[str] = set()
        for relative in self._listed():
            if stable_number(relative) in self._now:
                kept.add(relative)
            elif not (ignores_case and _folded(relative) in self._folded):
                gone.add(relative)
        for relative in sorted(gone):
            path = self.root / relative
            if not any(parent.is_symlink() for parent in _between(self.root, path)):
                self.removed += path.exists()
                path.unlink(missing_ok=True)
                _remove_if_empty(path.parent, self.root)
        lines = [json.dumps(_HEADER), *(json.dumps(relative) for relative in sorted(kept)), ""]
        self._replace(self.root / LIST, "\n".join(lines).encode())

    def close(self) -> None:
        """Close the list; what was written stays."""
        if self._list is not None:
            self._list.close()
            self._list = None

    def _replace(self, path: Path, data: bytes) -> None:
        # Not waited for on the disk: an export can be made again, and sixteen thousand waits take minutes.
        descriptor = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
            os.replace(self._temporary, path)
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise


def _folded(relative: str) -> int:
    # Names that differ in case alone are one file on many disks.
    return stable_number(relative.casefold())


def _content(path: Path) -> bytes | None:
    if path.is_symlink():
        return b""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _between(root: Path, path: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent == root:
            return
        yield parent


def _remove_if_empty(folder: Path, root: Path) -> None:
    while folder != root:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
