"""The gateway's only way in: who may not come is told why, what is too large or too slow is stopped, and every answer
carries our headers. Who may is decided in ``security``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser

from agent.gateway import errors
from agent.gateway.security import CSRF_HEADER, SAFE_METHODS, Asked, Door, Verdict, door_of, has_csrf, judge
from agent.gateway.sessions import Session, cookie_name

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from agent.gateway.serving import Context

FORM_BYTES = 1_000_000
RPC_BYTES = 20_000_000
DISCARDED_BYTES = 64_000_000
"""How much of a body that is too large is read and thrown away, so that its sender hears why it was refused."""
BODY_PATIENCE_S = 30.0
"""Within which a whole body is there. Nothing that is sent on one machine takes so long."""

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
# With ``no-referrer`` browsers send forms with ``Origin: null`` (Fetch standard, "append a request Origin header"), and
# could not be told from foreign ones. This one says nothing to anybody else either.
REFERRER_POLICY = "same-origin"

_TOLD: dict[Verdict, tuple[int, str, str, str]] = {
    Verdict.WRONG_HOST: (
        421,
        "This address is not Sapwood's",
        "The page is reached as 127.0.0.1 alone, so that no web site can stand in for it.",
        errors.OPEN_HINT,
    ),
    Verdict.WRONG_METHOD: (405, "This address does not take that", "", errors.OPEN_HINT),
    Verdict.FOREIGN: (
        403,
        "This came from another page",
        "Another page, or another program's page on this machine, asked in your name. Nothing was done.",
        errors.OPEN_HINT,
    ),
    Verdict.NO_SESSION: (
        403,
        "This browser has not been let in yet",
        "The page shows what you keep, so it opens only through a link that Sapwood itself makes.",
        errors.OPEN_HINT,
    ),
    Verdict.NO_TOKEN: (
        401,
        "The token is missing or old",
        "Each start of the page has a new one.",
        "read it from the file rpc.token in the runtime folder, and send it as `Authorization: Bearer …`",
    ),
    Verdict.NO_CSRF: (
        403,
        "This form is of an earlier visit",
        "Sapwood was started again since it was shown, or the form was not Sapwood's. Nothing was done.",
        "Go back, load the page again, and send it once more.",
    ),
}


class BodyTooLarge(Exception):
    """More was sent than this address takes."""


class BodyTooSlow(Exception):
    """The body did not come in time."""


class Guard:
    """The gateway's only way in: judges, limits, and puts our headers on every answer."""

    def __init__(self, app: ASGIApp, context: Context) -> None:
        self._app = app
        self._context = context
        self._cookie = cookie_name(context.port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        as_json = door_of(scope["path"]) is Door.TOKEN or errors.wants_json(headers.get("accept", ""))
        answer = _Answer(send)
        body = _Body(receive, RPC_BYTES if door_of(scope["path"]) is Door.TOKEN else FORM_BYTES)
        try:
            refused = await self._refuse(scope, headers, body)
            if refused is None:
                await self._app(scope, body.receive, answer.send)
            else:
                await body.discard()
                status, title, detail, hint = _TOLD[refused]
                more = {"www-authenticate": "Bearer"} if refused is Verdict.NO_TOKEN else None
                told = errors.told(status, title, detail, hint, as_json=as_json, headers=more)
                await told(scope, receive, answer.send)
        except BodyTooLarge:
            await body.discard()
            if not answer.has_begun:
                limit = f"At most {body.limit // 1_000_000} MB are taken here."
                told = errors.told(413, "This is too much at once", limit, "Send less, or add it as a file.",
                                   as_json=as_json, headers={"connection": "close"})  # fmt: skip
                await told(scope, receive, answer.send)
        except BodyTooSlow:
            if not answer.has_begun:
                told = errors.told(408, "This came too slowly", "", "Send it again.", as_json=as_json,
                                   headers={"connection": "close"})  # fmt: skip
                await told(scope, receive, answer.send)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:
            told = errors.unexpected(error, as_json=as_json)
            if answer.has_begun:
                raise
            await told(scope, receive, answer.send)

    async def _refuse(self, scope: Scope, headers: Headers, body: _Body) -> Verdict | None:
        session = self._session(headers)
        verdict = judge(
            Asked(
                method=scope["method"],
                path=scope["path"],
                hosts=tuple(headers.getlist("host")),
                origins=tuple(headers.getlist("origin")),
                site=headers.get("sec-fetch-site", ""),
                referer=headers.get("referer", ""),
                bearer=_bearer(headers.get("authorization", "")),
                has_session=session is not None,
            ),
            self._context.port,
            self._context.token,
        )
        if verdict is not Verdict.PASS:
            return verdict
        if door_of(scope["path"]) in (Door.TOKEN, Door.PUBLIC):
            return None
        if session is not None:
            scope["sapwood.session"] = session
        if scope["method"] in SAFE_METHODS or session is None:
            return None
        whole = await body.whole()
        sent = has_csrf(session, headers.get(CSRF_HEADER, ""), headers.get("content-type", ""), whole)
        return None if sent else Verdict.NO_CSRF

    def _session(self, headers: Headers) -> Session | None:
        for line in headers.getlist("cookie"):
            found = self._context.sessions.find(cookie_parser(line).get(self._cookie))
            if found is not None:
                return found
        return None


def _bearer(header: str) -> str:
    scheme, _, credentials = header.partition(" ")
    return credentials.strip() if scheme.lower() == "bearer" else ""


class _Answer:
    """Puts our headers on what is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.has_begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("referrer-policy", REFERRER_POLICY)
            headers.setdefault("cache-control", "no-store")
        await self._send(message)


class _Body:
    """A request's body, of bounded size and patience. Read whole, it is given to the handler all the same."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive = receive
        self.limit = limit
        self._size = 0
        self._ended = False
        self._whole: bytes | None = None
        self._until = asyncio.get_running_loop().time() + BODY_PATIENCE_S

    async def receive(self) -> Message:
        if self._whole is not None:
            whole, self._whole = self._whole, None
            return {"type": "http.request", "body": whole, "more_body": False}
        if self._ended:
            return await self._receive()  # it waits for the client to go
        return await self._next()

    async def whole(self) -> bytes:
        """Read all of it, keep it for the handler, and return it."""
        parts: list[bytes] = []
        while not self._ended:
            parts.append((await self._next()).get("body", b""))
        self._whole = b"".join(parts)
        return self._whole

    async def discard(self) -> None:
        """Read what there is still of it, within limits, and keep nothing."""
        left = DISCARDED_BYTES
        try:
            while not self._ended and left > 0:
                left -= len((await self._one()).get("body", b""))
        except BodyTooSlow:
            return

    async def _next(self) -> Message:
        message = await self._one()
        self._size += len(message.get("body", b""))
        if self._size > self.limit:
            raise BodyTooLarge
        return message

    async def _one(self) -> Message:
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError as error:
            raise BodyTooSlow from error
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._ended = True
        return message
