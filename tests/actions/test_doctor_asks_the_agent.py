"""What the doctor makes of a running agent's answers."""

from __future__ import annotations

from typing import Any

import pytest

from agent.actions.doctor import Check, doctor
from agent.errors import AgentFault
from agent.paths import Paths
from agent.supervisor import control
from agent.system.identity import own_identity


def ask(paths: Paths) -> dict[str, Check]:
    return {check.name: check for check in doctor(paths).checks}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    monkeypatch.setattr(control, "running_agent", lambda _: own_identity())
    monkeypatch.setattr(control, "call", lambda *_: found)
    return found


def test_what_is_watched_and_what_is_not_is_told_source_by_source(paths: Paths, answers: dict[str, Any]) -> None:
    answers["watching"] = [
        {"source": "notes", "how": "watched", "reason": ""},
        {"source": "mail", "how": "looked at every 15 min", "reason": "the limit of watches is reached"},
    ]
    found = ask(paths)
    assert found["agent"].ok
    assert found["watching"].detail == (
        "notes: watched; mail: looked at every 15 min (the limit of watches is reached)"
    )


def test_an_agent_that_says_nothing_of_watching_is_well(paths: Paths, answers: dict[str, Any]) -> None:
    found = ask(paths)
    assert found["agent"].ok
    assert "watching" not in found


def test_an_agent_that_does_not_answer_is_found(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def call(*_: object) -> dict[str, Any]:
        raise AgentFault("the agent does not answer")

    monkeypatch.setattr(control, "running_agent", lambda _: own_identity())
    monkeypatch.setattr(control, "call", call)
    found = ask(paths)["agent"]
    assert not found.ok
    assert "sapwood stop" in found.remedy


def test_an_agent_that_ends_while_it_is_asked_is_no_fault(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    there = [own_identity(), None]

    def call(*_: object) -> dict[str, Any]:
        raise AgentFault("the agent could not be asked")

    monkeypatch.setattr(control, "running_agent", lambda _: there.pop(0))
    monkeypatch.setattr(control, "call", call)
    assert ask(paths)["agent"].ok


def test_a_desktop_without_a_place_for_icons_is_no_fault_and_is_told(paths: Paths, answers: dict[str, Any]) -> None:
    answers["tray"] = {"state": "impossible", "reason": "no panel here", "detail": "", "pid": None}
    answers["gateway"] = {"state": "off", "reason": "nobody has asked for it", "detail": "", "pid": None}
    found = ask(paths)
    assert found["tray"].ok
    assert found["tray"].detail == "none for now: no panel here"
    assert found["page"].detail == "none: nobody has asked for it"


def test_a_tray_that_ends_again_and_again_is_found(paths: Paths, answers: dict[str, Any]) -> None:
    answers["tray"] = {"state": "failed", "reason": "signal 11", "detail": "", "pid": None}
    found = ask(paths)["tray"]
    assert not found.ok
    assert "sapwood logs" in found.remedy
