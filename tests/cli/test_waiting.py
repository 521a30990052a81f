"""The line that says how far something is: silent for a second, in place on a terminal, seldom in a pipe."""

from __future__ import annotations

import io

import pytest

from agent.cli.waiting import WaitingLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def now() -> list[float]:
    return [100.0]


def test_what_is_over_in_a_second_says_nothing(now: list[float]) -> None:
    stream = Terminal()
    with WaitingLine(stream, lambda: now[0]) as line:
        line.say("begun")
        now[0] += 0.9
        line.counted("found")(5)
    assert stream.getvalue() == ""


def test_in_a_pipe_a_line_is_said_now_and_then(now: list[float]) -> None:
    stream = io.StringIO()
    with WaitingLine(stream, lambda: now[0]) as line:
        tell = line.counted_of("notes")
        for done in range(0, 13_000, 1000):
            now[0] += 1.0
            tell(done, 12_000)
    assert stream.getvalue() == "0 of 12,000 notes\n5,000 of 12,000 notes\n10,000 of 12,000 notes\n"


def test_of_what_nobody_can_count_it_says_how_long_it_takes(now: list[float]) -> None:
    stream = io.StringIO()
    with WaitingLine(stream, lambda: now[0]) as line:
        tell = line.lasting("taking it out")
        for _ in range(14):
            now[0] += 0.5
            tell()
    assert stream.getvalue() == "taking it out: 1 s so far\ntaking it out: 6 s so far\n"


def test_on_a_terminal_it_is_drawn_in_place_and_leaves_nothing(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with WaitingLine(stream, lambda: now[0]) as line:
        now[0] += 2.0
        line.share("copying")(1, 3)
        line.share("copying")(2, 3)
        now[0] += 0.3
        line.counted("looking")(1234)
        now[0] += 0.3
        line.say("words that are longer than the line")
    drawn = stream.getvalue().split("\r")[1:]
    assert drawn[:2] == ["copying: 33 %\x1b[K", "looking: 1,234 items so far\x1b[K"]
    assert drawn[2] == "words that are longer than th\x1b[K"
    assert drawn[3:] == ["\x1b[K"]


def test_a_wiped_line_is_silent_for_another_second(now: list[float]) -> None:
    stream = io.StringIO()
    line = WaitingLine(stream, lambda: now[0])
    now[0] += 2.0
    line.wipe()
    line.say("too soon")
    now[0] += 1.0
    line.say("now")
    assert stream.getvalue() == "now\n"


def test_nobody_reading_is_no_error(now: list[float]) -> None:
    with WaitingLine(Closed(), lambda: now[0]) as line:
        now[0] += 2.0
        line.say("to nobody")
        now[0] += 9.0
        line.say("to nobody again")
