"""``sapwood mcp`` as a process: it ends with whoever started it, costs nothing while nobody asks, leaves no trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import psutil
import pytest

from agent.paths import Paths
from tests.assistants.conftest import environ_of
from tests.cli.agents import COMMAND

WaitUntil = Callable[..., None]

IDLE_S = 60.0
SERVERS = 10
CPU_PCT = 0.5

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}

GREETING = json.dumps(HELLO).encode() + b"\n"


@contextmanager
def server(paths: Paths) -> Iterator[subprocess.Popen[bytes]]:
    """Hold a server that has been greeted and has answered."""
    process = subprocess.Popen(
        [*COMMAND, "mcp"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ_of(paths),
    )
    try:
        assert json.loads(line_of(process, HELLO))["result"]["serverInfo"]["name"] == "sapwood"
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[bytes], message: dict[str, object]) -> bytes:
    """Send a message and return the line that comes back."""
    stdin, stdout = streams(process)
    stdin.write(json.dumps(message).encode() + b"\n")
    stdin.flush()
    return stdout.readline()


def streams(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def test_it_ends_with_its_stdin_and_says_nothing_of_it(grown: Paths) -> None:
    with server(grown) as process:
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, b"", b"")
        assert not list(grown.log_dir.glob(f"mcp-{process.pid}*"))


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_when_it_is_told_to(grown: Paths, number: int) -> None:
    with server(grown) as process:
        process.send_signal(number)
        began = time.monotonic()
        assert process.wait(5) == 0
        assert time.monotonic() - began < 1
        _, stdout = streams(process)
        assert stdout.read() == b""
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_it_is_gone_when_its_client_was_killed(grown: Paths, wait_until: WaitUntil) -> None:
    client = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            f"child.stdin.write({GREETING!r})\n"
            "child.stdin.flush()\n"
            "child.stdout.readline()\n"
            "print(child.pid, flush=True)\n"
            "time.sleep(600)\n",
            *COMMAND,
            "mcp",
        ],
        stdout=subprocess.PIPE,
        env=environ_of(grown),
    )
    try:
        assert client.stdout is not None
        child = psutil.Process(int(client.stdout.readline()))
        client.kill()
        wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, 3, "the server's end")
    finally:
        client.kill()
        client.communicate()


def test_words_that_are_no_message_stop_nothing(grown: Paths) -> None:
    with server(grown) as process:
        stdin, _ = streams(process)
        stdin.write(b"hello?\n\xff\xfe{\n")
        answer = json.loads(line_of(process, {"jsonrpc": "2.0", "id": 2, "method": "ping"}))
        assert answer["id"] == 2


def test_a_server_that_only_waits_has_not_loaded_what_searching_takes() -> None:
    program = (
        "import sys\n"
        "import agent.gateway.mcp.stdio, agent.gateway.mcp.server\n"
        "print([name for name in ('numpy', 'apsw', 'jinja2', 'PIL') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() in ("[]", "['apsw']")


def test_old_logs_of_servers_are_taken_away(grown: Paths) -> None:
    grown.log_dir.mkdir(parents=True, exist_ok=True)
    for number in range(30):
        log = grown.log_dir / f"mcp-{900_000 + number}.log"
        log.write_text("a line\n")
        os.utime(log, (1_000_000 + number, 1_000_000 + number))
    with server(grown) as process:
        process.communicate(timeout=10)
    left = sorted(path.name for path in grown.log_dir.glob("mcp-*.log"))
    assert left == [f"mcp-{900_000 + number}.log" for number in range(20, 30)]


def _cpu_ns(pid: int) -> int:
    """Return the time on a processor of all threads, in ns: the kernel's ticks hide what is shorter than ten ms."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_ten_idle_servers_cost_less_than_half_a_percent_together(
    grown: Paths, wait_until: WaitUntil, capsys: pytest.CaptureFixture[str]
) -> None:
    from contextlib import ExitStack

    with ExitStack() as stack:
        began = time.monotonic()
        pids = [stack.enter_context(server(grown)).pid for _ in range(SERVERS)]
        started = (time.monotonic() - began) / SERVERS
        settled = time.monotonic() + 2
        wait_until(lambda: time.monotonic() > settled, 10, "two seconds")
        before = sum(_cpu_ns(pid) for pid in pids)
        assert before > 0
        end = time.monotonic() + IDLE_S
        wait_until(lambda: time.monotonic() > end, IDLE_S + 30, "the idle minute")
        spent_pct = (sum(_cpu_ns(pid) for pid in pids) - before) / 1e9 / IDLE_S * 100
        rss_mb = sum(psutil.Process(pid).memory_info().rss for pid in pids) / 1e6 / SERVERS
        pss_mb = sum(psutil.Process(pid).memory_full_info().pss for pid in pids) / 1e6 / SERVERS
        with capsys.disabled():
            print(
                f"\n{SERVERS} idle servers: {spent_pct:.4f} % of a processor together, "
                f"{rss_mb:.0f} MB RSS and {pss_mb:.0f} MB PSS each, up in {started:.2f} s"
            )
        assert spent_pct < CPU_PCT
