from __future__ import annotations

import os
import time

import pytest

from agent.errors import JobFailure
from agent.queue import mark_failed_typed
from agent.queue.redaction import MAX_ERROR_CHARS, describe_error, redact_error
from agent.redact import mask_secrets, redact
from tests.ingest.labelled.secrets import POSITIVES
from tests.queue.conftest import Queue

SECRETS = [
    "Authorization: Bearer abcDEF123.456-789_x",
    "sent with bearer 0123456789abcdef",
    "invalid key sk-proj-abcdefghijklmnop1234567890",
    "sk-ant-api03-AAAAbbbbCCCCddddEEEE",
    "token ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijklmnop",
    "xoxb-123456789012-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuvw",
    "hf_abcdefghijklmnop1234567890",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123456",
    "api_key=abcdef123456",
    'password: "correct horse battery"',
    "{'access_token': 'abcdef123456'}",
    "client-secret = s3cr3tvalue",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
]
VALUES = [
    "abcDEF123.456-789_x", "0123456789abcdef", "abcdefghijklmnop1234567890", "AAAAbbbbCCCCddddEEEE",
    "abcdefghijklmnopqrstuvwxyz0123456789", "11ABCDEFG0abcdefghijklmnop", "123456789012-abcdefghij", "IOSFODNN7",
    "SyA1234567890", "abcdefghijklmnop1234567890", "eyJzdWIiOiIxMjM0In0", "abcdef123456", "horse", "abcdef123456",
    "s3cr3tvalue", "MIIEpAIBAAKCAQEA",
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), list(zip(SECRETS, VALUES, strict=True)))
def test_secrets_are_masked(text: str, value: str) -> None:
    for mask in (mask_secrets, redact, redact_error):
        masked = mask(f"before {text} after")
        assert value not in masked
        assert "[secret]" in masked
        assert masked.startswith("before")


def test_what_is_masked_before_it_is_stored_is_masked_in_an_error() -> None:
    for _, text, secret in POSITIVES:
        assert secret not in redact(text)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("cannot reach ada.lovelace+x@mail.example.org now", "lovelace"),
        ("no such file: /home/ada/Notes/a.md", "ada"),
        ("no such file: /Users/ada/Notes/a.md", "ada"),
        (r"no such file: C:\Users\Ada\Notes\a.md", "Ada"),
        (r"[Errno 2] 'C:\\Users\\Ada\\a.md'", "Ada"),
        ("GET https://api.example.org/v1/x?user=ada&q=words failed", "words"),
        ("GET https://ada:pw@api.example.org/v1 failed", "pw@"),
        ("see https://example.org/page#private-part.", "private-part"),
    ],
)
def test_what_tells_who_the_owner_is_is_masked(text: str, gone: str) -> None:
    masked = redact_error(text)
    assert gone not in masked
    assert masked.split()[0] == text.split()[0]


def test_the_owners_unusual_home_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/srv/people/ada")
    monkeypatch.setenv("USERPROFILE", "/srv/people/ada")
    assert os.path.expanduser("~") == "/srv/people/ada"
    assert redact_error("no such file: /srv/people/ada/x.md") == "no such file: ~/x.md"


@pytest.mark.parametrize(
    "text",
    [
        "the tokens of a chunk: 412 of 450",
        "connection to 127.0.0.1:11434 refused",
        "https://example.org/path failed with 503",
        "john_doe is not an address",
        "/homework/file.txt is missing",
        "the password was wrong",
        "sk-learn-contrib-estimators cannot be imported",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert redact_error(text) == text


def test_masking_twice_changes_nothing_more() -> None:
    for text in SECRETS:
        assert redact(redact(text)) == redact(text)


def test_errors_are_one_bounded_line_without_long_quotations() -> None:
    quoted = "invalid literal for int(): 'Dear Ada, what I wanted to tell you since we met in the garden is this'"
    assert redact_error(quoted) == "invalid literal for int(): '…'"
    assert redact_error("a\n  b\t c") == "a b c"
    assert len(redact_error("word " * 1000)) == MAX_ERROR_CHARS


def test_a_hostile_message_costs_little() -> None:
    started = time.perf_counter()
    for text in (
        "a" * 200_000,
        "@" * 100_000,
        "token" * 30_000,
        "'" + "x" * 100_000,
        "https://" * 20_000,
        "/home/" * 9_999,
    ):
        redact(text)
        redact_error(text)
    assert time.perf_counter() - started < 2.0


def test_the_chain_of_causes_is_told_and_the_typed_failure_found() -> None:
    try:
        try:
            raise JobFailure.transient("timeout", "the model took too long")
        except JobFailure as cause:
            raise ValueError("no summary") from cause
    except ValueError as error:
        message, typed = describe_error(error)
    assert message == "ValueError: no summary: the model took too long"
    assert typed is not None
    assert typed.code == "timeout"
    assert describe_error(ValueError()) == ("ValueError", None)


def test_last_error_is_redacted_on_its_way_into_the_row(queue: Queue) -> None:
    job_id = queue.add()
    mark_failed_typed(queue.connection, queue.take(), "401 for Bearer abcdef123456789 of ada@example.org", None, 0)
    assert queue.row(job_id)["last_error"] == "401 for Bearer [secret] of [e-mail]"


def test_the_reason_of_a_defer_is_redacted_too(queue: Queue) -> None:
    from agent.queue import mark_deferred

    job_id = queue.add()
    mark_deferred(queue.connection, queue.take(), 0, "quota of ada@example.org", queue.now)
    assert queue.row(job_id)["last_error"] == "quota of [e-mail]"
