"""The times that an owner writes: dates, moments, spans."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

from agent.errors import UsageFault

# "Until I resume": a deadline that no one meets, still a time that every platform can print.
FOREVER_MS = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)
# A pause until tomorrow ends before people get up, not at midnight, which may be half an hour away.
MORNING = time(6)

_SPAN = re.compile(r"(\d{1,6})\s*(s|m|min|h|d|w)", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def span_ms(text: str) -> int | None:
    """Return a span such as ``90m``, ``1h`` or ``7d`` in milliseconds, or ``None`` where it is none."""
    match = _SPAN.fullmatch(text.strip())
    return int(match[1]) * _SECONDS[match[2].lower()] * 1000 if match else None


def pause_end_ms(text: str | None, now_ms: int) -> int:
    """Return when a pause ends (UTC ms): after a span, ``tomorrow`` at six local time, or never for ``None``.

    Raises ``UsageFault``.
    """
    if text is None:
        return FOREVER_MS
    if text.strip().lower() == "tomorrow":
        today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().date()
        return _ms(datetime.combine(today + timedelta(days=1), MORNING))
    span = span_ms(text)
    if not span:
        raise UsageFault(
            "this is no time to pause for", text, "say 30m, 1h, 2d or tomorrow; nothing means until resume"
        )
    return now_ms + span


def moment_ms(text: str, now_ms: int, *, end: bool = False) -> int:
    """Return a moment (UTC ms): an ISO date or time in local time, or a span ago (``7d``).

    A date alone is its beginning, or with ``end`` its last millisecond. Raises ``UsageFault``.
    """
    span = span_ms(text)
    if span is not None:
        return now_ms - span
    word = text.strip()
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", word):
            day = date.fromisoformat(word)
            if end:
                return _ms(datetime.combine(day + timedelta(days=1), time())) - 1
            return _ms(datetime.combine(day, time()))
        return _ms(datetime.fromisoformat(word))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageFault("this is no date", text, "write 2025-06-14, 2025-06-14T18:30, or 7d for a week ago") from error


def _ms(moment: datetime) -> int:
    # A moment without an offset is the owner's local time.
    return round(moment.astimezone().timestamp() * 1000)


def span_words(seconds: float) -> str:
    """Return a span for people: ``40 seconds``, ``12 minutes``, ``3 hours``, ``2 days``."""
    for size, word in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        if seconds >= 1.5 * size or size == 1:
            count = max(1, round(seconds / size))
            return f"{count} {word}" if count == 1 else f"{count} {word}s"
    raise AssertionError
