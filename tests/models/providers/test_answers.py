"""Answers are read the same, whoever gives them and in whichever way."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agent.models.providers.protocol import ChatAnswer, Finish, Message, ModelFacts
from agent.tokens import count_tokens
from tests.models.providers.asking import (
    ASK,
    PROVIDERS,
    answered,
    chat_with,
    failure_of,
    on_chat,
    opened,
    run,
    saying,
    shown,
)
from tests.models.providers.server import Asked, serving

TEXT = "Ein Satz, 一句话, et un mot: <think>no</think>"
WHOLE: dict[str, dict[str, Any]] = {
    "openai": {
        "model": "small-model",
        "choices": [{"message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 21, "completion_tokens": 5},
    },
    "anthropic": {
        "type": "message",
        "model": "small-model",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 11, "cache_read_input_tokens": 10, "output_tokens": 5},
    },
    "ollama": {
        "model": "small-model",
        "message": {"role": "assistant", "content": TEXT},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 21,
        "eval_count": 5,
    },
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_streamed_answer_is_read_with_its_counts(provider: str) -> None:
    answer, _ = run(chat_with(provider, on_chat(lambda asked: answered(asked, TEXT))))
    assert answer == ChatAnswer(TEXT, 21, 5, counted=True, finish=Finish.STOP, model="small-model")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_answers_at_once_is_understood_too(provider: str) -> None:
    answer, _ = run(chat_with(provider, saying(200, WHOLE[provider])))
    assert answer == ChatAnswer(TEXT, 21, 5, counted=True, finish=Finish.STOP, model="small-model")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_counts_of_the_server_our_own_are_given_and_said_to_be_so(provider: str) -> None:
    answer, _ = run(chat_with(provider, on_chat(lambda asked: answered(asked, TEXT, tokens=None))))
    assert not answer.counted
    assert (answer.tokens_in, answer.tokens_out) == (ASK.prompt_tokens, count_tokens(TEXT))


@pytest.mark.parametrize(
    ("provider", "word", "finish"),
    [
        ("ollama", "length", Finish.LENGTH),
        ("ollama", "load", Finish.OTHER),
        ("openai", "length", Finish.LENGTH),
        ("openai", "content_filter", Finish.OTHER),
        ("anthropic", "max_tokens", Finish.LENGTH),
        ("anthropic", "model_context_window_exceeded", Finish.LENGTH),
        ("anthropic", "stop_sequence", Finish.STOP),
        ("anthropic", "refusal", Finish.OTHER),
    ],
)
def test_why_an_answer_ended_is_told(provider: str, word: str, finish: Finish) -> None:
    answer, _ = run(chat_with(provider, on_chat(lambda asked: answered(asked, finish=word))))
    assert answer.finish is finish


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_output_limit_is_always_sent(provider: str) -> None:
    _, server = run(chat_with(provider, on_chat(answered)))
    asked = server.asked[-1].json
    sent = asked["options"]["num_predict"] if provider == "ollama" else asked["max_tokens"]
    assert sent == ASK.max_output_tokens


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_conversation_keeps_its_turns(provider: str) -> None:
    turns = (Message("system", "s"), Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    _, server = run(chat_with(provider, on_chat(answered), replace(ASK, messages=turns)))
    asked = server.asked[-1].json
    sent = [(each["role"], each["content"]) for each in asked["messages"]]
    expected = [(each.role, each.text) for each in turns]
    if provider == "anthropic":
        assert asked["system"] == "s"
        expected = expected[1:]
    assert sent == expected


def test_events_without_an_empty_line_between_them_are_read() -> None:
    async def script(asked: Asked) -> None:
        await asked.start_stream()
        await asked.chunk('data: {"choices":[{"delta":{"content":"a"}}]}\ndata: {"choices":[{"delta":{"content":"b"}')
        await asked.chunk(',"finish_reason":"stop"}]}\n: a comment\ndata: [DONE]\n\n')
        await asked.end_stream()

    answer, _ = run(chat_with("openai", on_chat(script)))
    assert answer.text == "ab"


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_vectors_come_in_the_order_of_the_texts(provider: str) -> None:
    async def script(asked: Asked) -> None:
        if asked.path == "/api/show":
            await shown(asked, 512)
        elif asked.path == "/api/embed":
            assert asked.json["truncate"] is False
            assert asked.json["options"]["num_ctx"] == 512
            await asked.answer(200, {"embeddings": [[1.0, 0.0], [0.0, 2.0]], "prompt_eval_count": 4})
        else:
            assert asked.path == "/v1/embeddings"
            rows = [{"index": 1, "embedding": [0, 2.0]}, {"index": 0, "embedding": [1.0, 0.0]}]
            await asked.answer(200, {"data": rows, "usage": {"prompt_tokens": 4}})

    async def work() -> None:
        async with serving(script) as server, opened(provider, server, embedding_model="tiny-embed") as made:
            answer = await made.embed(["one", "two"])
            assert [list(row) for row in answer.vectors] == [[1.0, 0.0], [0.0, 2.0]]
            assert (answer.tokens_in, answer.counted) == (4, True)
            assert server.asked[-1].json["model"] == "tiny-embed"
            assert (await made.embed([])).vectors == []

    run(work())


@pytest.mark.parametrize("provider", ["ollama", "openai"])
@pytest.mark.parametrize("rows", [[[1.0]], [[1.0], [1.0, 2.0]], [[], []], [["a"], ["b"]], [[1.0], [math.inf]], None])
def test_vectors_of_another_shape_are_refused(provider: str, rows: Any) -> None:
    async def script(asked: Asked) -> None:
        if asked.path == "/api/show":
            await shown(asked)
        elif provider == "ollama":
            await asked.answer(200, {"embeddings": rows})
        else:
            await asked.answer(200, {"data": [{"embedding": row} for row in rows] if rows else None})

    async def work() -> None:
        async with serving(script) as server, opened(provider, server, embedding_model="tiny-embed") as made:
            assert (await failure_of(made.embed(["one", "two"]))).code == "bad_output"

    run(work())


def test_a_text_too_long_to_embed_is_an_overflow_and_not_cut() -> None:
    async def script(asked: Asked) -> None:
        if asked.path == "/api/show":
            await shown(asked, 512)
        else:
            await asked.answer(400, {"error": "the input length exceeds the context length"})

    async def work() -> None:
        async with serving(script) as server, opened("ollama", server, embedding_model="tiny-embed") as made:
            assert (await failure_of(made.embed(["one"]))).code == "context_overflow"

    run(work())


LISTS: list[tuple[str, object, tuple[ModelFacts, ...]]] = [
    ("openai", {"data": [{"id": "a", "object": "model"}]}, (ModelFacts("a"),)),
    ("openai", {"data": [{"id": "a", "max_model_len": 2_048}]}, (ModelFacts("a", context_tokens=2_048),)),
    ("openai", {"data": [{"id": "a", "context_length": 9_000}]}, (ModelFacts("a", context_tokens=9_000),)),
    (
        "openai",
        {"data": [{"id": "a", "meta": {"n_ctx_train": 2_048, "size": 77}}]},
        (ModelFacts("a", 77, 2_048),),
    ),
    (
        "openai",
        {"data": [{"id": "a", "state": "not-loaded", "max_context_length": 4_096}]},
        (ModelFacts("a", context_tokens=4_096, is_loaded=False),),
    ),
    ("openai", [{"id": "a"}], (ModelFacts("a"),)),
    ("anthropic", {"data": [{"id": "a", "max_input_tokens": 200_000}]}, (ModelFacts("a", context_tokens=200_000),)),
    ("ollama", {"models": [{"model": "a:latest", "size": 99}]}, (ModelFacts("a:latest", 99),)),
]


@pytest.mark.parametrize(("provider", "body", "expected"), LISTS)
def test_the_models_of_a_server_are_listed(provider: str, body: object, expected: tuple[ModelFacts, ...]) -> None:
    async def script(asked: Asked) -> None:
        await asked.answer(200, body)

    async def work() -> None:
        async with serving(script) as server, opened(provider, server) as made:
            assert await made.models() == expected

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_facts_of_a_model_that_is_not_there_are_that_it_is_missing(provider: str) -> None:
    async def script(asked: Asked) -> None:
        if asked.path.endswith("/v1/models"):
            await asked.answer(200, {"data": [{"id": "another"}, {"id": "a third"}]})
        else:
            await asked.answer(404, {"error": {"type": "not_found_error", "message": "model: not found"}})

    async def work() -> None:
        async with serving(script) as server, opened(provider, server) as made:
            failure = await failure_of(made.facts())
        assert failure.code == "model_missing"
        assert "small-model" in failure.detail

    run(work())


@pytest.mark.parametrize(
    ("page", "body"),
    [
        ("/props", {"default_generation_settings": {"n_ctx": 4_096}}),
        ("/api/v0/models", {"data": [{"id": "small-model", "loaded_context_length": 4_096}]}),
    ],
)
def test_the_context_is_the_one_that_is_served_and_not_the_one_that_was_trained(page: str, body: object) -> None:
    async def script(asked: Asked) -> None:
        if asked.path == "/v1/models":
            await asked.answer(200, {"data": [{"id": "small-model", "meta": {"n_ctx_train": 131_072}}]})
        elif asked.path == page:
            await asked.answer(200, body)
        else:
            await asked.answer(404, {"error": "File Not Found"})

    async def work() -> None:
        async with serving(script) as server, opened("openai", server) as made:
            assert (await made.facts()).context_tokens == 4_096

    run(work())


def test_a_server_of_one_model_answers_to_any_name() -> None:
    async def script(asked: Asked) -> None:
        if asked.path == "/v1/models":
            await asked.answer(200, {"data": [{"id": "/models/one.gguf", "meta": {"n_ctx_train": 2_048}}]})
        else:
            await asked.answer(404, "")

    async def work() -> None:
        async with serving(script) as server, opened("openai", server) as made:
            assert await made.facts() == ModelFacts("small-model", context_tokens=2_048)

    run(work())


def test_an_address_without_a_list_of_models_still_has_a_model() -> None:
    async def script(asked: Asked) -> None:
        await asked.answer(404, "nothing here")

    async def work() -> None:
        async with serving(script) as server, opened("openai", server) as made:
            assert await made.facts() == ModelFacts("small-model")

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_closing_twice_or_unused_raises_nothing(provider: str) -> None:
    async def work() -> None:
        async with opened(provider, "http://127.0.0.1:9") as made:
            await made.close()

    run(work())
