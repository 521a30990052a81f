"""Who has no terminal before them is told what to click, by names that are there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import agent.gateway
from agent.actions import by_clicking
from agent.actions.by_clicking import in_the_tray, needs_on_the_page, on_the_page, with_moments, words_on_the_page
from agent.actions.glance import Glance
from agent.cli.program import COMMANDS
from agent.desktop.tray.menu import Facts, flat, show
from agent.states import AgentState

NOW_MS = int(datetime(2026, 3, 4, 14, 0, tzinfo=UTC).timestamp() * 1000)
IDLE = Glance(AgentState.IDLE, "", "", None, "builtin", (), None)


@pytest.mark.parametrize(
    ("said", "page", "tray"),
    [
        ("name one with `sapwood add PATH`", "name one with “Sources › Add a source”", "name one with “Add folder…”"),
        ("`sapwood resume` goes on", "“Work › Resume” goes on", "“Resume” goes on"),
        ("see `sapwood jobs --status failed`", "see “Work”", "see “Open Sapwood › Work”"),
        ("`sapwood config set a.b 1`", "“Settings”", "“Open Sapwood › Settings”"),
        ("no command in `it`", "no command in `it`", "no command in `it`"),
    ],
)
def test_a_command_is_said_by_what_is_clicked_for_it(said: str, page: str, tray: str) -> None:
    assert (on_the_page(said), in_the_tray(said)) == (page, tray)


@pytest.mark.parametrize("only", ["config edit", "rebuild", "key set openai", "run", "restore FILE"])
def test_what_can_be_done_in_a_terminal_only_keeps_its_command(only: str) -> None:
    said = f"mend it with `sapwood {only}`"
    assert (on_the_page(said), in_the_tray(said)) == (said, said)


def test_every_name_that_is_said_stands_on_the_page_or_in_the_menu() -> None:
    room = Path(agent.gateway.__file__).parent
    sources = [*room.glob("templates/*.html"), *room.glob("pages/*.py")]
    page = "\n".join(file.read_text("utf-8") for file in sources)
    commands = {command.name for _, group in COMMANDS for command in group}
    for command, place in by_clicking._ON_THE_PAGE.items():
        assert command in commands, command
        for name in place.split(" › "):
            assert re.search(rf"[>\"]{name}\b", page), (command, name)
    states = (AgentState.IDLE, AgentState.PAUSED)
    menu = {
        entry.label for state in states for entry in flat(show(Facts(replace(IDLE, state=state), False), 0).entries)
    }
    assert {place.split(" › ")[0] for place in by_clicking._IN_THE_TRAY.values()} <= menu


def test_a_pause_and_times_are_said_as_a_person_says_them() -> None:
    paused = replace(IDLE, state=AgentState.PAUSED, words="paused by its owner until 2026-03-04T15:00:00+00:00")
    hour = replace(paused, paused_until_ms=NOW_MS + 3_600_000)
    assert words_on_the_page(hour, NOW_MS, UTC) == "until 15:00"
    assert words_on_the_page(replace(hour, is_paused_for_good=True), NOW_MS, UTC) == "until you resume"
    assert with_moments("box: away; until 2026-03-05T06:30:00+00:00", NOW_MS, UTC) == "box: away; until tomorrow 06:30"


def test_the_head_of_a_page_names_what_can_be_clicked_there() -> None:
    found = replace(IDLE, words="name a source with `sapwood add PATH`", needs=("kept: see `sapwood sources`",))
    assert words_on_the_page(found, NOW_MS) == "name a source with “Sources › Add a source”"
    assert needs_on_the_page(found, NOW_MS) == ("kept: see “Sources”",)
    assert "`" not in words_on_the_page(replace(found, state=AgentState.STOPPED, words="`sapwood run`"), NOW_MS)


def test_what_the_state_says_already_is_not_said_again() -> None:
    words = "the last good config.toml is in use, the new one is broken: line 3"
    needs = ("config.toml cannot be read: line 3", "2 jobs failed")
    found = replace(IDLE, state=AgentState.ATTENTION, reason=words, words=words, needs=needs)
    assert needs_on_the_page(found, NOW_MS) == ("2 jobs failed",)
    assert needs_on_the_page(replace(found, state=AgentState.STOPPED), NOW_MS) == needs
    assert show(Facts(found), NOW_MS).tooltip.splitlines()[1:] == ["2 jobs failed"]
