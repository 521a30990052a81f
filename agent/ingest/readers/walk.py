"""Walking the files of a source: what is skipped, how a file is named, how it is found again.

A file's key is its NFC path relative to the source, with slashes. Symbolic links are not followed: they lead out of
what the owner named, or in circles. Hidden folders, dependencies and caches are skipped.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from agent.ingest.readers.protocol import FileSeen, Hidden, Part, SourceMissing, Stamp, Unreachable, Unreadable

if TYPE_CHECKING:
    from agent.config import SourceIntent

SKIPPED_FOLDERS = frozenset(
    {
        "node_modules",
        "bower_components",
        "__pycache__",
        "site-packages",
        "__pypackages__",
        "__MACOSX",
        "$RECYCLE.BIN",
        "System Volume Information",
        "lost+found",
    }
)
# A folder that holds one of these is an environment, a cache, or our own data.
_MARKERS = frozenset({"pyvenv.cfg", "CACHEDIR.TAG", "chunks.db", "config.last-good.toml"})


@dataclass(frozen=True, slots=True)
class File:
    """One file of a source. ``key`` names it in the memory, ``path`` on the disk.

    ``spelling`` is its relative path as the disk spells it where the key cannot say that (NFD, bytes that are no text).
    """

    key: str
    path: str
    stamp: Stamp
    spelling: str | None = None

    @classmethod
    def of(cls, relative: str, path: str, found: os.stat_result) -> File:
        """Return a file by its relative path and what ``stat`` said."""
        key = _key(relative)
        stamp = Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
        return cls(key, path, stamp, None if key == relative else relative)

    @property
    def place(self) -> Part:
        """The beginning of a part: the key, and the disk's spelling in hexadecimal where there is one."""
        if self.spelling is None:
            return {"path": self.key}
        return {"path": self.key, "file": os.fsencode(self.spelling).hex()}


def roots(source: SourceIntent) -> list[tuple[str, Path]]:
    """Return each root of a source with the prefix of its keys (none where there is only one)."""
    paths = [Path(path) for path in source.paths]
    if len(paths) == 1:
        return [("", paths[0])]
    found: list[tuple[str, Path]] = []
    for path in paths:
        prefix = path.name or "root"
        while any(prefix == other for other, _ in found):
            prefix += "+"
        found.append((prefix, path))
    return found


def walk(source: SourceIntent, wanted: Callable[[str], bool]) -> Iterator[File | Hidden]:
    """Yield the wanted files of a source in a fixed order. ``wanted`` is asked with a file's bare name.

    Raises ``SourceMissing`` where a root is not there. A root that is a file is wanted in any case.
    """
    for prefix, root in roots(source):
        try:
            found = root.stat()
        except OSError as error:
            raise SourceMissing("the source is not there", f"{root}: {error.strerror or error}") from error
        if stat.S_ISDIR(found.st_mode):
            yield from _walk_folder(source, root, prefix, wanted)
        elif not stat.S_ISREG(found.st_mode):
            # Opening a pipe waits for whoever writes into it, a device may never end.
            raise SourceMissing("the source is not a file or a folder", str(root))
        else:
            name = f"{prefix}/{root.name}" if prefix else root.name
            yield File.of(name, str(root), found)


def walk_changed(
    source: SourceIntent, known: Mapping[str, Stamp], wanted: Callable[[str], bool]
) -> Iterator[File | Hidden | FileSeen]:
    """Walk like ``walk``, but give a file whose stamp is the known one as the event that says so: it is not read."""
    for file in walk(source, wanted):
        old = known.get(file.key) if isinstance(file, File) else None
        if isinstance(file, File) and old is not None and old.same_file(file.stamp):
            yield FileSeen(file.key, old, unchanged=True)
        else:
            yield file


def _walk_folder(
    source: SourceIntent, root: Path, prefix: str, wanted: Callable[[str], bool]
) -> Iterator[File | Hidden]:
    pending: list[tuple[str, str]] = [(str(root), prefix)]
    while pending:
        folder, relative = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            if relative == prefix:
                raise SourceMissing("the source cannot be read", f"{folder}: {error.strerror or error}") from error
            yield Hidden(_key(relative), error.strerror or str(error))
            continue
        if relative != prefix and any(entry.name in _MARKERS for entry in entries):
            continue
        below: list[tuple[str, str]] = []
        for entry in entries:
            name = entry.name
            path = f"{relative}/{name}" if relative else name
            if name.startswith(".") or _excluded(source, path, name):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if name not in SKIPPED_FOLDERS:
                        below.append((entry.path, path))
                elif entry.is_file(follow_symlinks=False) and wanted(name):
                    yield File.of(path, entry.path, entry.stat(follow_symlinks=False))
            except OSError:
                continue  # it went away between the listing and the look
        pending.extend(reversed(below))


def _excluded(source: SourceIntent, path: str, name: str) -> bool:
    return any(fnmatchcase(path, pattern) or fnmatchcase(name, pattern) for pattern in source.exclude)


def _key(relative: str) -> str:
    if not relative.isascii():
        relative = os.fsencode(relative).decode("utf-8", "backslashreplace")
        relative = unicodedata.normalize("NFC", relative)
    return relative


def locate(source: SourceIntent, part: Part) -> str:
    """Return where the file of a part lies on the disk. Raises ``Unreadable`` where no root fits."""
    spelling = part.get("file")
    key = str(part["path"]) if spelling is None else os.fsdecode(bytes.fromhex(str(spelling)))
    found = roots(source)
    for prefix, root in found:
        if not prefix:
            return str(root) if root.name == key and not root.is_dir() else str(root / key)
        if key == prefix or key.startswith(f"{prefix}/"):
            rest = key[len(prefix) + 1 :]
            return str(root) if rest == root.name and not root.is_dir() else str(root / rest)
    raise Unreadable("no folder of the source holds this file")


def read_bytes(path: str, limit: int) -> bytes:
    """Return a file's bytes. Raises ``Unreadable`` with the reason: too large, no permission, gone."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        raise Unreachable((error.strerror or str(error)).lower()) from error
    if len(data) > limit:
        raise Unreadable(f"larger than {limit // (1024 * 1024)} MB")
    return data


def read_span(path: str, part: Part) -> bytes:
    """Return the bytes that a part names (``offset``, ``length``). Raises ``Unreachable``."""
    try:
        with open(path, "rb") as stream:
            stream.seek(int(part["offset"]))
            return stream.read(int(part["length"]))
    except OSError as error:
        raise Unreachable((error.strerror or str(error)).lower()) from error
