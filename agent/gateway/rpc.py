"""JSON-RPC 2.0 for the programs of this machine: ``POST /rpc`` with the bearer token.

Requests, notifications and batches. What cannot be done is said with the standard's codes; an error of ours is -32000
with its title as the message and title, detail and hint in ``data``. No word of what was sent goes into a log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent.actions.capabilities import BUILT, Capability
from agent.db.faults import is_database_fault
from agent.errors import DatabaseCorrupt, SapwoodError
from agent.gateway.calls import CALLS, WrongParams, plain, read_params
from agent.gateway.rpc_ingest import IngestParams, content_of
from agent.gateway.serving import with_home

if TYPE_CHECKING:
    from agent.actions.home import Home

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
FAULT = -32000
"""An error of ours: what happened, to what, and what to do."""

BATCH_AT_ONCE = 100
DOCTOR = "`sapwood doctor` says what is wrong, and how to mend it"

_log = logging.getLogger("sapwood.gateway")


@dataclass(frozen=True)
class Method:
    """A method by what it takes and does; ``waits``: it may wait for a model."""

    params: type[msgspec.Struct]
    run: Callable[[Home, Any], Any]
    waits: bool = False


class RpcError(Exception):
    """What a caller is told: a code of the standard, a message, and more in ``data``."""

    def __init__(self, code: int, message: str, data: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            found["data"] = self.data
        return found


def _ingest(home: Home, params: IngestParams) -> Any:
    from agent.actions.assistants_push import ingest

    return ingest(home, params.source_id, content_of(params), name=params.name, private=params.private)


def methods() -> dict[str, Method]:
    """Return the methods that there are, by name."""
    found = {f"memory.{call.rpc}": Method(call.params, call.run, call.waits) for call in CALLS}
    if Capability.REMEMBER in BUILT:
        found["memory.ingest"] = Method(IngestParams, _ingest)
    return found


METHODS = methods()


async def _rpc(request: Request) -> Response:
    body = await request.body()
    try:
        asked = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _json(_failed(None, RpcError(PARSE_ERROR, "this is not JSON")))
    if not isinstance(asked, list):
        answer = await _answer(request, asked)
        return Response(status_code=204) if answer is None else _json(answer)
    if not asked:
        return _json(_failed(None, RpcError(INVALID_REQUEST, "an empty batch asks for nothing")))
    if len(asked) > BATCH_AT_ONCE:
        message = f"a batch has at most {BATCH_AT_ONCE} requests"
        return _json(_failed(None, RpcError(INVALID_REQUEST, message)))
    # One after the other: a batch may fetch what it has just handed in.
    answers = [answer for each in asked if (answer := await _answer(request, each)) is not None]
    return _json(answers) if answers else Response(status_code=204)


async def _answer(request: Request, asked: Any) -> dict[str, Any] | None:
    """Return the answer to one request; ``None`` to a notification, which is carried out all the same."""
    identity = asked.get("id") if isinstance(asked, dict) else None
    try:
        name, params = _read(asked)
    except RpcError as error:
        known = identity if isinstance(identity, str | int | float) and not isinstance(identity, bool) else None
        return _failed(known, error)
    try:
        answer = {"jsonrpc": "2.0", "id": identity, "result": await _call(request, name, params)}
    except RpcError as error:
        answer = _failed(identity, error)
    return answer if "id" in asked else None


def _read(asked: Any) -> tuple[str, Any]:
    if not isinstance(asked, dict):
        raise RpcError(INVALID_REQUEST, "a request is an object")
    if asked.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'jsonrpc: a request says "jsonrpc": "2.0"')
    name = asked.get("method")
    if not isinstance(name, str):
        raise RpcError(INVALID_REQUEST, "method: a request names its method, as text")
    identity = asked.get("id")
    if isinstance(identity, bool) or not isinstance(identity, str | int | float | None):
        raise RpcError(INVALID_REQUEST, "id: text, a number or null")
    params = asked.get("params", {})
    if not isinstance(params, dict | list):
        raise RpcError(INVALID_REQUEST, "params: an object")
    return name, params


async def _call(request: Request, name: str, params: Any) -> Any:
    method = METHODS.get(name)
    if method is None:
        known = ", ".join(sorted(METHODS))
        raise RpcError(METHOD_NOT_FOUND, f"there is no method {name[:100]}", {"hint": f"there are: {known}"})
    if isinstance(params, list):
        if params:
            raise RpcError(INVALID_PARAMS, "params: parameters are given by name, in an object")
        params = {}
    try:
        read = read_params(method.params, params, strict=True)
        return plain(await with_home(request, partial(_run, method, read), waits=method.waits))
    except WrongParams as error:
        raise RpcError(INVALID_PARAMS, f"{error.title}: {error.detail}", _data(error)) from error
    except SapwoodError as error:
        raise RpcError(FAULT, error.title, _data(error)) from error
    except Exception as error:
        raise _unforeseen(error) from error


def _run(method: Method, params: Any, home: Home) -> Any:
    return method.run(home, params)


def _data(error: SapwoodError) -> dict[str, str]:
    hint = error.hint
    if isinstance(error, DatabaseCorrupt) and "sapwood doctor" not in hint:
        hint = f"{hint}; {DOCTOR}" if hint else DOCTOR
    return {"title": error.title, "detail": error.detail, "hint": hint}


def _unforeseen(error: Exception) -> RpcError:
    _log.error("a call failed by an error nobody caught", exc_info=error)
    if isinstance(error, OSError):
        title, hint = (
            "the disk did not do what was asked",
            "make some room on it, then send it again: it is not kept yet",
        )
    elif is_database_fault(error):
        title, hint = "the memory cannot be used just now", f"try again in a moment; {DOCTOR}"
    else:
        title, hint = "something went wrong in Sapwood", "the error is in its log; `sapwood bug-report` collects it"
    return RpcError(INTERNAL_ERROR, title, {"title": title, "detail": type(error).__name__, "hint": hint})


def _failed(identity: Any, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": error.as_json()}


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


ROUTES = [Route("/rpc", _rpc, methods=["POST"])]
