"""The LLM gate: a counting semaphore across processes, one kernel lock per permit.

Every user of a model takes its permit here: workers, ``ask``, the page, MCP. Permits belong to a *resource* (this
machine, one cloud account), not to a profile. The kernel frees the permit of a process that dies; a
``multiprocessing`` semaphore never would (``numbers.md``). Seed: "LLM concurrency" of the job queue.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agent.clock import SYSTEM_CLOCK, Clock
from agent.errors import AgentFault, SapwoodError
from agent.ids import content_id

if TYPE_CHECKING:
    from types import TracebackType

    from filelock import BaseFileLock

DEFAULT_LLM_PERMITS = 1  # two local models would not fit into a laptop's memory
DEFAULT_CLOUD_PERMITS = 4
INTERACTIVE_POLL_S = 0.002  # a person waits: hand-over within a few milliseconds
UNSEEN_POLL_S = 0.05  # how often a permit is looked for whose holder may have died unseen, while work waits for it

_MOST_INTERESTED = 64
_NETWORK_FILESYSTEMS = frozenset(
    {"afpfs", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "glusterfs", "gpfs", "lustre", "ncp", "ncpfs"}
    | {"nfs", "nfs3", "nfs4", "smb", "smb2", "smb3", "smbfs", "sshfs", "webdav"}
)
_log = logging.getLogger("sapwood.gate")


class GateBusy(SapwoodError):
    """No permit came free in the time that the caller had."""


class Permit:
    """The right to one call of a model on a resource. A context manager; releasing it twice is harmless."""

    def __init__(self, resource: str, slot: int, lock: BaseFileLock, on_release: Callable[[], None] | None) -> None:
        self.resource = resource
        self.slot = slot
        self._lock: BaseFileLock | None = lock
        self._on_release = on_release

    @property
    def is_held(self) -> bool:
        """Whether it has not been released yet."""
        return self._lock is not None

    def release(self) -> None:
        """Give the permit back and let the gate tell whoever waits. Never raises; may be called from any thread."""
        if self.drop():
            _tell(self._on_release)

    def drop(self) -> bool:
        """Give the permit back and tell nobody, because nothing was done with it; return whether it was held."""
        lock, self._lock = self._lock, None
        if lock is None:
            return False
        lock.release()
        return True

    def __enter__(self) -> Permit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class LlmGate:
    """The permits of one resource, shared with every other process that names the same folder.

    ``permits`` below 1 counts as 1: a gate without a permit could only ever block its worker. ``on_release`` is called
    after each release and each end of interactive interest; it should wake a worker if an LLM-bound row is due, and
    nobody otherwise. Raises ``AgentFault`` for a folder on a network drive, where locks are lost or kept for ever.
    """

    def __init__(
        self,
        folder: Path,
        resource: str,
        permits: int = DEFAULT_LLM_PERMITS,
        *,
        on_release: Callable[[], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.resource = resource
        self.permits = max(1, permits)
        self._on_release = on_release
        self._clock = clock
        self._folder = folder / _file_name(resource)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_network_folder(self._folder)

    def try_acquire(self) -> Permit | None:
        """Return a permit if one is free and no person waits for one. Does not block: what workers call."""
        if self.is_interest_held():
            return None
        return self._try_slots()

    def acquire(self, timeout_s: float | None = None, *, check: Callable[[], None] | None = None) -> Permit:
        """Block until a permit is ours; workers step back meanwhile. What a person's request calls.

        ``check`` is called at each look and may raise to give up. Raises ``GateBusy`` after ``timeout_s`` seconds
        (``None``: waits without end).
        """
        permit = self._try_slots()
        if permit is not None:
            return permit
        end = None if timeout_s is None else self._clock.monotonic() + timeout_s
        with self.interest():
            while True:
                permit = self._try_slots()
                if permit is not None:
                    return permit
                if check is not None:
                    check()
                if end is not None and self._clock.monotonic() >= end:
                    raise GateBusy(
                        "the model is busy", f"{self.resource}: no permit in {timeout_s:g} s", "try again in a moment"
                    )
                self._clock.sleep(INTERACTIVE_POLL_S)

    def is_free(self) -> bool:
        """Return whether ``try_acquire`` would succeed now; tells nobody. Does not block."""
        permit = self.try_acquire()
        return permit is not None and permit.drop()

    def count_free(self) -> int:
        """Return how many permits workers could take now; tells nobody. Does not block."""
        held: list[Permit] = []
        while len(held) < self.permits and (permit := self.try_acquire()) is not None:
            held.append(permit)
        return sum(permit.drop() for permit in held)

    @contextmanager
    def interest(self) -> Iterator[None]:
        """Say that a person waits for this resource: while it is held, workers take no new permit. Does not block."""
        # The mark in the file tells who only looks from who holds: two workers that look at the same moment must not
        # take each other's look for a person.
        marked: list[int] = []

        def mark(descriptor: int) -> None:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"1")
            marked.append(descriptor)

        lock = None
        for slot in range(_MOST_INTERESTED):
            lock = _try_lock(self._interest_file(slot), mark)
            if lock is not None:
                break
        try:
            yield
        finally:
            if lock is not None:
                os.ftruncate(marked[0], 0)
                lock.release()
                _tell(self._on_release)

    def is_interest_held(self) -> bool:
        """Return whether a live process holds interactive interest. Does not block; two calls of ``stat`` mostly."""
        for slot in range(_MOST_INTERESTED):
            path = self._interest_file(slot)
            try:
                is_marked = path.stat().st_size > 0
            except OSError:
                return False
            if is_marked and not self._is_left_behind(path):
                return True
        return False

    @staticmethod
    def _is_left_behind(path: Path) -> bool:
        opened: list[int] = []
        lock = _try_lock(path, opened.append)
        if lock is None:
            return False
        os.ftruncate(opened[0], 0)
        lock.release()
        return True

    def _try_slots(self) -> Permit | None:
        for slot in range(self.permits):
            lock = _try_lock(self._folder / f"permit-{slot}.lock")
            if lock is not None:
                return Permit(self.resource, slot, lock, self._on_release)
        return None

    def _interest_file(self, slot: int) -> Path:
        return self._folder / f"interest-{slot}.lock"


class Due(Protocol):
    """Says whether an LLM-bound row is due that no running worker will get to by itself."""

    def __call__(self) -> bool: ...


def serve_waiting(gate: LlmGate, is_due: Due, wake: Callable[[], None]) -> float | None:
    """Wake a worker if a row is due and a permit is free; return after how many seconds to look again.

    For the supervisor: a holder outside its pool (command line, MCP) may die unseen, and the kernel tells nobody. While
    something is due and unserved it calls this every 50 ms; ``None`` means not again until there is work. A person's
    request looks for itself. Does not block.
    """
    if not is_due():
        return None
    if gate.is_free():
        wake()
    return UNSEEN_POLL_S


def refuse_network_folder(folder: Path) -> None:
    """Raise ``AgentFault`` where the folder is seen to be on a network drive. An unknown file system passes."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    path = os.path.realpath(folder)
    nearest = ""
    kind = options = ""
    with suppress(OSError, psutil.Error):
        for partition in psutil.disk_partitions(all=True):
            root = partition.mountpoint
            if (path == root or path.startswith(root.rstrip("/\\") + os.sep)) and len(root) >= len(nearest):
                nearest, kind, options = root, partition.fstype.lower(), partition.opts
    # FUSE names its file systems fuse.sshfs or macfuse.sshfs.
    if kind.rpartition(".")[2] in _NETWORK_FILESYSTEMS or "remote" in options.split(",") or path.startswith("\\\\"):
        raise AgentFault(
            "locks cannot be kept on a network drive",
            f"{folder} is on {kind or 'a network share'}",
            "set SAPWOOD_HOME to a folder on this machine's own disk",
        )


def _try_lock(path: Path, on_acquired: Callable[[int], None] | None = None) -> BaseFileLock | None:
    # Imported here: a worker whose profile needs no permit never pays for it.
    from filelock import FileLock, Timeout

    # A fresh object each time, because a shared one lets every thread in that asks (filelock 315, 331). No soft
    # fallback: a marker file outlives its process. The file stays, so that all wait on the same inode.
    lock = FileLock(
        path,
        blocking=False,
        thread_local=False,
        fallback_to_soft=False,
        preserve_lock_file=True,
        on_acquired=on_acquired,
    )
    try:
        lock.acquire()
    except Timeout:
        return None
    return lock


def _tell(listener: Callable[[], None] | None) -> None:
    if listener is None:
        return
    try:
        listener()
    except Exception as error:
        # The permit is free whatever happens here; a waiter that was not woken looks by itself within its poll.
        _log.warning("nobody could be told that a permit came free: %s", type(error).__name__)


def _file_name(resource: str) -> str:
    plain = re.sub(r"[^a-z0-9.-]+", "-", resource.lower()).strip("-.")
    return plain if plain == resource else f"{plain[:40]}-{content_id(resource)[:8]}"
