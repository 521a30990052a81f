"""Waking a worker: one empty datagram to each live worker's loopback socket, nothing while idle.

Measured against polling ``data_version`` and file watching, a loopback datagram wakes in 0.45 ms and costs no wake-ups
(``numbers.md``). Readiness alone is the message. A receive socket never blocks and never sends (on Windows a UDP
socket that has sent learns of closed peers by failing its next receive); senders ignore every error, because the
five-second poll is the safety net. On Windows a named event stands behind the same interface.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.db import Connection

# The pool has four workers and the supervisor listens too. Whoever is left out sleeps on to its poll, and may be the
# only one that is idle: the bound is for an owner's very large pool only.
MAX_DATAGRAMS = 16

_PORTS = "SELECT wake_port FROM mem_tree_workers"

if sys.platform == "win32":
    import ctypes

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateEventW.restype = ctypes.c_void_p
    _kernel.CreateEventW.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_wchar_p]
    _kernel.OpenEventW.restype = ctypes.c_void_p
    _kernel.OpenEventW.argtypes = [ctypes.c_uint32, ctypes.c_int, ctypes.c_wchar_p]
    for _name in ("SetEvent", "ResetEvent", "CloseHandle"):
        getattr(_kernel, _name).argtypes = [ctypes.c_void_p]
    _EVENT_MODIFY_STATE = 0x0002

    def _event_name(port: int) -> str:
        return f"Local\\sapwood-wake-{port}"

    class WakeSocket:
        """What an idle worker sleeps on: give it to ``multiprocessing.connection.wait`` beside the life line."""

        def __init__(self) -> None:
            # No socket here: the number only makes the event's name, and is random so that no other agent has it.
            self.port = random.SystemRandom().randrange(1 << 40)
            handle = _kernel.CreateEventW(None, True, False, _event_name(self.port))
            if not handle:
                raise ctypes.WinError(ctypes.get_last_error())
            self._handle: int | None = handle

        def fileno(self) -> int:
            """Return the waitable handle."""
            if self._handle is None:
                raise ValueError("the wake event is closed")
            return self._handle

        def drain(self) -> None:
            """Forget all wake-ups received so far. Never blocks."""
            _kernel.ResetEvent(self._handle)

        def close(self) -> None:
            """Stop listening."""
            if self._handle is not None:
                _kernel.CloseHandle(self._handle)
                self._handle = None

    def send_wake(ports: Sequence[int]) -> None:
        """Wake the workers with these numbers. Never raises, never blocks."""
        for port in ports:
            handle = _kernel.OpenEventW(_EVENT_MODIFY_STATE, False, _event_name(port))
            if handle:
                _kernel.SetEvent(handle)
                _kernel.CloseHandle(handle)
else:

    class WakeSocket:
        """What an idle worker sleeps on: give it to ``multiprocessing.connection.wait`` beside the life line."""

        def __init__(self) -> None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self._socket.setblocking(False)
                self._socket.bind(("127.0.0.1", 0))
                self.port: int = self._socket.getsockname()[1]
            except BaseException:
                self._socket.close()
                raise

        def fileno(self) -> int:
            """Return the waitable descriptor."""
            return self._socket.fileno()

        def drain(self) -> None:
            """Forget all wake-ups received so far. Never blocks."""
            with contextlib.suppress(OSError):
                while True:
                    self._socket.recv(1)

        def close(self) -> None:
            """Stop listening."""
            self._socket.close()

    class _Sender:
        """A thread's socket to send from; closed with its thread, for nobody else could."""

        def __init__(self, own: socket.socket) -> None:
            self.pid = os.getpid()
            self.socket = own
            self.socket.setblocking(False)

        def __del__(self) -> None:
            self.socket.close()

    _senders = threading.local()

    def _sender() -> socket.socket:
        held: _Sender | None = getattr(_senders, "held", None)
        if held is None or held.pid != os.getpid():
            held = _senders.held = _Sender(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        return held.socket

    def send_wake(ports: Sequence[int]) -> None:
        """Wake the workers with these numbers. Never raises, never blocks."""
        for port in ports:
            with contextlib.suppress(OSError, OverflowError):
                _sender().sendto(b"", ("127.0.0.1", port))


def register_worker(connection: Connection, worker_id: str, port: int, now_ms: int, pid: int | None = None) -> None:
    """Store how to wake a worker, once at its start, in a transaction of its own."""
    with connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_workers (worker_id, pid, started_at_ms, wake_port) VALUES (?, ?, ?, ?)
            ON CONFLICT (worker_id) DO UPDATE SET pid = excluded.pid, wake_port = excluded.wake_port
            """,
            (worker_id, os.getpid() if pid is None else pid, now_ms, port),
        )


def unregister_workers(connection: Connection, worker_ids: Sequence[str]) -> None:
    """Forget workers that are gone, in a transaction of its own (without the turn: it is used while stopping)."""
    with connection.write(turn=False):
        connection.many("DELETE FROM mem_tree_workers WHERE worker_id = ?", [(each,) for each in worker_ids])


def unregister_all(connection: Connection) -> int:
    """Forget every worker: what a supervisor does at its start, when none can be alive. Reads first."""
    if connection.value("SELECT 1 FROM mem_tree_workers LIMIT 1") is None:
        return 0
    with connection.write():
        return connection.run("DELETE FROM mem_tree_workers")


def wake_ports(connection: Connection) -> list[int]:
    """Return the numbers of all live workers (of a pool beyond any reason: of 16 by chance).

    Read each time, so that a new worker is never missed.
    """
    ports = [row[0] for row in connection.all(_PORTS)]
    return ports if len(ports) <= MAX_DATAGRAMS else random.sample(ports, MAX_DATAGRAMS)


def wake_workers(connection: Connection) -> None:
    """Wake the live workers, one empty datagram to each. Costs one read; errors of sending are ignored."""
    send_wake(wake_ports(connection))
