"""``sapwood mcp``: one server on stdin and stdout, started by an assistant's program and ended with it.

It works whether or not the agent runs. While nobody asks it sleeps in two waits, for a line and for the loop; it ends
when its stdin does, and at once and without a word when it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from agent import crash
from agent.logs import start_logging, stop_logging

if TYPE_CHECKING:
    from types import FrameType

    from agent.actions.home import Home
    from agent.paths import Paths

THREADS = 4
LOG_LEVEL = "WARNING"
"""A server writes no file unless there is something to say: there may be many of them."""
LOGS_KEPT = 10


def serve_stdio(paths: Paths) -> int:
    """Serve until stdin ends, and return the exit code. Blocks; main thread only."""
    crash.arm(paths, "mcp")
    _drop_old_logs(paths)
    start_logging(paths, f"mcp-{os.getpid()}", LOG_LEVEL)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_now)
    threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mcp")
    try:
        asyncio.run(_serve(paths, threads))
    except BaseExceptionGroup as group:
        # Whoever reads our answers went first.
        if group.split((BrokenPipeError, ConnectionResetError))[1] is not None:
            raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        stop_logging()
    return 0


async def _serve(paths: Paths, threads: ThreadPoolExecutor) -> None:
    from mcp.server.stdio import stdio_server

    from agent.gateway.mcp.server import build_server

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(crash.in_loop)

    async def with_home(action: Callable[[Home], Any], _waits: bool) -> Any:
        return await loop.run_in_executor(threads, partial(_at_home, paths, action))

    server = build_server(with_home)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _at_home(paths: Paths, action: Callable[[Home], Any]) -> Any:
    # Opened for each call: a changed intent counts at once, and a memory that was begun anew is the one that is read.
    from agent.actions.home import open_home

    with open_home(paths) as home:
        return action(home)


def _end_now(_number: int, _frame: FrameType | None) -> None:
    # Without the interpreter's own end: a thread stands in a read of stdin, which nothing wakes.
    crash.disarm()
    os._exit(0)


def _drop_old_logs(paths: Paths) -> None:
    """Keep the newest logs of servers; each has a name of its own, so nobody else ever takes one away."""
    with contextlib.suppress(OSError):
        files = sorted(
            (path for path in paths.log_dir.glob("mcp-*.log*") if not path.name.endswith(crash.SUFFIX)),
            key=lambda path: path.stat().st_mtime_ns,
        )
        for path in files[: -LOGS_KEPT or None]:
            with contextlib.suppress(OSError):
                path.unlink()
