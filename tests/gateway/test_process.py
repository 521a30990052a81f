"""The gateway's process: where it serves, how it ends, what it leaves behind, and what it costs while nobody comes."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from agent.actions.gateway_address import read_gateway, running_gateway, withdraw
from agent.gateway.process import listen
from agent.paths import Paths
from agent.system.companion import EXIT_IMPOSSIBLE, Say
from tests.gateway.conftest import PROBE, Serve, heard, start

WaitUntil = Callable[..., None]

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_it_says_where_it_serves_to_its_owner_alone(serve: Serve, paths: Paths) -> None:
    served = serve()
    for path in (paths.gateway_file, paths.rpc_token):
        assert path.stat().st_mode & 0o777 == 0o600
    assert served.address.identity.pid == served.process.pid
    assert running_gateway(paths) == served.address
    assert len(served.token) >= 43
    answer = served.client().post("/rpc", headers=served.bearer)
    assert answer.status_code == 200


def test_stop_ends_it_within_a_second_though_a_page_listens(serve: Serve, paths: Paths) -> None:
    served = serve()
    browser = served.browser()
    with browser.stream("GET", "/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "event: glance"
        began = time.monotonic()
        served.line.send(Say.STOP)
        assert served.wait_for_end() == 0
        assert time.monotonic() - began < 1.0
        # The page is told that it has ended, and its connection is not torn.
        assert next(lines).startswith("data: {")
        assert [line for line in lines if line] == []
    assert not paths.gateway_file.exists()
    assert not paths.rpc_token.exists()


def test_stop_ends_it_within_a_second_though_a_request_never_ends(serve: Serve) -> None:
    served = serve()
    browser = served.browser()
    with socket.create_connection(("127.0.0.1", served.address.port)) as line:
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        host = f"127.0.0.1:{served.address.port}"
        line.sendall(f"GET /endless HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n\r\n".encode())
        assert browser.get("/").status_code == 200
        began = time.monotonic()
        served.line.send(Say.STOP)
        assert served.wait_for_end() == 0
        assert time.monotonic() - began < 1.0


def test_it_ends_with_the_supervisor(serve: Serve, paths: Paths) -> None:
    served = serve()
    began = time.monotonic()
    served.line.close()
    assert served.wait_for_end() == 82
    assert time.monotonic() - began < 1.0
    assert not paths.gateway_file.exists()


def test_it_ends_by_itself_when_nobody_wants_anything(
    serve: Serve, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_GATEWAY__IDLE_SECONDS", "0.4")
    served = serve()
    heard(served.line, Say.BYE)
    assert served.wait_for_end() == 0
    assert not paths.gateway_file.exists()


def test_it_stays_while_a_page_listens(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    for idle_s in (0.5, 2.0, 8.0):
        monkeypatch.setenv("SAPWOOD_GATEWAY__IDLE_SECONDS", str(idle_s))
        served = serve()
        try:
            with served.browser().stream("GET", "/events") as stream:
                lines = stream.iter_lines()
                assert next(lines) == "event: glance"
                assert not served.line.poll(idle_s + 0.5)
                assert served.process.is_alive()
        except httpx.TransportError:
            continue  # on a busy machine it was over before anybody came: once more, with more patience
        heard(served.line, Say.BYE)
        return
    pytest.fail("no page could listen")


@linux
def test_ctrl_c_is_the_supervisors_alone_and_a_signal_to_end_is_obeyed(serve: Serve, paths: Paths) -> None:
    served = serve()
    pid = served.address.identity.pid
    os.kill(pid, signal.SIGINT)
    assert served.client().post("/rpc", headers=served.bearer).status_code == 200
    os.kill(pid, signal.SIGTERM)
    assert served.wait_for_end() == 0
    assert not paths.gateway_file.exists()


def test_killed_it_leaves_nothing_that_misleads(serve: Serve, paths: Paths) -> None:
    served = serve()
    served.process.kill()
    served.process.join(10)
    assert read_gateway(paths) == served.address
    assert running_gateway(paths) is None
    again = serve()
    assert again.address != served.address
    assert again.token != served.token
    assert running_gateway(paths) == again.address
    assert again.client().post("/rpc", headers=served.bearer).status_code == 401


def test_one_that_ends_late_leaves_its_successors_address_alone(serve: Serve, paths: Paths) -> None:
    first, second = serve(), serve()
    first.line.send(Say.STOP)
    assert first.wait_for_end() == 0
    assert running_gateway(paths) == second.address
    withdraw(paths, first.address)
    assert paths.rpc_token.read_text("ascii") == second.token


def test_the_port_of_the_settings_is_used(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    monkeypatch.setenv("SAPWOOD_GATEWAY__PORT", str(port))
    served = serve()
    assert served.address.port == port
    # And again at once, though the system still remembers connections of the last one.
    assert served.browser().get("/").status_code == 200
    served.line.send(Say.STOP)
    assert served.wait_for_end() == 0
    assert serve().address.port == port


def test_a_port_that_is_taken_is_no_hindrance(serve: Serve, paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        monkeypatch.setenv("SAPWOOD_GATEWAY__PORT", str(port))
        served = serve()
        assert served.address.port != port
        assert served.browser().get("/").status_code == 200
    assert f"port {port} cannot be had" in (paths.log_dir / "gateway.log").read_text("utf-8")


def test_no_port_at_all_is_no_failure(paths: Paths) -> None:
    process, line = start(paths, "tests.gateway.probe:portless_main")
    try:
        assert "no port" in str(heard(line, Say.IMPOSSIBLE)["reason"])
        process.join(10)
        assert process.exitcode == EXIT_IMPOSSIBLE
    finally:
        process.kill()
        process.join(10)
        line.close()


def test_it_is_reached_from_this_machine_alone() -> None:
    with listen(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


@linux
def test_while_nobody_comes_it_sleeps(serve: Serve, wait_until: WaitUntil) -> None:
    served = serve()
    assert served.browser().get("/tree").status_code == 200
    for client in served.clients:
        client.close()

    def switches() -> int:
        tasks = Path(f"/proc/{served.address.identity.pid}/task")
        texts = [(task / "status").read_text() for task in tasks.iterdir()]
        return sum(int(line.split()[1]) for text in texts for line in text.splitlines() if "_ctxt_switches" in line)

    def rests() -> bool:
        before = switches()
        time.sleep(0.5)  # a stretch of time is what is measured
        return switches() - before <= 1

    # uvicorn's own tick would be five in each such stretch, and no stretch would be without.
    wait_until(rests, what="half a second of sleep")


def test_nothing_is_polled_while_no_page_listens(serve: Serve, paths: Paths) -> None:
    served = serve()
    for _ in range(5):
        served.line.send(Say.STATE, state="idle", reason="")
    assert served.client().post("/rpc", headers=served.bearer).status_code == 200
    assert not paths.database.exists()


def test_the_main_of_the_agent_serves_the_pages(serve: Serve) -> None:
    served = serve("agent.gateway.process:gateway_main")
    assert served.client().get("/").status_code == 403
    assert served.browser().get("/nowhere-at-all").status_code == 404


def test_a_caller_without_reading_keeps_the_others_served(serve: Serve) -> None:
    served = serve(PROBE)
    browser = served.browser()
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    host = f"127.0.0.1:{served.address.port}"
    lines = []
    try:
        for _ in range(16):
            line = socket.create_connection(("127.0.0.1", served.address.port))
            line.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\nCookie: {cookies}\r\n\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 200"
            lines.append(line)
        refused = browser.get("/events")
        assert refused.status_code == 503
        assert "Close some" in refused.text
        lines.pop().close()
        _poll(lambda: _stream_status(browser) == 200)
    finally:
        for line in lines:
            line.close()


def _stream_status(browser: httpx.Client) -> int:
    with browser.stream("GET", "/events") as stream:
        return stream.status_code


def _poll(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_changes_reach_a_page_that_listens(serve: Serve, paths: Paths) -> None:
    from agent.actions.home import open_home
    from agent.actions.pausing import pause

    served = serve()
    with served.browser().stream("GET", "/events") as stream:
        seen = _glances(stream)
        assert next(seen)["paused_until_ms"] is None
        with open_home(paths) as home:
            pause(home, "1h")
        # Said twice, told once: what has not changed is no news.
        served.line.send(Say.STATE, state="paused", reason="you paused it")
        served.line.send(Say.STATE, state="paused", reason="you paused it")
        assert next(seen)["paused_until_ms"] is not None
        with open_home(paths) as home:
            pause(home, "3h")
        served.line.send(Say.STATE, state="paused", reason="you paused it")
        assert next(seen)["paused_until_ms"] is not None


def _glances(stream: httpx.Response) -> Iterator[dict[str, object]]:
    for line in stream.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
