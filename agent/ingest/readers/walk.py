"""Walking the files of a source: how a file is named, how it is found again, how it is opened.

A file's key is its NFC path relative to the source, with slashes. What is left out is said in ``rules.py``. Symbolic
links are listed and not followed: they lead out of what the owner named, or in circles. Only the root of a source may
be one.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from agent.ingest.readers.patience import STUCK, Stuck, in_time, stream_of
from agent.ingest.readers.protocol import FileSeen, Hidden, Part, SourceMissing, Stamp, Unreachable, Unreadable
from agent.ingest.readers.rules import (
    A_LINK,
    HAS_FLAGS,
    IGNORE_FILE,
    MARKERS,
    ONLY_IN_THE_CLOUD,
    Chain,
    IgnoreFileClosed,
    Rules,
    stub_of,
    why_not_opened,
)

if TYPE_CHECKING:
    from agent.config import SourceIntent

MEGABYTE = 1024 * 1024
# A file is opened without following a link or waiting for a pipe that took its place since it was listed.
_FLAGS = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_TRIES = 3


@dataclass(frozen=True, slots=True)
class File:
    """One file of a source. ``key`` names it in the memory, ``path`` on the disk.

    ``spelling`` is its relative path as the disk spells it where the key cannot say that (NFD, bytes that are no text).
    ``barred`` says why it must not be opened, where it must not.
    """

    key: str
    path: str
    stamp: Stamp
    spelling: str | None = None
    barred: str | None = None

    @classmethod
    def of(cls, relative: str, path: str, found: os.stat_result, barred: str | None = None) -> File:
        """Return a file by its relative path and what ``stat`` said."""
        key = _key(relative)
        stamp = Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
        return cls(key, path, stamp, None if key == relative else relative, barred)

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


def walk(source: SourceIntent, wanted: Callable[[str], bool]) -> Iterator[File | Hidden | FileSeen]:
    """Yield the wanted files of a source in a fixed order. ``wanted`` is asked with a file's bare name.

    Raises ``SourceMissing`` where no root is there; one of several that is not there comes as ``Hidden``, before all
    files. A root that is a file is wanted in any case. What comes as ``FileSeen`` is a broken pattern, listed under the
    name of its file.
    """
    faults: list[FileSeen] = []

    def say(name: str, fault: str, found: os.stat_result | None) -> None:
        stamp = Stamp(0, 0, 0) if found is None else Stamp(found.st_size, found.st_mtime_ns, found.st_ino)
        faults.append(FileSeen(name, stamp.unreadable(fault)))

    rules = Rules(source, say)
    yield from _drain(faults)
    missing: list[SourceMissing] = []
    there: list[tuple[str, Path, os.stat_result]] = []
    named = roots(source)
    for prefix, root in named:
        try:
            there.append((prefix, root, _look_at_root(rules, root)))
        except SourceMissing as error:
            missing.append(error)
            if len(named) > 1:
                yield _closed(prefix, error)
    for prefix, root, found in there:
        try:
            for event in _walk_root(rules, root, prefix, found, wanted):
                yield from _drain(faults, prefix)
                yield event
            yield from _drain(faults, prefix)
        except SourceMissing as error:
            missing.append(error)
            if len(named) > 1:
                yield _closed(prefix, error)
    if len(missing) == len(named):
        raise missing[0]


def _closed(prefix: str, error: SourceMissing) -> Hidden:
    """Return what one root of several that is not there means: what lies below it is unknown, the others are read."""
    return Hidden(_key(prefix), f"{error.title} ({error.detail}); what is held of it is kept")


def _look_at_root(rules: Rules, root: Path) -> os.stat_result:
    try:
        found = in_time(root.stat)
    except OSError as error:
        raise SourceMissing("the source is not there", f"{root}: {error.strerror or error}") from error
    if rules.owns_root(root):
        raise SourceMissing("Sapwood's own folders are not read", str(root))
    if not stat.S_ISDIR(found.st_mode) and not stat.S_ISREG(found.st_mode):
        # Opening a pipe waits for whoever writes into it, a device may never end.
        raise SourceMissing("the source is not a file or a folder", str(root))
    return found


def _walk_root(
    rules: Rules, root: Path, prefix: str, found: os.stat_result, wanted: Callable[[str], bool]
) -> Iterator[File | Hidden | FileSeen]:
    if stat.S_ISDIR(found.st_mode):
        yield from _walk_folder(rules, root, prefix, wanted)
        return
    name = f"{prefix}/{root.name}" if prefix else root.name
    yield File.of(name, os.path.realpath(root), found, why_not_opened(found))


def _drain(faults: list[FileSeen], prefix: str = "") -> Iterator[FileSeen]:
    while faults:
        fault = faults.pop(0)
        yield FileSeen(f"{prefix}/{fault.path}" if prefix else fault.path, fault.stamp)


def walk_changed(
    source: SourceIntent,
    known: Mapping[str, Stamp],
    wanted: Callable[[str], bool],
    barred: Callable[[File], str | None] = lambda file: None,
) -> Iterator[File | Hidden | FileSeen]:
    """Walk like ``walk``, but give a file whose stamp is the known one as the event that says so: it is not read.

    ``barred`` says why a file is not to be read, as its size; each look asks again, for a setting may have changed.
    """
    for file in walk(source, wanted):
        if isinstance(file, Hidden):
            yield file
            continue
        if isinstance(file, FileSeen):
            yield FileSeen(file.path, file.stamp, unchanged=known.get(file.path) == file.stamp)
            continue
        old = known.get(file.key)
        if old is not None and old.same_file(file.stamp):
            yield FileSeen(file.key, old, unchanged=True)
        elif (reason := file.barred or barred(file)) is not None:
            stamp = file.stamp.unreadable(reason, now_only=True)
            yield FileSeen(file.key, stamp, unchanged=old == stamp)
        else:
            yield file


def too_large(size: int, limit: int, setting: str) -> str | None:
    """Return why a file of this size is not read, naming the setting that changes it, or ``None``."""
    if size <= limit:
        return None
    return f"larger than {_megabytes(limit)}: it has {_megabytes(size)}; `{setting}` in config.toml sets that"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:.1f} MB".replace(".0 MB", " MB") if size >= MEGABYTE // 10 else f"{size:,} bytes"


def _walk_folder(
    rules: Rules, root: Path, prefix: str, wanted: Callable[[str], bool]
) -> Iterator[File | Hidden | FileSeen]:
    pending: list[tuple[str, str, Chain]] = [(str(root), "", ())]
    while pending:
        folder, relative, chain = pending.pop()
        try:
            entries = in_time(partial(_list, folder))
            names = {entry.name for entry in entries}
            chain = rules.enter(chain, folder, relative, names)
        except OSError as error:
            reason = str(error) if isinstance(error, IgnoreFileClosed) else error.strerror or str(error)
            if not relative:
                raise SourceMissing("the source cannot be read", f"{folder}: {reason}") from error
            yield Hidden(_key(_join(prefix, relative)), reason)
            continue
        if relative and not MARKERS.isdisjoint(names):
            continue
        patterned = rules.is_patterned(chain)
        below: list[tuple[str, str, Chain]] = []
        for entry in entries:
            name = entry.name
            stub = stub_of(name) if name[0] == "." else None
            if name[0] == "." and stub is None and not rules.hidden:
                continue
            path = f"{relative}/{stub or name}" if relative else stub or name
            key = f"{prefix}/{path}" if prefix else path
            try:
                if entry.is_dir(follow_symlinks=False):
                    if (
                        rules.skips_folder(folder, name, names)
                        or rules.is_own(entry.inode(), entry.path)
                        or (patterned and rules.matches(chain, path, key, folder=True))
                    ):
                        continue
                    barred = why_not_opened(entry.stat(follow_symlinks=False)) if HAS_FLAGS else None
                    if barred is not None:
                        yield Hidden(_key(key), barred)
                    else:
                        below.append((entry.path, path, chain))
                elif _may_be(entry, stub or name, wanted):
                    if patterned and rules.matches(chain, path, key, folder=False):
                        continue
                    found = in_time(partial(entry.stat, follow_symlinks=False))
                    yield File.of(key, entry.path, found, ONLY_IN_THE_CLOUD if stub else why_not_opened(found))
            except Stuck:
                yield FileSeen(_key(key), Stamp(0, 0, 0).unreadable(STUCK, now_only=True))
            except OSError:
                continue  # it went away between the listing and the look
        pending.extend(reversed(below))


def _list(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as listing:
        return sorted(listing, key=lambda entry: entry.name)


def _may_be(entry: os.DirEntry[str], name: str, wanted: Callable[[str], bool]) -> bool:
    """Whether a name is wanted; a link without a suffix is listed too, for it may have led to a folder."""
    return wanted(name) or ("." not in name and entry.is_symlink())


def _join(prefix: str, relative: str) -> str:
    return f"{prefix}/{relative}" if prefix and relative else prefix or relative


def _key(relative: str) -> str:
    if not relative.isascii():
        relative = os.fsencode(relative).decode("utf-8", "backslashreplace")
        relative = unicodedata.normalize("NFC", relative)
    return relative


def shut_out_by_owner(rules: Rules, key: str) -> bool:
    """Return whether the owner's own patterns, or names that begin with a dot, leave a place out.

    What is left out by itself (a folder that has become an environment or a cache) is nobody's wish. Blocks on the
    ignore files above it.
    """
    for prefix, root in roots(rules.source):
        if prefix and not key.startswith(f"{prefix}/"):
            continue
        names = key.removeprefix(f"{prefix}/").split("/") if prefix else key.split("/")
        chain: Chain = ()
        folder, above = str(root), ""
        for depth, name in enumerate(names, 1):
            if name.startswith(".") and not rules.hidden:
                return True
            try:
                chain = rules.enter(chain, folder, above, (IGNORE_FILE,))
            except OSError:
                return False
            folder, above = os.path.join(folder, name), _join(above, name)
            is_folder = depth < len(names)
            if rules.is_patterned(chain) and rules.matches(chain, above, _join(prefix, above), folder=is_folder):
                return True
    return False


def locate(source: SourceIntent, part: Part) -> str:
    """Return where the file of a part lies on the disk. Raises ``Unreadable`` where no root fits."""
    spelling = part.get("file")
    key = str(part["path"]) if spelling is None else os.fsdecode(bytes.fromhex(str(spelling)))
    found = roots(source)
    for prefix, root in found:
        if not prefix:
            return os.path.realpath(root) if root.name == key and not root.is_dir() else str(root / key)
        if key == prefix or key.startswith(f"{prefix}/"):
            rest = key[len(prefix) + 1 :]
            return os.path.realpath(root) if rest == root.name and not root.is_dir() else str(root / rest)
    raise Unreadable("no folder of the source holds this file")


def open_file(path: str) -> IO[bytes]:
    """Open a file to read its bytes. Raises ``OSError``, also where a link or something that is no file stands there.

    Never waits for a pipe, whatever took the file's place since it was listed, and for a disk as ``patience.py`` says.
    """
    return stream_of(in_time(partial(_open, path), os.close))


def _open(path: str) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, A_LINK) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file")
    return descriptor


def read_bytes(path: str, limit: int) -> bytes:
    """Return a file's bytes as they were at one moment. Raises ``Unreadable`` with the reason: too large, gone, closed.

    Raises ``Unreachable`` where it kept changing while it was read: half of it old and half of it new is no version.
    """
    try:
        for _ in range(_TRIES):
            with open_file(path) as stream:
                before = _stat_of(stream.fileno())
                data = stream.read(limit + 1)
                after = _stat_of(stream.fileno())
            if len(data) > limit:
                raise Unreadable(f"larger than {_megabytes(limit)}")
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                return data
    except OSError as error:
        raise Unreachable((error.strerror or str(error)).lower()) from error
    raise Unreachable("it is being written to")


def _stat_of(descriptor: int) -> os.stat_result:
    return in_time(partial(os.fstat, descriptor))


def read_span(path: str, part: Part) -> bytes:
    """Return the bytes that a part names (``offset``, ``length``). Raises ``Unreachable``."""
    try:
        with open_file(path) as stream:
            stream.seek(int(part["offset"]))
            return stream.read(int(part["length"]))
    except OSError as error:
        raise Unreachable((error.strerror or str(error)).lower()) from error
