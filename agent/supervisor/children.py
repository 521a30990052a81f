"""Worker processes: started from the main thread, watched by their sentinels, tied to this process by a life line."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any, Protocol

from agent.errors import AgentFault
from agent.ids import random_id
from agent.queue.worker_args import EXIT_CORRUPT, EXIT_LEASE, EXIT_RECYCLE, LEAVE, STOP, WorkerArgs
from agent.supervisor.result import SupervisorArgs
from agent.supervisor.slots import Exit, Slot
from agent.system.entry import enter
from agent.system.parent import ProcessGroup, child_group

Lines = tuple[Any, Any]
"""Our end of a life line and the child's: two ``multiprocessing`` connections, of another class on Windows."""

_log = logging.getLogger("sapwood.supervisor")


class LifeLine(Protocol):
    """The supervisor's end of a child's life line: a pipe on POSIX, a named pipe on Windows."""

    def send_bytes(self, buf: bytes, /) -> None: ...
    def close(self) -> None: ...


@dataclass
class Child:
    """One worker process and what the supervisor wants of it."""

    slot: Slot
    worker_id: str
    process: SpawnProcess
    life_line: LifeLine
    pid: int
    started_at: float
    """Monotonic seconds."""
    ended_for: Exit | None = None
    """Set where the supervisor told it to end: ORDERED for good, FRESH to be replaced."""
    told_at: float | None = None
    over_limit: str | None = None
    """Which limit it was killed for."""
    idle_since: float | None = None
    first_rss: int | None = None
    rss: int | None = None
    job_id: int | None = field(default=None)

    def tell_to_stop(self, how: Exit, now: float) -> None:
        """Ask it to leave its job at the next check and to end."""
        self.slot.stopping()
        self.ended_for = how
        if self.told_at is None:
            self.told_at = now
            with contextlib.suppress(OSError):
                self.life_line.send_bytes(STOP)

    def tell_to_leave(self) -> None:
        """Ask it to end after the job in hand, however long that takes: a call that is under way is not thrown away."""
        self.slot.stopping()
        self.ended_for = Exit.ORDERED
        with contextlib.suppress(OSError):
            self.life_line.send_bytes(LEAVE)

    def kill(self) -> None:
        """End it now. A process that is gone already is no error."""
        with contextlib.suppress(OSError, ValueError):
            self.process.kill()

    def terminate(self) -> None:
        """Ask the system to end it. A process that is gone already is no error."""
        with contextlib.suppress(OSError, ValueError):
            self.process.terminate()


@dataclass(frozen=True)
class Death:
    """How a worker process ended and what follows for its slot and its row."""

    child: Child
    exit_code: int | None
    how: Exit
    counts_as_crash: bool
    corrupt: bool = False

    def in_words(self) -> str:
        """Return the end as a person would read it."""
        if self.child.over_limit is not None:
            return self.child.over_limit
        code = self.exit_code
        return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


def judge(child: Child, exit_code: int | None, handled_a_job: bool) -> Death:
    """Return what an exit means. A death that was ordered counts no crash, one by a limit always does."""
    if child.over_limit is not None:
        # The row that ran past its limit answers for it and is parked at three; the slot is to blame only without one.
        return Death(child, exit_code, Exit.FRESH if handled_a_job else Exit.FAILURE, counts_as_crash=True)
    if exit_code == EXIT_CORRUPT:
        return Death(child, exit_code, Exit.FAILURE, counts_as_crash=False, corrupt=True)
    if child.ended_for is not None:
        return Death(child, exit_code, child.ended_for, counts_as_crash=False)
    if exit_code == EXIT_RECYCLE:
        return Death(child, exit_code, Exit.FRESH, counts_as_crash=False)
    return Death(child, exit_code, Exit.FAILURE, counts_as_crash=exit_code != EXIT_LEASE)


def spawn(
    context: SpawnContext, group: ProcessGroup, target: str, args: object, lines: Lines, name: str
) -> tuple[SpawnProcess, int]:
    """Start ``target(args, its end of the line)`` in a process of its own, tied to this one; return it and its pid.

    ``lines`` are our end and its end of the life line; the latter is closed here. Main thread only: the kernel ends a
    child with the thread that started it, not with the process (PDEATHSIG). Raises ``OSError``, our end closed.
    """
    if threading.current_thread() is not threading.main_thread():
        raise AgentFault("processes are started from the main thread only", threading.current_thread().name)
    ours, theirs = lines
    process = context.Process(target=enter, args=(target, os.getpid(), args, theirs), name=name, daemon=True)
    try:
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    pid = process.pid if process.pid is not None else 0
    group.adopt(pid)
    return process, pid


class Children:
    """The live worker processes by sentinel."""

    def __init__(self, args: SupervisorArgs, group: ProcessGroup | None = None) -> None:
        if threading.current_thread() is not threading.main_thread():
            # The kernel ends a child with the thread that started it, not with the process (PDEATHSIG).
            raise AgentFault("workers are started from the main thread only", threading.current_thread().name)
        self._args = args
        self._group = child_group() if group is None else group
        self._context = multiprocessing.get_context("spawn")
        self._by_sentinel: dict[int, Child] = {}

    def __iter__(self) -> Iterator[Child]:
        return iter(list(self._by_sentinel.values()))

    def __len__(self) -> int:
        return len(self._by_sentinel)

    @property
    def sentinels(self) -> list[int]:
        """What becomes ready when a child ends."""
        return list(self._by_sentinel)

    def of_slot(self, slot: Slot) -> Child | None:
        """Return the process of a slot, or ``None``."""
        return next((child for child in self._by_sentinel.values() if child.slot is slot), None)

    def start(self, slot: Slot, now: float) -> Child:
        """Start a process for a slot; returns at once, long before the child is up. Raises ``OSError``."""
        reading, writing = self._context.Pipe(duplex=False)
        slot.started()
        args = WorkerArgs(
            paths=self._args.paths,
            worker_id=random_id(),
            kind_names=self._args.kind_names,
            slot=slot.index,
            generation=slot.generation,
            parent_pid=os.getpid(),
            log_level=self._args.log_level,
        )
        if self._args.open_profile is not None:
            args = replace(args, open_profile=self._args.open_profile)
        lines = (writing, reading)
        process, pid = spawn(self._context, self._group, self._args.worker, args, lines, f"worker-{slot.index}")
        child = Child(slot, args.worker_id, process, writing, pid, now)
        self._by_sentinel[process.sentinel] = child
        _log.info("worker %d.%d is process %d", slot.index, slot.generation, pid)
        return child

    def reap(self, child: Child) -> int | None:
        """Take the exit code of a child that has ended and forget it."""
        self._by_sentinel.pop(child.process.sentinel, None)
        child.process.join()
        code = child.process.exitcode
        child.life_line.close()
        child.process.close()
        return code

    def by_sentinel(self, sentinel: object) -> Child | None:
        """Return the child that a ready sentinel belongs to."""
        return self._by_sentinel.get(sentinel) if isinstance(sentinel, int) else None
