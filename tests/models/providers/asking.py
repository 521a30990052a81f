"""What the tests of the providers ask, and how they take what comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from agent.errors import JobFailure
from agent.models.providers.opening import open_provider
from agent.models.providers.protocol import ChatAsk, Endpoint, Message, Provider
from tests.models.providers.server import Asked, Handler, Server, serving

PROVIDERS = ("ollama", "openai", "anthropic")
SCHEMA = {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}}
SECRET_WORDS = "Marlena Quist inherits the orchard behind the mill"
ASK = ChatAsk((Message("system", "Be brief."), Message("user", SECRET_WORDS)), 20, 64)

_Answer = TypeVar("_Answer")


def run(work: Coroutine[Any, Any, _Answer]) -> _Answer:
    """Run to the end, within a deadline that no test should come near."""

    async def bounded() -> _Answer:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(bounded())


def endpoint(provider: str, server: Server | str, **changes: Any) -> Endpoint:
    url = server if isinstance(server, str) else server.url + ("/v1" if provider == "openai" else "")
    return replace(Endpoint(provider, url, "small-model"), **changes)


@asynccontextmanager
async def opened(provider: str, server: Server | str, **changes: Any) -> AsyncIterator[Provider]:
    made = open_provider(endpoint(provider, server, **changes))
    try:
        yield made
    finally:
        await made.close()
        await asyncio.sleep(0)


async def failure_of(work: Awaitable[object]) -> JobFailure:
    with pytest.raises(JobFailure) as caught:
        await work
    return caught.value


async def chat_with(provider: str, script: Handler, ask: ChatAsk = ASK, **changes: Any) -> Any:
    """Return the answer to one question, and what the server was asked."""
    async with serving(script) as server, opened(provider, server, **changes) as made:
        return await made.chat(ask), server


async def failure_with(provider: str, script: Handler, ask: ChatAsk = ASK, **changes: Any) -> JobFailure:
    """Return the failure that one question ends with."""
    async with serving(script) as server, opened(provider, server, **changes) as made:
        return await failure_of(made.chat(ask))


def saying(status: int, body: object, headers: dict[str, str] | None = None, kind: str = "application/json") -> Handler:
    """Return a script that answers every chat with this."""
    return on_chat(lambda asked: asked.answer(status, body, headers, kind))


def on_chat(do: Callable[[Asked], Awaitable[None]]) -> Handler:
    """Return a script for chats; a model is shown as it should be."""

    async def script(asked: Asked) -> None:
        if asked.path == "/api/show":
            await shown(asked)
        else:
            await do(asked)

    return script


async def shown(asked: Asked, context: int = 32_768, capabilities: tuple[str, ...] = ("completion",)) -> None:
    info = {"general.architecture": "llama", "llama.context_length": context, "llama.embedding_length": 64}
    await asked.answer(200, {"model_info": info, "capabilities": list(capabilities)})


async def answered(
    asked: Asked, text: str = "Well.", finish: str = "", tokens: tuple[int, int] | None = (21, 5)
) -> None:
    """Answer a chat in the dialect that it was asked in, as a stream."""
    if asked.path == "/api/chat":
        counts = {"prompt_eval_count": tokens[0], "eval_count": tokens[1]} if tokens else {}
        half = len(text) // 2
        await asked.lines(
            {"model": "small-model", "message": {"role": "assistant", "content": text[:half]}, "done": False},
            {
                "model": "small-model",
                "message": {"role": "assistant", "content": text[half:]},
                "done": True,
                "done_reason": finish or "stop",
                **counts,
            },
        )
    elif asked.path.endswith("/chat/completions"):
        usage = (
            [{"choices": [], "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}}] if tokens else []
        )
        await asked.events(
            {"model": "small-model", "choices": [{"delta": {"role": "assistant"}}]},
            {"choices": [{"delta": {"content": text}}]},
            {"choices": [{"delta": {}, "finish_reason": finish or "stop"}]},
            *usage,
            "[DONE]",
        )
    else:
        start = {"usage": {"input_tokens": tokens[0], "output_tokens": 1}} if tokens else {}
        end = {"usage": {"output_tokens": tokens[1]}} if tokens else {}
        await asked.events(
            {"type": "message_start", "message": {"model": "small-model", **start}},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": finish or "end_turn"}, **end},
            {"type": "message_stop"},
        )
