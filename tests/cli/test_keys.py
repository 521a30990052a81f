"""``sapwood key``: a key goes in unseen, never comes out, and is nowhere where others could read it."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent.config_edit import edit_intent
from agent.db import Connection
from agent.models.key_file import write_key_file
from agent.models.keys import login_end_ms
from agent.paths import Paths
from tests.cli.conftest import Sapwood
from tests.conftest import REPOSITORY
from tests.system.rings import PLACE

KEY = "zz-quince-0123456789-marrow"


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A keyring that the real child asks, and the file in which the test sees what it holds."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "tests.system.rings.FileRing")
    monkeypatch.setenv(PLACE, str(tmp_path / "ring"))
    return tmp_path / "ring"


def held(ring: Path) -> dict[str, str]:
    if not ring.exists():
        return {}
    found: dict[str, str] = json.loads(json.loads(ring.read_text()).get("sapwood/keys", "{}"))
    return found


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Any:
    def pipe(text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return pipe


def add_profile(paths: Paths, name: str, **values: Any) -> None:
    import tomlkit

    def change(document: Any) -> None:
        profiles = document.setdefault("profiles", tomlkit.aot())
        table = tomlkit.table()
        table.update({"name": name, "chat_model": "m", **values})
        profiles.append(table)

    edit_intent(paths, change)


def test_key_from_a_pipe_lies_in_the_keyring_and_is_told_by_its_name_alone(
    sapwood: Sapwood, ring: Path, piped: Any
) -> None:
    piped(f"  {KEY}\r\nmore that is not read\n")
    ran = sapwood("key", "set", "openai")
    assert (ran.code, ran.out) == (0, "the key openai is in the keyring\n")
    assert held(ring) == {"openai": KEY}
    for words in ("status", "status openai", "status --json", "status --debug"):
        ran = sapwood("key", *words.split())
        assert ran.code == 0
        assert "openai" in ran.out
        assert KEY[:6] not in ran.out + ran.err
    assert sapwood("key", "status", "--json").document["stored"] == [
        {"name": "openai", "place": "keyring", "state": "stored", "profiles": []}
    ]
    assert sapwood("key", "remove", "openai").out == "the key openai is out of the keyring\n"
    assert sapwood("key", "remove", "openai").out == "there is no key openai\n"
    assert held(ring) == {}


def test_key_is_typed_on_a_terminal_without_being_shown(ring: Path, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    parent, child = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "key", "set", "openai"],
        stdin=child,
        stdout=child,
        stderr=child,
        cwd=REPOSITORY,
        start_new_session=True,
    ) as process:
        os.close(child)
        shown = b""
        while b"not shown): " not in shown:
            shown += os.read(parent, 1000)
        os.write(parent, KEY.encode() + b"\n")
        try:
            while True:
                shown += os.read(parent, 1000)
        except OSError:
            pass  # the other end is closed
        assert process.wait(20) == 0
    os.close(parent)
    assert held(ring) == {"openai": KEY}
    assert b"in the keyring" in shown
    assert KEY[:6].encode() not in shown


@pytest.mark.parametrize(
    "words", ["key set openai zz-quince-0123456789", "key set sk-zz1234567890abcdefghij1234567890"]
)
def test_key_as_an_argument_is_refused_with_what_that_means(words: str, sapwood: Sapwood, ring: Path) -> None:
    ran = sapwood(*words.split())
    assert ran.code == 2
    assert "history" in ran.err
    assert "make a new key" in ran.err
    assert "zz" not in ran.err
    assert not ring.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no key was given"),
        ("  \n", "no key was given"),
        ("two words", "this is no key"),
        ("zz\x1b[31m", "this is no key"),
        ("zz\x00quince", "this is no key"),
        ("schlüssel", "this is no key"),
        (b"\xff\xfe\x00z", "this is no key"),
        ("z" * 4_097, "too long"),
        ("z" * 100_000, "too long"),
    ],
)
def test_what_is_no_key_is_refused_without_repeating_it(
    text: str | bytes, said: str, sapwood: Sapwood, ring: Path, piped: Any
) -> None:
    piped(text)
    ran = sapwood("key", "set", "openai")
    assert ran.code == 2
    assert said in ran.err
    assert "nothing was stored" in " ".join(ran.err.split())
    assert "zz" not in ran.err
    assert not ring.exists()


def test_long_keys_are_keys(sapwood: Sapwood, ring: Path, piped: Any) -> None:
    piped("z" * 4_096)
    assert sapwood("key", "set", "openai").code == 0
    assert held(ring) == {"openai": "z" * 4_096}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("key", "set|remove|status"),
        ("key lose openai", "lose"),
        ("key set", "say whose key: set PROVIDER"),
        ("key remove", "say whose key"),
        ("key remove openai more", "takes one PROVIDER"),
        ("key status --in-file", "--in-file goes with `set`"),
        ("key remove ../../etc", "no name of a key"),
        ("key status -- -x", "no name of a key"),
    ],
)
def test_wrong_words_are_told(words: str, said: str, sapwood: Sapwood) -> None:
    ran = sapwood(*words.split())
    assert ran.code == 2
    assert said in ran.err


def test_key_goes_into_the_file_only_by_a_word_that_says_what_that_means(
    sapwood: Sapwood, paths: Paths, piped: Any
) -> None:
    piped(KEY)
    ran = sapwood("key", "set", "openai")
    assert ran.code == 1
    assert "could not be stored in the keyring" in ran.err
    assert "--in-file" in ran.err
    assert "plain text" in ran.err
    assert not (paths.config_dir / "keys.json").exists()
    piped(KEY)
    ran = sapwood("key", "set", "openai", "--in-file")
    assert (ran.code, ran.out) == (0, "the key openai is in keys.json, in plain text\n")
    assert "backups" in ran.err
    assert json.loads((paths.config_dir / "keys.json").read_text()) == {"openai": KEY}
    assert (paths.config_dir / "keys.json").stat().st_mode & 0o777 == 0o600
    document = sapwood("key", "status", "--json").document
    assert document["stored"][0]["place"] == "file"
    assert document["file"]["mode"] == "0600"
    assert document["keyring"]["state"] == "unavailable"
    ran = sapwood("key", "remove", "openai")
    assert ran.out == "the key openai is out of keys.json\n"
    assert "could not be asked" in ran.err
    assert not (paths.config_dir / "keys.json").exists()
    assert sapwood("key", "remove", "openai").code == 1, "nobody knows whether the keyring has one"


def test_key_set_in_the_keyring_takes_the_old_one_out_of_the_file(
    sapwood: Sapwood, paths: Paths, ring: Path, piped: Any
) -> None:
    write_key_file(paths, {"openai": "old", "example.org": "other"})
    piped(KEY)
    sapwood("key", "set", "openai")
    assert json.loads((paths.config_dir / "keys.json").read_text()) == {"example.org": "other"}
    assert held(ring) == {"openai": KEY}


def test_status_names_what_profiles_want_and_the_doctor_says_how_to_mend_it(
    sapwood: Sapwood, paths: Paths, ring: Path, piped: Any
) -> None:
    assert "no profile wants one" in sapwood("key", "status").out
    assert "no profile wants one" in sapwood("doctor").out
    assert not ring.exists()
    add_profile(paths, "gpt", provider="openai")
    add_profile(paths, "router", provider="openai", base_url="https://models.example.org/v1")
    add_profile(paths, "again", provider="openai", base_url="https://models.example.org/v2")
    add_profile(paths, "here", provider="ollama")
    ran = sapwood("key", "status")
    assert "again, router" in ran.out or "router, again" in ran.out
    assert ran.out.count("missing") == 2
    assert "`sapwood key set models.example.org`" in " ".join(ran.err.split())
    assert {check["name"]: check["ok"] for check in sapwood("doctor", "--json").document["checks"]}["keys"]
    edit_intent(paths, lambda document: document.update({"models": {"active": "gpt"}}))
    check = next(check for check in sapwood("doctor", "--json").document["checks"] if check["name"] == "keys")
    assert not check["ok"]
    assert check["remedy"] == "`sapwood key set openai`"
    piped(KEY)
    assert "for gpt" in sapwood("key", "set", "openai").out
    check = next(check for check in sapwood("doctor", "--json").document["checks"] if check["name"] == "keys")
    assert check["ok"]
    assert "openai in the keyring" in check["detail"]
    assert "models.example.org is missing" in check["detail"]


def test_what_lacked_the_key_is_tried_again_when_it_is_set_and_nothing_else(
    sapwood: Sapwood, paths: Paths, connection: Connection, ring: Path, piped: Any
) -> None:
    add_profile(paths, "gpt", provider="openai")
    add_profile(paths, "router", provider="openai", base_url="https://models.example.org/v1")
    with connection.write():
        for key, reason, scope in (
            ("a", "auth_failed", "gpt"),
            ("b", "auth_failed", "router"),
            ("c", "model_missing", "gpt"),
        ):
            connection.run(
                """
                INSERT INTO mem_tree_jobs
                       (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms, dedupe_key,
                        failure_reason, failure_class, failure_scope)
                VALUES ('seal', '{}', 'failed', 5, 0, 0, ?, ?, 'unrecoverable', ?)
                """,
                (key, reason, scope),
            )
        connection.run(
            """
            INSERT INTO mem_tree_holds (scope, code, reason, until_ms, failures, openings, changed_at_ms)
            VALUES ('gpt', 'auth_failed', 'it says so', 9000000000000, 0, 1, 0)
            """
        )
    piped(KEY)
    ran = sapwood("key", "set", "openai")
    assert ran.out == "the key openai is in the keyring, for gpt\n1 job that lacked it is tried again\n"
    rows = dict(connection.all("SELECT dedupe_key, status FROM mem_tree_jobs ORDER BY id"))
    assert rows == {"a": "ready", "b": "failed", "c": "failed"}
    assert not connection.value("SELECT count(*) FROM mem_tree_holds WHERE openings > 0")


def test_key_that_no_profile_wants_is_stored_and_told(sapwood: Sapwood, paths: Paths, ring: Path, piped: Any) -> None:
    add_profile(paths, "gpt", provider="openai")
    piped(KEY)
    ran = sapwood("key", "set", "opnai")
    assert ran.code == 0
    assert "no profile wants a key of this name; there are profiles that want: openai" in " ".join(ran.err.split())


@pytest.mark.skipif(sys.platform == "win32", reason="modes say nothing on Windows")
def test_doctor_and_status_tell_of_a_file_that_others_can_read(sapwood: Sapwood, paths: Paths, ring: Path) -> None:
    write_key_file(paths, {"openai": KEY})
    (paths.config_dir / "keys.json").chmod(0o644)
    checks = {check["name"]: check for check in sapwood("doctor", "--json").document["checks"]}
    assert "mode 644" in checks["key file"]["detail"]
    assert "chmod 600" in checks["key file"]["remedy"]
    ran = sapwood("key", "status")
    assert "mode 644" in " ".join(ran.err.split())
    assert KEY not in ran.out + ran.err


def test_two_writers_lose_no_key(ring: Path, tmp_path: Path) -> None:
    names = [f"host{at}.example.org" for at in range(4)]
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "agent.cli.main", "key", "set", name], stdin=subprocess.PIPE, cwd=REPOSITORY
        )
        for name in names
    ]
    for process, name in zip(running, names, strict=True):
        process.communicate(f"key-of-{name}\n".encode())
        assert process.returncode == 0
    assert held(ring) == {name: f"key-of-{name}" for name in names}


def test_locked_keyring_is_told_with_what_helps(
    sapwood: Sapwood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piped: Any
) -> None:
    from agent.actions import keys
    from agent.states import KeyState
    from agent.system.keyring import FakeKeyring

    ring = FakeKeyring()
    ring.fault = KeyState.LOCKED
    monkeypatch.setattr(keys, "SystemKeyring", lambda: ring)
    piped(KEY)
    ran = sapwood("key", "set", "openai")
    assert ran.code == 1
    assert "unlock the keyring" in ran.err
    assert sapwood("key", "remove", "openai").code == 1
    assert "not known: locked" in sapwood("key", "status", "openai").out


def test_names_of_keys_are_completed(sapwood: Sapwood, paths: Paths) -> None:
    from tests.cli.test_completion import asked

    add_profile(paths, "router", provider="openai", base_url="https://models.example.org/v1")
    assert asked(["key", "set", ""]) == ["anthropic", "models.example.org", "openai"]
    assert asked(["key", "se"]) == ["set"]


def test_agent_that_the_login_starts_asks_no_keyring_in_its_first_minute(sapwood: Sapwood, paths: Paths) -> None:
    began = round(time.time() * 1000)
    ran = subprocess.run(
        [sys.executable, "-m", "agent.cli.main", "run", "--once", "--at-login"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    found = login_end_ms(paths)
    assert found is not None
    assert began + 60_000 <= found <= began + 120_000
    assert "at-login" not in sapwood("run", "--help").out, "nobody but the login says it"
