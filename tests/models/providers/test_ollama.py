"""Ollama is always told how large a context is wanted, and what it cuts is found out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.models.providers.ollama import context_size
from agent.models.providers.protocol import ModelFacts
from tests.models.providers.asking import ASK, SCHEMA, answered, failure_of, on_chat, opened, run, shown
from tests.models.providers.server import Asked, Handler, Server, serving


def _showing(context: int, do: Handler = answered, capabilities: tuple[str, ...] = ("completion",)) -> Handler:
    async def script(asked: Asked) -> None:
        if asked.path == "/api/show":
            await shown(asked, context, capabilities)
        else:
            await do(asked)

    return script


def _sizes(server: Server) -> list[int]:
    return [each.json["options"]["num_ctx"] for each in server.asked if each.path == "/api/chat"]


@pytest.mark.parametrize(
    ("needed", "limit", "size"),
    [(10, 32_768, 4_096), (4_096, 32_768, 4_096), (4_097, 32_768, 8_192), (9_000, 10_000, 10_000), (10, 2_048, 2_048)],
)
def test_contexts_come_in_few_sizes(needed: int, limit: int, size: int) -> None:
    assert context_size(needed, limit) == size


@pytest.mark.parametrize(
    ("prompt", "output", "context", "owner_s", "size"),
    [
        (20, 64, 32_768, None, 4_096),
        (3_000, 500, 32_768, None, 8_192),
        (3_000, 500, 32_768, 5_000, 5_000),
        (1_500, 400, 2_048, None, 2_048),
        (6_000, 1_000, 0, 16_384, 16_384),
    ],
)
def test_the_context_is_sized_to_the_prompt(
    prompt: int, output: int, context: int, owner_s: int | None, size: int
) -> None:
    async def work() -> None:
        ask = replace(ASK, prompt_tokens=prompt, max_output_tokens=output)
        script = _showing(context, lambda asked: answered(asked, tokens=(prompt, 5)))
        async with serving(script) as server, opened("ollama", server, context_tokens=owner_s) as made:
            await made.chat(ask)
            await made.chat(ask)
            assert _sizes(server) == [size, size]
            assert server.paths().count("/api/show") == 1

    run(work())


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_sent() -> None:
    async def work() -> None:
        async with serving(_showing(2_048)) as server, opened("ollama", server) as made:
            failure = await failure_of(made.chat(replace(ASK, prompt_tokens=2_000, max_output_tokens=200)))
            assert failure.code == "context_overflow"
            assert failure.is_unrecoverable()
            assert "2200 tokens of 2048" in failure.detail
            assert "/api/chat" not in server.paths()

    run(work())


def test_the_server_is_told_to_cut_nothing() -> None:
    async def work() -> None:
        async with serving(_showing(8_192)) as server, opened("ollama", server) as made:
            await made.chat(replace(ASK, schema=SCHEMA))
            asked = server.asked[-1].json
            assert (asked["truncate"], asked["shift"]) == (False, False)
            assert asked["format"] == SCHEMA
            assert asked["keep_alive"] == "5m"
            assert int(server.asked[-1].headers["content-length"]) == len(server.asked[-1].body)

    run(work())


def test_a_prompt_that_its_tokenizer_makes_longer_is_asked_again_in_a_larger_context() -> None:
    async def do(asked: Asked) -> None:
        if asked.json["options"]["num_ctx"] < 8_192:
            await asked.answer(400, {"error": "the prompt exceeds the context length (5000 > 4096)"})
        else:
            await answered(asked, tokens=(5_000, 5))

    async def work() -> None:
        ask = replace(ASK, prompt_tokens=2_500, max_output_tokens=200)
        async with serving(_showing(32_768, do)) as server, opened("ollama", server) as made:
            assert (await made.chat(ask)).tokens_in == 5_000
            assert _sizes(server) == [4_096, 8_192]
            await made.chat(ask)
            assert _sizes(server)[2:] == [8_192], "what was learned is kept"

    run(work())


@pytest.mark.parametrize("counted", [4_096 // 2, 4_096 // 2 + 5, 4_096])
def test_a_prompt_that_an_older_server_cut_in_silence_is_an_overflow(counted: int) -> None:
    async def work() -> None:
        ask = replace(ASK, prompt_tokens=3_000, max_output_tokens=900)
        script = _showing(4_096, lambda asked: answered(asked, tokens=(counted, 5)))
        async with serving(script) as server, opened("ollama", server) as made:
            assert (await failure_of(made.chat(ask))).code == "context_overflow"

    run(work())


def test_a_prompt_that_was_still_in_memory_is_not_taken_for_a_cut_one() -> None:
    async def work() -> None:
        ask = replace(ASK, prompt_tokens=3_000, max_output_tokens=500)
        script = _showing(32_768, lambda asked: answered(asked, tokens=(7, 5)))
        async with serving(script) as server, opened("ollama", server) as made:
            answer = await made.chat(ask)
        assert (answer.tokens_in, answer.counted) == (3_000, False)

    run(work())


@pytest.mark.parametrize(("capabilities", "sent"), [(("completion", "thinking"), False), (("completion",), None)])
def test_a_model_that_thinks_is_told_not_to(capabilities: tuple[str, ...], sent: bool | None) -> None:
    async def work() -> None:
        async with serving(_showing(8_192, answered, capabilities)) as server, opened("ollama", server) as made:
            await made.chat(ASK)
            assert server.asked[-1].json.get("think") is sent

    run(work())


def test_a_server_that_refuses_the_word_think_is_asked_without_it() -> None:
    async def do(asked: Asked) -> None:
        if "think" in asked.json:
            await asked.answer(400, {"error": '"small-model" does not support thinking'})
        else:
            await answered(asked)

    async def work() -> None:
        async with serving(_showing(8_192, do, ("thinking",))) as server, opened("ollama", server) as made:
            await made.chat(ASK)
            await made.chat(ASK)
            assert ["think" in each.json for each in server.asked if each.path == "/api/chat"] == [True, False, False]

    run(work())


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        ([], ModelFacts("small-model", 99, 8_192, is_loaded=False)),
        ([{"model": "small-model:latest", "size": 150}], ModelFacts("small-model", 150, 8_192, is_loaded=True)),
        ([{"model": "other", "size": 150}], ModelFacts("small-model", 99, 8_192, is_loaded=False)),
    ],
)
def test_the_facts_say_what_a_model_takes_of_the_memory(loaded: list[Any], expected: ModelFacts) -> None:
    async def do(asked: Asked) -> None:
        if asked.path == "/api/ps":
            await asked.answer(200, {"models": loaded})
        else:
            await asked.answer(200, {"models": [{"model": "small-model:latest", "size": 99}]})

    async def work() -> None:
        async with serving(_showing(8_192, do)) as server, opened("ollama", server) as made:
            assert await made.facts() == expected

    run(work())


def test_where_the_profile_has_no_schemas_none_is_sent_but_told() -> None:
    async def work() -> None:
        ask = replace(ASK, schema=SCHEMA)
        async with serving(on_chat(answered)) as server, opened("ollama", server, json_schema=False) as made:
            await made.chat(ask)
            asked = server.asked[-1].json
            assert "format" not in asked
            assert '"names"' in asked["messages"][-1]["content"]

    run(work())
