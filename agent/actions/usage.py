"""What was sent to models, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.clock import SYSTEM_CLOCK, Clock, iso
from agent.paths import Paths, find_paths

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.models.spending import Account, Spent

DAY_MS = 86_400_000
DAYS = 30
ASKED_BY_OWNER = frozenset({"search", "ask", "test"})
"""Kinds of calls that are no growing: left out of what a thousand chunks take."""


@dataclass(frozen=True)
class UsageRow:
    """One profile, kind of job (or what else asked) and model: calls, tokens in and out, estimated cost in US dollars.

    ``invalid``: calls whose answer was of no use; ``estimated``: calls whose tokens were counted here, because the
    server did not say.
    """

    profile: str
    kind: str
    model: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    invalid: int = 0
    estimated: int = 0


@dataclass(frozen=True)
class DailyLimit:
    """What a profile used today of its daily limit; ``resumes_ms`` where it is reached (UTC ms)."""

    profile: str
    used: int
    limit: int
    resumes_ms: int | None = None


@dataclass(frozen=True)
class PerThousand:
    """What growing took for each thousand chunks that came in that time."""

    calls: int
    tokens: int
    chunks: int


@dataclass(frozen=True)
class Usage:
    """What the last ``days`` days used, today among them, from the day of ``since_ms`` on."""

    days: int
    since_ms: int
    rows: tuple[UsageRow, ...]
    limits: tuple[DailyLimit, ...] = ()
    per_thousand: PerThousand | None = None

    @property
    def total(self) -> UsageRow:
        """All rows together."""
        return UsageRow(
            "",
            "",
            "",
            sum(row.calls for row in self.rows),
            sum(row.tokens_in for row in self.rows),
            sum(row.tokens_out for row in self.rows),
            round(sum(row.cost_usd for row in self.rows), 6),
            sum(row.invalid for row in self.rows),
            sum(row.estimated for row in self.rows),
        )

    def as_json(self) -> dict[str, Any]:
        total = self.total
        return {
            "days": self.days,
            "since": iso(self.since_ms),
            "rows": list(self.rows),
            "total": {
                "calls": total.calls,
                "tokens_in": total.tokens_in,
                "tokens_out": total.tokens_out,
                "cost_usd": total.cost_usd,
            },
            "limits": [
                {"profile": each.profile, "used": each.used, "limit": each.limit, "resumes": iso(each.resumes_ms)}
                for each in self.limits
            ],
            "per_1000_chunks": None
            if self.per_thousand is None
            else {"calls": self.per_thousand.calls, "tokens": self.per_thousand.tokens},
        }


def usage(days: int = DAYS, clock: Clock = SYSTEM_CLOCK, paths: Paths | None = None) -> Usage:
    """Return what models used in the last ``days`` days of the owner's zone.

    The built-in profile is part of this program: it is sent nothing and costs nothing, so it has no row. Counts what
    the memory or the lines beside the ledger say, whichever knows more; needs no memory, and no sound one.
    """
    from agent.config import Intent, load_intent
    from agent.errors import ConfigBroken
    from agent.models.budget import day_of, zone_of

    paths = find_paths() if paths is None else paths
    try:
        intent = load_intent(paths).intent
    except ConfigBroken:
        intent = Intent()
    now_ms = clock.now_ms()
    zone = zone_of(intent.schedule.timezone)
    since_ms = now_ms - (days - 1) * DAY_MS
    since_day, today = day_of(since_ms, zone), day_of(now_ms, zone)
    held, chunks, resumes = _from_memory(paths, since_day, since_ms, now_ms)
    accounts = {account: spent for account, spent in _with_lines(paths, held).items() if account.day >= since_day}
    rows = _rows(accounts)
    grown = [row for row in rows if row.kind not in ASKED_BY_OWNER]
    per_thousand = None
    if chunks and grown:
        calls, tokens = sum(row.calls for row in grown), sum(row.tokens_in + row.tokens_out for row in grown)
        per_thousand = PerThousand(round(1000 * calls / chunks), round(1000 * tokens / chunks), chunks)
    return Usage(days, since_ms, rows, _limits(intent, accounts, today, resumes), per_thousand)


def _from_memory(
    paths: Paths, since_day: str, since_ms: int, now_ms: int
) -> tuple[dict[Account, Spent], int, dict[str, int]]:
    """Return accounts, how many chunks came since, and until when a reached limit holds each profile."""
    from agent.db.connection import connect
    from agent.db.faults import is_database_fault
    from agent.errors import SapwoodError

    if not paths.database.exists():
        return {}, 0, {}
    try:
        connection = connect(paths.database, paths.write_turn, create=False)
        try:
            return _read(connection, since_day, since_ms, now_ms)
        finally:
            connection.close()
    except Exception as error:
        if not isinstance(error, SapwoodError) and not is_database_fault(error):
            raise
        return {}, 0, {}


def _read(
    connection: Connection, since_day: str, since_ms: int, now_ms: int
) -> tuple[dict[Account, Spent], int, dict[str, int]]:
    from agent.models.spending import read_rows
    from agent.queue.holds import all_holds
    from agent.states import Hold

    with connection.snapshot():
        chunks = int(connection.value("SELECT count(*) FROM mem_tree_chunks WHERE created_at_ms >= ?", (since_ms,)))
        resumes = {
            hold.scope: hold.until_ms
            for hold in all_holds(connection)
            if hold.code is Hold.DAILY_LIMIT and hold.is_on(now_ms)
        }
        return read_rows(connection, since_day), chunks, resumes


def _with_lines(paths: Paths, held: dict[Account, Spent]) -> dict[Account, Spent]:
    from agent.models.spending import Spent, read_file

    try:
        lines = read_file(paths)
    except OSError:
        return held
    return {account: held.get(account, Spent()).most(lines.get(account, Spent())) for account in {*held, *lines}}


def _rows(accounts: dict[Account, Spent]) -> tuple[UsageRow, ...]:
    from agent.models.spending import Spent

    summed: dict[tuple[str, str, str], Spent] = {}
    for account, spent in accounts.items():
        key = (account.profile, account.kind, account.model)
        summed[key] = summed.get(key, Spent()) + spent
    return tuple(
        UsageRow(
            *key,
            spent.calls,
            spent.tokens_in,
            spent.tokens_out,
            spent.cost_micros / 1_000_000,
            spent.invalid,
            spent.estimated,
        )
        for key, spent in sorted(summed.items())
    )


def _limits(
    intent: Intent, accounts: dict[Account, Spent], today: str, resumes: dict[str, int]
) -> tuple[DailyLimit, ...]:
    return tuple(
        DailyLimit(
            profile.name,
            sum(
                spent.tokens_in + spent.tokens_out
                for account, spent in accounts.items()
                if account.day == today and account.profile == profile.name
            ),
            profile.daily_tokens,
            resumes.get(profile.name),
        )
        for profile in intent.profiles
        if profile.daily_tokens is not None
    )
