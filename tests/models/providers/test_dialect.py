"""What a server does not know is left out from then on; any other refusal stays one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.models.providers.dialect import dialect_of, strict
from tests.models.providers.asking import (
    ASK,
    SCHEMA,
    answered,
    endpoint,
    failure_of,
    on_chat,
    opened,
    run,
    saying,
)
from tests.models.providers.server import Asked, serving

WITH_SCHEMA = replace(ASK, schema=SCHEMA)


def _refusing(is_refused: Callable[[Any], bool], status: int, message: str, param: str = "") -> Any:
    async def script(asked: Asked) -> None:
        if is_refused(asked.json):
            error = {"message": message, "type": "invalid_request_error", "param": param or None}
            await asked.answer(status, {"error": error})
        else:
            await answered(asked)

    return on_chat(script)


@pytest.mark.parametrize(
    ("provider", "name", "status", "message"),
    [
        ("openai", "response_format", 400, "'response_format.type' must be 'json_object' or 'text'"),
        ("openai", "response_format", 400, "This model does not support response_format json_schema"),
        ("openai", "response_format", 422, "Extra inputs are not permitted: response_format"),
        ("openai", "stream_options", 422, "stream_options: Extra inputs are not permitted"),
        ("openai", "temperature", 400, "Unsupported value: 'temperature' does not support 0 with this model."),
        ("anthropic", "output_config", 400, "output_config.format is not supported by this model"),
    ],
)
def test_what_a_server_does_not_know_is_asked_without_and_remembered(
    provider: str, name: str, status: int, message: str
) -> None:
    async def work() -> None:
        script = _refusing(lambda body: name in body, status, message)
        async with serving(script) as server:
            for _ in range(2):  # a second provider of the same endpoint knows it too
                async with opened(provider, server) as made:
                    assert (await made.chat(WITH_SCHEMA)).text == "Well."
            assert [name in each.json for each in server.asked] == [True, False, False]
            if name in ("response_format", "output_config"):
                told = server.asked[-1].json["messages"][-1]["content"]
                assert '"names"' in told
                assert told.startswith(ASK.messages[-1].text)

    run(work())


def test_the_name_of_the_output_limit_is_found_out() -> None:
    message = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )

    async def work() -> None:
        script = _refusing(lambda body: "max_tokens" in body, 400, message, "max_tokens")
        async with serving(script) as server, opened("openai", server) as made:
            await made.chat(ASK)
            await made.chat(ASK)
            assert ["max_tokens" in each.json for each in server.asked] == [True, False, False]
            assert server.asked[-1].json["max_completion_tokens"] == ASK.max_output_tokens

    run(work())


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://own.openai.azure.com/openai/v1", "max_completion_tokens"),
        ("https://openrouter.ai/api/v1", "max_tokens"),
        ("http://127.0.0.1:1234/v1", "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_its_server_knows_best(url: str, name: str) -> None:
    assert dialect_of(endpoint("openai", url)).limit_name == name


def test_a_server_that_refuses_everything_is_asked_a_few_times_only() -> None:
    message = "unsupported: response_format, stream_options, temperature, max_tokens, max_completion_tokens"

    async def work() -> None:
        async with serving(_refusing(lambda _: True, 400, message)) as server, opened("openai", server) as made:
            assert (await failure_of(made.chat(WITH_SCHEMA))).code == "bad_output"
            assert len(server.asked) <= 7

    run(work())


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "messages.0.role must be one of system, user", "bad_output"),
        (401, "response_format: unsupported without a key", "auth_failed"),
        (429, "response_format is not supported so often", "rate_limited"),
        (400, "maximum context length is 100 tokens", "context_overflow"),
        (400, "max_tokens is unsupported: maximum context length is 100 tokens", "context_overflow"),
    ],
)
def test_another_refusal_is_not_taken_for_that(status: int, message: str, code: str) -> None:
    async def work() -> None:
        script = saying(status, {"error": {"message": message}})
        async with serving(script) as server, opened("openai", server) as made:
            assert (await failure_of(made.chat(WITH_SCHEMA))).code == code
            assert len(server.asked) == 1
            known = dialect_of(endpoint("openai", server))
            assert (known.has_schema, known.limit_name) == (True, "max_tokens")

    run(work())


def test_a_schema_is_sent_as_strict_modes_want_it() -> None:
    schema = {
        "type": "object",
        "title": "Found",
        "properties": {
            "title": {"type": "string", "default": "x"},
            "people": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        },
        "required": ["title"],
        "$defs": {"Person": {"type": "object", "properties": {"name": {"anyOf": [{"type": "string"}]}}}},
    }
    assert strict(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "people": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        },
        "required": ["title", "people"],
        "additionalProperties": False,
        "$defs": {
            "Person": {
                "type": "object",
                "properties": {"name": {"anyOf": [{"type": "string"}]}},
                "additionalProperties": False,
                "required": ["name"],
            }
        },
    }


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_schema_is_sent_where_it_is_offered(provider: str) -> None:
    async def work() -> None:
        async with serving(on_chat(answered)) as server, opened(provider, server) as made:
            await made.chat(WITH_SCHEMA)
            asked = server.asked[-1].json
            if provider == "openai":
                sent = asked["response_format"]["json_schema"]
                assert (sent["name"], sent["strict"]) == ("answer", True)
            else:
                sent = asked["output_config"]["format"]
                assert sent["type"] == "json_schema"
            assert list(sent["schema"]["properties"]) == ["names"]
            assert asked["messages"][-1]["content"] == ASK.messages[-1].text

    run(work())
