"""A key that is used is in its keyring and in the request alone: in no argument, variable, file, message or dump."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent.config_edit import edit_intent
from agent.paths import Paths
from tests.conftest import REPOSITORY
from tests.scripted import serving
from tests.system.rings import PLACE

# Of no known shape, so that nothing that masks keys by their shape hides a leak from these tests.
KEY = "marrow7Quince4Teasel9Burdock2Yarrow"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems show no /proc")


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "tests.system.rings.FileRing")
    monkeypatch.setenv(PLACE, str(tmp_path / "ring"))
    return tmp_path / "ring"


def sapwood(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agent.cli.main", *words],
        cwd=REPOSITORY,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def prepare(paths: Paths, tmp_path: Path, base_url: str) -> None:
    """A home with notes, whose active profile wants a key."""
    import tomlkit

    notes = tmp_path / "notes"
    notes.mkdir()
    for at in range(3):
        (notes / f"{at}.md").write_text(f"# Pump {at}\n\n" + f"Anna looked at pump {at} in room {at + 7}. " * 40)

    def change(document: Any) -> None:
        profile = tomlkit.table()
        profile.update(
            {
                "name": "box",
                "provider": "openai",
                "chat_model": "scripted-chat",
                "base_url": base_url,
                "key": "box-account",
                "context_tokens": 8_192,
            }
        )
        document["profiles"] = tomlkit.aot()
        document["profiles"].append(profile)
        document["models"] = {"active": "box"}
        document["power"] = {"enabled": False}

    edit_intent(paths, change)
    assert sapwood("add", str(notes)).returncode == 0
    ran = sapwood("key", "set", "box-account", "--debug", text=KEY)
    assert ran.returncode == 0, ran.stderr
    assert KEY[:8] not in ran.stdout + ran.stderr


def assert_nowhere(paths: Paths, ring: Path, *outputs: str) -> None:
    assert KEY in ring.read_text(), "it is where it belongs"
    for text in outputs:
        assert KEY not in text
    for folder in (paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir):
        for path in folder.rglob("*"):
            if path.is_file():
                assert KEY.encode() not in path.read_bytes(), path


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts the agent, its output in a file; a core would be left in its folder."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        def allow_cores() -> None:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        (tmp_path / "cwd").mkdir()
        with (tmp_path / "said").open("wb") as said:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "agent.cli.main", "--debug", "run", *words],
                    cwd=tmp_path / "cwd",
                    stdout=said,
                    stderr=said,
                    preexec_fn=allow_cores,
                )
            )
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()


@on_linux
@pytest.mark.slow
def test_key_in_use_is_in_no_argument_variable_file_or_crash_record(
    paths: Paths, ring: Path, tmp_path: Path, agent: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    with serving() as server:
        server.use("held")
        prepare(paths, tmp_path, server.base_url("openai"))
        process = agent()
        wait_until(lambda: server.calls("chat"), 30, "a call")
        header = {name.lower(): value for name, value in server.calls("chat")[0].headers.items()}["authorization"]
        assert header == f"Bearer {KEY}", "the key is in use"
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        assert len(family) > 1
        for each in family:
            for name in ("cmdline", "environ"):
                assert KEY.encode() not in Path(f"/proc/{each.pid}/{name}").read_bytes(), name
        # The worker that holds it crashes as a library would make it.
        workers = json.loads(sapwood("status", "--json").stdout)["workers"]
        (holder, *_) = [worker["pid"] for worker in workers if worker["kind"] == "extract_chunk"]
        os.kill(holder, signal.SIGABRT)
        crash_logs = lambda: "".join(path.read_text() for path in paths.log_dir.glob("*.crash.log"))  # noqa: E731
        wait_until(lambda: "Fatal Python error: Aborted" in crash_logs(), 10, "the record of the crash")
        wait_until(lambda: not psutil.pid_exists(holder), 10, "the end of the worker")
        server.release()
        process.terminate()
        process.wait(10)
    assert not list((tmp_path / "cwd").iterdir()), "no core"
    assert_nowhere(paths, ring, crash_logs(), (tmp_path / "said").read_text())


class Quoting(BaseHTTPRequestHandler):
    """A server that refuses a key and quotes it whole, in its words, in a header and in where to look."""

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        said = self.headers.get("Authorization", "").removeprefix("Bearer ")
        body = json.dumps(
            {"error": {"message": f"Incorrect key provided: {said}.", "code": said, "param": said}}
        ).encode()
        self.server.quoted.append(said)  # type: ignore[attr-defined]
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("WWW-Authenticate", f"Bearer realm={said}")
        self.send_header("X-Request-Id", said)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def quoting() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Quoting)
    server.quoted = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_key_that_a_server_quotes_back_is_in_no_message_and_no_file(
    paths: Paths,
    ring: Path,
    tmp_path: Path,
    quoting: ThreadingHTTPServer,
    agent: Callable[..., Any],
    wait_until: Callable[..., None],
) -> None:
    prepare(paths, tmp_path, f"http://127.0.0.1:{quoting.server_port}/v1")
    process = agent()
    wait_until(lambda: "auth_failed" in sapwood("jobs", "--json").stdout, 30, "the refusal")
    process.terminate()
    process.wait(10)
    assert KEY in quoting.quoted  # type: ignore[attr-defined]
    outputs = [(tmp_path / "said").read_text()]
    for words in (
        "status",
        "status --json",
        "jobs --json",
        "doctor --deep --json",
        "logs --json",
        "usage --json",
        "config --json",
        "key status --json",
    ):
        ran = sapwood(*words.split())
        outputs += [ran.stdout, ran.stderr]
    assert any("auth_failed" in text for text in outputs), "the refusal is told"
    assert_nowhere(paths, ring, *outputs)
