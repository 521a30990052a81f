"""What programs hand in to a real agent: found within a second, and never lost once it was acknowledged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agent.actions.gateway_address import read_token, running_gateway
from agent.actions.home import open_home
from agent.actions.opening import page_link
from agent.paths import Paths
from agent.recall.levels import count_source
from tests.assistants.conftest import environ_of
from tests.cli.agents import COMMAND, run, running_agent, said
from tests.generated.vault import write_vault
from tests.generated.words import made_up

WaitUntil = Callable[..., None]

PUSHES = 100
THREADS = 20
NOTES = 3_000


class Program:
    """A program of the owner's with the token."""

    def __init__(self, paths: Paths) -> None:
        page_link(paths)
        address, token = running_gateway(paths), read_token(paths)
        assert address is not None
        self.url = address.origin
        self.bearer = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, **params: Any) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        with httpx.Client(base_url=self.url, headers=self.bearer, trust_env=False, timeout=60) as client:
            answer = client.post("/rpc", json=request).json()
        assert "error" not in answer, answer
        return answer["result"]

    def push(self, word: str, source_id: str = "zoo") -> Any:
        text = f"The word of this note is {word}."
        return self.call("memory.ingest", source_id=source_id, document={"text": text, "key": word})

    def finds(self, word: str) -> bool:
        return any(word in hit["text"] for hit in self.call("memory.search", query=word, limit=3)["hits"])


def push_all(program: Program, words: list[str]) -> list[str]:
    """Push from many threads at once and return what was acknowledged."""
    acknowledged: list[str] = []

    def some(mine: list[str]) -> None:
        for word in mine:
            with suppress(httpx.HTTPError):
                program.push(word)
                acknowledged.append(word)

    threads = [threading.Thread(target=some, args=(words[at::THREADS],)) for at in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return acknowledged


def test_what_is_pushed_is_found_within_a_second_and_an_assistant_finds_it_too(
    paths: Paths, wait_until: WaitUntil, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_agent(paths, wait_until, "--headless"):
        program = Program(paths)
        kept = program.push(made_up(1))
        began = time.monotonic()
        assert kept["notes"] == []
        wait_until(lambda: program.finds(made_up(1)), 5, "what was pushed")
        waited = time.monotonic() - began
        with capsys.disabled():
            print(f"\nthe first push was found after {waited * 1000:.0f} ms")
        # The first one also reads the vectors for the first time.
        assert waited < 2
        program.push(made_up(2))
        began = time.monotonic()
        wait_until(lambda: program.finds(made_up(2)), 5, "what was pushed")
        assert time.monotonic() - began < 1
        assert made_up(2) in asyncio.run(searched_over_http(program, made_up(2)))


async def searched_over_http(program: Program, query: str) -> str:
    """Return what the official client is answered on the page's address."""
    import httpx2
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async with (
        httpx2.AsyncClient(headers=program.bearer, trust_env=False) as client,
        streamable_http_client(f"{program.url}/mcp", http_client=client) as (read, write, *_),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        found: Any = await session.call_tool("search_memory", {"query": query})
        return "\n".join(each.text for each in found.content)


@pytest.mark.slow
def test_a_hundred_pushes_beside_four_busy_workers_are_all_found(
    paths: Paths, tmp_path: Path, wait_until: WaitUntil
) -> None:
    write_vault(tmp_path / "vault", NOTES)
    assert run(paths, "add", str(tmp_path / "vault")).returncode == 0
    with running_agent(paths, wait_until, "--headless", "--workers", "4"):
        wait_until(lambda: len(said(paths).get("workers", ())) == 4, 60, "four workers")
        program = Program(paths)
        words = [made_up(number) for number in range(100, 100 + PUSHES)]
        assert sorted(push_all(program, words)) == sorted(words)
        with open_home(paths) as home:
            wait_until(lambda: count_source(home.connection, "zoo").items == PUSHES, 60, "all that was pushed")
        for word in words:
            assert program.finds(word)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_what_was_acknowledged_outlives_the_death_of_everything(
    paths: Paths, tmp_path: Path, wait_until: WaitUntil
) -> None:
    write_vault(tmp_path / "vault", NOTES)
    assert run(paths, "add", str(tmp_path / "vault")).returncode == 0
    words = [made_up(number) for number in range(100, 100 + PUSHES)]
    acknowledged: list[str] = []
    with running_agent(paths, wait_until, "--headless", "--workers", "4") as agent:
        program = Program(paths)
        family = [psutil.Process(agent.pid), *psutil.Process(agent.pid).children(recursive=True)]

        def kill_in_the_middle() -> None:
            wait_until(lambda: len(list((paths.inbox / "zoo").glob("*.json"))) > PUSHES // 3, 30, "some pushes")
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    os.kill(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill_in_the_middle)
        killer.start()
        acknowledged = push_all(program, words)
        killer.join()
        agent.wait(10)
    assert PUSHES // 4 < len(acknowledged) < PUSHES
    with running_agent(paths, wait_until, "--headless"):
        program = Program(paths)
        wait_until(lambda: all(program.finds(word) for word in acknowledged), 90, "all that was acknowledged")


def test_an_address_without_a_token_serves_no_assistant(paths: Paths, wait_until: WaitUntil) -> None:
    with running_agent(paths, wait_until, "--headless"):
        program = Program(paths)
        with httpx.Client(base_url=program.url, trust_env=False, timeout=30) as client:
            assert client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}).status_code == 401
            assert client.get("/mcp", headers=program.bearer).status_code == 405


def test_the_command_serves_the_agents_own_home(paths: Paths) -> None:
    # A client may start it with nothing but what `sapwood mcp config` said.
    done = subprocess.run(
        [*COMMAND, "mcp"], input=b"", capture_output=True, env=environ_of(paths), timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_small_answers_are_sent_at_once() -> None:
    import socket

    from agent.gateway.process import listen

    # asyncio sets TCP_NODELAY on sockets that name their protocol alone; without it an answer waits 40 ms for an ACK.
    with listen(0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
