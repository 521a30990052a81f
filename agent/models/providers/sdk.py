"""What the clients of OpenAI and Anthropic have in common: one generator made both, on one HTTP library.

Requests go through the SDK's own async client; answers are taken raw. A stream is asked for, so that the read limit is
about silence and not about how long a slow machine writes; a server that answers at once instead is understood too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from agent.errors import JobFailure
from agent.models.providers.bounded import failure_below, within_limits
from agent.models.providers.failures import Failing, Reply, reply_of
from agent.models.providers.protocol import Endpoint
from agent.models.providers.shapes import BrokenOff, WrongShape, body_of, decoded

_Answer = TypeVar("_Answer")

NO_KEY = "none"  # the SDKs refuse to work without one; the client below never sends it


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class SdkClient:
    """One SDK's client on one endpoint. ``make`` gets the HTTP client and returns the SDK's."""

    def __init__(self, endpoint: Endpoint, make: Callable[[Any], Any]) -> None:
        self.endpoint = endpoint
        self.failing = Failing(endpoint)
        self._make = make
        self._client: Any = None

    async def call(self, work: Callable[[], Awaitable[_Answer]], asked: Iterable[str] = (), model: str = "") -> _Answer:
        """Return what ``work`` returns, within the limits; raises ``JobFailure`` alone. ``asked`` is never quoted."""
        texts = tuple(asked)

        def translate(error: Exception) -> JobFailure:
            if isinstance(error, Refused):
                return self.failing.of_reply(error.reply, int(time.time() * 1_000), texts, model)
            if isinstance(error, BrokenOff):
                return self.failing.broken_off()
            if isinstance(error, WrongShape):
                return self.failing.bad_answer(str(error))
            import httpx2

            return failure_below(error, httpx2, self.endpoint, self.failing)

        return await within_limits(self.endpoint, self.failing, work, translate)

    @asynccontextmanager
    async def post(self, path: str, body: Mapping[str, Any]) -> AsyncIterator[Any]:
        """Yield the raw response to a request that asks for a stream, and close it at the end, however that comes."""
        import httpx2

        client = self._opened()
        with _told_as_reply():
            response = await client.post(
                path, body=dict(body), cast_to=httpx2.Response, stream=True, stream_cls=_Unused
            )
        try:
            yield response
        finally:
            await response.aclose()

    async def get(self, path: str) -> Any:
        """Return the JSON of a page; raises ``Refused``, ``WrongShape`` or what the connection raises."""
        import httpx2

        client = self._opened()
        with _told_as_reply():
            response = await client.get(path, cast_to=httpx2.Response)
        return decoded(await response.aread())

    async def post_json(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return the JSON that a request is answered with; raises as ``get``."""
        import httpx2

        client = self._opened()
        with _told_as_reply():
            response = await client.post(path, body=dict(body), cast_to=httpx2.Response)
        return decoded(await response.aread())

    async def close(self) -> None:
        """Close what is open. Never raises."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.close()
            except Exception:
                logging.getLogger("sapwood.models").debug("a model client did not close cleanly")

    def _opened(self) -> Any:
        if self._client is None:
            import httpcore2
            import httpx2

            from agent.models.providers.connecting import client_settings

            self._client = self._make(httpx2.AsyncClient(**client_settings(httpx2, httpcore2, self.endpoint)))
        return self._client


class _told_as_reply:  # noqa: N801 - reads as a statement
    """Turns the SDKs' errors about a status into ``Refused``; both have the same attributes and no common class."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        status = getattr(error, "status_code", None)
        response = getattr(error, "response", None)
        if error is None or response is None or not isinstance(status, int):
            return
        headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
        raise Refused(reply_of(status, body_of(response.text), headers)) from None


class _Unused:
    """The SDKs want the class of a stream named, and do not use it where the raw response is asked for."""


def is_stream(response: Any) -> bool:
    """Return whether the server answers with a stream of events."""
    return "event-stream" in str(response.headers.get("content-type", ""))


async def whole(response: Any) -> Any:
    """Return the JSON of a response that is no stream; raises ``WrongShape``."""
    return decoded(await response.aread())
