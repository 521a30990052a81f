"""The HTTP server: uvicorn without its tick, with patience limits, and with an end that keeps nobody waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.clock import Clock
from agent.system.peer import Peer, peer_of

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Receive, Scope, Send

HEADERS_PATIENCE_S = 10.0
"""Within which a request's head is there, once its sender has begun or has connected."""
CONNECTIONS_AT_ONCE = 500
KEEP_ALIVE_S = 5
END_PATIENCE_S = 0.4
"""What requests may still take after the end was asked for. The supervisor gives a second in all."""

_log = logging.getLogger("sapwood.gateway")


class Activity:
    """Whether anybody wants anything: requests that are being answered (open event streams too), and the last one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._in_flight = 0
        self._last = clock.monotonic()

    def begin(self) -> None:
        """A request begins."""
        self._in_flight += 1

    def end(self) -> None:
        """A request has been answered."""
        self._in_flight -= 1
        self._last = self._clock.monotonic()

    def until_idle(self, idle_s: float) -> float:
        """Return in how many seconds nobody will have wanted anything for so long, if nobody does; 0: that is now."""
        if self._in_flight:
            return idle_s
        return max(0.0, self._last + idle_s - self._clock.monotonic())


class Counted:
    """Counts the requests that go into an application."""

    def __init__(self, app: ASGIApp, activity: Activity) -> None:
        self._app = app
        self._activity = activity

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._activity.begin()
        try:
            await self._app(scope, receive, send)
        finally:
            self._activity.end()


class PatientProtocol(H11Protocol):
    """A connection that is this user's own, and must not stand there for ever with half a request."""

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = _peer(transport)
        if peer in (Peer.OTHER, Peer.GONE):
            # Before a word of it is read: with the owner's link or cookie it would be let in.
            if peer is Peer.OTHER:
                _log.warning("another user of this machine asked for the page and was refused")
            transport.abort()
            return
        self._expect()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._expect()
        else:
            self._relax()

    def connection_lost(self, exc: Exception | None) -> None:
        self._relax()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(HEADERS_PATIENCE_S, self._give_up)

    def _relax(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _give_up(self) -> None:
        self._overdue = None
        if not self.transport.is_closing() and self.conn.their_state is h11.IDLE:
            self.transport.close()


def _peer(transport: asyncio.Transport) -> Peer:
    client, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    return peer_of(int(client[1]), int(own[1])) if client and own else Peer.GONE


def configured(app: ASGIApp) -> uvicorn.Config:
    """Return how the server serves: no proxies, no web sockets, no log of addresses (a search is in them)."""
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False
    return uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=CONNECTIONS_AT_ONCE,
        timeout_keep_alive=KEEP_ALIVE_S,
    )


class QuietServer(uvicorn.Server):
    """A server that sleeps until something happens: uvicorn's own wakes ten times a second to look whether it ends.

    ``on_up`` is called when it accepts connections, ``on_end`` when it accepts none any more.
    """

    def __init__(self, config: uvicorn.Config, *, on_up: Callable[[], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_up = on_up
        self._on_end = on_end
        self._ending = asyncio.Event()

    def end(self) -> None:
        """End, soon. In the event loop's thread."""
        self.should_exit = True
        self._ending.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        # Which signals end this process is its main's affair: Ctrl-C, for one, is the supervisor's alone.
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_up()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        self._on_end()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        tasks = set(self.server_state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=END_PATIENCE_S)
            for task in late:
                task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_PATIENCE_S / 2):
                await self.lifespan.shutdown()
