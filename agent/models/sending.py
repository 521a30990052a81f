"""One call of a model, from its first byte to its last or to the moment that somebody says it must end.

The call runs on asyncio with the SDK's own async client, so that cancelling it closes its socket at once, before the
first token too. An event loop and a client for each call: they cost 0.4 and 2.5 ms (measured against a loop and client
that are kept), and nothing is left behind that could keep an idle worker awake or a connection open to a cloud that its
owner has left.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from agent.errors import JobFailure

if TYPE_CHECKING:
    from agent.models.providers.protocol import Provider

LOOK_S = 0.25
CLOSE_S = 1.0
"""So long at most a cancelled call and a provider that is closed are waited for."""

AnswerT = TypeVar("AnswerT")
Look = Callable[[], Exception | None]


def send(
    open_it: Callable[[], Provider], ask: Callable[[Provider], Awaitable[AnswerT]], look: Look, limit_s: float
) -> AnswerT:
    """Return what a provider answers; blocks the thread for ``limit_s`` seconds at most.

    ``look`` is asked every 0.25 s in this thread; what it returns is raised instead and the connection is closed. An
    answer that is there by then is returned all the same: it is paid for. Raises what the provider raises, and
    ``unreachable`` when the time is over.
    """
    import asyncio

    problem = look()
    if problem is not None:
        raise problem
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_watched(open_it, ask, look, limit_s))
    finally:
        try:
            _cancel_rest(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            # Not the executor: a look-up of a name that hangs in it would hold us up for its half minute.
            loop.close()


async def _watched(
    open_it: Callable[[], Provider], ask: Callable[[Provider], Awaitable[AnswerT]], look: Look, limit_s: float
) -> AnswerT:
    import asyncio

    loop = asyncio.get_running_loop()
    end = loop.time() + limit_s
    provider = open_it()
    call = asyncio.ensure_future(ask(provider))
    try:
        while True:
            await asyncio.wait({call}, timeout=min(LOOK_S, max(0.0, end - loop.time())))
            if call.done():
                return call.result()
            problem = look()
            if problem is None and loop.time() >= end:
                problem = JobFailure.transient(
                    "unreachable",
                    title="the model did not answer in time",
                    detail=f"after {limit_s:.0f} seconds",
                    hint="a smaller model answers sooner; `sapwood model test` shows how long it takes",
                )
            if problem is not None:
                call.cancel()
                await asyncio.wait({call}, timeout=CLOSE_S)
                if call.done() and not call.cancelled() and call.exception() is None:
                    return call.result()
                raise problem
    finally:
        call.cancel()
        await asyncio.wait({call, asyncio.ensure_future(provider.close())}, timeout=CLOSE_S)


def _cancel_rest(loop: object) -> None:
    import asyncio

    assert isinstance(loop, asyncio.AbstractEventLoop)
    rest = asyncio.all_tasks(loop)
    for task in rest:
        task.cancel()
    if rest:
        loop.run_until_complete(asyncio.wait(rest, timeout=CLOSE_S))
        for task in rest:
            if task.done() and not task.cancelled():
                task.exception()  # seen: nobody is told of it once more when it is collected
