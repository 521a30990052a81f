"""Every way in which a server says how long to wait is read, and none of them makes us wait for ever."""

from __future__ import annotations

import pytest

from agent.models.providers.waiting import MAX_WAIT_MS, retry_after_ms

NOW = 1_790_000_000_000  # Mon, 21 Sep 2026 14:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20_000),
        ({"retry-after": "0.5"}, 500),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1_500),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:50 GMT"}, 30_000),
        ({"retry-after": "Mon, 21 Sep 2026 14:00:00 GMT"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, MAX_WAIT_MS),
        ({"retry-after": "1e300"}, MAX_WAIT_MS),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "999999"}, MAX_WAIT_MS),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0s"}, 360_000),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "120ms",
                "x-ratelimit-remaining-tokens": "900",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            120,
        ),
        ({"x-ratelimit-reset": "1790000060000"}, 60_000),
        ({"x-ratelimit-reset": "1790000060"}, 60_000),
        ({"x-ratelimit-reset": "12"}, 12_000),
        ({"anthropic-ratelimit-tokens-reset": "2026-09-21T14:13:25Z"}, 5_000),
        ({"retry-after": "3", "x-ratelimit-reset-tokens": "6m0s"}, 3_000),
    ],
)
def test_a_wait_is_read_and_capped(headers: dict[str, str], expected: int | None) -> None:
    assert retry_after_ms(headers, NOW) == expected


def test_limits_that_start_anew_are_no_wait_where_none_is_meant() -> None:
    assert retry_after_ms({"x-ratelimit-reset": "12"}, NOW, with_resets=False) is None
