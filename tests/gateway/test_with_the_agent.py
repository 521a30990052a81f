"""The page as its owner meets it: a real agent, asked to open it, and what is left when one of the two is killed."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import httpx
import pytest

from agent.actions.gateway_address import running_gateway
from agent.actions.opening import page_link
from agent.paths import Paths
from agent.system.identity import is_alive
from tests.cli.agents import run, running_agent, said

WaitUntil = Callable[..., None]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def lets_in(link: str) -> bool:
    with httpx.Client(trust_env=False) as browser:
        return browser.get(link).status_code == 200


def test_the_page_is_served_when_it_is_asked_for_and_comes_back_when_it_was_killed(
    paths: Paths, wait_until: WaitUntil
) -> None:
    with running_agent(paths, wait_until, "--headless"):
        assert running_gateway(paths) is None
        assert lets_in(page_link(paths))
        first = running_gateway(paths)
        assert first is not None
        os.kill(first.identity.pid, signal.SIGKILL)
        assert lets_in(page_link(paths, "tree"))
        second = running_gateway(paths)
        assert second is not None
        assert second.identity != first.identity
        ran = run(paths, "open", "--print", "--json")
        assert lets_in(json.loads(ran.stdout)["url"])
        assert said(paths)["gateway"]["pid"] == second.identity.pid
    wait_until(lambda: not is_alive(second.identity), 4, "the end of the page with its agent")
    assert not paths.gateway_file.exists()
    assert not paths.rpc_token.exists()


def test_the_page_ends_with_an_agent_that_is_killed(paths: Paths, wait_until: WaitUntil) -> None:
    with running_agent(paths, wait_until, "--headless") as agent:
        page_link(paths)
        gateway = running_gateway(paths)
        assert gateway is not None
        agent.kill()
        wait_until(lambda: not is_alive(gateway.identity), 3, "the end of the page")
        assert running_gateway(paths) is None
    ran = run(paths, "open", "--print")
    assert ran.returncode == 3
    assert "sapwood run" in ran.stderr
