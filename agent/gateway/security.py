"""Who may ask the gateway for what: decided before any handler is called.

A page on 127.0.0.1 is within reach of every web site that the owner visits and of every user of the machine. So:

- the ``Host`` is ours to the port, or a name that somebody pointed at 127.0.0.1 would let a site read (DNS rebinding);
- a browser that says the request comes from elsewhere (``Origin``, ``Sec-Fetch-Site``) is refused. *Same site* is
  elsewhere too: to a browser all ports of 127.0.0.1 are one site, so ``SameSite`` alone keeps no local server out;
- pages want the cookie of a session, what changes something also our origin and the session's token in the form;
- ``/rpc``, ``/mcp`` and ``/link`` want the bearer token and take no cookie, so no page can be made to call them;
- nothing is ever allowed across origins: there is no CORS header in this program.

The decision is a pure function of what counts (``judge``); ``guard`` applies it to requests.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import parse_qs

from agent.gateway.sessions import Session

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"
FORM = "application/x-www-form-urlencoded"
SAFE_METHODS = frozenset({"GET", "HEAD"})
METHODS = SAFE_METHODS | {"POST", "PUT", "PATCH", "DELETE"}


class Door(StrEnum):
    """What an address asks of who comes."""

    ENTER = "enter"  # a one-time link: nothing but the link
    PUBLIC = "public"  # style and script: the same for everybody
    TOKEN = "token"  # programs: the bearer token
    PAGE = "page"  # everything else: the cookie of a session


class Verdict(StrEnum):
    """What is said to a request."""

    PASS = "pass"
    WRONG_HOST = "wrong_host"
    WRONG_METHOD = "wrong_method"
    FOREIGN = "foreign"
    NO_SESSION = "no_session"
    NO_TOKEN = "no_token"
    NO_CSRF = "no_csrf"  # said by the guard, which has the body


@dataclass(frozen=True)
class Asked:
    """What counts of a request. A header that was sent more than once is no header of ours (``hosts``, ``origins``)."""

    method: str
    path: str
    hosts: tuple[str, ...]
    origins: tuple[str, ...] = ()
    site: str = ""
    """``Sec-Fetch-Site``, ``""`` where it was not sent."""
    referer: str = ""
    bearer: str = ""
    has_session: bool = False


def door_of(path: str) -> Door:
    """Return what the address asks of who comes."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    if first == "enter":
        return Door.ENTER
    if first in ("rpc", "mcp", "link"):
        return Door.TOKEN
    if first == "static" or path == "/favicon.ico":
        return Door.PUBLIC
    return Door.PAGE


def judge(asked: Asked, port: int, token: str) -> Verdict:
    """Return what is said to a request, before its body is read."""
    if len(asked.hosts) != 1 or asked.hosts[0] not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        return Verdict.WRONG_HOST
    if asked.method not in METHODS:
        return Verdict.WRONG_METHOD
    own = f"http://{asked.hosts[0]}"
    door = door_of(asked.path)
    if door is Door.ENTER:
        # Followed from a mail or a chat it says that it comes from elsewhere; whoever has the link may.
        return Verdict.PASS if asked.method == "GET" else Verdict.WRONG_METHOD
    if any(origin != own for origin in asked.origins) or len(asked.origins) > 1:
        return Verdict.FOREIGN
    if asked.site not in ("", "same-origin", "none"):
        return Verdict.FOREIGN
    if door is Door.TOKEN:
        return Verdict.PASS if _is_same(asked.bearer, token) else Verdict.NO_TOKEN
    if door is Door.PUBLIC:
        return Verdict.PASS if asked.method in SAFE_METHODS else Verdict.WRONG_METHOD
    if not asked.has_session:
        return Verdict.NO_SESSION
    if asked.method not in SAFE_METHODS and not asked.origins and not asked.referer.startswith(f"{own}/"):
        return Verdict.FOREIGN
    return Verdict.PASS


def has_csrf(session: Session, header: str, content_type: str, body: bytes) -> bool:
    """Return whether a request carries its session's token, as a header or as a field of a plain form."""
    if header:
        return _is_same(header, session.csrf)
    if content_type.split(";")[0].strip().lower() != FORM:
        return False
    try:
        fields = parse_qs(body.decode("utf-8"), max_num_fields=10_000)
    except ValueError:
        return False
    return _is_same(fields.get(CSRF_FIELD, [""])[0], session.csrf)


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), wanted.encode())
