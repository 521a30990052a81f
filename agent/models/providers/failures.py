"""What goes wrong between us and a model server, as one mapping for all providers.

A ``Reply`` is what a server said instead of an answer, whatever its dialect. The texts of the failures name the host,
the model and what to do; of the server's own words only its code and a short masked message get in, and that only where
it quotes nothing of what was asked. No failure keeps the SDK's exception: that one holds the request and its headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from agent.errors import JobFailure
from agent.models.providers.protocol import Endpoint
from agent.models.providers.waiting import retry_after_ms
from agent.redact import redact

MAX_SAID = 200
_QUOTED_WINDOW = 12
_KEY_WINDOW = 8
_NAMES = {"ollama": "Ollama", "openai": "the model server", "anthropic": "the model server"}

_TOO_LONG = re.compile(
    r"context[ _](?:length|size|window)|exceed_context_size|maximum context|prompt is too long"
    r"|too many (?:input )?tokens"
    r"|exceeds? the (?:available )?context|input (?:length|is too long)|requested tokens|n_ctx|request_too_large"
    r"|model's max(?:imum)? (?:input|context)|string_above_max_length"
    r"|exceeds? (?:the )?max(?:imum)? (?:input|number of tokens)",
    re.I,
)
_NO_MONEY = re.compile(
    r"insufficient[ _](?:quota|credits?|balance|funds)|billing_error|billing[ _]hard[ _]limit|credit balance is too low"
    r"|exceeded your current quota|payment[ _]required|quota_exceeded|out of credits|spend(?:ing)? limit",
    re.I,
)
_NO_MEMORY = re.compile(
    r"more system memory|out of memory|unable to allocate|insufficient (?:system )?(?:memory|resources)"
    r"|not enough memory|cudamalloc|failed to allocate",
    re.I,
)
_NO_MODEL = re.compile(
    r"model_not_found|^not_found_error\n\nmodel: |not a valid model|no models? (?:is |are )?loaded"
    r"|no such model|unknown model|model\b.{0,100}\b(?:not found|does not exist|not exist|not available)",
    re.I | re.S,
)
_BAD_KEY = re.compile(r"invalid_api_key|incorrect api key|invalid x-api-key|authentication_error|invalid api key", re.I)
_REFUSED_TEXT = re.compile(r"moderation|flagged|content_policy|content_filter", re.I)


@dataclass(frozen=True)
class Reply:
    """What a server said in place of an answer. ``headers`` have names in lower case."""

    status: int
    code: str = ""
    message: str = ""
    param: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def words(self) -> str:
        """Everything that tells what it is about."""
        return f"{self.code}\n{self.param}\n{self.message}"


def reply_of(status: int, body: object, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a reply from the body of an error, in any of the shapes that servers use; never raises."""
    error: Any = body
    if isinstance(error, list) and error:  # Google's compatible address wraps it
        error = error[0]
    if isinstance(error, Mapping) and "error" in error:
        error = error["error"]
    elif isinstance(error, Mapping) and isinstance(error.get("detail"), list | str) and "message" not in error:
        error = {"message": error["detail"]}  # FastAPI
    if not isinstance(error, Mapping):
        text = error if isinstance(error, str) else ""
        is_page = text.lstrip().startswith("<")
        return Reply(status, message="" if is_page else text[:4_000], headers=headers or {})
    code = error.get("code")
    parts = [each for each in (error.get("type"), code) if isinstance(each, str) and each]
    message = error.get("message")
    if isinstance(code, int) and not isinstance(code, bool) and 400 <= code < 600 and status < 400:
        status = code  # an error inside a stream, whose own status was 200
    return Reply(
        status,
        code=" ".join(dict.fromkeys(parts))[:100],
        message=(message if isinstance(message, str) else str(message or ""))[:4_000],
        param=str(error.get("param") or "")[:100],
        headers=headers or {},
    )


def is_too_long(words: str) -> bool:
    """Return whether an error's words are about a prompt that does not fit."""
    return _TOO_LONG.search(words) is not None


class Failing:
    """Makes the failures of one endpoint. ``now_ms`` is asked when a server names a date."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.host = _host_of(endpoint.base_url)
        self._server = _NAMES.get(endpoint.provider, "the model server")

    def of_reply(self, reply: Reply, now_ms: int, asked: Iterable[str] = (), model: str = "") -> JobFailure:
        """Return the failure that a reply means. ``asked`` are the texts that it must not quote."""
        model = model or self._endpoint.chat_model
        said = self.said(reply, asked)
        where = f"{model} at {self.host}"
        detail = f"{where} ({said})" if said else where
        status, words = reply.status, reply.words
        if _NO_MONEY.search(words) or status == 402:
            return JobFailure.unrecoverable(
                "budget_exhausted",
                f"{self.host} says that the credit is used up",
                detail,
                "top up the account, or switch with `sapwood model use NAME`; what waits goes on by itself then",
            )
        if status == 429:
            return JobFailure.transient(
                "rate_limited",
                f"{self.host} asks for a pause",
                detail,
                "it goes on by itself; fewer `max_concurrent` calls of the profile make it rarer",
                retry_after_ms=retry_after_ms(reply.headers, now_ms),
            )
        if _NO_MEMORY.search(words):
            return self.low_memory(detail)
        if status not in (401, 403) and 400 <= status <= 599 and (is_too_long(words) or status == 413):
            return self.too_long(model, said=said)
        if status == 403 and _REFUSED_TEXT.search(words):
            return self.bad_answer("it refused the text that it was sent", detail=detail)
        if status in (401, 403) or _BAD_KEY.search(words):
            return self._auth(status, detail)
        if status in (400, 404, 422) and _NO_MODEL.search(words):
            return self.no_model(model, said=said)
        if 300 <= status < 400:
            return JobFailure.transient(
                "unreachable",
                f"{self.host} sends us to another address",
                f"{where} (HTTP {status}); nothing is sent elsewhere than the profile says",
                "set the `base_url` of the profile to the final address",
            )
        if status == 404:
            return JobFailure.transient(
                "unreachable",
                f"{self.host} has no such page",
                detail,
                f"check the `base_url` of the profile ({_shown(self._endpoint.base_url)})",
            )
        if status in (408, 409, 425) or status >= 500:
            return JobFailure.transient(
                "unreachable",
                f"{self.host} cannot answer just now",
                detail,
                "it is tried again by itself",
                retry_after_ms=retry_after_ms(reply.headers, now_ms, with_resets=False),
            )
        return self.bad_answer(f"it refused the request (HTTP {status})", detail=detail)

    def said(self, reply: Reply, asked: Iterable[str] = ()) -> str:
        """Return the server's own words as far as they may be shown: at most 200 characters, quoting nobody."""
        asked = tuple(asked)
        # A code is a word or two of the server's own; only one that is longer can be a quotation.
        is_quoted = self._quotes_key(reply.code) or (
            len(reply.code) > _QUOTED_WINDOW and self._quotes(reply.code, asked)
        )
        spoken = "" if is_quoted else reply.code
        code = redact(f"HTTP {reply.status} {spoken}".strip() if reply.status >= 300 else spoken)
        message = " ".join(reply.message.split())
        if not message or self._quotes(message, asked):
            return code[:MAX_SAID]
        return f"{code}: {redact(message)}".strip(": ")[:MAX_SAID]

    def _quotes(self, message: str, asked: Iterable[str]) -> bool:
        if self._quotes_key(message):
            return True
        texts = [" ".join(text.split()) for text in asked]
        windows = [message[at : at + _QUOTED_WINDOW] for at in range(max(1, len(message) - _QUOTED_WINDOW + 1))]
        return any(window in text for text in texts for window in windows)

    def _quotes_key(self, text: str) -> bool:
        key = self._endpoint.key or ""
        if any(key[at : at + _KEY_WINDOW] in text for at in range(max(0, len(key) - _KEY_WINDOW + 1))):
            return True
        return bool(key) and key in text

    def _auth(self, status: int, detail: str) -> JobFailure:
        if self._endpoint.key:
            hint = "set another key with `sapwood key set`; what waits goes on by itself then"
            title = f"{self.host} does not accept the key" if status != 403 else f"{self.host} does not allow this"
        else:
            hint = "it wants a key: name one as the `key` of the profile and set it with `sapwood key set`"
            title = f"{self.host} wants a key"
        return JobFailure.unrecoverable("auth_failed", title, detail, hint)

    def no_model(self, model: str, said: str = "") -> JobFailure:
        """Return the failure of a model that the server does not have."""
        hint = "see `sapwood model` for what it has"
        if self._endpoint.provider == "ollama":
            hint = f"`ollama pull {model}` gets it; what waits goes on by itself then"
        detail = f"{model} at {self.host}"
        return JobFailure.unrecoverable(
            "model_missing", f"{self._server} has no such model", f"{detail} ({said})" if said else detail, hint
        )

    def too_long(self, model: str, needed: int | None = None, limit: int | None = None, said: str = "") -> JobFailure:
        """Return the failure of a prompt that does not fit; ``needed`` and ``limit`` in tokens where they are known."""
        sizes = f": about {needed} tokens of {limit}" if needed is not None and limit is not None else ""
        return JobFailure.unrecoverable(
            "context_overflow",
            "the text is longer than the model takes at once",
            f"{model} at {self.host}{sizes}" + (f" ({said})" if said else ""),
            "set the `context_tokens` of the profile to what the server really has, or raise it there",
        )

    def low_memory(self, detail: str) -> JobFailure:
        """Return the failure of a model that does not fit into the memory there is."""
        return JobFailure.transient(
            "low_memory",
            "there is not enough memory for the model",
            detail,
            "close something large, or use a smaller model or a smaller context; it is tried again by itself",
        )

    def bad_answer(self, problem: str, detail: str = "") -> JobFailure:
        """Return the failure of an answer that is of no use."""
        return JobFailure.transient(
            "bad_output",
            f"{self.host} did not answer as a model server does: {problem}",
            detail or f"{self._endpoint.chat_model} at {self.host}",
            f"check the `base_url` and the `provider` of the profile ({_shown(self._endpoint.base_url)})",
        )

    def absent(self) -> JobFailure:
        """Return the failure of a server that nobody answers for."""
        if self._endpoint.provider == "ollama":
            return JobFailure.transient(
                "unreachable",
                f"Ollama does not answer at {self.host}",
                self._endpoint.chat_model,
                "start it (`ollama serve`), or check the `base_url` of the profile",
            )
        hint = "start the model server" if self._endpoint.local_only else "check the network connection"
        return JobFailure.transient(
            "unreachable",
            f"{self.host} does not answer",
            self._endpoint.chat_model,
            f"{hint}, or check the `base_url` of the profile",
        )

    def no_name(self) -> JobFailure:
        """Return the failure of a host that has no address."""
        return JobFailure.transient(
            "unreachable",
            f"{self.host} is not known to the network",
            self._endpoint.chat_model,
            "check the network connection and the `base_url` of the profile",
        )

    def slow(self, limit_s: float, phase: str) -> JobFailure:
        """Return the failure of a server slower than a limit of the profile: ``connect``, ``read`` or ``total``."""
        what = {
            "connect": f"{self.host} did not take the connection in {limit_s:g} s",
            "read": f"{self.host} was silent for {limit_s:g} s",
        }.get(phase, f"{self.host} did not finish in {limit_s:g} s")
        hint = f"a slow machine needs a larger `{phase}_seconds` in the profile, or a smaller model"
        return JobFailure.transient("unreachable", what, self._endpoint.chat_model, hint)

    def broken_off(self) -> JobFailure:
        """Return the failure of an answer that ended in the middle."""
        return JobFailure.transient(
            "unreachable",
            f"{self.host} broke off in the middle",
            self._endpoint.chat_model,
            "it is tried again by itself; if it goes on, look into the log of the server",
        )

    def not_secure(self) -> JobFailure:
        """Return the failure of a server whose certificate proves nothing."""
        return JobFailure.transient(
            "unreachable",
            f"{self.host} could not prove who it is",
            self._endpoint.chat_model,
            "check the clock and the network of this machine; SSL_CERT_FILE names certificates of your own",
        )

    def not_local(self) -> JobFailure:
        """Return the failure of a local profile whose host stands for an address elsewhere."""
        host = urlsplit(self._endpoint.base_url).hostname or self.host
        return JobFailure.unrecoverable(
            "not_local",
            f"{host} is not on this machine, nor a host that you named as local",
            f"nothing was sent; {self._endpoint.chat_model} is a local profile's model",
            "add the address itself to `models.local_hosts` if it is yours",
        )

    def no_embeddings(self) -> JobFailure:
        """Return the failure of a protocol, or a profile, that cannot embed."""
        return JobFailure.unrecoverable(
            "model_missing",
            f"{self.host} makes no embeddings",
            f"the `embedding_model` of the profile is {self._endpoint.embedding_model or 'not set'}",
            "leave `embedding_model` empty: the built-in table embeds then",
        )


def _host_of(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "the address of the profile"
    if not host:
        return "the address of the profile"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{port}" if port is not None else host


def _shown(url: str) -> str:
    # Without a user, a password or a query.
    try:
        parts = urlsplit(url)
    except ValueError:
        return "not an address"
    return f"{parts.scheme}://{_host_of(url)}{parts.path}"
