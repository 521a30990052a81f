"""A loopback server that counts the calls in flight, and processes that call it under the gate."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.system.identity import ProcessIdentity, identify, is_alive
from tests.conftest import REPOSITORY


@dataclass
class Call:
    word: str
    pid: int
    parent: int
    at: float
    caller: ProcessIdentity | None = None
    """Who called, with its start time: by the end of a test the number alone may be somebody else's."""


@dataclass
class CallServer:
    """Answers ``call`` after a few milliseconds and ``hold`` never; ``most`` is the most that were in flight."""

    port: int = 0
    in_flight: int = 0
    most: int = 0
    calls: list[Call] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def seen(self, word: str) -> list[Call]:
        with self._lock:
            return [call for call in self.calls if call.word.partition(":")[0] == word]

    def serve(self, connection: socket.socket) -> None:
        with connection:
            word, pid, parent = connection.makefile().readline().split()
            at = time.monotonic()
            caller = identify(int(pid)) if int(pid) != os.getpid() else None
            with self._lock:
                self.calls.append(Call(word, int(pid), int(parent), at, caller))
                if word == "call":
                    self.in_flight += 1
                    self.most = max(self.most, self.in_flight)
            if word == "hold":
                try:
                    connection.recv(1)
                except OSError:
                    return
            elif word == "call":
                time.sleep(0.004)
                with self._lock:
                    self.in_flight -= 1
            connection.sendall(b"ok\n")


@pytest.fixture
def server() -> Iterator[CallServer]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    server = CallServer(listener.getsockname()[1])

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=server.serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield server
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@dataclass
class Callers:
    """Starts callers, as children or as nobody's children, and ends them all."""

    folder: Path
    server: CallServer
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _command(self, permits: int, mode: str, count: int) -> list[str]:
        return [
            *(sys.executable, "-m", "tests.gate.caller"),
            *(str(self.folder), str(permits), str(self.server.port), mode, str(count)),
        ]

    def start(self, permits: int, mode: str, count: int = 1) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(self._command(permits, mode, count), cwd=REPOSITORY)
        self.children.append(child)
        return child

    def start_orphan(self, permits: int, mode: str, count: int = 1) -> None:
        """Start one through a shell that ends at once, so that it is a child of no process of this test."""
        line = shlex.join(self._command(permits, mode, count))
        subprocess.run(["sh", "-c", f"{line} >/dev/null 2>&1 &"], cwd=REPOSITORY, check=True)

    def kill(self, pid: int) -> float:
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()

    def end(self) -> None:
        for child in self.children:
            child.kill()
            child.wait(10)
        for caller in {call.caller for call in self.server.calls if call.caller is not None}:
            if is_alive(caller):
                os.kill(caller.pid, signal.SIGKILL)


@pytest.fixture
def callers(tmp_path: Path, server: CallServer) -> Iterator[Callers]:
    callers = Callers(tmp_path / "permits", server)
    yield callers
    callers.end()
