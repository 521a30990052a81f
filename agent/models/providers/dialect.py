"""What a server turned out not to understand, remembered for the process and per model, so that it is asked once.

Servers that are compatible with one another differ in details, and say so with a 400 that names what they do not know.
Only such an answer teaches anything: any other 400 stays the failure that it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agent.models.providers.failures import Reply, is_too_long
from agent.models.providers.protocol import ChatAsk, Endpoint, Message

_LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
_COMPLETION_LIMIT_HOSTS = ("api.openai.com", "openai.azure.com")
_UNKNOWN = re.compile(
    r"unsupported|not support|unknown|unrecognized|unexpected|not permitted|forbidden|not allowed|invalid|not available"
    r"|must be|deprecated|cannot|can't|does not|unavailable|not compatible|incompatible",
    re.I,
)
_SCHEMA = re.compile(
    r"response_format|json_schema|output_config|output_format|structured|grammar|guided|\bschema\b", re.I
)
_STATUSES = (400, 404, 422, 500, 501)


@dataclass
class Dialect:
    """How one model of one server is spoken to."""

    limit_name: str = "max_tokens"
    has_schema: bool = True
    has_temperature: bool = True
    has_stream_options: bool = True
    refused_limits: set[str] = field(default_factory=set)

    def learn(self, reply: Reply, *, with_schema: bool) -> bool:
        """Take in what a reply says is not understood; return whether the call is worth asking in another way."""
        if reply.status not in _STATUSES:
            return False
        words = reply.words
        if not _UNKNOWN.search(words) or is_too_long(words):  # what does not fit names parameters too
            return False
        if reply.status < 500 and re.search(rf"\b{self.limit_name}\b", words) and self._take_other_limit():
            return True
        if self.has_stream_options and "stream_options" in words:
            self.has_stream_options = False
            return True
        if self.has_temperature and "temperature" in words:
            self.has_temperature = False
            return True
        if with_schema and self.has_schema and _SCHEMA.search(words):
            self.has_schema = False
            return True
        return False

    def _take_other_limit(self) -> bool:
        self.refused_limits.add(self.limit_name)
        other = next((each for each in _LIMIT_NAMES if each not in self.refused_limits), None)
        if other is None:
            return False
        self.limit_name = other
        return True


_known: dict[tuple[str, str, str], Dialect] = {}


def dialect_of(endpoint: Endpoint) -> Dialect:
    """Return what this process knows about the chat model of an endpoint; the same object each time."""
    key = (endpoint.provider, endpoint.base_url, endpoint.chat_model)
    if key not in _known:
        host = urlsplit(endpoint.base_url).hostname or ""
        is_openai = endpoint.provider == "openai" and host.endswith(_COMPLETION_LIMIT_HOSTS)
        _known[key] = Dialect(
            limit_name="max_completion_tokens" if is_openai else "max_tokens",
            # Models that think refuse any other temperature than their own; local ones write cleaner JSON at zero.
            has_temperature=endpoint.local_only,
        )
    return _known[key]


def forget_dialects() -> None:
    """Forget all of it (tests; a server may have been updated)."""
    _known.clear()


def told_in_words(ask: ChatAsk) -> tuple[Message, ...]:
    """Return the messages with the schema told at the end, for servers that take none."""
    if ask.schema is None:
        return ask.messages
    shape = json.dumps(ask.schema, ensure_ascii=False, separators=(",", ":"))
    told = f"\n\nAnswer with one JSON object and nothing else. Its JSON schema:\n{shape}"
    last = ask.messages[-1]
    return (*ask.messages[:-1], Message(last.role, last.text + told))


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in which every object is closed and every property required, as strict modes want it."""
    return {name: _strict(name, value) for name, value in _closed(schema).items()}


def _strict(name: str, value: Any) -> Any:
    if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
        return {key: strict(each) if isinstance(each, Mapping) else each for key, each in value.items()}
    if isinstance(value, Mapping):
        return strict(value) if name != "default" else value
    if isinstance(value, list):
        return [strict(each) if isinstance(each, Mapping) else each for each in value]
    return value


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    closed = {name: value for name, value in schema.items() if name not in ("default", "title")}
    if isinstance(closed.get("properties"), Mapping):
        closed["additionalProperties"] = False
        closed["required"] = list(closed["properties"])
    return closed
