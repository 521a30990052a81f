"""The server itself: HTTP/1.1 on asyncio's transports, so that it sees a client leave before a byte was sent."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.scripted import protocols
from tests.scripted.answers import answer_to
from tests.scripted.behaviour import Behaviour
from tests.scripted.protocols import Reply, Request, ServedModel
from tests.scripted.record import ANSWERED, CLOSED_BY_CLIENT, CUT, Call, Record

CALLS = ("chat", "embed")
EVERYTHING = ("chat", "embed", "models", "facts", "other")
CONTROL = "/_scripted"


@dataclass
class Script:
    """What is done with the next call: of what was queued the first, else what its model has, else the default.

    ``where`` says which kinds of requests a behaviour is for; others are answered as they should be.
    """

    default: tuple[Behaviour, tuple[str, ...]] = (Behaviour(), CALLS)
    of_model: dict[str, tuple[Behaviour, tuple[str, ...]]] = field(default_factory=dict)
    queued: deque[Behaviour] = field(default_factory=deque)

    def use(self, behaviour: Behaviour, model: str = "", where: Iterable[str] = CALLS) -> None:
        if model:
            self.of_model[model] = (behaviour, tuple(where))
        else:
            self.default = (behaviour, tuple(where))

    def pick(self, request: Request) -> Behaviour:
        if request.kind in CALLS and self.queued:
            return self.queued.popleft()
        behaviour, where = self.of_model.get(request.model, self.default)
        return behaviour if request.kind in where else Behaviour()


class Server:
    """One listener; its methods are called in its loop."""

    def __init__(self, models: Iterable[ServedModel], log: Path | None = None) -> None:
        self.models = tuple(models)
        self.record = Record(log)
        self.script = Script()
        self.released = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._open: set[_Connection] = set()

    async def listen(self, host: str, port: int) -> int:
        """Take connections from now on; return the port."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Connection(self), host, port, reuse_address=True)
        return int(self._listener.sockets[0].getsockname()[1])

    async def shut(self) -> None:
        """Take no more connections and end those that are open."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in list(self._open):
            connection.end()
        await asyncio.sleep(0)

    def control(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Do what somebody in another process asks for; return the state."""
        if "use" in order:
            where = order.get("where") or CALLS
            self.script.use(Behaviour(**order["use"]), order.get("model", ""), where)
        if "queue" in order:
            self.script.queued.extend(Behaviour(**each) for each in order["queue"])
        if order.get("release"):
            self.released.set()
        if order.get("hold"):
            self.released.clear()
        if order.get("clear"):
            self.record.clear()
        return dict(self.record.state())

    def reply(self, request: Request, path: str, behaviour: Behaviour) -> Reply:
        """Return what is sent, where something is."""
        if behaviour.trouble:
            return protocols.trouble_of(request, behaviour.trouble)
        if behaviour.shape:
            return protocols.misshapen(request, behaviour.shape)
        if behaviour.context_limit is not None and request.tokens > behaviour.context_limit:
            return protocols.trouble_of(request, "too_long_input", behaviour.context_limit)
        if request.kind == "embed":
            return protocols.embedded(request, behaviour)
        if request.question is not None:
            return protocols.good(request, answer_to(request.question, behaviour.answer), behaviour)
        if request.kind == "other":
            return Reply(404, "application/json", (b'{"error": {"message": "no such page"}}',))
        return protocols.listed(request, path, self.models)


class _Connection(asyncio.Protocol):
    """One client's connection: requests one after the other, each of them watched until it is answered."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._call: Call | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server._open.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def eof_received(self) -> bool:
        self._left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        self._server._open.discard(self)

    def end(self) -> None:
        if self._call is not None:
            self._server.record.end(self._call, CUT)
        self._drop()

    def _left(self) -> None:
        if self._call is not None:
            self._server.record.end(self._call, CLOSED_BY_CLIENT)
        if self._task is not None:
            self._task.cancel()

    def _drop(self, *, reset: bool = False) -> None:
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()
        if self._transport is None:
            return
        if reset:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def _next(self) -> None:
        """Start on the next request once it is here as a whole."""
        if self._task is not None and not self._task.done():
            return
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", "0"))
        if headers.get("transfer-encoding", "") == "chunked":
            raise NotImplementedError("a request in chunks")
        if len(rest) < size:
            return
        self._buffer = rest[size:]
        method, path, _ = first.split(" ", 2)
        self._task = asyncio.ensure_future(self._serve(method, path, headers, rest[:size]))
        self._task.add_done_callback(self._served)

    def _served(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            # A fault of the test's own server must be seen, and not taken for one that was asked for.
            self._send(_whole(Reply(599, "text/plain", (repr(error).encode(),))))
            self._drop()
            return
        self._next()

    async def _serve(self, method: str, path: str, headers: dict[str, str], content: bytes) -> None:
        body = json.loads(content) if content else None
        server = self._server
        if path == CONTROL:
            state = server.control(body or {})
            self._send(_whole(Reply(200, "application/json", (json.dumps(state).encode(),))))
            return
        request = protocols.read(method, path, headers, body)
        behaviour = server.script.pick(request)
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername")

        def make(number: int) -> Call:
            return Call(
                number, request.protocol, request.kind, request.model, path, body, headers,
                int(peer[1]), behaviour.name, time.monotonic(), time.time(),
            )  # fmt: skip

        self._call = call = server.record.begin(make)
        await self._behave(call, request, path, behaviour)

    async def _behave(self, call: Call, request: Request, path: str, behaviour: Behaviour) -> None:
        record = self._server.record
        if behaviour.silent:
            await asyncio.Event().wait()
        if behaviour.held:
            await self._server.released.wait()
        if behaviour.first_byte_s:
            await asyncio.sleep(behaviour.first_byte_s)
        if behaviour.reset:
            record.end(call, CUT)
            self._drop(reset=True)
            return
        reply = self._server.reply(request, path, behaviour)
        if behaviour.short or behaviour.cut_after is not None:
            await self._send_in_part(call, reply, behaviour)
            record.end(call, CUT)
            self._drop()
            return
        if not reply.streams:
            record.end(call, ANSWERED)
            self._send(_whole(reply, behaviour.headers), call)
            return
        self._send(_head(reply, behaviour.headers, "Transfer-Encoding: chunked"), call)
        for at, part in enumerate(reply.parts):
            if behaviour.between_s and at:
                await asyncio.sleep(behaviour.between_s)
            if at + 1 == len(reply.parts):
                record.end(call, ANSWERED)
            self._send(_chunk(part), call)
        self._send(_chunk(b""), call)

    async def _send_in_part(self, call: Call, reply: Reply, behaviour: Behaviour) -> None:
        """Send the beginning of an answer."""
        whole = b"".join(reply.parts)
        if behaviour.short or not reply.streams:
            head = _head(reply, behaviour.headers, f"Content-Length: {len(whole)}")
            self._send(head + whole[: len(whole) // 2], call)
            return
        self._send(_head(reply, behaviour.headers, "Transfer-Encoding: chunked"), call)
        for part in reply.parts[: behaviour.cut_after]:
            self._send(_chunk(part), call)
            await asyncio.sleep(behaviour.between_s)

    def _send(self, data: bytes, call: Call | None = None) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if call is not None:
            self._server.record.sent(call, len(data))
        self._transport.write(data)


def _head(reply: Reply, headers: Mapping[str, str], length: str) -> bytes:
    lines = [f"HTTP/1.1 {reply.status} Scripted", f"Content-Type: {reply.media}", length]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _whole(reply: Reply, headers: Mapping[str, str] | None = None) -> bytes:
    body = b"".join(reply.parts)
    return _head(reply, headers or {}, f"Content-Length: {len(body)}") + body


def _chunk(part: bytes) -> bytes:
    return f"{len(part):x}\r\n".encode() + part + b"\r\n"
