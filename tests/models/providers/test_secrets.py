"""A key is sent to its server and is nowhere else; nothing of the environment or of this system goes along."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback

import pytest

from agent.errors import JobFailure
from tests.models.providers.asking import (
    ASK,
    PROVIDERS,
    answered,
    chat_with,
    endpoint,
    failure_with,
    on_chat,
    run,
    saying,
)

KEY = "sk-synthetic-0000aaaa1111bbbb2222cccc"


def _everything(failure: JobFailure) -> str:
    told = [str(failure), repr(failure), failure.detail, failure.hint, str(failure.__dict__)]
    told.append("".join(traceback.format_exception(failure)))
    told.append(repr(pickle.dumps(failure)))
    return "\n".join(told)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, f"Incorrect API key provided: {KEY}"),
        (401, f"Incorrect API key provided: {KEY[:12]}***{KEY[-4:]}"),
        (401, f"no: {KEY[8:20]}"),
        (500, KEY),
        (400, f'headers {{"authorization": "Bearer {KEY}"}}'),
        (200, KEY),
    ],
)
def test_a_key_is_in_no_text_of_a_failure_nor_in_what_it_came_from(
    provider: str, status: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    failure = run(failure_with(provider, saying(status, {"error": {"message": message}}), key=KEY))
    told = _everything(failure)
    for start in range(len(KEY) - 8):
        assert KEY[start : start + 9] not in told
        assert KEY[start : start + 9] not in caplog.text
    assert failure.__cause__ is None
    assert failure.__context__ is None


@pytest.mark.parametrize("place", ["code", "type", "param"])
def test_a_key_that_is_quoted_beside_the_message_is_in_no_text_either(place: str) -> None:
    key = "marrow7Quince4Teasel9Burdock"  # of no shape that is masked anyway
    body = {"error": {"message": "Incorrect API key provided", place: key}}
    failure = run(failure_with("openai", saying(401, body), key=key))
    assert failure.code == "auth_failed"
    assert key[4:16] not in _everything(failure)


def test_a_key_is_not_in_the_repr_of_an_endpoint() -> None:
    assert KEY not in repr(endpoint("openai", "http://127.0.0.1", key=KEY))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_key_is_sent_to_its_server(provider: str) -> None:
    _, server = run(chat_with(provider, on_chat(answered), key=KEY))
    sent = server.asked[-1].headers
    assert KEY in (sent.get("authorization", "") + sent.get("x-api-key", ""))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nothing_of_the_environment_is_sent(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "from-the-environment")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.setenv(name, "http://from-the-environment.example")
    for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.setenv(name, "X-Extra: from-the-environment\nAuthorization: Bearer from-the-environment")
    answer, server = run(chat_with(provider, on_chat(answered)))
    assert answer.text == "Well."
    for asked in server.asked:
        assert "from-the-environment" not in str(asked.headers)
        assert "authorization" not in asked.headers
        assert "x-api-key" not in asked.headers


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_is_not_told_what_system_this_is(provider: str) -> None:
    _, server = run(chat_with(provider, on_chat(answered), key=KEY))
    for asked in server.asked:
        assert asked.headers["user-agent"].startswith("sapwood/")
        assert not [name for name in asked.headers if name.startswith("x-") and name != "x-api-key"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_asked_reaches_no_log(
    provider: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_LOG", "debug")
    monkeypatch.setenv("ANTHROPIC_LOG", "debug")
    caplog.set_level(logging.DEBUG)
    run(chat_with(provider, on_chat(answered), key=KEY))
    assert ASK.messages[-1].text not in caplog.text
    assert KEY not in caplog.text


def test_a_failure_can_be_copied_without_what_it_came_from() -> None:
    failure = run(failure_with("openai", saying(500, {"error": "no"}), key=KEY))
    assert copy.copy(failure).code == failure.code
