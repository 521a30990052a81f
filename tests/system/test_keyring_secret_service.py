"""A real secret service: unlocked, locked, absent, without a collection, and with a question that nobody answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import psutil
import pytest

from agent.clock import SYSTEM_CLOCK
from agent.config_edit import edit_intent
from agent.models.keys import StoredKeys
from agent.paths import paths_under
from agent.states import KeyState
from agent.system.keyring import SystemKeyring
from tests.conftest import REPOSITORY
from tests.system.secret_service import Session, session

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="secret services are of Linux")

KEY = "zz-quince-0123456789-marrow"
HOST = "models.example.invalid"


@pytest.fixture
def login(tmp_path: Path) -> Iterator[Session]:
    with session(tmp_path / "s") as found:
        yield found


@pytest.fixture
def login_with_a_screen(tmp_path: Path) -> Iterator[Session]:
    with session(tmp_path / "s", with_screen=True) as found:
        yield found


@pytest.mark.slow
def test_unlocked_keyring_keeps_a_key_and_gives_it_to_a_worker(login: Session) -> None:
    login.unlock()
    ran = login.sapwood("key", "set", "openai", text=KEY)
    assert (ran.returncode, ran.stdout) == (0, "the key openai is in the keyring\n"), ran.stderr
    assert json.loads(login.secret_tool()) == {"openai": KEY}, "it is where the system's own tools find it"
    keys = StoredKeys(paths_under(Path(login.environ["SAPWOOD_HOME"])), SYSTEM_CLOCK, _ring(login))
    began = time.monotonic()
    assert keys.get("openai").value == KEY
    assert time.monotonic() - began < 3
    assert "SecretService" in json.loads(login.sapwood("key", "status", "--json").stdout)["keyring"]["backend"]
    assert "out of the keyring" in login.sapwood("key", "remove", "openai").stdout
    assert login.secret_tool() == ""
    assert keys.get("openai").state is KeyState.MISSING, "removed is noticed by who keeps it"


@pytest.mark.slow
def test_locked_keyring_without_a_screen_says_so_at_once(login: Session) -> None:
    login.unlock()
    assert login.sapwood("key", "set", "openai", text=KEY).returncode == 0
    login.lock()
    began = time.monotonic()
    assert _ring(login).read("openai").state is KeyState.LOCKED
    assert time.monotonic() - began < 3
    ran = login.sapwood("key", "set", "openai", text="another")
    assert ran.returncode == 1
    assert "the keyring is locked" in ran.stderr
    assert "another" not in ran.stderr
    login.unlock()
    assert _ring(login).read("openai").value == KEY


def test_service_that_has_no_collection_and_may_not_ask_is_unavailable(login: Session) -> None:
    # The bus starts a keyring that was never opened.
    found = _ring(login).read("openai")
    assert found.state is KeyState.UNAVAILABLE
    assert "could not be opened" in found.reason


@pytest.mark.parametrize("address", ["", "unix:path=/nowhere/bus"])
def test_login_without_a_bus_has_no_keyring(address: str, tmp_path: Path) -> None:
    environ = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": address, "XDG_RUNTIME_DIR": str(tmp_path)}
    del environ["PYTHON_KEYRING_BACKEND"]
    found = SystemKeyring(environ=environ).read("openai")
    assert (found.state, found.reason) == (KeyState.UNAVAILABLE, "this login has no keyring that could be used")


@pytest.mark.slow
def test_question_that_nobody_answers_is_given_up_after_five_seconds(login_with_a_screen: Session) -> None:
    login = login_with_a_screen
    login.unlock()
    assert login.sapwood("key", "set", "openai", text=KEY).returncode == 0
    login.lock()
    began = time.monotonic()
    assert _ring(login).read("openai").state is KeyState.TIMED_OUT
    assert 4.9 < time.monotonic() - began < 7
    assert _prompters(login), "it was a prompt that was waited for"


@pytest.mark.slow
def test_a_cloud_job_waits_five_seconds_for_its_key_and_is_put_off_while_others_go_on(
    login_with_a_screen: Session, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    login = login_with_a_screen
    login.unlock()
    assert login.sapwood("key", "set", HOST, text=KEY).returncode == 0
    login.lock()
    paths = paths_under(Path(login.environ["SAPWOOD_HOME"])).make()
    notes = tmp_path / "notes"
    notes.mkdir()
    for at in range(4):
        (notes / f"{at}.md").write_text(f"# Note {at}\n\n" + f"Anna keeps the spare key number {at} in a jar. " * 30)
    edit_intent(paths, lambda document: _far_profile(document))
    assert login.sapwood("add", str(notes)).returncode == 0
    process = subprocess.Popen(
        [sys.executable, "-m", "agent.cli.main", "run"],
        env=login.environ,
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: _prompters(login), 20, "the prompt")
        # While one worker waits for the prompt, the others read what is new.
        (notes / "new.md").write_text("# New\n\nBertram found another jar.\n" * 5)
        assert login.sapwood("sync").returncode == 0
        wait_until(lambda: _rows(paths.database, "SELECT 1 FROM mem_tree_holds"), 20, "the hold")
        ((scope, code, reason),) = _rows(paths.database, "SELECT scope, code, reason FROM mem_tree_holds")
        assert (scope, code) == ("far", "keys_not_yet")
        assert "did not answer within 5 s" in reason
        wait_until(lambda: len(_rows(paths.database, "SELECT 1 FROM mem_tree_items WHERE state = 'current'")) == 5, 20)
        bound = "FROM mem_tree_jobs WHERE kind IN ('extract_chunk', 'seal', 'seal_document')"
        # Whoever had claimed a row before the hold waits for the same prompt.
        running = f"SELECT 1 {bound} AND status = 'running'"
        wait_until(lambda: not _rows(paths.database, running), 20, "all being put off")
        assert set(_rows(paths.database, f"SELECT status, attempts {bound}")) == {("ready", 0)}, "none is burnt"
        assert not _rows(paths.database, "SELECT 1 FROM mem_tree_jobs WHERE status = 'failed'")
        assert "did not answer within 5 s" in " ".join(login.sapwood("status").stdout.split())
        # The owner unlocks it and sets the key anew, and what was put off goes on without waiting for the half minute.
        login.unlock()
        assert login.sapwood("key", "set", HOST, text=KEY).returncode == 0
        wait_until(
            lambda: not _rows(paths.database, "SELECT 1 FROM mem_tree_holds WHERE code = 'keys_not_yet'"),
            20,
            "going on",
        )
    finally:
        login.sapwood("stop", "--wait")
        process.kill()
        process.wait()
    # The worker had the key by then; it is nowhere but in the keyring.
    for folder in (paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir):
        assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def _ring(login: Session) -> SystemKeyring:
    return SystemKeyring(environ=login.environ)


def _far_profile(document: Any) -> None:
    import tomlkit

    profile = tomlkit.table()
    profile.update(
        {
            "name": "far",
            "provider": "openai",
            "chat_model": "large",
            "base_url": f"https://{HOST}/v1",
            "consent": HOST,
            "context_tokens": 8_192,
        }
    )
    profiles = tomlkit.aot()
    profiles.append(profile)
    document["models"] = {"active": "far"}
    document["pool"] = {"min_workers": 2}
    document["profiles"] = profiles


def _prompters(login: Session) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            is_here = process.environ().get("SESSION_OF_A_TEST") == login.environ["SESSION_OF_A_TEST"]
            if is_here and "gcr-prompter" in process.name():
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def _rows(database: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(5_000)
        return list(connection.execute(statement))
    except apsw.SQLError:
        return []  # it is not made yet
    finally:
        connection.close()
