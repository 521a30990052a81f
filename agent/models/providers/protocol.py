"""What every provider can be asked, and what it answers.

A provider speaks one protocol to one address. Its methods are coroutines on the SDK's own async client, so that
cancelling one closes the socket, before the first token too. What goes wrong is raised as a ``JobFailure`` with a code
of the design: ``auth_failed``, ``budget_exhausted``, ``model_missing``, ``context_overflow``, ``rate_limited`` (with
``retry_after_ms`` where the server said so), ``unreachable``, ``bad_output``, ``low_memory``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol


class Finish(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"  # the output limit cut it
    OTHER = "other"  # refused, filtered, or nothing was said about it


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True)
class ChatAsk:
    """One question. ``prompt_tokens`` is our own count of all messages, ``schema`` the JSON schema of the answer."""

    messages: tuple[Message, ...]
    prompt_tokens: int
    max_output_tokens: int
    schema: Mapping[str, Any] | None = None
    schema_name: str = "answer"


@dataclass(frozen=True)
class ChatAnswer:
    """What was answered, its thinking stripped by nobody yet. ``counted``: the server said how many tokens it took;
    otherwise they are our own estimate. ``model`` is what the server says it is.
    """

    text: str
    tokens_in: int
    tokens_out: int
    counted: bool = True
    finish: Finish = Finish.STOP
    model: str = ""


@dataclass(frozen=True)
class EmbedAnswer:
    """One vector for each text, in their order, as the server gave them."""

    vectors: Sequence[Sequence[float]]
    tokens_in: int
    counted: bool = True


@dataclass(frozen=True)
class ModelFacts:
    """What a server says about one of its models; ``None`` where it says nothing. Sizes in bytes and tokens."""

    name: str
    size_bytes: int | None = None
    context_tokens: int | None = None
    is_loaded: bool | None = None


@dataclass(frozen=True)
class Endpoint:
    """Where a provider is and how it is spoken to; made from a profile and its key. The key is in no ``repr``.

    ``local_only``: the connection is refused to any address but loopback and those of ``local_hosts``, whatever a name
    resolves to, and no proxy is used. Redirects are followed nowhere. Times in seconds.
    """

    provider: str
    base_url: str
    chat_model: str
    embedding_model: str = ""
    key: str | None = field(default=None, repr=False)
    local_only: bool = True
    local_hosts: tuple[str, ...] = ()
    context_tokens: int | None = None
    keep_alive: str = "5m"
    json_schema: bool = True
    connect_s: float = 10.0
    read_s: float = 120.0
    total_s: float = 270.0


class Provider(Protocol):
    """One address. Used within one event loop; ``close`` ends its connections."""

    async def chat(self, ask: ChatAsk) -> ChatAnswer:
        """Return the answer. Takes at most ``total_s``."""
        ...

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        """Return one vector for each text. Takes at most ``total_s``."""
        ...

    async def models(self) -> tuple[ModelFacts, ...]:
        """Return the models that the server has."""
        ...

    async def facts(self) -> ModelFacts:
        """Return what the server says about the chat model; raises ``model_missing`` where it has no such model."""
        ...

    async def close(self) -> None:
        """Close what is open. Never raises."""
        ...
