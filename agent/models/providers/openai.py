"""Any address that speaks OpenAI's protocol: LM Studio, llama-server, vLLM, OpenRouter, OpenAI itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from agent.models.providers.dialect import Dialect, dialect_of, strict, told_in_words
from agent.models.providers.failures import Reply, reply_of
from agent.models.providers.protocol import ChatAnswer, ChatAsk, EmbedAnswer, Endpoint, Finish, ModelFacts
from agent.models.providers.sdk import NO_KEY, Refused, SdkClient, is_stream, whole
from agent.models.providers.shapes import (
    BrokenOff,
    WrongShape,
    count,
    events,
    first_count,
    items,
    mapping,
    text_of,
    vectors,
)
from agent.tokens import count_tokens

_FINISHES = {"stop": Finish.STOP, "eos": Finish.STOP, "length": Finish.LENGTH, "max_tokens": Finish.LENGTH}
_CONTEXT_NAMES = (
    "loaded_context_length",
    "n_ctx",
    "max_model_len",
    "context_length",
    "context_window",
    "max_context_length",
)


class OpenAIProvider:
    """Chat, embeddings and the list of models of one address."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client = SdkClient(endpoint, self._make)

    async def chat(self, ask: ChatAsk) -> ChatAnswer:
        """Return the answer; see ``Provider``."""
        return await self._client.call(lambda: self._chat(ask), (each.text for each in ask.messages))

    async def embed(self, texts: Sequence[str]) -> EmbedAnswer:
        """Return one vector for each text; see ``Provider``."""
        if not self._endpoint.embedding_model:
            raise self._client.failing.no_embeddings()
        if not texts:
            return EmbedAnswer([], 0)
        return await self._client.call(lambda: self._embed(list(texts)), texts, self._endpoint.embedding_model)

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
        import openai

        return openai.AsyncOpenAI(
            api_key=self._endpoint.key or NO_KEY,
            admin_api_key="",
            base_url=self._endpoint.base_url,
            max_retries=0,
            http_client=http_client,
            timeout=http_client.timeout,
        )

    async def _chat(self, ask: ChatAsk) -> ChatAnswer:
        dialect = dialect_of(self._endpoint)
        while True:
            body = _body(self._endpoint, ask, dialect)
            try:
                return await self._ask_once(ask, body)
            except Refused as refused:
                if not dialect.learn(refused.reply, with_schema="response_format" in body):
                    raise

    async def _ask_once(self, ask: ChatAsk, body: Mapping[str, Any]) -> ChatAnswer:
        async with self._client.post("chat/completions", body) as response:
            if is_stream(response):
                return await self._read_stream(ask, response)
            return self._read_whole(ask, mapping(await whole(response)))

    async def _read_stream(self, ask: ChatAsk, response: Any) -> ChatAnswer:
        written: list[str] = []
        finish, usage, model, is_done = "", None, "", False
        async for name, event in events(response):
            if name == "done":
                is_done = True
                break
            part = mapping(event)
            _raise_error(part)
            usage = part.get("usage") or usage
            model = str(part.get("model") or model)
            for choice in items(part.get("choices", []))[:1]:
                choice = mapping(choice)
                written.append(text_of(mapping(choice.get("delta") or choice.get("message") or {}).get("content")))
                finish = str(choice.get("finish_reason") or finish)
        if not finish and not is_done:
            if not any(written):
                raise WrongShape("no answer in its stream")
            raise BrokenOff
        return self._answer(ask, "".join(written), finish, usage, model)

    def _read_whole(self, ask: ChatAsk, answer: Mapping[str, Any]) -> ChatAnswer:
        _raise_error(answer)
        choices = items(answer.get("choices"))
        if not choices:
            raise WrongShape("no choices")
        choice = mapping(choices[0])
        text = text_of(mapping(choice.get("message")).get("content"))
        return self._answer(
            ask, text, str(choice.get("finish_reason") or ""), answer.get("usage"), str(answer.get("model") or "")
        )

    def _answer(self, ask: ChatAsk, text: str, finish: str, usage: object, model: str) -> ChatAnswer:
        counts = usage if isinstance(usage, Mapping) else {}
        tokens_in, tokens_out = count(counts.get("prompt_tokens")), count(counts.get("completion_tokens"))
        return ChatAnswer(
            text,
            ask.prompt_tokens if tokens_in is None else tokens_in,
            count_tokens(text) if tokens_out is None else tokens_out,
            counted=tokens_in is not None and tokens_out is not None,
            finish=_FINISHES.get(finish, Finish.OTHER),
            model=model or self._endpoint.chat_model,
        )

    async def _embed(self, texts: list[str]) -> EmbedAnswer:
        body = {"model": self._endpoint.embedding_model, "input": texts}
        answer = mapping(await self._client.post_json("embeddings", body))
        _raise_error(answer)
        rows = [mapping(row) for row in items(answer.get("data"))]
        if all(count(row.get("index")) is not None for row in rows):
            rows.sort(key=lambda row: int(row["index"]))
        usage = answer.get("usage")
        tokens = count(usage.get("prompt_tokens")) if isinstance(usage, Mapping) else None
        return EmbedAnswer(
            vectors([row.get("embedding") for row in rows], len(texts)),
            sum(map(count_tokens, texts)) if tokens is None else tokens,
            counted=tokens is not None,
        )

    async def _models(self) -> tuple[ModelFacts, ...]:
        answer = await self._client.get("models")
        rows = answer if isinstance(answer, list) else mapping(answer).get("data")
        return tuple(_facts_of(mapping(row)) for row in items(rows))

    async def _facts(self) -> ModelFacts:
        name = self._endpoint.chat_model
        try:
            listed = await self._models()
        except Refused as refused:
            if refused.reply.status not in (404, 405, 501):
                raise
            return ModelFacts(name)  # it has no list
        found = next((each for each in listed if each.name == name), None)
        if found is None:
            if len(listed) != 1 or not self._endpoint.local_only:
                raise Refused(Reply(404, "model_not_found"))
            found = listed[0]  # a server of one model answers to any name
        context = await self._served_context(found.name) if self._endpoint.local_only else None
        return ModelFacts(name, found.size_bytes, context or found.context_tokens, found.is_loaded)

    async def _served_context(self, model: str) -> int | None:
        """Ask what is really served: a list often tells what the model was trained for."""
        parts = urlsplit(self._endpoint.base_url)
        root = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        for page in ("/props", "/api/v0/models"):  # llama-server; LM Studio
            try:
                answer = mapping(await self._client.get(root + page))
            except (Refused, WrongShape):
                continue
            if isinstance(answer.get("default_generation_settings"), Mapping):
                return first_count(answer["default_generation_settings"], "n_ctx")
            rows = answer.get("data")
            for row in rows if isinstance(rows, list) else []:
                if isinstance(row, Mapping) and row.get("id") == model:
                    return first_count(row, "loaded_context_length", "max_context_length")
        return None


def _body(endpoint: Endpoint, ask: ChatAsk, dialect: Dialect) -> dict[str, Any]:
    with_schema = ask.schema is not None and endpoint.json_schema and dialect.has_schema
    messages = ask.messages if with_schema else told_in_words(ask)
    body: dict[str, Any] = {
        "model": endpoint.chat_model,
        "messages": [{"role": each.role, "content": each.text} for each in messages],
        dialect.limit_name: ask.max_output_tokens,
        "stream": True,
    }
    if dialect.has_stream_options:
        body["stream_options"] = {"include_usage": True}
    if dialect.has_temperature:
        body["temperature"] = 0
    if with_schema and ask.schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": ask.schema_name, "strict": True, "schema": strict(ask.schema)},
        }
    return body


def _raise_error(answer: Mapping[str, Any]) -> None:
    if answer.get("error"):
        reply = reply_of(200, answer)
        raise Refused(reply if reply.status >= 400 else Reply(500, reply.code, reply.message, reply.param))


def _facts_of(row: Mapping[str, Any]) -> ModelFacts:
    name = row.get("id") or row.get("name")
    if not isinstance(name, str):
        raise WrongShape("a model without a name")
    meta = row.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    state = row.get("state")
    return ModelFacts(
        name,
        size_bytes=first_count(meta, "size"),
        context_tokens=first_count(row, *_CONTEXT_NAMES) or first_count(meta, "n_ctx", "n_ctx_train"),
        is_loaded=state == "loaded" if isinstance(state, str) else None,
    )
