"""The times that an owner writes."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from agent.actions.times import FOREVER_MS, moment_ms, pause_end_ms, span_ms, span_words
from agent.clock import iso
from agent.errors import UsageFault

NOW = int(datetime(2026, 3, 10, 23, 30).astimezone().timestamp() * 1000)


def local(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("90m", 5400), ("5 min", 300), ("1h", 3600), ("2D", 172_800), ("1w", 604_800)]
)
def test_span_is_read(text: str, seconds: int) -> None:
    assert span_ms(text) == seconds * 1000
    assert pause_end_ms(text, NOW) == NOW + seconds * 1000


def test_pause_until_tomorrow_ends_in_the_morning() -> None:
    assert local(pause_end_ms("tomorrow", NOW)) == datetime(2026, 3, 11, 6)


def test_pause_without_an_end_is_a_time_that_can_be_printed() -> None:
    assert pause_end_ms(None, NOW) == FOREVER_MS
    printed = iso(FOREVER_MS)
    assert printed is not None
    assert printed.startswith(("9999-01-01", "9998-12-31"))


@pytest.mark.parametrize("text", ["", "soon", "0m", "-1h", "1 fortnight", "yesterday"])
def test_impossible_pause_is_refused(text: str) -> None:
    with pytest.raises(UsageFault):
        pause_end_ms(text, NOW)


def test_date_is_a_whole_day() -> None:
    begin, end = moment_ms("2025-06-14", NOW), moment_ms("2025-06-14", NOW, end=True)
    assert local(begin) == datetime(2025, 6, 14)
    assert local(end + 1) == datetime(2025, 6, 15)


def test_moment_with_an_offset_is_that_moment() -> None:
    assert moment_ms("1970-01-01T01:00:00+01:00", NOW) == 0
    assert moment_ms("1970-01-01T00:00:00Z", NOW) == 0
    assert local(moment_ms("2025-06-14T18:30", NOW)) == datetime(2025, 6, 14, 18, 30)
    assert local(moment_ms("7d", NOW)) == local(NOW) - timedelta(days=7)


@pytest.mark.parametrize("text", ["", "2025-13-01", "14.6.2025", "noon"])
def test_impossible_date_is_refused(text: str) -> None:
    with pytest.raises(UsageFault):
        moment_ms(text, NOW)


def test_spans_are_said_in_one_unit() -> None:
    said = [span_words(seconds) for seconds in (0.2, 1, 89, 90, 600, 5_399, 5_400, 200_000)]
    assert said == [
        *("1 second", "1 second", "89 seconds", "2 minutes", "10 minutes", "90 minutes", "2 hours", "2 days"),
    ]
