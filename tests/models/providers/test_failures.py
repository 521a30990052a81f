"""What servers say when they do not answer, and what becomes of it: one mapping for all of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.models.providers.failures import Failing, reply_of
from tests.models.providers.asking import (
    ASK,
    PROVIDERS,
    SECRET_WORDS,
    answered,
    endpoint,
    failure_of,
    failure_with,
    on_chat,
    opened,
    run,
    saying,
)
from tests.models.providers.server import Asked, serving

PARKED = {"auth_failed", "budget_exhausted", "model_missing", "context_overflow", "not_local"}


def _openai(message: str, code: str = "", kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code or None, "param": None}}


def _anthropic(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


SAID = [
    ("openai", 401, _openai("Incorrect API key provided", "invalid_api_key"), "auth_failed"),
    ("openai", 403, _openai("Country not supported", "unsupported_country_region_territory"), "auth_failed"),
    ("openai", 403, _openai("Your input was flagged by moderation"), "bad_output"),
    ("openai", 402, _openai("Insufficient credits"), "budget_exhausted"),
    ("openai", 429, _openai("You exceeded your current quota", "insufficient_quota"), "budget_exhausted"),
    ("openai", 400, _openai("Billing hard limit has been reached", "billing_hard_limit_reached"), "budget_exhausted"),
    ("openai", 429, _openai("Rate limit reached for requests", "rate_limit_exceeded"), "rate_limited"),
    ("openai", 429, "too many", "rate_limited"),
    ("openai", 404, _openai("The model `small-model` does not exist", "model_not_found"), "model_missing"),
    ("openai", 404, {"object": "error", "message": "The model `x` does not exist.", "code": 404}, "model_missing"),
    ("openai", 400, {"error": {"message": "small-model is not a valid model ID", "code": 400}}, "model_missing"),
    ("openai", 404, {"error": "No models loaded. Please load a model"}, "model_missing"),
    ("openai", 404, "<html>not here</html>", "unreachable"),
    ("openai", 400, _openai("maximum context length is 8192 tokens", "context_length_exceeded"), "context_overflow"),
    (
        "openai",
        400,
        {"error": {"code": 400, "message": "too much", "type": "exceed_context_size_error", "n_ctx": 256}},
        "context_overflow",
    ),
    ("openai", 500, _openai("the request exceeds the available context size"), "context_overflow"),
    ("openai", 400, {"error": "Trying to keep the first 9 tokens when context length is 4096"}, "context_overflow"),
    (
        "openai",
        400,
        {"object": "error", "message": "This model's maximum context length is 2048 tokens", "code": 400},
        "context_overflow",
    ),
    ("openai", 413, "", "context_overflow"),
    ("openai", 500, _openai("The server had an error", kind="server_error"), "unreachable"),
    ("openai", 502, "<html>bad gateway</html>", "unreachable"),
    ("openai", 503, {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}, "unreachable"),
    ("openai", 408, "", "unreachable"),
    ("openai", 500, {"error": "insufficient system resources to load the model"}, "low_memory"),
    ("openai", 400, _openai("messages: at least one is required"), "bad_output"),
    ("openai", 422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad_output"),
    ("anthropic", 401, _anthropic("authentication_error", "invalid x-api-key"), "auth_failed"),
    ("anthropic", 403, _anthropic("permission_error", "not allowed"), "auth_failed"),
    ("anthropic", 402, _anthropic("billing_error", "pay"), "budget_exhausted"),
    (
        "anthropic",
        400,
        _anthropic("invalid_request_error", "Your credit balance is too low to access the API"),
        "budget_exhausted",
    ),
    ("anthropic", 429, _anthropic("rate_limit_error", "slower"), "rate_limited"),
    ("anthropic", 404, _anthropic("not_found_error", "model: small-model"), "model_missing"),
    ("anthropic", 404, _anthropic("not_found_error", "Not found"), "unreachable"),
    ("anthropic", 413, _anthropic("request_too_large", "too large"), "context_overflow"),
    (
        "anthropic",
        400,
        _anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"),
        "context_overflow",
    ),
    ("anthropic", 500, _anthropic("api_error", "internal"), "unreachable"),
    ("anthropic", 529, _anthropic("overloaded_error", "Overloaded"), "unreachable"),
    ("anthropic", 400, _anthropic("invalid_request_error", "messages: roles must alternate"), "bad_output"),
    ("ollama", 404, {"error": "model 'small-model' not found"}, "model_missing"),
    ("ollama", 404, {"error": 'model "small-model" not found, try pulling it first'}, "model_missing"),
    (
        "ollama",
        500,
        {"error": "model requires more system memory (5.6 GiB) than is available (3.0 GiB)"},
        "low_memory",
    ),
    ("ollama", 500, {"error": "llama runner process has terminated: cudaMalloc failed: out of memory"}, "low_memory"),
    ("ollama", 503, {"error": "server busy, please try again. maximum pending requests exceeded"}, "unreachable"),
    ("ollama", 500, {"error": "llama runner process no longer running"}, "unreachable"),
    ("ollama", 401, {"error": "unauthorized"}, "auth_failed"),
    ("ollama", 429, {"error": "too many requests"}, "rate_limited"),
]


@pytest.mark.parametrize(("provider", "status", "body", "code"), SAID)
def test_what_a_server_says_becomes_a_typed_failure(provider: str, status: int, body: object, code: str) -> None:
    failure = run(failure_with(provider, saying(status, body)))
    assert failure.code == code
    assert failure.is_unrecoverable() == (code in PARKED)
    assert "127.0.0.1" in failure.title + failure.detail
    assert "small-model" in failure.title + failure.detail
    assert failure.title
    assert failure.hint


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [429, 503])
def test_what_a_server_asks_us_to_wait_is_kept(provider: str, status: int) -> None:
    failure = run(failure_with(provider, saying(status, {"error": "slower"}, {"Retry-After": "7"})))
    assert failure.retry_after_ms == 7_000


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("<html><body>Welcome to the hotel</body></html>", "text/html"),
        ("", "application/json"),
        ("[1, 2]", "application/json"),
        ('{"hello": "world"}', "application/json"),
        ('{"choices": 5, "content": 5, "message": 5}', "application/json"),
        ('{"choices": [], "content": {}, "message": []}', "application/json"),
        ("data: {nonsense\n\n", "text/event-stream"),
        ("data: [1]\n\n", "text/event-stream"),
        ('data: {"hello": "world"}\n\n', "text/event-stream"),
        ("<html>", "text/event-stream"),
    ],
)
def test_an_answer_of_another_shape_is_a_failure_of_the_server_and_no_crash(
    provider: str, body: str, kind: str
) -> None:
    failure = run(failure_with(provider, saying(200, body, kind=kind)))
    assert failure.code in ("bad_output", "unreachable")
    assert not failure.is_unrecoverable()


@pytest.mark.parametrize(
    ("provider", "event", "code"),
    [
        ("openai", {"error": {"message": "Provider disconnected", "code": 502}}, "unreachable"),
        ("openai", {"error": {"message": "slow down", "code": 429}}, "rate_limited"),
        ("openai", {"error": {"message": "out of memory", "type": "server_error"}}, "low_memory"),
        ("anthropic", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "unreachable"),
        ("anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, "rate_limited"),
        ("ollama", {"error": "an error was encountered while running the model: out of memory"}, "low_memory"),
    ],
)
def test_an_error_in_the_middle_of_an_answer_is_typed_too(provider: str, event: dict[str, Any], code: str) -> None:
    async def script(asked: Asked) -> None:
        if provider == "ollama":
            await asked.lines({"message": {"role": "assistant", "content": "on"}, "done": False}, event)
        else:
            await asked.events({"type": "ping", "choices": [{"delta": {"content": "on"}}]}, event)

    assert run(failure_with(provider, on_chat(script))).code == code


def test_ollama_s_failures_each_have_their_own_remedy() -> None:
    missing = run(failure_with("ollama", saying(404, {"error": "model 'small-model' not found"})))
    memory = run(failure_with("ollama", saying(500, {"error": "model requires more system memory"})))
    assert "`ollama pull small-model`" in missing.hint
    assert "smaller model" in memory.hint


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_quotes_the_owner_is_not_quoted(provider: str) -> None:
    body = {"error": {"type": "invalid_request_error", "message": f"bad input near: {SECRET_WORDS[8:40]} [...]"}}
    failure = run(failure_with(provider, saying(400, body)))
    told = f"{failure.title} {failure.detail} {failure.hint}"
    assert "Quist" not in told
    assert "orchard" not in told


@pytest.mark.parametrize("place", ["type", "code"])
def test_a_server_that_quotes_the_owner_as_the_code_of_its_error_is_not_quoted(place: str) -> None:
    failure = run(failure_with("openai", saying(400, {"error": {place: SECRET_WORDS[:40], "message": "no"}})))
    told = f"{failure.title} {failure.detail} {failure.hint}"
    assert "Quist" not in told
    assert "HTTP 400" in told


def test_of_a_server_s_words_at_most_200_characters_are_kept() -> None:
    made = endpoint("openai", "http://127.0.0.1:9")
    said = Failing(made).said(reply_of(400, {"error": {"message": "very long " * 500, "code": "c" * 500}}))
    assert 0 < len(said) <= 200


@pytest.mark.parametrize("provider", ["openai", "ollama"])
def test_a_missing_embedding_model_is_named_itself(provider: str) -> None:
    async def script(asked: Asked) -> None:
        await asked.answer(404, {"error": "model 'tiny-embed' not found"})

    async def work() -> None:
        async with serving(script) as server, opened(provider, server, embedding_model="tiny-embed") as made:
            failure = await failure_of(made.embed(["one"]))
        assert failure.code == "model_missing"
        assert "tiny-embed" in failure.detail

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_profile_without_embeddings_says_what_embeds_then(provider: str) -> None:
    async def work() -> None:
        async with opened(provider, "http://127.0.0.1:9") as made:
            failure = await failure_of(made.embed(["one"]))
        assert failure.code == "model_missing"
        assert failure.is_unrecoverable()
        assert "built-in table" in failure.hint

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_after_a_failure_the_same_provider_answers_again(provider: str) -> None:
    answers = iter([500, 200])

    async def script(asked: Asked) -> None:
        if next(answers) == 500:
            await asked.answer(500, {"error": "once"})
        else:
            await answered(asked)

    async def work() -> None:
        async with serving(on_chat(script)) as server, opened(provider, server) as made:
            assert (await failure_of(made.chat(ASK))).code == "unreachable"
            assert (await made.chat(ASK)).text == "Well."

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_is_retried_behind_our_back(provider: str) -> None:
    async def work() -> None:
        async with serving(saying(500, {"error": "no"})) as server, opened(provider, server) as made:
            await failure_of(made.chat(ASK))
            await asyncio.sleep(0)
            assert len([path for path in server.paths() if path != "/api/show"]) == 1

    run(work())


@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_address_that_is_none_is_told(provider: str) -> None:
    async def work() -> None:
        async with opened(provider, "http://127.0.0.1:notaport/v1") as made:
            failure = await failure_of(made.chat(ASK))
        assert failure.code in ("unreachable", "bad_output")
        assert "base_url" in failure.hint

    run(work())
