"""The control channel: private, JSON, gone with its process, and never blocked by a strange caller."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AgentFault, AgentNotRunning
from agent.paths import Paths, paths_under
from agent.supervisor import control
from agent.supervisor.control import (
    MAX_CLIENTS,
    UNIX_PATH_LIMIT,
    AgentAddress,
    ControlServer,
    SingleInstance,
    call,
    read_address,
    running_agent,
)
from agent.system.identity import ProcessIdentity, own_identity
from tests.conftest import REPOSITORY


def _answer(verb: str) -> dict[str, Any]:
    return {"ok": True, "verb": verb}


@pytest.fixture
def server(paths: Paths) -> Iterator[ControlServer]:
    server = ControlServer(paths, _answer)
    server.start()
    yield server
    server.close()


def test_verbs_are_answered(server: ControlServer, paths: Paths) -> None:
    for verb in ("ping", "stop", "open", "reload", "status"):
        assert call(paths, verb) == {"ok": True, "verb": verb}
    assert call(paths, "rm -rf")["ok"] is False


def test_no_agent_is_said_so(paths: Paths) -> None:
    with pytest.raises(AgentNotRunning) as caught:
        call(paths, "ping")
    assert caught.value.exit_code == 3
    assert running_agent(paths) is None


def test_pid_counts_only_with_its_start(server: ControlServer, paths: Paths) -> None:
    found = read_address(paths)
    assert found is not None
    assert found.identity == own_identity()
    other = AgentAddress(ProcessIdentity(found.identity.pid, "another start"), found.address, found.key)
    paths.agent_file.write_text(other.to_json())
    with pytest.raises(AgentNotRunning):
        call(paths, "stop")
    assert running_agent(paths) is None


def test_caller_without_the_key_gets_nothing(server: ControlServer, paths: Paths) -> None:
    found = read_address(paths)
    assert found is not None
    wrong = AgentAddress(found.identity, found.address, b"guess" * 8)
    paths.agent_file.write_text(wrong.to_json())
    with pytest.raises(AgentFault):
        call(paths, "stop", 2.0)


def test_silent_callers_block_nobody(server: ControlServer, paths: Paths) -> None:
    found = read_address(paths)
    assert found is not None
    silent = [Client(found.address, "AF_UNIX") for _ in range(8)]
    assert call(paths, "ping", 2.0)["ok"] is True
    for each in silent:
        each.close()


@pytest.mark.skipif(os.name == "nt", reason="reads of a pipe take no limit there")
def test_callers_that_were_stopped_in_the_handshake_give_their_places_back(
    server: ControlServer, paths: Paths, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "CLIENT_PATIENCE_S", 0.2)
    found = read_address(paths)
    assert found is not None
    silent = [Client(found.address, "AF_UNIX") for _ in range(MAX_CLIENTS)]

    def answers() -> bool:
        try:
            return bool(call(paths, "ping", 2.0)["ok"])
        except AgentFault:
            return False

    wait_until(answers, 5.0, "an answer beside them")
    for each in silent:
        each.close()


def test_many_callers_at_once(server: ControlServer, paths: Paths) -> None:
    answers: list[Any] = []
    asking = [threading.Thread(target=lambda: answers.append(call(paths, "status"))) for _ in range(8)]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert len(answers) == 8


def test_home_with_a_long_path_is_reached_all_the_same(tmp_path: Path) -> None:
    home = tmp_path.joinpath(*["a-folder-with-quite-a-long-name"] * 4)
    paths = paths_under(home).make()
    assert len(os.fsencode(paths.runtime_dir / "agent.sock")) > UNIX_PATH_LIMIT
    server = ControlServer(paths, _answer)
    server.start()
    try:
        assert call(paths, "ping")["ok"] is True
        found = read_address(paths)
        assert found is not None
        folder = Path(found.address).parent
        assert folder.stat().st_mode & 0o077 == 0
    finally:
        server.close()
    assert not folder.exists()
    assert not paths.agent_file.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a named pipe has no such limit")
def test_home_and_temporary_folder_with_long_paths_are_reached_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path.joinpath(*["a-folder-with-quite-a-long-name"] * 4)
    deep.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    server = ControlServer(paths_under(deep / "home").make(), _answer)
    server.start()
    try:
        assert call(paths_under(deep / "home"), "ping")["ok"] is True
    finally:
        server.close()


def test_what_a_killed_supervisor_left_behind_is_no_obstacle(paths: Paths) -> None:
    left = paths.runtime_dir / "agent.sock"
    left.touch()
    paths.agent_file.write_text(AgentAddress(ProcessIdentity(2**22 + 1, "gone"), str(left), b"k").to_json())
    with pytest.raises(AgentNotRunning):
        call(paths, "ping")
    server = ControlServer(paths, _answer)
    server.start()
    assert call(paths, "ping")["ok"] is True
    server.close()


def test_broken_agent_file_is_no_agent(paths: Paths) -> None:
    paths.agent_file.write_text("{")
    with pytest.raises(AgentNotRunning):
        call(paths, "ping")


def test_lock_is_free_the_moment_its_holder_dies(paths: Paths) -> None:
    code = (
        "import sys; from pathlib import Path; from agent.paths import paths_under;"
        "from agent.supervisor.control import SingleInstance;"
        "one = SingleInstance(paths_under(Path(sys.argv[1])).make());"
        "print(one.acquire(), flush=True); sys.stdin.read()"
    )
    home = str(paths.config_dir.parent)
    with subprocess.Popen(
        [sys.executable, "-c", code, home], cwd=REPOSITORY, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == "True"
        instance = SingleInstance(paths)
        assert not instance.acquire()
        holder.kill()
        holder.wait()
        assert instance.acquire()
        instance.release()
