"""The machine: Python, SQLite, folders and who may read them, the disk, locks, the clock."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.actions.checks.result import Check, size_words
from agent.clock import SYSTEM_CLOCK, iso
from agent.errors import SapwoodError

if TYPE_CHECKING:
    from agent.paths import Paths

MINIMUM_PYTHON = (3, 11)
LOW_SPACE_BYTES = 500_000_000
FIRST_DAY_MS = 1_735_689_600_000  # 2025: this program is younger than that
LAST_DAY_MS = 4_102_444_800_000  # 2100

NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afpfs", "afs", "ceph", "cifs", "davfs", "fuse.rclone", "fuse.sshfs", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "smb", "smb2", "smb3", "smbfs", "webdav"}
)


def look_at_python(_paths: Paths) -> Iterator[Check]:
    """Yield whether this Python is new enough."""
    found = ".".join(map(str, sys.version_info[:3]))
    yield Check(
        "python",
        sys.version_info >= MINIMUM_PYTHON,
        f"{found}, {sys.executable}",
        "install Python 3.11 or newer",
    )


def look_at_sqlite(_paths: Paths) -> Iterator[Check]:
    """Yield whether this SQLite can share a file among processes."""
    from agent.db.connection import MINIMUM_SQLITE, sqlite_version

    found = sqlite_version()
    yield Check(
        "sqlite",
        found >= MINIMUM_SQLITE,
        f"{'.'.join(map(str, found))} (needed: {'.'.join(map(str, MINIMUM_SQLITE))} or newer)",
        "install a current apsw: pip install --upgrade apsw",
    )


def folders_of(paths: Paths) -> tuple[tuple[str, Path], ...]:
    """Return the four folders by the names that an owner reads."""
    return (
        ("config folder", paths.config_dir),
        ("data folder", paths.data_dir),
        ("log folder", paths.log_dir),
        ("runtime folder", paths.runtime_dir),
    )


def look_at_folders(paths: Paths) -> Iterator[Check]:
    """Yield whether each folder is there, made where it is missing, and can be written to."""
    for name, folder in folders_of(paths):
        remedy = f"make {folder} yours and writable, or set SAPWOOD_HOME to another folder"
        full = f"make room on the disk of {folder}"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = folder / f".doctor.{os.getpid()}"
            try:
                probe.write_bytes(b"x")
            finally:
                # On a full disk there is a file all the same, without the byte.
                probe.unlink(missing_ok=True)
        except OSError as error:
            yield Check(
                name, False, f"{folder}: {error.strerror or error}", full if error.errno == errno.ENOSPC else remedy
            )
        else:
            yield Check(name, True, str(folder))


def look_at_permissions(paths: Paths) -> Iterator[Check]:
    """Yield whether anybody else may read what is the owner's alone. Where modes mean nothing: nothing."""
    if sys.platform == "win32":
        return
    open_to_others = []
    wrong_owner = []
    private = [folder for _, folder in folders_of(paths)]
    private += [paths.database.with_name(paths.database.name + suffix) for suffix in ("", "-wal", "-shm")]
    private += [paths.config_file, paths.last_good_config, paths.ledger, paths.agent_file]
    for path in private:
        try:
            found = path.stat()
        except OSError:
            continue  # not there, which others look at
        if found.st_mode & 0o077:
            open_to_others.append(path)
        if found.st_uid != os.geteuid():
            wrong_owner.append(path)
    yield Check(
        "permissions",
        not open_to_others and not wrong_owner,
        "; ".join(
            [f"{path} may be read by others ({stat.S_IMODE(path.stat().st_mode):04o})" for path in open_to_others]
            + [f"{path} belongs to another user" for path in wrong_owner]
        )
        or "what is yours is yours alone",
        " and ".join(
            [f"`chmod {'700' if path.is_dir() else '600'} '{path}'`" for path in open_to_others]
            + [f"`chown {os.geteuid()} '{path}'`" for path in wrong_owner]
        ),
    )


def look_at_space(paths: Paths) -> Iterator[Check]:
    """Yield whether the disk has room for growing, and for the memory once more: a backup or a rebuild takes that."""
    import shutil

    free = shutil.disk_usage(nearest(paths.data_dir)).free
    held = 0
    for suffix in ("", "-wal"):
        try:
            held += os.stat(f"{paths.database}{suffix}").st_size
        except OSError:
            continue
    again = f"; the memory takes {size_words(held)}, a backup or a rebuild as much again" if held else ""
    yield Check(
        "free space",
        free >= LOW_SPACE_BYTES + held,
        f"{size_words(free)}{again}",
        f"make room on the disk of {paths.data_dir}",
    )


def look_at_disk(paths: Paths) -> Iterator[Check]:
    """Yield whether the data folder is on this machine's own disk."""
    kind = file_system_of(nearest(paths.data_dir))
    yield Check(
        "local disk",
        kind not in NETWORK_FILE_SYSTEMS,
        kind or "unknown file system",
        "set SAPWOOD_HOME to a folder on this machine's own disk; network folders lose locks",
    )


def look_at_locks(paths: Paths) -> Iterator[Check]:
    """Yield whether a lock keeps a second holder out."""
    from filelock import FileLock, Timeout

    probe = paths.data_dir / f".doctor.{os.getpid()}.lock"
    held, second = FileLock(probe, fallback_to_soft=False), FileLock(probe, fallback_to_soft=False)
    try:
        with held:
            try:
                with second.acquire(timeout=0):
                    works = False
            except Timeout:
                works = True
    finally:
        probe.unlink(missing_ok=True)
    yield Check(
        "file locks",
        works,
        "a second holder is kept out" if works else "two holders at once",
        "set SAPWOOD_HOME to a folder on this machine's own disk",
    )


def look_at_wal(paths: Paths) -> Iterator[Check]:
    """Yield whether a database in the data folder can have a write-ahead log."""
    # A file of its own: looking must not touch the memory.
    from agent.db.connection import connect

    probe = paths.data_dir / f".doctor.{os.getpid()}.db"
    try:
        connect(probe).close()
        yield Check("write-ahead log", True, "works in the data folder")
    except SapwoodError as error:
        yield Check("write-ahead log", False, str(error), error.hint)
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{probe}{suffix}").unlink(missing_ok=True)


def look_at_clock(_paths: Paths) -> Iterator[Check]:
    """Yield whether this machine knows the date: leases, backoffs and pauses count on it."""
    now_ms = SYSTEM_CLOCK.now_ms()
    yield Check(
        "clock",
        FIRST_DAY_MS <= now_ms < LAST_DAY_MS,
        str(iso(now_ms)),
        "set the date and time of this machine, then restart the agent",
    )


def file_system_of(folder: Path) -> str:
    """Return the type of the file system that a folder is on, in lower case; empty where it cannot be told."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        parts = psutil.disk_partitions(all=True)
        where = folder.resolve()
    except OSError:
        return ""
    best, found = -1, ""
    for part in parts:
        mount = Path(part.mountpoint)
        if (where == mount or mount in where.parents) and len(mount.parts) >= best:
            best, found = len(mount.parts), part.fstype.lower()
    return found


def nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that is there."""
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder
