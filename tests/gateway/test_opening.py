"""From "open the page" to a link that opens it: through the agent, past whatever a killed page left behind."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agent.actions import opening
from agent.actions.gateway_address import GatewayAddress, publish
from agent.actions.opening import open_page, page_link
from agent.errors import AgentFault, AgentNotRunning
from agent.paths import Paths
from agent.supervisor.control import ControlServer
from agent.system.identity import ProcessIdentity, own_identity
from tests.gateway.conftest import Serve


class FakeAgent:
    """The control channel of an agent, which says of its page what it is told to."""

    def __init__(self, paths: Paths) -> None:
        self.says: dict[str, Any] | None = {"state": "starting", "reason": ""}
        self.asked = threading.Event()
        self._server = ControlServer(paths, self._answer)
        self._server.start()

    def _answer(self, verb: str) -> dict[str, Any]:
        assert verb == "open"
        self.asked.set()
        return {"ok": True} if self.says is None else {"ok": True, "gateway": self.says}

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def fake_agent(paths: Paths) -> Iterator[FakeAgent]:
    agent = FakeAgent(paths)
    yield agent
    agent.close()


def test_a_link_opens_the_page_at_its_place(fake_agent: FakeAgent, serve: Serve, paths: Paths) -> None:
    served = serve()
    fake_agent.says = {"state": "up"}
    link = page_link(paths, "tree")
    assert link.startswith(f"{served.origin}/enter/")
    assert link.endswith("?to=tree")
    with httpx.Client(trust_env=False) as browser:
        assert 'url=/tree"' in browser.get(link).text
        assert browser.get(f"{served.origin}/tree").status_code == 200


def test_a_page_that_is_just_starting_is_waited_for(fake_agent: FakeAgent, serve: Serve, paths: Paths) -> None:
    killed = serve()
    killed.process.kill()
    killed.process.join(10)
    with ThreadPoolExecutor(1) as aside:
        link = aside.submit(page_link, paths)
        assert fake_agent.asked.wait(10)
        served = serve()
        assert link.result(10).startswith(f"{served.origin}/enter/")


def test_the_token_is_sent_to_nobody_who_has_the_port_of_a_page_that_was_killed(
    fake_agent: FakeAgent, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_S", 0.3)
    gone = ProcessIdentity(own_identity().pid, "an earlier start")
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", 0))
        thief.listen()
        thief.settimeout(0)
        publish(paths, GatewayAddress(gone, int(thief.getsockname()[1])), "secret")
        with pytest.raises(AgentFault, match="still starting"):
            page_link(paths)
        with pytest.raises(BlockingIOError):
            thief.accept()


def test_a_page_that_does_not_answer_is_given_up(
    fake_agent: FakeAgent, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "PATIENCE_S", 0.2)
    monkeypatch.setattr(opening, "LINK_PATIENCE_S", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        publish(paths, GatewayAddress(own_identity(), int(mute.getsockname()[1])), "secret")
        began = time.monotonic()
        with pytest.raises(AgentFault, match="does not answer") as raised:
            page_link(paths)
        assert time.monotonic() - began < 5
    assert "sapwood logs" in raised.value.hint


def test_without_the_agent_it_is_said_how_to_start_it(paths: Paths) -> None:
    with pytest.raises(AgentNotRunning) as raised:
        page_link(paths)
    assert raised.value.exit_code == 3
    assert "sapwood run" in raised.value.hint


@pytest.mark.parametrize("state", ["failed", "impossible", "off"])
def test_why_there_is_no_page_is_told(fake_agent: FakeAgent, paths: Paths, state: str) -> None:
    fake_agent.says = {"state": state, "reason": "it ends again and again"}
    with pytest.raises(AgentFault, match="ends again and again"):
        page_link(paths)


def test_an_agent_of_before_there_was_a_page_is_told_apart(fake_agent: FakeAgent, paths: Paths) -> None:
    fake_agent.says = None
    with pytest.raises(AgentFault, match="no page") as raised:
        page_link(paths)
    assert "sapwood stop" in raised.value.hint


def test_a_place_that_there_is_not_is_refused(fake_agent: FakeAgent, serve: Serve, paths: Paths) -> None:
    serve()
    with pytest.raises(AgentFault, match="no such place"):
        page_link(paths, "//evil.example")


@pytest.mark.skipif(sys.platform == "win32", reason="there the system opens it without a program of its own")
def test_where_nothing_opens_it_the_link_is_in_the_error(
    fake_agent: FakeAgent, serve: Serve, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(AgentFault) as raised:
        open_page(paths, "tree")
    assert f"{served.origin}/enter/" in raised.value.hint


def test_what_is_opened_is_the_link(
    fake_agent: FakeAgent, serve: Serve, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    opened: list[str] = []
    monkeypatch.setattr(opening, "open_outside", opened.append)
    assert [open_page(paths)] == opened


def test_a_proxy_of_the_environment_hears_nothing(
    fake_agent: FakeAgent, serve: Serve, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert page_link(paths).startswith("http://127.0.0.1:")
