"""How tray and page are, read from the agent's answer."""

from __future__ import annotations

from typing import Any

import pytest

from agent.actions.companions import CompanionStatus, companion_of
from agent.actions.home import Home
from agent.actions.status import status
from agent.states import CompanionState


def test_status_tells_why_there_is_no_tray(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"state": "impossible", "reason": "no panel here", "detail": "", "pid": None}
    monkeypatch.setattr("agent.actions.home.is_running", lambda _: True)
    monkeypatch.setattr("agent.actions.status.ask_the_agent", lambda _: {"tray": said})
    found = status(home)
    assert found.tray == CompanionStatus(CompanionState.IMPOSSIBLE, "no panel here")
    assert found.gateway is None


def test_status_of_an_agent_that_does_not_run_says_nothing_of_a_tray(home: Home) -> None:
    assert status(home).tray is None


@pytest.mark.parametrize("answer", [{}, {"tray": None}, {"tray": {"state": "dancing"}}, {"tray": {}}, {"tray": "up"}])
def test_agent_of_another_version_says_what_it_likes(answer: dict[str, Any]) -> None:
    assert companion_of(answer, "tray") is None


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"state": "up", "detail": "StatusNotifierItem", "pid": 7}, "up (StatusNotifierItem)"),
        ({"state": "off", "reason": "it runs with --headless"}, "none: it runs with --headless"),
        ({"state": "impossible", "reason": "no panel"}, "none for now: no panel"),
        ({"state": "starting", "reason": ""}, "starting"),
        ({"state": "failed", "reason": "signal 11"}, "failed: signal 11"),
    ],
)
def test_words(said: dict[str, Any], words: str) -> None:
    found = companion_of({"tray": said}, "tray")
    assert found is not None
    assert found.words == words
