"""What a handler of page, RPC or MCP is given, and how it does what blocks: in one of a few threads, not in the loop.

A handler is an ``async`` function of a Starlette ``Request``. All of SQLite, files and actions belongs into
``with_home``; what is slow without a home (a key, a doctor's look) into ``in_thread``. What may wait for a model or for
anything else outside (a search, a test of a profile, a keyring) says ``waits=True``: it has threads of its own, so that
a server that does not answer keeps searches waiting and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from starlette.requests import Request

from agent.clock import SYSTEM_CLOCK, Clock
from agent.gateway.links import Links
from agent.gateway.sessions import Session, Sessions
from agent.paths import Paths

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.gateway.events import Live

THREADS = 4

Result = TypeVar("Result")


def threads(name: str) -> ThreadPoolExecutor:
    """Return threads in which a gateway blocks; they begin at the first use."""
    return ThreadPoolExecutor(THREADS, thread_name_prefix=name)


@dataclass(frozen=True)
class Context:
    """What all handlers of one gateway share. ``token`` is the bearer token of RPC, MCP and links."""

    paths: Paths
    port: int
    token: str = field(repr=False)
    sessions: Sessions
    links: Links
    live: Live
    threads: ThreadPoolExecutor = field(default_factory=lambda: threads("gateway"))
    waiting: ThreadPoolExecutor = field(default_factory=lambda: threads("waiting"))
    clock: Clock = SYSTEM_CLOCK

    def close(self) -> None:
        """Begin nothing more; does not wait for what is being done."""
        for pool in (self.threads, self.waiting):
            pool.shutdown(wait=False, cancel_futures=True)


def context_of(request: Request) -> Context:
    """Return what all handlers share."""
    context: Context = request.app.state.context
    return context


def session_of(request: Request) -> Session:
    """Return the session of a request of the page. Requests with a bearer token have none (``KeyError``)."""
    session: Session = request.scope["sapwood.session"]
    return session


def csrf(request: Request) -> str:
    """Return what each form of the page carries as its hidden field ``csrf`` (a script: the header ``X-CSRF-Token``).

    It is checked before a handler of POST, PUT, PATCH or DELETE is called; a handler need not look at it.
    """
    return session_of(request).csrf


async def with_home(request: Request, action: Callable[[Home], Result], *, waits: bool = False) -> Result:
    """Return ``action(home)``, called in one of our threads with the home opened for it, as commands do.

    A home is opened anew for each request (under a millisecond), so that a memory that was begun anew is seen at once.
    What the action returns must be whole: no cursor, nothing that reads later. Raises what the action raises.
    """
    return await in_thread(request, partial(_at_home, context_of(request).paths, action), waits=waits)


async def in_thread(request: Request, call: Callable[[], Result], *, waits: bool = False) -> Result:
    """Return ``call()``, called in one of our threads. Raises what it raises."""
    context = context_of(request)
    pool = context.waiting if waits else context.threads
    return await asyncio.get_running_loop().run_in_executor(pool, call)


def _at_home(paths: Paths, action: Callable[[Home], Result]) -> Result:
    from agent.actions.home import open_home

    with open_home(paths) as home:
        return action(home)
