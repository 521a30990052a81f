"""Live updates: what the agent is doing, sent to the pages that show it, when it changes and only while one listens.

``Say.STATE`` of the supervisor has it looked at; while the agent grows, figures move without a word, so then it is
looked at once a second. With no page that listens nothing is looked at at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from agent.gateway import errors
from agent.states import AgentState

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

STREAMS_AT_ONCE = 16
WAITING_AT_ONCE = 16
"""How many updates wait for a reader before it is dropped; a browser that reads never has two."""
SEND_PATIENCE_S = 10.0
LOOK_S = 1.0
GROWING = frozenset({AgentState.GROWING})

Look = Callable[[], Awaitable[dict[str, Any]]]
_log = logging.getLogger("sapwood.gateway")
_END = b""


class Live:
    """The pages that listen, and what they are told. Belongs to the event loop: not for other threads."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._streams: set[EventStream] = set()
        self._last: bytes | None = None
        self._grows = False
        self._changed = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many pages listen."""
        return len(self._streams)

    def changed(self) -> None:
        """Have it looked at, where somebody listens: something happened."""
        self._changed.set()

    def open(self) -> Response:
        """Return the answer that tells a page what happens for as long as it listens."""
        if self._closed or len(self._streams) >= STREAMS_AT_ONCE:
            return errors.told(
                503, "Too many pages listen", "", "Close some of Sapwood's pages.", headers={"retry-after": "30"}
            )
        return EventStream(self)

    def close(self) -> None:
        """End all streams; new ones are refused."""
        self._closed = True
        for stream in list(self._streams):
            stream.end()
        if self._looking is not None:
            self._looking.cancel()

    def _join(self, stream: EventStream) -> None:
        self._streams.add(stream)
        if self._last is not None and self._looking is not None:
            stream.put(self._last)
        self._changed.set()
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look_on(), name="live")

    def _leave(self, stream: EventStream) -> None:
        self._streams.discard(stream)
        if not self._streams and self._looking is not None:
            self._looking.cancel()
            self._looking = None
            self._last = None

    async def _look_on(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._grows else None):
                    await self._changed.wait()
            self._changed.clear()
            try:
                seen = await self._look()
            except Exception as error:
                # The memory may be damaged or begun anew just now; the supervisor says when that has changed.
                _log.warning("what the agent is doing cannot be looked at: %s", type(error).__name__)
                continue
            self._grows = seen.get("state") in GROWING
            event = f"event: glance\ndata: {json.dumps(seen)}\n\n".encode()
            if event != self._last:
                self._last = event
                for stream in list(self._streams):
                    stream.put(event)


class EventStream(Response):
    """One page that listens. Its reader goes, or is dropped where it does not read."""

    media_type = "text/event-stream"

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._events: asyncio.Queue[bytes] = asyncio.Queue(WAITING_AT_ONCE)

    def put(self, event: bytes) -> None:
        """Have an event sent; a reader that has so many before it is dropped."""
        try:
            self._events.put_nowait(event)
        except asyncio.QueueFull:
            self.end()

    def end(self) -> None:
        """End the stream, whatever waits to be sent."""
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(_END)
        self._live._leave(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(name, value) for name, value in self.raw_headers if name != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        gone = asyncio.get_running_loop().create_task(_until_gone(receive, self))
        self._live._join(self)
        try:
            while (event := await self._events.get()) is not _END:
                # A reader that stands still fills the kernel's buffers first; then this would wait for it for ever.
                async with asyncio.timeout(SEND_PATIENCE_S):
                    await send({"type": "http.response.body", "body": event, "more_body": True})
            async with asyncio.timeout(SEND_PATIENCE_S):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _log.info("a page that does not read its updates was dropped")
        finally:
            gone.cancel()
            self._live._leave(self)


async def _until_gone(receive: Receive, stream: EventStream) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.end()
