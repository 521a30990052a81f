"""What a failed call means for the calls after it, of this process and of every other.

A provider that is out, a refused key, an empty account: the first row that meets it says so and opens the profile's
hold, so that no other row asks (openhuman 3616: 12,016 payment errors in a day). When the hold ends exactly one call is
tried; its success lifts the hold, its failure doubles the wait. The row in ``mem_tree_holds`` is the whole state: it is
the same for all processes and outlives each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import JobFailure, Postponed
from agent.queue.holds import HoldRow, put_hold_tx, read_hold
from agent.queue.redaction import redact_error
from agent.states import Hold

if TYPE_CHECKING:
    from agent.db import Connection

FAILURES_IN_A_ROW = 5
REFUSALS_IN_A_ROW = 12
"""So many answers of no use of an embedding model open the breaker: three find a bad text among hundreds, and eight may
stand side by side (``worker/embedding_batch.py``)."""
UNREACHABLE_MS = 30_000
REFUSED_MS = 60_000
LOW_MEMORY_MS = 60_000
LONGEST_MS = 15 * 60_000
LONGEST_RETRY_AFTER_MS = 24 * 3_600_000

_REFUSED = frozenset({Hold.AUTH_FAILED, Hold.BUDGET_EXHAUSTED, Hold.MODEL_MISSING})
"""Nothing that a retry mends: the row is parked, and a hold keeps the others from asking."""
_OUT = frozenset({"unreachable", "bad_output"})
"""The provider is out, or speaks nonsense: single failures are the row's own, five in a row are everybody's."""

_OUR_OWN = frozenset({Hold.DAILY_LIMIT, Hold.NO_CONSENT, Hold.KEYS_NOT_YET, Hold.CONFIG_BROKEN})
"""Reasons that were found here, before anybody was asked: they say nothing of how often a provider failed."""

MENDED_BY_CHAT = (
    str(Hold.AUTH_FAILED),
    str(Hold.BUDGET_EXHAUSTED),
    str(Hold.MODEL_MISSING),
    str(Hold.UNREACHABLE),
    str(Hold.RATE_LIMITED),
    str(Hold.LOW_MEMORY),
)
"""What an answer of the chat model disproves, as reasons of failed rows."""
MENDED_BY_EMBEDDING = tuple(code for code in MENDED_BY_CHAT if code != Hold.MODEL_MISSING)
"""The same of an answer of the embedding model, which says nothing of the chat model."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of a failed call: the hold to be written (``None``: as it is), and what its row ends with."""

    hold: HoldRow | None
    error: JobFailure | Postponed


def judge(
    held: HoldRow | None, failure: JobFailure, scope: str, now_ms: int, *, is_probe: bool = False, embeds: bool = False
) -> Verdict:
    """Return what a failed call means. ``held`` is the profile's hold as of now; pure.

    ``is_probe``: the call was the one that is tried when a hold ends. ``embeds``: it asked the embedding model, whose
    absence is no reason to keep the chat model waiting.
    """
    failure.scope = scope
    words = _words(failure)
    is_on = held is not None and held.openings > 0 and held.is_on(now_ms) and not is_probe
    code = failure.code
    if code in _REFUSED:
        if is_on or (embeds and code == Hold.MODEL_MISSING):
            return Verdict(None, failure)
        return Verdict(_opened(held, scope, Hold(code), words, now_ms, REFUSED_MS), failure)
    if code == Hold.RATE_LIMITED or (code in _OUT and failure.retry_after_ms is not None):
        hold = Hold.RATE_LIMITED if code == Hold.RATE_LIMITED else Hold.UNREACHABLE
        opened = _opened(held, scope, hold, words, now_ms, UNREACHABLE_MS, failure.retry_after_ms)
        if is_on and held is not None and held.until_ms >= opened.until_ms:
            return Verdict(None, _later(held))
        if is_on and held is not None:
            # Of calls that were refused side by side the one that was told to wait longest is right.
            opened = HoldRow(scope, hold, words, opened.until_ms, held.failures, held.openings)
        return Verdict(opened, _later(opened))
    if code == Hold.LOW_MEMORY:
        if is_on and held is not None:
            return Verdict(None, _later(held))
        opened = _opened(held, scope, Hold.LOW_MEMORY, words, now_ms, LOW_MEMORY_MS)
        return Verdict(opened, _later(opened))
    if code in _OUT:
        if is_on and held is not None:
            return Verdict(None, failure if code == "bad_output" else _later(held))
        failures = 1 if held is None else held.failures + 1
        most = REFUSALS_IN_A_ROW if embeds and code == "bad_output" else FAILURES_IN_A_ROW
        if failures < most and not is_probe:
            openings = 0 if held is None else held.openings
            until_ms = now_ms if held is None else held.until_ms
            return Verdict(HoldRow(scope, Hold.UNREACHABLE, words, until_ms, failures, openings), failure)
        opened = _opened(held, scope, Hold.UNREACHABLE, words, now_ms, UNREACHABLE_MS)
        # What a server makes of one text may be that text's fault: such a row must come to an end some day.
        return Verdict(opened, failure if code == "bad_output" else _later(opened))
    # About this one question (it is too long for the model): the provider answers, whatever was before.
    return Verdict(None, failure)


def fail(
    connection: Connection, failure: JobFailure, scope: str, now_ms: int, *, is_probe: bool, embeds: bool = False
) -> JobFailure | Postponed:
    """Take in a failed call in a transaction of its own and return what its row ends with."""
    with connection.write():
        verdict = judge(read_hold(connection, scope), failure, scope, now_ms, is_probe=is_probe, embeds=embeds)
        if verdict.hold is not None:
            put_hold_tx(connection, verdict.hold, now_ms)
        elif is_probe:
            # It says nothing of the hold's reason: another one is tried at once.
            connection.run("UPDATE mem_tree_holds SET until_ms = ? WHERE scope = ?", (now_ms, scope))
    return verdict.error


def hold_back(
    connection: Connection,
    scope: str,
    code: Hold,
    reason: str,
    until_ms: int,
    now_ms: int,
    *,
    is_probe: bool = False,
) -> Postponed:
    """Open a hold for a reason of our own (no consent, a limit, no key yet), and return what the row is put off with.

    Writes nothing where the same hold is on already and ends no sooner, unless that is the wait for our own probe.
    """
    held = read_hold(connection, scope)
    wanted = HoldRow(scope, code, reason, until_ms, 0, 1)
    is_same = held is not None and held.code is code and held.openings > 0 and held.until_ms >= until_ms
    if is_probe or not is_same:
        with connection.write():
            put_hold_tx(connection, wanted, now_ms)
    return _later(wanted)


def take_probe(connection: Connection, held: HoldRow, now_ms: int, until_ms: int) -> bool:
    """Take the one call that is tried after a hold; return whether it is ours. The hold goes on until ``until_ms``.

    Of several processes that see the hold end one gets it. Where it dies with it, the hold ends by itself.
    """
    with connection.write():
        return bool(
            connection.run(
                """
                UPDATE mem_tree_holds
                   SET until_ms = ?
                 WHERE scope = ?
                   AND until_ms = ?
                   AND until_ms <= ?
                """,
                (until_ms, held.scope, held.until_ms, now_ms),
            )
        )


def give_probe_back(connection: Connection, scope: str, until_ms: int, now_ms: int) -> None:
    """Let another call be tried: ours was ended before it could tell anything."""
    with connection.write():
        connection.run(
            "UPDATE mem_tree_holds SET until_ms = ? WHERE scope = ? AND until_ms = ?", (now_ms, scope, until_ms)
        )


def is_disproved(held: HoldRow, now_ms: int, *, is_probe: bool) -> bool:
    """Return whether an answer that just came says that a hold has no reason any more.

    One that was asked before the hold opened says nothing of a limit that was reached since.
    """
    return is_probe or not held.is_on(now_ms) or held.code is Hold.UNREACHABLE


def _opened(
    held: HoldRow | None,
    scope: str,
    code: Hold,
    words: str,
    now_ms: int,
    base_ms: int,
    retry_after_ms: int | None = None,
) -> HoldRow:
    before = held.openings if held is not None and held.code not in _OUR_OWN else 0
    wait_ms = min(base_ms << min(before, 16), LONGEST_MS)
    if retry_after_ms is not None:
        # The server's own word counts, also where it is shorter than ours would be; "now", again and again, does not.
        wait_ms = min(max(retry_after_ms, 1_000 << min(before, 5)), LONGEST_RETRY_AFTER_MS)
    failures = 0 if held is None else held.failures + 1
    return HoldRow(scope, code, words, now_ms + wait_ms, failures, before + 1)


def _later(hold: HoldRow) -> Postponed:
    return Postponed(hold.until_ms, hold.reason, str(hold.code), hold.scope)


def _words(failure: JobFailure) -> str:
    said = redact_error(str(failure))
    return f"{said}; {failure.hint}" if failure.hint else said
