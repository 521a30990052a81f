"""The server as a process of its own, for tests and benches whose own threads must not slow it."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.scripted.behaviour import BEHAVIOURS, Behaviour
from tests.scripted.record import Call, calls_from
from tests.scripted.server import CALLS, CONTROL

REPOSITORY = Path(__file__).resolve().parents[2]


class Spawned:
    """A server in another process; ``calls`` are read from its log, what it does is told to it over HTTP."""

    def __init__(self, host: str, port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.host, self.port, self.log, self.process = host, port, log, process

    @property
    def address(self) -> str:
        return f"http://{self.host}:{self.port}"

    def base_url(self, provider: str) -> str:
        return f"{self.address}/v1" if provider == "openai" else self.address

    def use(self, behaviour: Behaviour | str, model: str = "", where: Iterable[str] = CALLS) -> None:
        self.order(use=_named(behaviour).to_json(), model=model, where=list(where))

    def queue(self, *behaviours: Behaviour | str) -> None:
        self.order(queue=[_named(each).to_json() for each in behaviours])

    def release(self) -> None:
        self.order(release=True)

    def hold(self) -> None:
        self.order(hold=True)

    def clear(self) -> None:
        """Forget the most that were in flight; the log keeps its calls."""
        self.order(clear=True)

    def calls(self, kind: str = "") -> list[Call]:
        return [call for call in calls_from(self.log) if not kind or call.kind == kind]

    @property
    def in_flight(self) -> int:
        return int(self.order()["in_flight"])

    @property
    def most(self) -> int:
        return int(self.order()["most"])

    def order(self, **what: Any) -> dict[str, Any]:
        """Tell the server something and return its state: ``calls``, ``in_flight``, ``most``."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            body = json.dumps(what).encode("utf-8")
            connection.request("POST", CONTROL, body, {"Content-Type": "application/json"})
            state: dict[str, Any] = json.loads(connection.getresponse().read())
            return state
        finally:
            connection.close()


def _named(behaviour: Behaviour | str) -> Behaviour:
    return BEHAVIOURS[behaviour] if isinstance(behaviour, str) else behaviour


@contextmanager
def spawned(log: Path, host: str = "127.0.0.1", *args: str) -> Iterator[Spawned]:
    """Yield a server in a process of its own, which ends with this block or with this process."""
    argv = [sys.executable, "-m", "tests.scripted", "--host", host, "--log", str(log), *args]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())
            yield Spawned(host, told["port"], log, process)
        finally:
            process.stdin.close()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
