"""What may still be sent today: a profile's daily limit, and when the owner's day ends.

A day is a day of the owner's zone (``schedule.timezone``, else the system's), with its 23 or 25 hours where the clocks
change. (openhuman 3117: one sync drained the balance.)
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.profile_intent import ProfileIntent


def zone_of(name: str) -> tzinfo | None:
    """Return the zone of an IANA name; ``None``, the system's, for an empty one and for one that is not known here."""
    if not name:
        return None
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        return None


def day_of(now_ms: int, zone: tzinfo | None) -> str:
    """Return the day (ISO date) of an instant in a zone."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone).date().isoformat()


def next_midnight_ms(now_ms: int, zone: tzinfo | None) -> int:
    """Return when the next day begins in a zone (UTC ms); where a day has no midnight, its first moment."""
    local = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)
    tomorrow = local.date() + timedelta(days=1)
    if zone is None:
        # The system's zone at that moment, which is another offset than now's where the clocks change.
        start = datetime(tomorrow.year, tomorrow.month, tomorrow.day).astimezone()
    else:
        start = datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone)
    return round(start.timestamp() * 1000)


def tokens_on(connection: Connection, profile: str, day: str) -> int:
    """Return how many tokens of a profile were used on a day, both ways."""
    return int(
        connection.value(
            "SELECT coalesce(sum(tokens_in + tokens_out), 0) FROM mem_tree_usage WHERE day = ? AND profile = ?",
            (day, profile),
        )
    )


def over_limit(used: int, wanted: int, profile: ProfileIntent) -> str | None:
    """Return why a call that may take ``wanted`` tokens is over the daily limit, or ``None``."""
    limit = profile.daily_tokens
    if limit is None or used + wanted <= limit:
        return None
    if not used:
        return (
            f"the daily limit of {limit:,} tokens is less than one call takes ({wanted:,}): "
            f"raise it with `sapwood config set profiles.{profile.name}.daily_tokens N`"
        )
    return f"the daily limit of {limit:,} tokens is reached ({used:,} used today)"
