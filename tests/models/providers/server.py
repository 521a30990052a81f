"""A raw server on loopback that says exactly what a test tells it to, and sees exactly what a client does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

Handler = Callable[["Asked"], Awaitable[None]]


@dataclass
class Asked:
    """One request, and the way to answer it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def send(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def answer(
        self, status: int, body: object, headers: dict[str, str] | None = None, kind: str = "application/json"
    ) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        lines = {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.send(f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + data)

    async def start_stream(self, kind: str = "text/event-stream") -> None:
        await self.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())

    async def chunk(self, text: str) -> None:
        data = text.encode()
        await self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    async def events(self, *events: object) -> None:
        """Stream events of JSON, and the end of them."""
        await self.start_stream()
        for event in events:
            await self.chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
        await self.end_stream()

    async def lines(self, *lines: object) -> None:
        """Stream lines of JSON, as Ollama does."""
        await self.start_stream("application/x-ndjson")
        for line in lines:
            await self.chunk(json.dumps(line) + "\n")
        await self.end_stream()

    async def wait_for_the_end(self) -> None:
        """Return when the client has closed the connection."""
        while await self.reader.read(4_096):
            pass


@dataclass
class Server:
    """``script`` answers each request; ``asked`` has them all; ``gone_at`` is when connections ended (monotonic)."""

    script: Handler
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]


@asynccontextmanager
async def serving(script: Handler, host: str = "127.0.0.1") -> AsyncIterator[Server]:
    """Serve on a free port until the block is left."""
    server = Server(script)
    tasks: set[asyncio.Task[None]] = set()
    writers: set[asyncio.StreamWriter] = set()

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        writers.add(writer)
        try:
            while (asked := await _request(reader, writer)) is not None:
                server.asked.append(asked)
                server.arrived.set()
                await server.script(asked)
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            server.gone_at.append(time.monotonic())
            server.gone.set()
            writer.close()

    listening = await asyncio.start_server(connection, host, 0)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body, reader, writer)
