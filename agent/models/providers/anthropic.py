"""Anthropic's messages protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.models.providers.dialect import Dialect, dialect_of, told_in_words
from agent.models.providers.failures import Reply, reply_of
from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, Finish, ModelFacts
from agent.models.providers.sdk import NO_KEY, Refused, SdkClient, is_stream, whole
from agent.models.providers.shapes import BrokenOff, WrongShape, count, events, first_count, items, mapping, text_of
from agent.tokens import count_tokens

_FINISHES = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
}
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicProvider:
    """Chat and the list of models of one address."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = SdkClient(endpoint, self._make)

    async def chat(self, ask: ChatAsk) -> ChatAnswer:
        """Return the answer; see ``Provider``."""
        return await self._client.call(lambda: self._chat(ask), (each.text for each in ask.messages))

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        """Raise: the protocol has no embeddings."""
        raise self._client.failing.no_embeddings()

    async def models(self) -> tuple[ModelFacts, ...]:
        """Return the models that the server lists."""
        return await self._client.call(self._models)

    async def facts(self) -> ModelFacts:
        """Return what the server says about the chat model; see ``Provider``."""
        return await self._client.call(self._facts)

    async def close(self) -> None:
        """Close what is open. Never raises."""
        await self._client.close()

    def _make(self, http_client: Any) -> Any:
        import anthropic

        return anthropic.AsyncAnthropic(
            api_key=self._endpoint.key or NO_KEY,
            base_url=self._endpoint.base_url,
            max_retries=0,
            http_client=http_client,
            timeout=http_client.timeout,
            open_telemetry=False,
        )

    async def _chat(self, ask: ChatAsk) -> ChatAnswer:
        dialect = dialect_of(self._endpoint)
        while True:
            body = _body(self._endpoint, ask, dialect)
            try:
                return await self._ask_once(ask, body)
            except Refused as refused:
                if not dialect.learn(refused.reply, with_schema="output_config" in body):
                    raise

    async def _ask_once(self, ask: ChatAsk, body: Mapping[str, Any]) -> ChatAnswer:
        async with self._client.post("/v1/messages", body) as response:
            if is_stream(response):
                return await self._read_stream(ask, response)
            return self._read_whole(ask, mapping(await whole(response)))

    async def _read_stream(self, ask: ChatAsk, response: Any) -> ChatAnswer:
        written: list[str] = []
        usage: dict[str, Any] = {}
        finish, model, is_done = "", "", False
        async for name, event in events(response):
            part = mapping(event)
            kind = part.get("type") or name
            _raise_error(part)
            if kind == "message_start":
                message = mapping(part.get("message"))
                model = str(message.get("model") or "")
                usage.update(_usage(message))
            elif kind == "content_block_start":
                block = mapping(part.get("content_block"))
                written.append(text_of(block.get("text")) if block.get("type") == "text" else "")
            elif kind == "content_block_delta":
                delta = mapping(part.get("delta"))
                written.append(text_of(delta.get("text")) if delta.get("type") == "text_delta" else "")
            elif kind == "message_delta":
                finish = str(mapping(part.get("delta")).get("stop_reason") or finish)
                usage.update(_usage(part))
            elif kind == "message_stop":
                is_done = True
                break
        if not is_done and not finish:
            if not any(written):
                raise WrongShape("no answer in its stream")
            raise BrokenOff
        return self._answer(ask, "".join(written), finish, usage, model)

    def _read_whole(self, ask: ChatAsk, answer: Mapping[str, Any]) -> ChatAnswer:
        _raise_error(answer)
        blocks = [mapping(block) for block in items(answer.get("content"))]
        text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
        finish = str(answer.get("stop_reason") or "")
        return self._answer(ask, text, finish, _usage(answer), str(answer.get("model") or ""))

    def _answer(self, ask: ChatAsk, text: str, finish: str, usage: Mapping[str, Any], model: str) -> ChatAnswer:
        tokens_in, tokens_out = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
        if tokens_in is not None:
            cached = ("cache_creation_input_tokens", "cache_read_input_tokens")
            tokens_in += sum(count(usage.get(each)) or 0 for each in cached)
        return ChatAnswer(
            text,
            ask.prompt_tokens if tokens_in is None else tokens_in,
            count_tokens(text) if tokens_out is None else tokens_out,
            counted=tokens_in is not None and tokens_out is not None,
            finish=_FINISHES.get(finish, Finish.OTHER),
            model=model or self._endpoint.chat_model,
        )

    async def _models(self) -> tuple[ModelFacts, ...]:
        answer = mapping(await self._client.get("/v1/models?limit=1000"))
        return tuple(_facts_of(mapping(row)) for row in items(answer.get("data")))

    async def _facts(self) -> ModelFacts:
        try:
            return _facts_of(mapping(await self._client.get(f"/v1/models/{self._endpoint.chat_model}")))
        except Refused as refused:
            if refused.reply.status == 404:
                raise Refused(Reply(404, "model_not_found")) from None
            raise


def _body(endpoint: Endpoint, ask: ChatAsk, dialect: Dialect) -> dict[str, Any]:
    with_schema = ask.schema is not None and endpoint.json_schema and dialect.has_schema
    messages = ask.messages if with_schema else told_in_words(ask)
    body: dict[str, Any] = {
        "model": endpoint.chat_model,
        "max_tokens": ask.max_output_tokens,
        "messages": [{"role": each.role, "content": each.text} for each in messages if each.role != "system"],
        "stream": True,
    }
    system = "\n\n".join(each.text for each in messages if each.role == "system")
    if system:
        body["system"] = system
    if with_schema and ask.schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": _transformed(ask.schema)}}
    return body


def _transformed(schema: Mapping[str, Any]) -> dict[str, Any]:
    # What the API does not check (lengths, ranges) goes into the descriptions; the answer is validated by us anyway.
    import anthropic

    return dict(anthropic.transform_schema(dict(schema)))


def _usage(part: Mapping[str, Any]) -> dict[str, Any]:
    usage = part.get("usage")
    return {name: value for name, value in usage.items() if value is not None} if isinstance(usage, Mapping) else {}


def _raise_error(answer: Mapping[str, Any]) -> None:
    if answer.get("error") or answer.get("type") == "error":
        reply = reply_of(200, answer)
        status = next((_STATUS_OF[word] for word in reply.code.split() if word in _STATUS_OF), 500)
        raise Refused(Reply(status, reply.code, reply.message, reply.param))


def _facts_of(row: Mapping[str, Any]) -> ModelFacts:
    name = row.get("id")
    if not isinstance(name, str):
        raise WrongShape("a model without a name")
    return ModelFacts(name, context_tokens=first_count(row, "max_input_tokens", "context_window"))
