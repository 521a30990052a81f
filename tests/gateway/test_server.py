"""The server without a process: who stands there with half a request is sent away, and when nobody wants anything."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from agent.clock import FakeClock
from agent.gateway import guard, server
from agent.gateway.events import Live
from agent.gateway.guard import Guard
from agent.gateway.links import Links
from agent.gateway.process import listen
from agent.gateway.server import Activity, QuietServer, configured
from agent.gateway.serving import Context
from agent.gateway.sessions import Sessions
from agent.paths import Paths

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _body(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


def served(paths: Paths, test: Callable[[int], Awaitable[None]]) -> None:
    """Run a test beside a server in one loop; ``test`` is given the port."""

    async def begin() -> None:
        async def look() -> dict[str, object]:
            return {}

        up = asyncio.Event()
        with listen(0) as listening:
            port = int(listening.getsockname()[1])
            context = Context(
                paths=paths, port=port, token="token", sessions=Sessions(), links=Links(), live=Live(look)
            )
            app = Starlette(routes=[Route("/rpc", _body, methods=["POST"])], middleware=[Middleware(Guard, context)])
            serving = QuietServer(configured(app), on_up=up.set, on_end=lambda: None)
            task = asyncio.create_task(serving.serve([listening]))
            await up.wait()
            async with asyncio.timeout(10):
                await test(port)
                serving.end()
                await task
            context.close()

    asyncio.run(begin())


def head(port: int, length: int) -> bytes:
    return (
        f"POST /rpc HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer token\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


@contextlib.asynccontextmanager
async def caller(port: int) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    found = await reader.readuntil(b"\r\n\r\n")
    length = int(found.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return found + await reader.readexactly(length)


@pytest.mark.parametrize("begun", [b"", b"POST /rpc HTTP/1.1\r\nHost: 127"])
def test_who_stands_there_with_half_a_head_is_sent_away(
    paths: Paths, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(server, "HEADERS_PATIENCE_S", 0.1)

    async def test(port: int) -> None:
        async with caller(port) as (reader, writer):
            writer.write(begun)
            assert await reader.read() == b""

    served(paths, test)


def test_who_stands_there_with_half_of_a_second_head_is_sent_away(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADERS_PATIENCE_S", 0.2)

    async def test(port: int) -> None:
        async with caller(port) as (reader, writer):
            writer.write(head(port, 2) + b"ab")
            assert (await answer_of(reader)).endswith(b"2")
            writer.write(b"POST /rpc HT")
            assert await reader.read() == b""

    served(paths, test)


def test_a_body_that_does_not_come_is_given_up_in_words(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_PATIENCE_S", 0.1)

    async def test(port: int) -> None:
        async with caller(port) as (reader, writer):
            writer.write(head(port, 10) + b"half")
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 408")
            assert b"too slowly" in answer

    served(paths, test)


def test_a_request_in_small_pieces_is_answered(paths: Paths) -> None:
    async def test(port: int) -> None:
        async with caller(port) as (reader, writer):
            for _ in range(2):
                for byte in head(port, 3) + b"abc":
                    writer.write(bytes([byte]))
                    await writer.drain()
                    await asyncio.sleep(0)
                assert (await answer_of(reader)).endswith(b"3")

    served(paths, test)


def test_it_is_idle_when_the_last_request_is_so_long_ago() -> None:
    clock = FakeClock()
    activity = Activity(clock)
    assert activity.until_idle(60) == 60
    clock.advance(59)
    assert activity.until_idle(60) == 1
    activity.begin()
    clock.advance(1000)
    assert activity.until_idle(60) == 60
    activity.begin()
    activity.end()
    assert activity.until_idle(60) == 60
    activity.end()
    clock.advance(20)
    assert activity.until_idle(60) == 40
    clock.advance(50)
    assert activity.until_idle(60) == 0
