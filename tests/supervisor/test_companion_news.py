"""How often tray and page are told something: by a clock that moves when told to."""

from __future__ import annotations

from agent.states import AgentState
from agent.supervisor.companion_news import APART_S, GROWING_S, News, Pace

IDLE, GROWING = News(AgentState.IDLE, ""), News(AgentState.GROWING, "")


def told(pace: Pace, news: News, seconds: float, *, from_s: float = 0.0, step_s: float = 0.1) -> list[float]:
    """Look ten times a second, tell where that is due, and return when it was."""
    known, moments = -1, []
    for turn in range(round(seconds / step_s)):
        now = from_s + turn * step_s
        pace.note(news, now)
        if known != pace.serial and pace.may_tell(now):
            known = pace.serial
            pace.told(now)
            moments.append(now)
    return moments


def test_nothing_is_told_while_nothing_changes() -> None:
    pace = Pace()
    assert told(pace, IDLE, 3_600, step_s=1.0) == [0.0]
    assert pace.next_moment(is_behind=False) is None, "nobody is woken for it either"


def test_growth_is_told_every_two_seconds() -> None:
    pace = Pace()
    moments = told(pace, GROWING, 60)
    assert 28 <= len(moments) <= 31
    assert pace.next_moment(is_behind=False) == moments[-1] + GROWING_S


def test_changes_are_told_twice_a_second_at_most_and_the_last_one_always() -> None:
    pace = Pace()
    known, moments = -1, []
    for turn in range(100):
        now = turn * 0.05
        pace.note(News(AgentState.PAUSED, str(turn)), now)
        if known != pace.serial and pace.may_tell(now):
            known = pace.serial
            pace.told(now)
            moments.append(now)
    assert len(moments) <= 5 / APART_S + 1
    at = pace.next_moment(is_behind=known != pace.serial)
    assert at == moments[-1] + APART_S, "what came last is owed"
    assert pace.may_tell(at)


def test_whatever_else_is_shown_is_news_too() -> None:
    pace = Pace()
    pace.note(News(AgentState.IDLE, "", ("builtin",)), 0.0)
    serial = pace.serial
    pace.note(News(AgentState.IDLE, "", ("builtin",)), 1.0)
    assert pace.serial == serial
    pace.note(News(AgentState.IDLE, "", ("cloud",)), 2.0)
    assert pace.serial == serial + 1
