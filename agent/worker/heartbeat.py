"""Keeping the leases of what is being handled: a thread of its own, because time limit and lease are different things.

It renews at a third of the lease on its own connection and never queues behind other writers. While nothing is held it
is blocked and causes no wake-ups. A worker that could renew nothing for a whole lease stops by itself: what it holds
may be running elsewhere by then (solid_queue 778, leapmux 403).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agent.db import faults
from agent.queue.settle import renew_leases

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.db import Connection
    from agent.queue.types import Job

RENEWALS_PER_LEASE = 3
RETRY_S = 5.0

Renew = Callable[["Connection", "Sequence[Job]", int], "list[int]"]
_log = logging.getLogger("sapwood.worker")


class Heartbeat:
    """Renews the leases of the jobs that are held. ``on_dead`` is called once, in the thread, after a lease in vain.

    ``connect`` is called in the thread, at the first renewal.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        lease_ms: int,
        clock: Clock,
        on_dead: Callable[[], None],
        renew: Renew = renew_leases,
    ) -> None:
        self.lease_ms = lease_ms
        self._connect = connect
        self._clock = clock
        self._on_dead = on_dead
        self._renew = renew
        self._connection: Connection | None = None
        self._held: tuple[Job, ...] = ()
        self._lost: frozenset[tuple[int, str | None]] = frozenset()
        self._safe_at = 0.0
        self._is_failing = False
        self._is_dozing = False
        self._is_closed = False
        self._bell = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def interval_s(self) -> float:
        """The time between two renewals in seconds."""
        return self.lease_ms / RENEWALS_PER_LEASE / 1000

    def start(self) -> None:
        """Start the thread; it is blocked until something is held."""
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """End the thread. Blocks until it ended or the time is over."""
        self._is_closed = True
        self._bell.set()
        if self._thread is not None:
            self._thread.join(timeout_s)

    def hold(self, jobs: Sequence[Job]) -> None:
        """Keep the leases of these freshly claimed jobs from now on, and of no others. Costs no system call mostly."""
        self._lost = frozenset()
        self._safe_at = self._clock.monotonic()
        self._held = tuple(jobs)
        if self._is_dozing:
            self._bell.set()

    def let_go(self) -> None:
        """Keep nothing: what was held is settled."""
        self._held = ()

    @property
    def has_lost(self) -> bool:
        """Whether any lease of what is held was found lost."""
        return bool(self._lost)

    def is_lost(self, job: Job) -> bool:
        """Return whether a renewal found that the lease of this claim is somebody else's."""
        return (job.id, job.lease_token) in self._lost

    def beat(self) -> float | None:
        """Renew once; return after how many seconds to do it again, ``None`` once it is too late for that."""
        held, began = self._held, self._clock.monotonic()
        if not held:
            return self.interval_s
        try:
            if self._connection is None:
                self._connection = self._connect()
            lost = set(self._renew(self._connection, held, self._clock.now_ms() + self.lease_ms))
        except Exception as error:
            # Whatever it is, the lease runs on: only the time that is left decides.
            if not self._is_failing:
                _log.warning("a lease could not be renewed (%s)", faults.classify(error))
            self._is_failing = True
            if (self._clock.monotonic() - self._safe_at) * 1000 >= self.lease_ms:
                return None
            return min(RETRY_S, self.interval_s / 4)
        self._is_failing = False
        if held is self._held:
            self._safe_at = max(self._safe_at, began)
            # A job that was settled while this renewal ran is not lost, it is over; nobody asks for it any more.
            self._lost = self._lost | {(job.id, job.lease_token) for job in held if job.id in lost}
        return self.interval_s

    def _run(self) -> None:
        pause: float | None = self.interval_s
        while not self._is_closed:
            if not self._held:
                self._doze()
                pause = self.interval_s
                continue
            if self._bell.wait(pause):
                self._bell.clear()
                continue
            pause = self.beat()
            if pause is None:
                _log.error("no lease could be renewed for %.0f s: this worker stops", self.lease_ms / 1000)
                self._on_dead()
                return
        if self._connection is not None:
            self._connection.close()

    def _doze(self) -> None:
        self._is_dozing = True
        # Looked at again after the flag was set: ``hold`` reads the flag after it has set what is held.
        if not self._held and not self._is_closed:
            self._bell.wait()
        self._is_dozing = False
        self._bell.clear()
