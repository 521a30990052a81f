"""How long a server asks us to wait, in whichever of the ways that servers say it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_MS = 3_600_000

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1.0, "s": 1_000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_RESETS = (
    "x-ratelimit-reset-requests",
    "x-ratelimit-reset-tokens",
    "x-ratelimit-reset",
    "anthropic-ratelimit-requests-reset",
    "anthropic-ratelimit-tokens-reset",
    "anthropic-ratelimit-input-tokens-reset",
    "anthropic-ratelimit-output-tokens-reset",
)


def retry_after_ms(headers: Mapping[str, str], now_ms: int, *, with_resets: bool = True) -> int | None:
    """Return how many milliseconds the server wants to be left alone, at most an hour; ``None``: it says nothing.

    ``headers`` have names in lower case. ``with_resets`` also reads when its rate limit starts anew, of several limits
    the one that is used up.
    """
    found = _number(headers.get("retry-after-ms"), 1.0)
    if found is None:
        found = _span(headers.get("retry-after", ""), now_ms)
    if found is None and with_resets:
        spans = [
            (_is_used_up(headers, name), span)
            for name in _RESETS
            if (span := _span(headers.get(name, ""), now_ms)) is not None
        ]
        used_up = [span for is_used_up, span in spans if is_used_up]
        found = max(used_up or [span for _, span in spans], default=None)
    if found is None:
        return None
    return int(min(max(found, 0.0), MAX_WAIT_MS))


def _is_used_up(headers: Mapping[str, str], reset: str) -> bool:
    return headers.get(reset.replace("reset", "remaining"), "").strip() == "0"


def _number(text: str | None, unit: float) -> float | None:
    try:
        number = float(text) * unit if text is not None else None
    except ValueError:
        return None
    return number if number is not None and number == number else None


def _span(text: str, now_ms: int) -> float | None:
    """Seconds, an epoch in seconds or milliseconds, ``6m0s``, an HTTP date or an ISO one; as milliseconds from now."""
    text = text.strip()
    number = _number(text, 1.0)
    if number is not None:
        if number > 1e11:
            return number - now_ms
        return number * 1_000 - now_ms if number > 1e9 else number * 1_000
    if text and _SPAN.sub("", text) == "":
        return sum(float(count) * _UNIT_MS[unit] for count, unit in _SPAN.findall(text))
    for read in (_http_date, datetime.fromisoformat):
        try:
            moment = read(text)
        except (ValueError, TypeError, IndexError):
            continue
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp() * 1_000 - now_ms
    return None


def _http_date(text: str) -> datetime:
    return parsedate_to_datetime(text)
