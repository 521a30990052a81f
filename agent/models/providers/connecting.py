"""The HTTP client under an SDK: who it connects to, what it tells of this machine, how much it takes in.

The SDKs are built on two libraries with one interface (``httpx`` and ``httpx2``), so both come in as arguments. An
SDK's own client would follow redirects, take proxies and keys from the environment and send what system this is; this
one does none of that. Names are resolved here, and the address that is connected to is the one that was checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from agent import __version__
from agent.errors import JobFailure
from agent.models.providers.locality import in_order, may_connect
from agent.models.providers.protocol import Endpoint

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_HEADERS_SENT = frozenset(
    ("host", "connection", "accept", "content-type", "content-length", "transfer-encoding", "anthropic-version")
)
_KEY_HEADERS = frozenset(("authorization", "x-api-key"))
_FOREIGN_LOGGERS = ("openai", "anthropic", "ollama", "httpx", "httpx2", "httpcore", "httpcore2")

Amend = Callable[[bytes], bytes]


class AnswerTooLong(Exception):
    """The server sends more than any answer of a model can be."""


def client_settings(
    http: ModuleType, core: ModuleType, endpoint: Endpoint, amend: Amend | None = None
) -> dict[str, Any]:
    """Return what an ``AsyncClient`` of ``http`` is to be made with; ``core`` is the library below it.

    ``amend`` may change the body of a POST: what an SDK has no argument for. Raises a ``JobFailure`` where the owner's
    proxy cannot be used.
    """
    for name in _FOREIGN_LOGGERS:  # requests are content; the SDKs log them where a variable of theirs is set
        logging.getLogger(name).setLevel(logging.ERROR)
    return {
        "transport": _transport(http, core, endpoint, amend),
        "timeout": http.Timeout(
            connect=endpoint.connect_s, read=endpoint.read_s, write=endpoint.read_s, pool=endpoint.total_s
        ),
        "follow_redirects": False,
        "trust_env": False,
    }


def _transport(http: ModuleType, core: ModuleType, endpoint: Endpoint, amend: Amend | None) -> Any:
    is_plain = urlsplit(endpoint.base_url).scheme == "http"
    proxy = None if endpoint.local_only else proxy_of(endpoint.base_url)
    try:
        inner = http.AsyncHTTPTransport(
            verify=_no_tls() if is_plain and proxy is None else True,
            trust_env=True,  # the certificates that an owner's SSL_CERT_FILE names; proxies are not read here
            limits=http.Limits(max_connections=8, max_keepalive_connections=2, keepalive_expiry=30),
            proxy=proxy,
        )
    except (ImportError, ValueError):
        raise JobFailure.transient(
            "unreachable",
            "the proxy of the environment cannot be used",
            f"{urlsplit(proxy or '').scheme or 'unknown'} proxy for {urlsplit(endpoint.base_url).hostname}",
            "set HTTPS_PROXY to an http:// proxy, or name the host in NO_PROXY",
        ) from None
    backend = _CheckedBackend(core, endpoint)
    if not hasattr(inner._pool, "_network_backend"):
        raise RuntimeError(f"{core.__name__} has no network backend to replace")
    inner._pool._network_backend = backend

    class Transport(http.AsyncBaseTransport):  # type: ignore[name-defined, misc]
        """Sends only the headers that are needed, and takes in only so much."""

        async def handle_async_request(self, request: Any) -> Any:
            content = await request.aread()
            headers = [(name, value) for name, value in request.headers.items() if _is_sent(name, value, endpoint.key)]
            headers.append(("user-agent", f"sapwood/{__version__}"))
            headers.append(("accept-encoding", "identity"))
            if amend is not None and content:
                content = amend(content)
                headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            sent = http.Request(
                request.method, request.url, headers=headers, content=content, extensions=request.extensions
            )
            response = await inner.handle_async_request(sent)
            response.stream = Bounded(response.stream)
            return response

        async def aclose(self) -> None:
            await inner.aclose()

    class Bounded(http.AsyncByteStream):  # type: ignore[name-defined, misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for part in self._stream:
                taken += len(part)
                if taken > MAX_ANSWER_BYTES:
                    raise AnswerTooLong
                yield part

        async def aclose(self) -> None:
            await self._stream.aclose()

    return Transport()


def proxy_of(url: str) -> str | None:
    """Return the proxy that the owner's environment (or system) names for an address, or ``None``."""
    parts = urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.hostname):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_sent(name: str, value: str, key: str | None) -> bool:
    # Not what system this is, nor an organisation or a key that some variable of the environment names.
    if name.lower() in _KEY_HEADERS:
        return bool(key) and value.removeprefix("Bearer ") == key
    return name.lower() in _HEADERS_SENT


def _no_tls() -> Any:
    # Trusts nobody: plain HTTP needs no certificates, and loading them costs memory.
    import ssl

    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _CheckedBackend:
    """Resolves, checks and connects. Everything else is the library's own."""

    def __init__(self, core: ModuleType, endpoint: Endpoint) -> None:
        self._core = core
        self._inner = core.AnyIOBackend()
        self._endpoint = endpoint

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        try:
            async with asyncio.timeout(timeout):
                addresses = in_order(await _resolve(host, port))
        except TimeoutError:
            raise self._core.ConnectTimeout(f"{host} was not resolved in time") from None
        except OSError:
            raise NameUnknown(host) from None
        if self._endpoint.local_only:
            addresses = [each for each in addresses if may_connect(host, each, self._endpoint.local_hosts)]
            if not addresses:
                raise NotLocal(host)
        problem: Exception | None = None
        for address in addresses:
            try:
                stream = await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (self._core.ConnectError, self._core.ConnectTimeout) as error:
                problem = problem or error
                continue
            if self._endpoint.local_only and not self._is_allowed_peer(host, stream):
                await stream.aclose()
                raise NotLocal(host)
            return stream
        raise problem or NameUnknown(host)

    def _is_allowed_peer(self, host: str, stream: Any) -> bool:
        peer = stream.get_extra_info("server_addr")
        return bool(peer) and may_connect(host, str(peer[0]), self._endpoint.local_hosts)

    async def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> Any:
        raise NotLocal("a socket file")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class NotLocal(Exception):
    """A local profile's host stands for no address that it may be connected to."""


class NameUnknown(Exception):
    """A host has no address at all."""


async def _resolve(host: str, port: int) -> list[str]:
    # In a thread of our own that nobody waits for: the loop's executor is joined when the loop ends, and a name server
    # that does not answer would hold back a cancelled call for half a minute.
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def tell(addresses: list[str] | None, problem: OSError | None) -> None:
        if found.done():
            return
        if problem is not None:
            found.set_exception(problem)
        else:
            found.set_result(addresses or [])

    def look() -> None:
        addresses, problem = None, None
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = [str(row[4][0]) for row in rows]
        except (OSError, UnicodeError) as error:
            problem = error if isinstance(error, OSError) else OSError(str(error))
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the call with it
            loop.call_soon_threadsafe(tell, addresses, problem)

    threading.Thread(target=look, name="resolve", daemon=True).start()
    return await found
