"""What was sent to models, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.clock import SYSTEM_CLOCK, Clock, iso

DAY_MS = 86_400_000
DAYS = 30


@dataclass(frozen=True)
class UsageRow:
    """One profile and kind of job: calls, tokens in and out, estimated cost in US dollars."""

    profile: str
    kind: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


@dataclass(frozen=True)
class Usage:
    """What the last ``days`` days used, from ``since_ms`` on."""

    days: int
    since_ms: int
    rows: tuple[UsageRow, ...]

    def as_json(self) -> dict[str, Any]:
        return {"days": self.days, "since": iso(self.since_ms), "rows": list(self.rows)}


def usage(days: int = DAYS, clock: Clock = SYSTEM_CLOCK) -> Usage:
    """Return what models used in the last ``days`` days.

    The built-in profile is part of this program: it is sent nothing and costs nothing, so it has no row, and no other
    profile can be active in this version. Does not open the memory.
    """
    return Usage(days, clock.now_ms() - days * DAY_MS, ())
