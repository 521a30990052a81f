"""The main of a worker process: everything around the loop that needs a real process.

Logic is in ``loop``; here are signals, the life line, the wake-up socket, priority and the exit code. The supervisor
starts ``worker_main`` by its dotted name.
"""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import wait
from typing import TYPE_CHECKING

from agent import crash
from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import IntentWatcher
from agent.db import Connection, connect
from agent.db.connection import BUSY_TIMEOUT_MS
from agent.db.faults import FaultClass, classify
from agent.errors import SapwoodError
from agent.logs import start_logging
from agent.queue.claim import due_llm
from agent.queue.handling import HandlingFile
from agent.queue.registry import Registry
from agent.queue.wake import WakeSocket, register_worker, send_wake, wake_workers
from agent.queue.worker_args import EXIT_CORRUPT, EXIT_LEASE, EXIT_ORPHANED, LEAVE, STOP, WorkerArgs
from agent.system.memory import SystemMemory
from agent.system.priority import SystemPriority
from agent.worker.capacity import Capacity
from agent.worker.context import StopFlag, WorkerContext
from agent.worker.heartbeat import Heartbeat
from agent.worker.loop import Loop
from agent.worker.permits import Permits, load_opener
from agent.worker.profile import OPENER_KEY

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as LifeLine

Ring = Callable[[], None]

EXIT_UNUSABLE = 1  # the database or a job kind cannot be had; the log says why
_log = logging.getLogger("sapwood.worker")


def worker_main(args: WorkerArgs, life_line: LifeLine) -> int:
    """Work until told to stop and return the exit code (``agent/queue/worker_args.py``). Blocks; main thread only."""
    role = f"worker-{args.slot}"
    start_logging(args.paths, role, args.log_level)
    crash.arm(args.paths, role)
    SystemPriority().lower()
    stop = StopFlag()
    wake = WakeSocket()
    ring = partial(send_wake, (wake.port,))  # ends this worker's own sleep
    _obey_signals(stop, ring)
    watch = threading.Thread(target=_watch_life_line, args=(life_line, stop, ring), name="life line", daemon=True)
    watch.start()
    try:
        return _work(args, stop, wake, ring)
    except SapwoodError as error:
        _log.error("this worker cannot work: %s", error.title)
        return EXIT_CORRUPT if classify(error) is FaultClass.CORRUPT else EXIT_UNUSABLE
    finally:
        wake.close()


def _work(args: WorkerArgs, stop: StopFlag, wake: WakeSocket, ring: Ring) -> int:
    clock: Clock = SYSTEM_CLOCK
    registry = Registry.load(args.kind_names)
    intents = IntentWatcher(args.paths)
    intent = intents.current
    lease_ms = round(intent.queue.lease_seconds * 1000)
    connection = connect(args.paths.database, args.paths.write_turn)
    handling = HandlingFile.create(args.paths, args.worker_id, pid=os.getpid(), process_started_s=_started_s())

    def on_dead() -> None:
        stop.set(EXIT_LEASE)
        ring()
        _end_by(heartbeat.interval_s, EXIT_LEASE)

    heartbeat = Heartbeat(
        # Its own connection, outside the writers' turn: a heartbeat that waits is a lease that ends.
        lambda: connect(args.paths.database, create=False, busy_timeout_ms=min(BUSY_TIMEOUT_MS, lease_ms // 3)),
        lease_ms=lease_ms,
        clock=clock,
        on_dead=on_dead,
    )
    heartbeat.start()
    context = WorkerContext(connection, clock, intent, args.paths, registry, heartbeat, handling, stop, intents=intents)
    opener = context.shared[OPENER_KEY] = load_opener(args.open_profile)
    permits = Permits(
        args.paths,
        context.shared,
        opener,
        on_release=lambda: _wake_if_due(connection, registry, clock, permits.unbound),
    )
    loop = Loop(
        context=context,
        worker_id=args.worker_id,
        capacity=Capacity(connection, clock, frozenset(str(spec.kind) for spec in registry if spec.llm_bound)),
        permits=permits,
        waiter=WakeWaiter(wake, stop, clock),
        intent=lambda: intents.current,
        problem=lambda: intents.problem,
        random=random.random,
        rss_bytes=lambda: SystemMemory().rss_bytes(os.getpid()) or 0,
    )
    _log.info("worker %s is up (generation %d)", args.worker_id, args.generation)
    # A full disk is no reason to end and be started again and again (openhuman 3909): it is waited for here.
    loop.start(lambda: register_worker(connection, args.worker_id, wake.port, clock.now_ms()))
    code = loop.run()
    _log.info("worker %s ends with exit code %d", args.worker_id, code)
    heartbeat.close()
    handling.close()
    connection.close()
    return code


class WakeWaiter:
    """Sleeps on the wake-up socket; whatever is to end the sleep rings it, a stop too."""

    def __init__(self, wake: WakeSocket, stop: StopFlag, clock: Clock) -> None:
        self._wake = wake
        self._stop = stop
        self._clock = clock

    def wait(self, timeout_s: float) -> None:
        """Block until rung or the time is over, and forget the rings so far: the caller looks for work after it."""
        # The number, not the object: on Windows it is the handle of an event, which must not be read from.
        if wait([self._wake.fileno()], timeout_s):
            self._wake.drain()

    def rest(self, timeout_s: float) -> None:
        """Block until the worker is to stop or the time is over."""
        end = self._clock.monotonic() + timeout_s
        while not self._stop.is_leaving and (left := end - self._clock.monotonic()) > 0:
            self.wait(left)


def _obey_signals(stop: StopFlag, ring: Ring) -> None:
    def ask_to_stop(number: int, frame: object) -> None:
        del number, frame
        stop.set()
        ring()

    signal.signal(signal.SIGTERM, ask_to_stop)


def _watch_life_line(life_line: LifeLine, stop: StopFlag, ring: Ring) -> None:
    while True:
        try:
            message = life_line.recv_bytes()
        except (EOFError, OSError):
            # The supervisor is gone. Nothing is released: what this process was doing is for the next start to judge.
            os._exit(EXIT_ORPHANED)
        if message == STOP:
            stop.set()
            ring()
        elif message == LEAVE:
            stop.leave()
            ring()


def _end_by(grace_s: float, exit_code: int) -> None:
    # A handler that never looks, or a call that never returns, must not go on with what may run elsewhere.
    threading.Event().wait(grace_s)
    os._exit(exit_code)


def _wake_if_due(connection: Connection, registry: Registry, clock: Clock, unbound: frozenset[str]) -> None:
    if due_llm(connection, registry=registry, now_ms=clock.now_ms(), unbound=unbound):
        wake_workers(connection)


def _started_s() -> float:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    try:
        return float(psutil.Process().create_time())
    except (psutil.Error, OSError):
        return SYSTEM_CLOCK.now_ms() / 1000
