"""The doctor says whether the active profile's models can be had, and what helps where not."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from agent.actions.checks import models
from agent.actions.checks.models import look_at_models
from agent.actions.checks.result import Check
from agent.actions.doctor import doctor
from agent.clock import SYSTEM_CLOCK
from agent.db import Connection
from agent.paths import Paths
from agent.queue.holds import HoldRow, put_hold_tx
from agent.states import Hold

FAR = """\
[models]
active = "far"
[[profiles]]
name = "far"
provider = "openai"
chat_model = "small"
base_url = "https://models.example/v1"
"""
AGREED = FAR + 'consent = "models.example"\n'
PARKED = """
INSERT INTO mem_tree_jobs
       (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
        failure_reason, failure_class, failure_scope, last_error)
VALUES ('seal', '{}', 'failed', 5, 0, 0, ?, 'unrecoverable', ?, 'it was refused')
"""


def look(paths: Paths, text: str) -> dict[str, Check]:
    paths.config_file.write_text(text)
    found = list(look_at_models(paths))
    assert all(one.remedy for one in found if not one.ok)
    assert len({one.name for one in found}) == len(found)
    return {one.name: one for one in found}


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def unheard() -> int:
    """A port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


def local(port: int) -> str:
    return FAR.replace("https://models.example/v1", f"http://127.0.0.1:{port}/v1")


def test_of_the_built_in_profile_nothing_is_asked(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_calls", lambda *_: pytest.fail("the memory was asked"))
    monkeypatch.setattr(models, "_server", lambda *_: pytest.fail("a server was asked"))
    found = look(paths, FAR.replace('active = "far"', 'active = "builtin"'))
    assert found == {"models": Check("models", True, "built-in: nothing is sent anywhere")}


@pytest.mark.parametrize(
    ("text", "said", "helps"),
    [
        ('[models]\nactive = "gone"\n', "there is no model profile 'gone'", "sapwood model use"),
        (FAR.replace("https://models.example/v1", "nowhere"), "no address", "profiles.far.base_url"),
        (FAR, "nothing may be sent to models.example", "sapwood model use far"),
        (AGREED + "context_tokens = 1024\n", "1,024 tokens", "profiles.far.context_tokens"),
        (AGREED + 'embedding_model = "e"\n', "vectors of e", "sapwood model test far"),
    ],
)
def test_a_profile_that_cannot_be_used_is_one_finding(paths: Paths, text: str, said: str, helps: str) -> None:
    found = look(paths, text)
    assert list(found) == ["models"]
    assert not found["models"].ok
    assert said in found["models"].detail
    assert helps in found["models"].remedy


def test_a_cloud_that_was_agreed_to_is_well_and_not_asked(
    paths: Paths, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_server", lambda *_: pytest.fail("a server was asked"))
    found = look(paths, AGREED + "context_tokens = 2048\n")
    assert all(one.ok for one in found.values())
    assert "cloud" in found["models"].detail
    assert found["model calls"].detail == "nothing is held back"


def test_a_local_server_that_listens_is_well(paths: Paths, listening: int) -> None:
    found = look(paths, local(listening))
    assert all(one.ok for one in found.values())
    assert "local" in found["models"].detail
    assert f"127.0.0.1:{listening}" in found["model server"].detail


def test_a_local_server_that_is_down_is_to_be_started(paths: Paths, unheard: int) -> None:
    found = look(paths, local(unheard))
    assert found["models"].ok
    assert not found["model server"].ok
    assert f"nothing answers at http://127.0.0.1:{unheard}/v1" in found["model server"].detail
    assert found["model server"].remedy.startswith("start it")


@pytest.mark.parametrize(
    ("code", "helps"),
    [
        (Hold.AUTH_FAILED, "sapwood key set models.example"),
        (Hold.BUDGET_EXHAUSTED, "credit"),
        (Hold.MODEL_MISSING, "profiles.far.chat_model"),
    ],
)
def test_what_only_the_owner_can_mend_is_a_finding_with_what_helps(
    paths: Paths, connection: Connection, code: Hold, helps: str
) -> None:
    with connection.write():
        put_hold_tx(connection, HoldRow("far", code, "it was refused", 0, 1, 1), SYSTEM_CLOCK.now_ms())
        connection.run(PARKED, (str(code), "far"))
    found = look(paths, AGREED)["model calls"]
    assert not found.ok
    assert "it was refused" in found.detail
    assert f"1 job failed for this profile: {code}" in found.detail
    assert helps in found.remedy


def test_a_hold_that_ends_by_itself_is_said_and_is_no_fault(paths: Paths, connection: Connection) -> None:
    now_ms = SYSTEM_CLOCK.now_ms()
    with connection.write():
        put_hold_tx(connection, HoldRow("far", Hold.RATE_LIMITED, "too many at once", now_ms + 60_000, 1, 1), now_ms)
        connection.run(PARKED, ("bad_output", "other"))
    found = look(paths, AGREED)["model calls"]
    assert found.ok
    assert "too many at once" in found.detail
    assert "bad_output" not in found.detail, "that is another profile's"


def test_settings_that_cannot_be_read_are_told_of_once(paths: Paths) -> None:
    paths.config_file.write_text("[models\n")
    paths.config_file.chmod(0o600)
    bad = [one.name for one in doctor(paths).checks if not one.ok]
    assert bad == ["config"]


def test_a_memory_that_cannot_be_opened_is_not_told_of_twice(paths: Paths) -> None:
    paths.config_file.write_text(AGREED)
    paths.database.write_bytes(b"no database at all " * 2000)
    found = {one.name: one for one in doctor(paths).checks}
    assert not found["database"].ok
    assert found["models"].ok
    assert "model calls" not in found
