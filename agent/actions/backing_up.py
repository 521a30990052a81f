"""``sapwood backup``: the memory and what no source can give again, as one file, while everybody works on."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from agent.db.backup import CarriedFile, carry, copy_memory, no_progress, open_damaged, verify
from agent.db.connection import connect
from agent.db.faults import FaultClass, classify, is_sqlite_disk_full
from agent.errors import AgentFault, DatabaseCorrupt, SapwoodError, UsageFault
from agent.models.spending import usage_file

if TYPE_CHECKING:
    from agent.db.backup import Progress
    from agent.paths import Paths

SPARE_BYTES = 8 * 1024 * 1024
INBOX, LEDGER, CONFIG, USAGE = "inbox/", "ledger.jsonl", "config.toml", "usage.jsonl"
_DAMAGED = "the memory is damaged: what could be read of it was copied. `sapwood rebuild` grows it anew"


@dataclass(frozen=True)
class BackedUp:
    """A backup: where it is, its bytes, whether it is sound; how many plain files it carries, and what is amiss."""

    path: str
    bytes: int
    ok: bool
    files: int
    words: str = ""


def back_up(paths: Paths, target: Path, *, force: bool = False, progress: Progress = no_progress) -> BackedUp:
    """Write a backup and return it once it was read back; blocks for as long as that takes.

    It is made under another name beside the target and renamed when it is whole, so what was there is replaced by a
    sound backup or not at all. Needs no intent. A damaged memory gives what can be copied, with ``ok`` false. Raises
    ``UsageFault`` for an impossible target, ``AgentFault`` where there is no memory or no room.
    """
    target = Path(os.path.abspath(target.expanduser()))
    _refuse_target(paths, target, force=force)
    if not paths.database.exists():
        raise AgentFault(
            "there is no memory yet to back up",
            str(paths.database),
            "it is made by `sapwood run`; after `sapwood rebuild` too",
        )
    _refuse_full(paths, target)
    _clear_leftovers(target)
    draft = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        try:
            is_sound = _copy(paths, draft, progress)
            files = carry(draft, list_kept(paths))
            found = verify(draft)
        except (apsw.Error, OSError) as error:
            raise _refusal(target, error) from error
        os.replace(draft, target)
        _sync_folder(target.parent)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            Path(f"{draft}{suffix}").unlink(missing_ok=True)
    ok = is_sound and not found.findings
    return BackedUp(str(target), found.bytes, ok, files, "" if ok else _DAMAGED)


def _copy(paths: Paths, draft: Path, progress: Progress) -> bool:
    """Copy the memory and return whether it could be opened well; an unreadable one leaves an empty memory there."""
    try:
        connection = connect(paths.database, create=False)
    except DatabaseCorrupt:
        try:
            with open_damaged(paths.database) as bare:
                copy_memory(bare, draft, progress)
            verify(draft)
        except (apsw.Error, SapwoodError) as error:
            if classify(error) is not FaultClass.CORRUPT:
                raise
            # Not even that. What lies beside it is worth keeping all the same.
            draft.unlink(missing_ok=True)
            _make_empty(draft)
        return False
    try:
        copy_memory(connection.raw, draft, progress)
    finally:
        connection.close()
    return True


def _make_empty(draft: Path) -> None:
    # Not beside the backup: whoever opens a memory leaves the file of its lock there.
    with tempfile.TemporaryDirectory(prefix="sapwood-") as folder:
        connection = connect(Path(folder, "empty.db"))
        try:
            copy_memory(connection.raw, draft)
        finally:
            connection.close()


def list_kept(paths: Paths) -> Iterator[CarriedFile]:
    """Yield what no source can give again: inbox, ledger, what was spent, the settings. Raises ``OSError``.

    Links are not followed, and what vanishes meanwhile is left out.
    """
    for path, name in ((paths.ledger, LEDGER), (usage_file(paths), USAGE), (paths.config_file, CONFIG)):
        yield from _kept(path, name)
    for folder, folders, names in os.walk(paths.inbox):
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith("."):
                yield from _kept(path, INBOX + path.relative_to(paths.inbox).as_posix())


def _kept(path: Path, name: str) -> Iterator[CarriedFile]:
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        if stat.S_ISREG(found.st_mode):
            yield CarriedFile(name, found.st_mtime_ns, path.read_bytes())


# -- what is refused --------------------------------------------------------------------------------------------------


def _refuse_target(paths: Paths, target: Path, *, force: bool) -> None:
    if target.is_dir():
        raise UsageFault("a backup is a file, not a folder", str(target), f"name one in it: {target / 'memory.backup'}")
    if not target.parent.is_dir():
        raise UsageFault("there is no such folder", str(target.parent), "make it first, or name another")
    if is_the_memory(paths, target):
        raise UsageFault("this is the memory itself", str(target), "name another file for the backup")
    folder = target.parent.resolve()
    if folder == paths.config_dir.resolve() or folder.is_relative_to(paths.inbox.resolve()):
        raise UsageFault(
            "this folder holds the settings and what only Sapwood has", str(folder), "keep backups somewhere else"
        )
    if not os.path.lexists(target):
        return
    if not target.is_file():
        raise UsageFault("this is no plain file", str(target), "name another file for the backup")
    if not force:
        raise UsageFault("this file is there already", str(target), "name another, or replace it with --force")


def is_the_memory(paths: Paths, path: Path) -> bool:
    """Return whether a path is the memory or one of its side files, by whatever name; opens nothing."""
    if path.resolve().parent == paths.data_dir.resolve() and path.name in (
        paths.database.name,
        *(f"{paths.database.name}{suffix}" for suffix in ("-wal", "-shm", "-journal")),
    ):
        return True
    with contextlib.suppress(OSError):
        return os.path.samefile(path, paths.database)
    return False


def _refuse_full(paths: Paths, target: Path) -> None:
    wanted = SPARE_BYTES + paths.database.stat().st_size
    with contextlib.suppress(OSError):
        wanted += os.stat(f"{paths.database}-wal").st_size
    refuse_without_room(target.parent, wanted)


def refuse_without_room(folder: Path, wanted: int) -> None:
    """Raise ``AgentFault`` where the disk of a folder has less room than so many bytes."""
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise AgentFault(
            "there is not enough room",
            f"{folder}: {free // 1_000_000} MB free, about {wanted // 1_000_000} MB needed",
            "make room on that disk, or name another place; nothing was changed",
        )


def _refusal(target: Path, error: apsw.Error | OSError) -> AgentFault:
    is_full = is_sqlite_disk_full(error) if isinstance(error, apsw.Error) else error.errno == errno.ENOSPC
    if is_full:
        return AgentFault("the disk became full", str(target.parent), "make room, or name another place")
    if isinstance(error, OSError):
        return AgentFault(
            "the backup cannot be written",
            f"{error.filename or target}: {error.strerror or error}",
            "check the folder and its permissions, or name another place",
        )
    return AgentFault("the backup could not be made", f"{target}: {error}", "run `sapwood doctor`, then try again")


def _clear_leftovers(target: Path) -> None:
    """Remove the drafts of backups of this name that were killed."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    for path in target.parent.iterdir():
        if not (path.name.startswith(f".{target.name}.") and ".part" in path.name):
            continue
        pid = path.name.removeprefix(f".{target.name}.").partition(".")[0]
        if pid.isdecimal() and not psutil.pid_exists(int(pid)):
            with contextlib.suppress(OSError):
                path.unlink()


def _sync_folder(folder: Path) -> None:
    from agent.config_edit import sync_folder

    with contextlib.suppress(OSError):  # some file systems of sticks and shares have no such thing
        sync_folder(folder)
