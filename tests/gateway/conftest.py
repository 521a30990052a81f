"""A gateway in a process of its own, and browsers and programs that talk to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess

import httpx
import pytest

from agent.actions.gateway_address import GatewayAddress, read_gateway, read_token
from agent.paths import Paths
from agent.system.companion import CompanionArgs, CompanionLine, Say
from agent.system.entry import enter

PROBE = "tests.gateway.probe:probe_main"
DEADLINE_S = 20.0


@dataclass
class Served:
    """A gateway that serves. ``line`` is the supervisor's end; closing it is the supervisor's death."""

    paths: Paths
    process: SpawnProcess
    line: CompanionLine
    address: GatewayAddress
    token: str
    clients: list[httpx.Client] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.address.origin

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def client(self) -> httpx.Client:
        """A program, or a browser that has not been let in."""
        client = httpx.Client(base_url=self.origin, timeout=DEADLINE_S, trust_env=False)
        self.clients.append(client)
        return client

    def link(self, place: str = "") -> str:
        answer = self.client().post("/link", json={"to": place}, headers=self.bearer)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["path"])

    def browser(self) -> httpx.Client:
        """A browser that came through a link."""
        client = self.client()
        entered = client.get(self.link())
        assert entered.status_code == 200, entered.text
        return client

    def wait_for_end(self, deadline_s: float = DEADLINE_S) -> int | None:
        self.process.join(deadline_s)
        return self.process.exitcode

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.process.is_alive():
            self.process.kill()
        self.process.join(DEADLINE_S)
        self.line.close()
        self.process.close()


Serve = Callable[..., Served]


def start(paths: Paths, target: str = PROBE) -> tuple[SpawnProcess, CompanionLine]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=True)
    args = CompanionArgs(paths, "gateway", os.getpid())
    process = context.Process(target=enter, args=(target, os.getpid(), args, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, CompanionLine(ours)


def heard(line: CompanionLine, word: Say, deadline_s: float = DEADLINE_S) -> dict[str, object]:
    """Wait for a word of the gateway and return its message."""
    end = time.monotonic() + deadline_s
    while line.poll(max(0.0, end - time.monotonic())):
        message = line.receive()
        if message is None:
            pytest.fail(f"the gateway ended before it said {word}")
        if message["say"] == word:
            return message
    pytest.fail(f"the gateway did not say {word} in {deadline_s} s")


@pytest.fixture
def serve(paths: Paths) -> Iterator[Serve]:
    """Return a function that starts a gateway with the probe's handlers and waits until it serves."""
    found: list[Served] = []
    with contextlib.ExitStack() as stack:

        def begin(target: str = PROBE) -> Served:
            process, line = start(paths, target)
            stack.callback(_end, process)
            heard(line, Say.UP)
            address, token = read_gateway(paths), read_token(paths)
            assert address is not None
            assert token is not None
            served = Served(paths, process, line, address, token)
            found.append(served)
            return served

        yield begin
        for served in found:
            served.close()


def _end(process: SpawnProcess) -> None:
    with contextlib.suppress(ValueError):  # it was closed
        process.kill()
        process.join(DEADLINE_S)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One gateway for the tests of a module that change nothing about it."""
    from agent.paths import paths_under

    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("gateway")
        patch.setenv("SAPWOOD_HOME", str(home))
        paths = paths_under(home).make()
        process, line = start(paths)
        try:
            heard(line, Say.UP)
            address, token = read_gateway(paths), read_token(paths)
            assert address is not None
            assert token is not None
            served = Served(paths, process, line, address, token)
        except BaseException:
            _end(process)
            raise
    yield served
    served.close()
