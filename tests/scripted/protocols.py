"""The three protocols on the wire: what a request asks, and how answers and errors are worded."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.tokens import count_tokens
from tests.scripted.answers import Question, embedding
from tests.scripted.behaviour import Behaviour

OPENAI, OLLAMA, ANTHROPIC = "openai", "ollama", "anthropic"
PARTS = 6


@dataclass(frozen=True)
class ServedModel:
    """A model that the server says it has."""

    name: str
    context_tokens: int = 8_192
    size_bytes: int = 100_000_000


@dataclass(frozen=True)
class Request:
    """What a request is about, whatever its dialect. ``protocol`` and ``kind`` as in ``record.Call``."""

    protocol: str
    kind: str
    model: str = ""
    question: Question | None = None
    texts: tuple[str, ...] = ()
    streams: bool = False

    @property
    def tokens(self) -> int:
        texts = self.question.texts if self.question is not None else self.texts
        return sum(map(count_tokens, texts))


@dataclass(frozen=True)
class Reply:
    """What goes back: ``parts`` of a body. ``media`` is its type, ``streams`` whether it is sent part by part."""

    status: int
    media: str
    parts: tuple[bytes, ...]
    streams: bool = False


def read(method: str, path: str, headers: Mapping[str, str], body: Any) -> Request:
    """Return what a request is about."""
    path = path.partition("?")[0]
    body = body if isinstance(body, Mapping) else {}
    model = str(body.get("model") or body.get("name") or "")
    if path in ("/v1/messages", "/messages"):
        schema = _at(body, "output_config", "format", "schema")
        texts = (_text(body.get("system")), *(_text(each["content"]) for each in body["messages"]))
        return Request(ANTHROPIC, "chat", model, Question(texts, schema), streams=bool(body.get("stream")))
    if path.endswith("/chat/completions"):
        schema = _at(body, "response_format", "json_schema", "schema")
        texts = tuple(_text(each["content"]) for each in body["messages"])
        return Request(OPENAI, "chat", model, Question(texts, schema), streams=bool(body.get("stream")))
    if path == "/api/chat":
        schema = body.get("format") if isinstance(body.get("format"), Mapping) else None
        texts = tuple(_text(each["content"]) for each in body["messages"])
        return Request(OLLAMA, "chat", model, Question(texts, schema), streams=bool(body.get("stream", True)))
    if path.endswith("/embeddings") or path == "/api/embed":
        given = body.get("input", "")
        texts = (given,) if isinstance(given, str) else tuple(given)
        return Request(OLLAMA if path == "/api/embed" else OPENAI, "embed", model, texts=texts)
    if path in ("/api/show", "/api/ps", "/api/version", "/api/tags"):
        return Request(OLLAMA, "models" if path == "/api/tags" else "facts", model)
    if "/models" in path and method == "GET":
        name = path.partition("/models/")[2]
        protocol = ANTHROPIC if "anthropic-version" in headers else OPENAI
        return Request(protocol, "facts" if name else "models", name)
    return Request(OPENAI, "other")


def good(request: Request, text: str, behaviour: Behaviour) -> Reply:
    """Return the answer to a chat, whose text is given, in its protocol's words."""
    tokens = (request.tokens, count_tokens(text)) if behaviour.counts else None
    if request.protocol == OPENAI:
        return _openai(request, text, behaviour.finish, tokens)
    if request.protocol == OLLAMA:
        return _ollama(request, text, behaviour.finish, tokens)
    return _anthropic(request, text, behaviour.finish, tokens or (request.tokens, count_tokens(text)))


def embedded(request: Request, behaviour: Behaviour) -> Reply:
    """Return the vectors of the texts that were sent."""
    vectors = [embedding(text) for text in request.texts]
    if request.protocol == OLLAMA:
        answer: dict[str, Any] = {"model": request.model, "embeddings": vectors}
        return _json(answer | ({"prompt_eval_count": request.tokens} if behaviour.counts else {}))
    rows = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(vectors)]
    usage = {"usage": {"prompt_tokens": request.tokens, "total_tokens": request.tokens}} if behaviour.counts else {}
    return _json({"object": "list", "model": request.model, "data": rows, **usage})


def listed(request: Request, path: str, models: Sequence[ServedModel]) -> Reply:
    """Return what the server says about its models, and about one of them where it is asked for it."""
    path = path.partition("?")[0]
    found = next((each for each in models if request.model in (each.name, f"{each.name}:latest")), None)
    if path == "/api/version":
        return _json({"version": "0.0.0-scripted"})
    if path in ("/api/tags", "/api/ps"):
        rows = [
            {"name": each.name, "model": each.name, "size": each.size_bytes, "context_length": each.context_tokens}
            for each in models
        ]
        return _json({"models": rows})
    if request.kind == "models":
        rows = [_model_row(each) for each in models]
        return _json({"object": "list", "data": rows, "has_more": False})
    if found is None:
        return trouble_of(request, "no_model")
    if path == "/api/show":
        info = {"general.architecture": "scripted", "scripted.context_length": found.context_tokens}
        details = {"family": "scripted", "parameter_size": "1M", "quantization_level": "Q8_0"}
        return _json({"model_info": info, "details": details, "capabilities": ["completion", "embedding"]})
    return _json(_model_row(found))


_TROUBLES: dict[str, dict[str, tuple[int, str, str]]] = {
    "rate_limited": {
        OPENAI: (429, "rate_limit_exceeded", "Rate limit reached for requests"),
        OLLAMA: (429, "", "too many requests"),
        ANTHROPIC: (429, "rate_limit_error", "This request would exceed your rate limit"),
    },
    "payment": {
        OPENAI: (402, "insufficient_quota", "Insufficient credits"),
        OLLAMA: (402, "", "payment required"),
        ANTHROPIC: (402, "billing_error", "Your credit balance is too low to access the API"),
    },
    "unauthorised": {
        OPENAI: (401, "invalid_api_key", "Incorrect API key provided"),
        OLLAMA: (401, "", "unauthorized"),
        ANTHROPIC: (401, "authentication_error", "invalid x-api-key"),
    },
    "forbidden": {
        OPENAI: (403, "permission_denied", "Your project has no access to this"),
        OLLAMA: (403, "", "forbidden"),
        ANTHROPIC: (403, "permission_error", "Your key has no permission for this resource"),
    },
    "no_model": {
        OPENAI: (404, "model_not_found", "The model `{model}` does not exist"),
        OLLAMA: (404, "", "model '{model}' not found"),
        ANTHROPIC: (404, "not_found_error", "model: {model}"),
    },
    "error_500": {
        OPENAI: (500, "server_error", "The server had an error"),
        OLLAMA: (500, "", "internal error"),
        ANTHROPIC: (500, "api_error", "Internal server error"),
    },
    "unavailable": {
        OPENAI: (503, "service_unavailable", "Loading model"),
        OLLAMA: (503, "", "server busy, please try again"),
        ANTHROPIC: (503, "api_error", "Service unavailable"),
    },
    "overloaded": {
        OPENAI: (529, "overloaded", "Overloaded"),
        OLLAMA: (529, "", "overloaded"),
        ANTHROPIC: (529, "overloaded_error", "Overloaded"),
    },
    "out_of_memory": dict.fromkeys(
        (OPENAI, OLLAMA, ANTHROPIC),
        (500, "server_error", "model requires more system memory (5.6 GiB) than is available (2.1 GiB)"),
    ),
    "too_long_input": {
        OPENAI: (400, "context_length_exceeded", "This model's maximum context length is {limit} tokens"),
        OLLAMA: (400, "", "the input length exceeds the context length"),
        ANTHROPIC: (400, "invalid_request_error", "prompt is too long: {tokens} tokens > {limit} maximum"),
    },
}


def trouble_of(request: Request, name: str, limit: int = 400) -> Reply:
    """Return an error as the request's protocol words it."""
    status, code, words = _TROUBLES[name][request.protocol]
    message = words.format(model=request.model, tokens=request.tokens, limit=limit)
    if request.protocol == OLLAMA:
        return _json({"error": message}, status)
    if request.protocol == ANTHROPIC:
        return _json({"type": "error", "error": {"type": code, "message": message}}, status)
    return _json({"error": {"message": message, "type": code, "code": code, "param": None}}, status)


def misshapen(request: Request, shape: str) -> Reply:
    """Return a body that is none of the protocol's."""
    if shape == "page":
        return Reply(200, "text/html", (b"<!doctype html><html><body>Welcome to the router</body></html>",))
    if shape == "malformed":
        if request.streams and request.protocol != OLLAMA:
            return Reply(200, "text/event-stream", (b'data: {"choices": [{"del\n\n',), streams=True)
        return Reply(200, "application/json", (b'{"message": {"content": "th\n',))
    body: Any = {"list": [1, 2, 3], "null": None, "missing": {"id": "x", "object": "nothing.of.ours"}}[shape]
    if request.streams and request.protocol != OLLAMA:
        return Reply(200, "text/event-stream", (_event(body),), streams=True)
    return Reply(200, "application/json", (json.dumps(body).encode() + b"\n",))


def _openai(request: Request, text: str, finish: str, tokens: tuple[int, int] | None) -> Reply:
    base = {"id": "chatcmpl-scripted", "created": int(time.time()), "model": request.model}
    usage = None
    if tokens is not None:
        usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    if not request.streams:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        return _json({**base, "object": "chat.completion", "choices": [choice], **({"usage": usage} if usage else {})})
    base["object"] = "chat.completion.chunk"
    parts = [
        _event({**base, "choices": [{"index": 0, "delta": {"content": each}, "finish_reason": None}]})
        for each in _pieces(text)
    ]
    parts.append(_event({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}))
    if usage:
        parts.append(_event({**base, "choices": [], "usage": usage}))
    return Reply(200, "text/event-stream", (*parts, b"data: [DONE]\n\n"), streams=True)


def _ollama(request: Request, text: str, finish: str, tokens: tuple[int, int] | None) -> Reply:
    base = {"model": request.model, "created_at": "2026-01-01T00:00:00Z"}
    end: dict[str, Any] = {**base, "done": True, "done_reason": finish, "total_duration": 1}
    if tokens is not None:
        end |= {"prompt_eval_count": tokens[0], "eval_count": tokens[1]}
    if not request.streams:
        return _json({**end, "message": {"role": "assistant", "content": text}})
    rows = [{**base, "message": {"role": "assistant", "content": each}, "done": False} for each in _pieces(text)]
    rows.append({**end, "message": {"role": "assistant", "content": ""}})
    parts = tuple(json.dumps(row).encode() + b"\n" for row in rows)
    return Reply(200, "application/x-ndjson", parts, streams=True)


def _anthropic(request: Request, text: str, finish: str, tokens: tuple[int, int]) -> Reply:
    reason = {"stop": "end_turn", "length": "max_tokens"}[finish]
    message: dict[str, Any] = {"id": "msg_scripted", "type": "message", "role": "assistant", "model": request.model}
    if not request.streams:
        usage = {"input_tokens": tokens[0], "output_tokens": tokens[1]}
        content = [{"type": "text", "text": text}]
        return _json({**message, "content": content, "stop_reason": reason, "stop_sequence": None, "usage": usage})
    start = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": tokens[0], "output_tokens": 1}}
    rows: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": each}}
            for each in _pieces(text)
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": tokens[1]}},
        {"type": "message_stop"},
    ]
    return Reply(200, "text/event-stream", tuple(_event(row, row["type"]) for row in rows), streams=True)


def _pieces(text: str) -> list[str]:
    size = max(1, -(-len(text) // PARTS))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _model_row(model: ServedModel) -> dict[str, Any]:
    # Both dialects at once: each reader takes its own words.
    size = model.context_tokens
    return {"id": model.name, "object": "model", "type": "model", "context_length": size, "max_input_tokens": size}


def _json(value: Any, status: int = 200) -> Reply:
    return Reply(status, "application/json", (json.dumps(value).encode(),))


def _event(value: Any, name: str = "") -> bytes:
    return (f"event: {name}\n" if name else "").encode() + b"data: " + json.dumps(value).encode() + b"\n\n"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else None
