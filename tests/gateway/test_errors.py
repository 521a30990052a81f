"""What is told where a request fails: words for a person, JSON for a program, and never what an exception said."""

import json

import apsw
import pytest

from agent.actions.gateway_address import GatewayAddress, publish, read_gateway, read_token, withdraw
from agent.errors import AgentFault, AgentNotRunning, JobFailure, SapwoodError, UsageFault
from agent.gateway.errors import status_of, told, unexpected, wants_json
from agent.paths import Paths
from agent.system.identity import own_identity


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (apsw.exception_for(apsw.SQLITE_BUSY), "busy"),
        (apsw.exception_for(apsw.SQLITE_FULL), "disk is full"),
        (OSError(28, "planted"), "disk"),
    ],
)
def test_a_memory_that_is_busy_or_a_disk_that_is_full_is_said_to_be(error: Exception, words: str) -> None:
    answer = unexpected(error, as_json=False)
    assert answer.status_code == 503
    assert words in bytes(answer.body).decode()
    assert b"planted" not in bytes(answer.body)


def test_any_other_error_is_told_without_its_words() -> None:
    answer = unexpected(FileNotFoundError(2, "planted"), as_json=True)
    assert answer.status_code == 500
    assert "bug-report" in json.loads(bytes(answer.body))["hint"]
    assert b"planted" not in bytes(answer.body)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageFault("x"), 400),
        (AgentNotRunning(), 409),
        (AgentFault("x"), 500),
        (JobFailure.unrecoverable("x"), 422),
        (SapwoodError("x"), 422),
    ],
)
def test_each_kind_of_error_has_its_status(error: SapwoodError, status: int) -> None:
    assert status_of(error) == status


def test_what_an_error_quotes_is_no_markup() -> None:
    page = bytes(told(400, "<script>", "<img src=x>", "a & `b`").body).decode()
    assert "<script>" not in page
    assert "<img" not in page
    assert "A &amp; <code>b</code>" in page


@pytest.mark.parametrize(
    ("accept", "as_json"),
    [("", False), ("*/*", False), ("application/json", True), ("text/html,application/json;q=0.9", False)],
)
def test_programs_are_answered_as_they_ask(accept: str, as_json: bool) -> None:
    assert wants_json(accept) is as_json


@pytest.mark.parametrize("text", ["", "{}", "[]", "nonsense", '{"pid": "x", "started": "y", "port": 1}', "\xff"])
def test_an_address_that_cannot_be_read_is_none(paths: Paths, text: str) -> None:
    paths.gateway_file.write_bytes(text.encode("latin-1"))
    assert read_gateway(paths) is None


def test_what_was_published_is_withdrawn(paths: Paths) -> None:
    address = GatewayAddress(own_identity(), 4711)
    publish(paths, address, "token")
    assert (read_gateway(paths), read_token(paths)) == (address, "token")
    withdraw(paths, GatewayAddress(own_identity(), 4712))
    assert read_gateway(paths) == address
    withdraw(paths, address)
    assert (read_gateway(paths), read_token(paths)) == (None, None)
