"""MCP on the page's address: ``POST /mcp`` with the bearer token, each request by itself.

No sessions and no standing streams: an assistant that is connected and silent must not keep the page's process up.
The protocol's library is loaded, and begins, with the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.types import Receive, Scope, Send

    from agent.actions.home import Home
    from agent.gateway.serving import Context


class _Endpoint:
    """The protocol's side of the gateway, begun when somebody wants it and ended with the gateway."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._begun: asyncio.Task[None] | None = None
        self._manager: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._end = asyncio.Event()

    async def manager(self) -> StreamableHTTPSessionManager:
        """Return what handles requests; the first call begins it, which takes most of a second."""
        if self._manager is None:
            loop = asyncio.get_running_loop()
            self._manager = loop.create_future()
            # In a task of its own: what is opened there has to be closed there.
            self._begun = loop.create_task(self._serve(self._manager), name="mcp")
        return await asyncio.shield(self._manager)

    async def end(self) -> None:
        """End it; waits until it has."""
        self._end.set()
        if self._begun is not None:
            await self._begun

    async def _serve(self, ready: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        try:
            manager = await asyncio.get_running_loop().run_in_executor(self._context.threads, self._build)
            async with manager.run():
                ready.set_result(manager)
                await self._end.wait()
        except Exception as error:
            if ready.done():
                raise
            self._manager = None
            ready.set_exception(error)

    def _build(self) -> StreamableHTTPSessionManager:
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from agent.gateway.mcp.server import build_server

        # Host, origin, token and size are looked at before anything comes here (``agent.gateway.guard``).
        return StreamableHTTPSessionManager(build_server(self._with_home), json_response=True, stateless=True)

    async def _with_home(self, action: Callable[[Home], Any], waits: bool) -> Any:
        pool = self._context.waiting if waits else self._context.threads
        return await asyncio.get_running_loop().run_in_executor(pool, partial(_at_home, self._context, action))


def _at_home(context: Context, action: Callable[[Home], Any]) -> Any:
    from agent.actions.home import open_home

    with open_home(context.paths) as home:
        return action(home)


class _Door:
    """The route's handler: an ASGI application, since the protocol's library answers by itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint: _Endpoint = scope["app"].state.mcp
        manager = await endpoint.manager()
        await manager.handle_request(scope, receive, send)


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Hold the endpoint of an application for as long as it serves."""
    app.state.mcp = _Endpoint(app.state.context)
    try:
        yield
    finally:
        await app.state.mcp.end()


ROUTES = [Route("/mcp", _Door(), methods=["POST"])]
