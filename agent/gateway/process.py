"""The main of the gateway's process: page, RPC and MCP on one port of 127.0.0.1, started when somebody asks for it.

Here is what needs a real process: the socket, the files that say where it is, the line to the supervisor, the end. It
ends by itself when nobody has wanted anything for a while, and sleeps without a tick until somebody does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from agent import crash
from agent.actions.gateway_address import GatewayAddress, publish, withdraw
from agent.clock import SYSTEM_CLOCK
from agent.config import IntentWatcher
from agent.gateway.app import build_app
from agent.gateway.events import Live
from agent.gateway.links import Links
from agent.gateway.server import Activity, Counted, QuietServer, configured
from agent.gateway.serving import Context, threads
from agent.gateway.sessions import Sessions
from agent.logs import start_logging
from agent.system.companion import EXIT_IMPOSSIBLE, CompanionArgs, CompanionLine, Say
from agent.system.identity import own_identity

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from agent.paths import Paths

TOKEN_BYTES = 32
BACKLOG = 256
EXIT_LINE_ENDED = 82
"""As of a worker: the supervisor is gone."""

_log = logging.getLogger("sapwood.gateway")


def gateway_main(args: CompanionArgs, connection: Connection) -> int:
    """Serve until told to stop, until the supervisor is gone, or until nobody wants anything; return the exit code.

    Blocks; main thread only. Where no port of this machine can be had it says so and returns ``EXIT_IMPOSSIBLE``.
    """
    start_logging(args.paths, args.role, args.log_level)
    line = CompanionLine(connection)
    intents = IntentWatcher(args.paths)
    try:
        listening = listen(intents.current.gateway.port)
    except OSError as error:
        _log.error("no port of 127.0.0.1 can be had: %s", error.strerror)
        line.send(Say.IMPOSSIBLE, reason=f"no port of 127.0.0.1 can be had: {error.strerror}")
        return EXIT_IMPOSSIBLE
    asyncio.run(_serve(args.paths, intents, line, listening))
    return 0


def listen(port: int) -> socket.socket:
    """Return a listening socket of 127.0.0.1 on this port, or on any free one where it is 0 or taken.

    Raises ``OSError`` where there is none at all.
    """
    if port:
        try:
            return _listen_on(port)
        except OSError as error:
            _log.warning("port %d cannot be had (%s), another one is used", port, error.strerror)
    return _listen_on(0)


def _listen_on(port: int) -> socket.socket:
    # With the protocol said: asyncio sends small answers at once on sockets that name it, and on no others (40 ms).
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform == "win32":
            # There the other option lets a second program take the port over while the first one serves on it.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
        found.listen(BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


async def _serve(paths: Paths, intents: IntentWatcher, line: CompanionLine, listening: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(crash.in_loop)
    port = int(listening.getsockname()[1])
    address = GatewayAddress(own_identity(), port)
    pool = threads("gateway")
    live = Live(lambda: loop.run_in_executor(pool, partial(_look, paths)))
    context = Context(
        paths=paths,
        port=port,
        token=secrets.token_urlsafe(TOKEN_BYTES),
        sessions=Sessions(),
        links=Links(),
        live=live,
        threads=pool,
    )
    activity = Activity(SYSTEM_CLOCK)

    def up() -> None:
        publish(paths, address, context.token)
        line.send(Say.UP, detail=f"127.0.0.1:{port}")
        _log.info("the page serves on port %d", port)

    server = QuietServer(configured(Counted(build_app(context), activity)), on_up=up, on_end=live.close)
    signal.signal(signal.SIGTERM, lambda number, frame: loop.call_soon_threadsafe(server.end))
    _hear_supervisor(line, loop, server, live, partial(withdraw, paths, address))
    idle = loop.create_task(_end_when_idle(intents, activity, line, server), name="idle")
    try:
        await server.serve([listening])
    finally:
        idle.cancel()
        withdraw(paths, address)
        context.close()
        _log.info("the page ends")


async def _end_when_idle(intents: IntentWatcher, activity: Activity, line: CompanionLine, server: QuietServer) -> None:
    while (left := activity.until_idle(intents.current.gateway.idle_seconds)) > 0:
        await asyncio.sleep(left)
    _log.info("nobody has wanted anything for a while")
    line.send(Say.BYE)
    server.end()


def _hear_supervisor(
    line: CompanionLine, loop: asyncio.AbstractEventLoop, server: QuietServer, live: Live, leave: partial[None]
) -> None:
    # A thread, since no event loop of Windows waits for a pipe together with sockets.
    def hear() -> None:
        while (message := line.receive()) is not None:
            with suppress(RuntimeError):  # the loop has ended
                if message["say"] == Say.STOP:
                    loop.call_soon_threadsafe(server.end)
                elif message["say"] == Say.STATE:
                    loop.call_soon_threadsafe(live.changed)
        leave()
        crash.disarm()
        os._exit(EXIT_LINE_ENDED)

    threading.Thread(target=hear, name="line", daemon=True).start()


def _look(paths: Paths) -> dict[str, Any]:
    from agent.actions.by_clicking import needs_on_the_page, words_on_the_page
    from agent.actions.glance import glance
    from agent.actions.home import open_home
    from agent.models.budget import zone_of

    with open_home(paths) as home:
        found, now_ms, zone = glance(home), home.clock.now_ms(), zone_of(home.intent.schedule.timezone)
    said = {"words": words_on_the_page(found, now_ms, zone), "needs": needs_on_the_page(found, now_ms, zone)}
    return dataclasses.asdict(found) | said
