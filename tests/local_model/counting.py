"""A passage to a server that counts who is on the other side of it: open now, most at once, when each ended."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_TOKEN = b'"content":"'  # the head of a stream comes at once, and its first piece says nothing but who speaks


@dataclass
class Passing:
    """One connection: monotonic seconds of its begin, its first token, and its end by the client."""

    began: float
    answered: float | None = None
    ended: float | None = None


@dataclass
class Passage:
    """What went through: ``most`` connections were open at once."""

    address: str = ""
    most: int = 0
    passed: list[Passing] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def open_now(self) -> list[Passing]:
        with self.lock:
            return [each for each in self.passed if each.ended is None]

    def enter(self) -> Passing:
        with self.lock:
            one = Passing(time.monotonic())
            self.passed.append(one)
            self.most = max(self.most, sum(each.ended is None for each in self.passed))
            return one


@contextmanager
def counted(address: str) -> Iterator[Passage]:
    """Yield a passage to a server; it ends with the block."""
    target = urlsplit(address)
    passage = Passage()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        passage.address = f"http://127.0.0.1:{listener.getsockname()[1]}"

        def serve() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(target=_pass, args=(client, target, passage), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield passage


def _pass(client: socket.socket, target: object, passage: Passage) -> None:
    one = passage.enter()
    try:
        server = socket.create_connection((target.hostname, target.port))  # type: ignore[attr-defined]
    except OSError:
        one.ended = time.monotonic()
        client.close()
        return

    def back() -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if _TOKEN in data:
                    one.answered = one.answered or time.monotonic()
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)

    threading.Thread(target=back, daemon=True).start()
    with suppress(OSError):
        while data := client.recv(65_536):
            server.sendall(data)
    one.ended = time.monotonic()
    with suppress(OSError):
        server.shutdown(socket.SHUT_RDWR)
    server.close()
    client.close()
