"""A process that calls the test server under the gate: ``caller.py FOLDER PERMITS PORT MODE COUNT``."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

from agent.gate import LlmGate


def call(port: int, word: str) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"{word} {os.getpid()} {os.getppid()}\n".encode())
        connection.recv(16)


def main() -> None:
    folder, permits, port, mode, count = sys.argv[1:]
    gate = LlmGate(Path(folder), "local", int(permits))
    if mode == "hold":
        with gate.acquire():
            call(int(port), "hold")
    elif mode == "interest":
        with gate.interest():
            call(int(port), "hold")
    elif mode == "woken":
        wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wake.bind(("127.0.0.1", 0))
        call(int(port), f"listening:{wake.getsockname()[1]}")
        while (permit := gate.try_acquire()) is None:
            wake.recv(1)
        with permit:
            call(int(port), "served")
    else:
        for _ in range(int(count)):
            if mode == "interactive":
                permit = gate.acquire()
            else:
                while (permit := gate.try_acquire()) is None:
                    time.sleep(0.001)
            with permit:
                call(int(port), "call")


if __name__ == "__main__":
    main()
