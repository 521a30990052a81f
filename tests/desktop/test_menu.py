"""The menu is a function of what there is to show: nothing else is needed to know what it says."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime

import pytest

from agent.actions.by_clicking import moment_words
from agent.actions.capabilities import BUILT, Capability
from agent.actions.glance import Glance, GlanceProfile
from agent.desktop.tray.menu import (
    LINE_LENGTH,
    Entry,
    Facts,
    Mark,
    Numbers,
    flat,
    shape_of,
    shortened,
    show,
    state_line,
)
from agent.states import AgentState

NOW = datetime(2026, 3, 4, 14, 0).astimezone()
NOW_MS = int(NOW.timestamp() * 1000)
HOUR_MS = 3_600_000
PROFILES = (GlanceProfile("builtin", "here", True), GlanceProfile("house", "local", True),
            GlanceProfile("sky", "cloud", False))  # fmt: skip
IDLE = Glance(AgentState.IDLE, "everything is grown", "everything is grown", None, "house", PROFILES, None)


def entries(found: Glance = IDLE, **more: object) -> list[Entry]:
    return flat(show(Facts(found, **more), NOW_MS).entries)  # type: ignore[arg-type]


def labels(found: Glance = IDLE, **more: object) -> list[str]:
    return [entry.label for entry in entries(found, **more) if entry.label]


def test_everything_that_is_built_is_in_it_in_this_order() -> None:
    assert labels(starts_at_login=False) == [
        "Idle: everything is grown", "Open Sapwood", "Pause", "For an hour", "Until tomorrow", "Until I resume",
        "Model", "Built in (nothing leaves this machine)", "house (on this machine)", "sky (cloud)", "Add folder…",
        "Save bug report…", "Open logs", "Start at login", "Quit Sapwood",
    ]  # fmt: skip


def test_what_is_not_built_is_absent_and_not_greyed() -> None:
    assert "Today's digest" not in labels()
    assert "Today's digest" in labels(capabilities=BUILT | {Capability.DIGEST})
    without = labels(capabilities=frozenset())
    assert without == ["Idle: everything is grown", "Open Sapwood", "Pause", "For an hour", "Until tomorrow",
                       "Until I resume", "Quit Sapwood"]  # fmt: skip
    assert [entry.label for entry in entries() if not entry.is_enabled] == ["Idle: everything is grown"]


def test_no_two_lines_between_groups_stand_together_and_none_at_the_ends() -> None:
    for capabilities in (BUILT, frozenset[Capability](), frozenset({Capability.HELP})):
        top = show(Facts(IDLE, capabilities=capabilities), NOW_MS).entries
        gaps = [entry.is_separator for entry in top]
        assert not gaps[0]
        assert not gaps[-1]
        assert (True, True) not in list(itertools.pairwise(gaps))


def test_exactly_the_active_profile_is_marked() -> None:
    radios = [entry for entry in entries() if entry.mark is Mark.RADIO]
    assert [(entry.key, entry.is_marked) for entry in radios] == [
        ("model:builtin", False), ("model:house", True), ("model:sky", False)
    ]  # fmt: skip


def test_a_paused_agent_can_be_resumed_and_not_paused() -> None:
    paused = replace(IDLE, state=AgentState.PAUSED, paused_until_ms=NOW_MS + HOUR_MS)
    assert "Resume" in labels(paused)
    assert "Pause" not in labels(paused)
    stopped = labels(replace(IDLE, state=AgentState.STOPPED, running=False))
    assert "Resume" not in stopped
    assert "Pause" not in stopped


def test_start_at_login_is_a_mark_and_absent_where_it_cannot_be_had() -> None:
    for enabled in (True, False):
        (entry,) = [entry for entry in entries(starts_at_login=enabled) if entry.key == "at-login"]
        assert (entry.mark, entry.is_marked) == (Mark.CHECK, enabled)
    assert "Start at login" not in labels(starts_at_login=None)


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (IDLE, "Idle: everything is grown"),
        (replace(IDLE, words=""), "Idle"),
        (replace(IDLE, state=AgentState.GROWING, words="42 of 310"), "Growing 42 of 310"),
        (replace(IDLE, state=AgentState.PAUSED, paused_until_ms=NOW_MS + HOUR_MS), "Paused until 15:00"),
        (
            replace(IDLE, state=AgentState.PAUSED, paused_until_ms=NOW_MS, is_paused_for_good=True),
            "Paused until you resume",
        ),
        (
            replace(IDLE, state=AgentState.PAUSED, reason="on battery; `sapwood resume` works on all the same"),
            "Paused: on battery",
        ),
        (replace(IDLE, state=AgentState.ATTENTION, reason="3 jobs failed"), "Attention: 3 jobs failed"),
        (
            replace(IDLE, state=AgentState.ATTENTION, reason="3 jobs failed; see `sapwood jobs`"),
            "Attention: 3 jobs failed",
        ),
        (replace(IDLE, state=AgentState.ERROR, reason="see `sapwood logs`"), "Error: see “Open logs”"),
        (replace(IDLE, state=AgentState.ERROR, reason="no room"), "Error: no room"),
        (replace(IDLE, state=AgentState.STARTING), "Starting"),
        (replace(IDLE, state=AgentState.STOPPED, running=False), "Not running"),
        (
            replace(IDLE, is_offline=True, reason="house: it does not answer; until 2026-03-04"),
            "Offline: house: it does not answer",
        ),
    ],
)
def test_the_state_line_says_what_goes_on(found: Glance, line: str) -> None:
    assert state_line(found, NOW_MS) == line
    first = show(Facts(found), NOW_MS).entries[0]
    assert (first.label, first.is_enabled) == (line, False)


def test_times_are_of_this_machine_and_name_the_day_where_it_is_another() -> None:
    def words(*moment: int) -> str:
        return moment_words(int(datetime(*moment).astimezone().timestamp() * 1000), NOW_MS)  # type: ignore[arg-type]

    assert words(2026, 3, 4, 23, 59) == "23:59"
    assert words(2026, 3, 5, 6, 0) == "tomorrow 06:00"
    assert words(2026, 3, 8, 6, 5) == "Sun 8 March 06:05"


def test_a_long_reason_is_cut_in_the_menu_and_whole_in_the_tooltip() -> None:
    reason = "the disk of /home is full: " + "make room on it " * 10
    found = show(Facts(replace(IDLE, state=AgentState.ATTENTION, reason=reason)), NOW_MS)
    assert len(found.entries[0].label) <= LINE_LENGTH
    assert found.entries[0].label.endswith("…")
    assert reason in found.tooltip
    assert shortened("two\nlines") == "two lines"
    assert len(shortened("x" * 500)) <= LINE_LENGTH


def test_attention_and_error_ask_to_be_looked_at_and_nothing_else_does() -> None:
    asking = {state for state in AgentState if show(Facts(replace(IDLE, state=state)), NOW_MS).wants_attention}
    assert asking == {AgentState.ATTENTION, AgentState.ERROR}


def test_what_needs_its_owner_is_in_the_tooltip_whatever_goes_on() -> None:
    growing = replace(IDLE, state=AgentState.GROWING, words="1 of 2", needs=("3 jobs failed",))
    assert show(Facts(growing), NOW_MS).tooltip == "Sapwood: Growing 1 of 2\n3 jobs failed"


def test_what_came_of_a_click_stands_in_the_state_line() -> None:
    assert show(Facts(IDLE, trouble="the page cannot be shown"), NOW_MS).entries[0].label == "the page cannot be shown"


def test_a_label_that_changes_keeps_its_number_and_the_shape_of_the_menu() -> None:
    numbers = Numbers()
    before, after = entries(), entries(replace(IDLE, words="another", profile="builtin"))
    held = {entry.key: numbers.number(entry.key) for entry in before}
    assert {entry.key: numbers.number(entry.key) for entry in after} == held
    assert len(set(held.values())) == len(held)
    assert shape_of(before) == shape_of(after)
    assert shape_of(before) != shape_of(entries(replace(IDLE, state=AgentState.PAUSED)))
    assert [numbers.key(number) for number in held.values()] == list(held)
    assert numbers.key(99) is None
