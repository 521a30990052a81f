"""One call within its limits: what it raises is a failure of ours and nothing else, and that knows no request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import TypeVar

from agent.errors import JobFailure
from agent.models.providers.connecting import AnswerTooLong, NameUnknown, NotLocal
from agent.models.providers.failures import Failing
from agent.models.providers.protocol import Endpoint

_Answer = TypeVar("_Answer")


async def within_limits(
    endpoint: Endpoint,
    failing: Failing,
    work: Callable[[], Awaitable[_Answer]],
    translate: Callable[[Exception], JobFailure],
) -> _Answer:
    """Return what ``work`` returns, within ``total_s``; raise only ``JobFailure`` or a cancellation.

    The failure is raised outside of the handler, so that it does not carry the SDK's exception, whose request has the
    key among its headers, as its context.
    """
    try:
        async with asyncio.timeout(endpoint.total_s) as limit:
            return await work()
    except JobFailure as error:
        failure = error
    except TimeoutError as error:
        failure = failing.slow(endpoint.total_s, "total") if limit.expired() else translate(error)
    except Exception as error:
        failure = translate(error)
    failure.__cause__ = failure.__context__ = None
    raise failure


def failure_below(error: BaseException, http: ModuleType, endpoint: Endpoint, failing: Failing) -> JobFailure:
    """Return what an error of the connection or of reading an answer means. ``http`` is the library in use."""
    chain = list(_chain(error))
    if any(isinstance(each, NotLocal) for each in chain):
        return failing.not_local()
    if any(isinstance(each, AnswerTooLong) for each in chain):
        return failing.bad_answer("its answer has no end")
    if any(isinstance(each, NameUnknown) for each in chain):
        return failing.no_name()
    if any(isinstance(each, ssl.SSLError) for each in chain):
        return failing.not_secure()
    for each in chain:
        if isinstance(each, http.ConnectTimeout):
            return failing.slow(endpoint.connect_s, "connect")
        if isinstance(each, http.TimeoutException):
            return failing.slow(endpoint.read_s, "read")
        if isinstance(each, http.ConnectError | http.ProxyError):
            return failing.absent()
        if isinstance(each, http.InvalidURL | http.UnsupportedProtocol):
            return failing.no_name()
    if any(isinstance(each, http.TransportError | OSError) for each in chain):
        return failing.broken_off()
    return failing.bad_answer(f"its answer has another shape ({type(error).__name__})")


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    for _ in range(12):
        if seen is None:
            return
        yield seen
        seen = seen.__cause__ or seen.__context__
