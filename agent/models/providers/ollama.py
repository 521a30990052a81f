"""Ollama by its own protocol: the one that takes a context size, and says what it cut.

The size of the context is always sent. Left to itself the server takes 4,096 tokens or whatever is set there, and cuts
a longer prompt from its beginning without a word, instructions first.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from agent.errors import JobFailure
from agent.models.providers.bounded import failure_below, within_limits
from agent.models.providers.dialect import told_in_words
from agent.models.providers.failures import Failing, Reply
from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, Finish, ModelFacts
from agent.models.providers.shapes import BrokenOff, WrongShape, count, vectors
from agent.tokens import count_tokens

_Answer = TypeVar("_Answer")

SMALLEST_CONTEXT = 4_096
UNKNOWN_CONTEXT = 8_192
MARGIN = 1.3
"""Tokenizers and the template around the messages take up to this much more than our own count, nearly always."""
TEMPLATE_TOKENS = 64
_CUT_SLACK = 8
_CUT = re.compile(
    r"exceeds? (?:the )?(?:available |maximum )?context|context (?:length|size|window)|prompt (?:is )?too long", re.I
)
_NO_THINKING = re.compile(r"does not support thinking|think\b.*not support|invalid think", re.I)
_FINISHES = {"stop": Finish.STOP, "length": Finish.LENGTH}


@dataclass(frozen=True)
class _Model:
    """What ``/api/show`` says about a model."""

    context_tokens: int | None
    can_think: bool


class _Overflow(Exception):
    """The server cut the prompt, or would have."""


class OllamaProvider:
    """Chat, embeddings and the models of one Ollama."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._failing = Failing(endpoint)
        self._client: Any = None
        self._shown: dict[str, _Model] = {}
        self._margin = MARGIN
        self._no_thinking = False
        self._headers: dict[str, str] = {}

    async def chat(self, ask: ChatAsk) -> ChatAnswer:
        """Return the answer; see ``Provider``. A prompt that cannot fit raises before anything is sent of it."""
        return await self._call(lambda: self._chat(ask), (each.text for each in ask.messages))

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        """Return one vector for each text; see ``Provider``."""
        if not self._endpoint.embedding_model:
            raise self._failing.no_embeddings()
        if not texts:
            return EmbedAnswer([], 0)
        return await self._call(lambda: self._embed(list(texts)), texts, self._endpoint.embedding_model)

    async def models(self) -> tuple[ModelFacts, ...]:
        """Return the models that are installed."""
        return await self._call(self._models)

    async def facts(self) -> ModelFacts:
        """Return what the server says about the chat model; the size is that in memory once it is loaded."""
        return await self._call(self._facts)

    async def close(self) -> None:
        """Close what is open. Never raises."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.close()
            except Exception:
                logging.getLogger("sapwood.models").debug("a model client did not close cleanly")

    async def _call(
        self, work: Callable[[], Awaitable[_Answer]], asked: Iterable[str] = (), model: str = ""
    ) -> _Answer:
        texts = tuple(asked)
        model = model or self._endpoint.chat_model

        def translate(error: Exception) -> JobFailure:
            import httpx

            ollama = load()
            if isinstance(error, ollama.ResponseError):
                status = error.status_code if error.status_code >= 300 else 500
                reply = Reply(status, message=str(error.error), headers=self._headers)
                return self._failing.of_reply(reply, int(time.time() * 1_000), texts, model)
            if isinstance(error, _Overflow):
                return self._failing.too_long(model)
            if isinstance(error, BrokenOff):
                return self._failing.broken_off()
            if isinstance(error, WrongShape):
                return self._failing.bad_answer(str(error))
            return failure_below(error, httpx, self._endpoint, self._failing)

        return await within_limits(self._endpoint, self._failing, work, translate)

    def _opened(self) -> Any:
        if self._client is None:
            import httpcore
            import httpx

            from agent.models.providers.connecting import client_settings

            async def remember(response: httpx.Response) -> None:
                self._headers = {name.lower(): value for name, value in response.headers.items()}

            self._client = load().AsyncClient(
                host=self._endpoint.base_url,
                headers={"authorization": f"Bearer {self._endpoint.key}"} if self._endpoint.key else None,
                event_hooks={"response": [remember]},
                **client_settings(httpx, httpcore, self._endpoint, _with_truncation_off),
            )
        return self._client

    async def _chat(self, ask: ChatAsk) -> ChatAnswer:
        model = await self._model(self._endpoint.chat_model)
        limit = self._limit(model)
        smallest = 0
        while True:
            needed = int((ask.prompt_tokens + TEMPLATE_TOKENS) * self._margin) + ask.max_output_tokens
            least = ask.prompt_tokens + ask.max_output_tokens
            if least > limit:
                raise self._failing.too_long(self._endpoint.chat_model, least, limit)
            size = max(context_size(needed, limit), smallest)
            try:
                return await self._ask_once(ask, model, size)
            except _Overflow:
                if size >= limit:
                    raise
                self._margin *= 2  # its tokenizer makes more of this language than ours: a larger context, once more
                smallest = min(2 * size, limit)  # the same size would be refused again

    async def _ask_once(self, ask: ChatAsk, model: _Model, size: int) -> ChatAnswer:
        ollama = load()
        try:
            return await self._read(ask, size, thinks=model.can_think and not self._no_thinking)
        except ollama.ResponseError as error:
            words = str(error.error)
            if _NO_THINKING.search(words) and not self._no_thinking:
                self._no_thinking = True
                return await self._read(ask, size, thinks=False)
            if _CUT.search(words):
                raise _Overflow from None
            raise

    async def _read(self, ask: ChatAsk, size: int, *, thinks: bool) -> ChatAnswer:
        schema = dict(ask.schema) if ask.schema is not None and self._endpoint.json_schema else None
        messages = ask.messages if schema is not None else told_in_words(ask)
        parts = await self._opened().chat(
            model=self._endpoint.chat_model,
            messages=[{"role": each.role, "content": each.text} for each in messages],
            stream=True,
            think=False if thinks else None,
            format=schema,
            options={"num_ctx": size, "num_predict": ask.max_output_tokens, "temperature": 0},
            keep_alive=self._endpoint.keep_alive,
        )
        written: list[str] = []
        async with aclosing(parts):
            async for part in parts:
                if part.message is not None and part.message.content:
                    written.append(part.message.content)
                if part.done:
                    return self._answer(ask, size, "".join(written), part)
        raise BrokenOff

    def _answer(self, ask: ChatAsk, size: int, text: str, last: Any) -> ChatAnswer:
        tokens_in, tokens_out = count(last.prompt_eval_count), count(last.eval_count)
        if _was_cut(tokens_in, size, ask.prompt_tokens):
            raise _Overflow
        # A prompt whose beginning was still in memory was counted without it by older servers, or not at all.
        is_whole = tokens_in is not None and tokens_in * 4 >= ask.prompt_tokens
        return ChatAnswer(
            text,
            tokens_in if tokens_in is not None and is_whole else ask.prompt_tokens,
            count_tokens(text) if tokens_out is None else tokens_out,
            counted=is_whole and tokens_out is not None,
            finish=_FINISHES.get(last.done_reason or "", Finish.OTHER),
            model=last.model or self._endpoint.chat_model,
        )

    async def _embed(self, texts: list[str]) -> EmbedAnswer:
        name = self._endpoint.embedding_model
        limit = (await self._model(name)).context_tokens or UNKNOWN_CONTEXT
        longest = max(map(count_tokens, texts))
        answer = await self._opened().embed(
            model=name,
            input=texts,
            truncate=False,
            options={"num_ctx": context_size(int((longest + TEMPLATE_TOKENS) * MARGIN), limit)},
            keep_alive=self._endpoint.keep_alive,
        )
        tokens = count(answer.prompt_eval_count)
        return EmbedAnswer(
            vectors([list(row) for row in answer.embeddings], len(texts)),
            sum(map(count_tokens, texts)) if tokens is None else tokens,
            counted=tokens is not None,
        )

    async def _models(self) -> tuple[ModelFacts, ...]:
        listed = await self._opened().list()
        return tuple(ModelFacts(each.model, count(each.size)) for each in listed.models if each.model)

    async def _facts(self) -> ModelFacts:
        name = self._endpoint.chat_model
        model = await self._model(name, afresh=True)
        loaded = next((each for each in (await self._opened().ps()).models if _is_same(each.model, name)), None)
        if loaded is not None:
            return ModelFacts(name, count(loaded.size), self._limit(model), is_loaded=True)
        on_disk = next((each for each in await self._models() if _is_same(each.name, name)), None)
        return ModelFacts(name, on_disk.size_bytes if on_disk else None, self._limit(model), is_loaded=False)

    async def _model(self, name: str, *, afresh: bool = False) -> _Model:
        if afresh or name not in self._shown:
            shown = await self._opened().show(name)
            info = shown.modelinfo or {}
            family = info.get("general.architecture")
            context = count(info.get(f"{family}.context_length"))
            if context is None:
                context = next((count(info[each]) for each in info if each.endswith(".context_length")), None)
            # Servers that tell no capabilities are older than the word; those that think then are told not to.
            can_think = shown.capabilities is not None and "thinking" in shown.capabilities
            self._shown[name] = _Model(context or None, can_think)
        return self._shown[name]

    def _limit(self, model: _Model) -> int:
        known = [each for each in (model.context_tokens, self._endpoint.context_tokens) if each]
        return min(known, default=UNKNOWN_CONTEXT)


def load() -> Any:
    """Return the SDK, imported without a look at the proxies of the environment. Blocks the first time."""
    # Importing it makes a client at once, from whatever proxies the environment names, and fails where one of them is
    # of a kind that it does not know (a desktop's socks://). No client of ours is made that way.
    if "ollama" not in sys.modules:
        before = os.environ.get("no_proxy")
        os.environ["no_proxy"] = "*"
        try:
            import_module("ollama")
        finally:
            if before is None:
                del os.environ["no_proxy"]
            else:
                os.environ["no_proxy"] = before
    return sys.modules["ollama"]


def context_size(needed: int, limit: int) -> int:
    """Return the context to ask for: a power of two of at least 4,096 tokens that holds ``needed``, at most ``limit``.

    Few sizes, because the server loads the model anew for each other one.
    """
    size = SMALLEST_CONTEXT
    while size < needed:
        size *= 2
    return min(size, limit)


def _was_cut(tokens_in: int | None, size: int, prompt_tokens: int) -> bool:
    """Return whether the server's count says that it cut the prompt, as versions do that take no ``truncate``.

    They keep the last half of the context and the first few tokens, and count that. A context that was full says so.
    """
    if tokens_in is None:
        return False
    is_half = size // 2 <= tokens_in <= size // 2 + _CUT_SLACK
    return tokens_in >= size or (is_half and tokens_in < prompt_tokens)


def _with_truncation_off(body: bytes) -> bytes:
    """Return the body of a chat with what the SDK has no argument for: cut nothing, say that it does not fit."""
    try:
        ask = json.loads(body)
    except ValueError:
        return body
    if not isinstance(ask, dict) or "messages" not in ask:
        return body
    return json.dumps({**ask, "truncate": False, "shift": False}, ensure_ascii=False).encode()


def _is_same(one: str | None, other: str) -> bool:
    return one is not None and one.removesuffix(":latest") == other.removesuffix(":latest")
