"""``sapwood doctor``: looks at everything and says how to mend it. Works without a healthy memory or intent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config import Intent, load_intent
from agent.errors import ConfigBroken, SapwoodError
from agent.paths import Paths, find_paths

if TYPE_CHECKING:
    from agent.db import Connection

MINIMUM_PYTHON = (3, 11)
LOW_SPACE_BYTES = 500_000_000
LARGE_WAL_BYTES = 128 * 1024 * 1024
# A doctor waits less than a worker: whoever holds the file that long is itself the finding.
BUSY_TIMEOUT_MS = 3_000
FAILURES_NAMED = 5

NETWORK_FILE_SYSTEMS = frozenset(
    {"9p", "afpfs", "afs", "ceph", "cifs", "davfs", "fuse.rclone", "fuse.sshfs", "glusterfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "smb", "smb2", "smb3", "smbfs", "webdav"}
)


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``remedy`` says what to do where it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All of them; ``ok`` where each is."""

    ok: bool
    checks: tuple[Check, ...]


def doctor(paths: Paths | None = None) -> Diagnosis:
    """Check environment, intent, memory and queue. Never raises for what it finds; blocks for some seconds at most."""
    paths = find_paths() if paths is None else paths
    checks: list[Check] = []
    for name, look in _LOOKS:
        try:
            checks.extend(look(paths))
        except Exception as error:  # a check that fails is a finding, whatever it was
            hint = error.hint if isinstance(error, SapwoodError) else ""
            checks.append(Check(name, False, f"{type(error).__name__}: {error}", hint or "please report this"))
    return Diagnosis(all(check.ok for check in checks), tuple(checks))


def _python(_paths: Paths) -> Iterator[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    yield Check(
        "python",
        sys.version_info >= MINIMUM_PYTHON,
        f"{found}, {sys.executable}",
        "install Python 3.11 or newer",
    )


def _sqlite(_paths: Paths) -> Iterator[Check]:
    from agent.db.connection import MINIMUM_SQLITE, sqlite_version

    found = sqlite_version()
    yield Check(
        "sqlite",
        found >= MINIMUM_SQLITE,
        f"{'.'.join(map(str, found))} (needed: {'.'.join(map(str, MINIMUM_SQLITE))} or newer)",
        "install a current apsw: pip install --upgrade apsw",
    )


def _folders(paths: Paths) -> Iterator[Check]:
    for name, folder in (
        ("config folder", paths.config_dir),
        ("data folder", paths.data_dir),
        ("log folder", paths.log_dir),
        ("runtime folder", paths.runtime_dir),
    ):
        remedy = f"make {folder} yours and writable, or set SAPWOOD_HOME to another folder"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = folder / f".doctor.{os.getpid()}"
            probe.write_bytes(b"x")
            probe.unlink()
        except OSError as error:
            yield Check(name, False, f"{folder}: {error.strerror or error}", remedy)
        else:
            yield Check(name, True, str(folder))


def _space(paths: Paths) -> Iterator[Check]:
    import shutil

    free = shutil.disk_usage(_nearest(paths.data_dir)).free
    yield Check("free space", free >= LOW_SPACE_BYTES, size_words(free), f"make room on the disk of {paths.data_dir}")


def _network(paths: Paths) -> Iterator[Check]:
    kind = file_system_of(_nearest(paths.data_dir))
    yield Check(
        "local disk",
        kind not in NETWORK_FILE_SYSTEMS,
        kind or "unknown file system",
        "set SAPWOOD_HOME to a folder on this machine's own disk; network folders lose locks",
    )


def _locks(paths: Paths) -> Iterator[Check]:
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


def _wal(paths: Paths) -> Iterator[Check]:
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


def _config(paths: Paths) -> Iterator[Check]:
    try:
        loaded = load_intent(paths)
    except ConfigBroken as error:
        yield Check("config", False, error.detail, error.hint)
        return
    if loaded.problem is not None:
        yield Check(
            "config",
            False,
            f"{loaded.problem}; the last good copy is in use",
            f"mend {paths.config_file}, or copy {paths.last_good_config} over it",
        )
    else:
        yield Check("config", True, str(paths.config_file) if paths.config_file.exists() else "not written yet")
    yield from _sources(loaded.intent)


def _sources(intent: Intent) -> Iterator[Check]:
    for source in intent.sources:
        missing = [path for path in source.paths if not Path(path).exists()]
        yield Check(
            f"source {source.id}",
            not missing,
            f"not there: {', '.join(missing)}" if missing else ", ".join(source.paths),
            "plug the disk in or put the folder back; nothing is forgotten meanwhile",
        )


def _memory(paths: Paths) -> Iterator[Check]:
    from agent.db import faults
    from agent.db.connection import connect

    if not paths.database.exists():
        yield Check("database", True, "none yet; the first command makes it")
        return
    try:
        connection = connect(paths.database, paths.write_turn, busy_timeout_ms=BUSY_TIMEOUT_MS, create=False)
    except SapwoodError as error:
        yield Check("database", False, str(error), error.hint)
        return
    try:
        yield Check("database", True, f"{paths.database}, {size_words(paths.database.stat().st_size)}")
        yield Check("schema", True, f"version {connection.value('PRAGMA user_version')}")
        yield from _integrity(connection)
        yield from _wal_size(paths)
        yield from _queue(connection)
    except Exception as error:
        if not faults.is_database_fault(error):
            raise
        yield Check(
            "integrity",
            False,
            str(error),
            f"move {paths.database} away and start again: the memory grows anew from its sources",
        )
    finally:
        connection.close()


def _integrity(connection: Connection) -> Iterator[Check]:
    found = [str(row[0]) for row in connection.all("PRAGMA quick_check(5)")]
    sound = found == ["ok"]
    yield Check(
        "integrity",
        sound,
        "sound" if sound else "; ".join(found),
        "move chunks.db away and start again: the memory grows anew from its sources",
    )


def _wal_size(paths: Paths) -> Iterator[Check]:
    # Asked of the file system only: opening the side file here could drop SQLite's locks on it.
    try:
        size = paths.database.with_name(paths.database.name + "-wal").stat().st_size
    except FileNotFoundError:
        size = 0
    yield Check(
        "log size",
        size <= LARGE_WAL_BYTES,
        size_words(size),
        "a program keeps an old view of the memory open; close other `sapwood` commands and restart the agent",
    )


def _queue(connection: Connection) -> Iterator[Check]:
    from agent.queue.counts import count_jobs

    now_ms = connection.value("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)")
    counts = count_jobs(connection, now_ms)
    yield Check(
        "queue",
        True,
        f"{counts.ready} due, {counts.deferred} deferred, {counts.running} running, {counts.failed} failed",
    )
    failed = connection.all(
        """
        SELECT kind, coalesce(failure_reason, 'error'), count(*), max(last_error)
          FROM mem_tree_jobs
         WHERE status = 'failed'
         GROUP BY 1, 2
         ORDER BY 3 DESC
         LIMIT ?
        """,
        (FAILURES_NAMED,),
    )
    for kind, reason, count, last_error in failed:
        yield Check(
            f"failed {kind}",
            False,
            f"{count} × {reason}" + (f": {last_error}" if last_error else ""),
            remedy_of(reason),
        )
    if not failed:
        yield Check("failed jobs", True, "none")
    stale = connection.value(
        "SELECT count(*) FROM mem_tree_jobs WHERE status = 'running' AND locked_until_ms < ?", (now_ms,)
    )
    yield Check(
        "leases",
        not stale,
        f"{stale} past their end" if stale else "none past its end",
        "they are taken back when the agent runs: `sapwood run`",
    )


def _agent(paths: Paths) -> Iterator[Check]:
    from agent.actions.home import NOT_RUNNING
    from agent.supervisor.control import call, running_agent

    found = running_agent(paths)
    if found is None:
        # Not a fault: an owner may well want to look only.
        yield Check("agent", True, NOT_RUNNING)
        return
    try:
        call(paths, "ping", 3.0)
    except SapwoodError as error:
        yield Check("agent", False, str(error), "end it with `sapwood stop`, then `sapwood run`")
    else:
        yield Check("agent", True, f"running, process {found.pid}")


_LOOKS: tuple[tuple[str, Callable[[Paths], Iterator[Check]]], ...] = (
    ("python", _python),
    ("sqlite", _sqlite),
    ("folders", _folders),
    ("free space", _space),
    ("local disk", _network),
    ("file locks", _locks),
    ("write-ahead log", _wal),
    ("config", _config),
    ("database", _memory),
    ("agent", _agent),
)

_REMEDIES = {
    "crash_loop": "it ended its worker three times; remove or mend what it reads, then `sapwood retry ID`",
    "budget_exhausted": "raise the limit or wait for the next day, then `sapwood retry --all`",
    "unknown_kind": "it was written by another version; `sapwood cancel ID` removes it from the list",
    "unreadable_row": "it was written by another version; `sapwood cancel ID` removes it from the list",
}


def remedy_of(reason: str) -> str:
    """Return what helps against failures with this code."""
    return _REMEDIES.get(reason, "see `sapwood jobs --status failed`; mend the cause, then `sapwood retry --all`")


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


def _nearest(folder: Path) -> Path:
    while not folder.exists() and folder.parent != folder:
        folder = folder.parent
    return folder


def size_words(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
