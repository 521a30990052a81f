"""``sapwood usage`` adds up to what was spent, with and without a memory; a restore forgets nothing of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agent.actions.backing_up import back_up
from agent.actions.held import hold_of, hold_words
from agent.actions.restoring import restore
from agent.actions.usage import usage
from agent.config_edit import write_atomically
from agent.models.spending import usage_file
from agent.queue.counts import QueueCounts
from agent.queue.holds import HoldRow, put_hold_tx
from agent.states import AgentState, Hold
from tests.models.money.conftest import ASK, CLOUD, LOCAL, Money
from tests.worker.memory import add_chunk, add_item

SETTINGS = """
[schedule]
timezone = "UTC"
[models]
active = "box"
[[profiles]]
name = "box"
provider = "ollama"
chat_model = "small:1b"
daily_tokens = 60
"""


def spend(money: Money, times: int, kind: str = "seal") -> None:
    for _ in range(times):
        calls = money.calls(CLOUD, kind=kind)
        calls.keep(calls.chat(ASK, []), [])


def test_rows_are_told_by_profile_kind_and_model_with_their_cost(money: Money) -> None:
    spend(money, 3)
    spend(money, 2, "extract_chunk")
    calls = money.calls(kind="search")
    calls.refuse(calls.chat(ASK, []), [])
    found = usage(7, money.clock, money.paths)
    told = [(row.profile, row.kind, row.model, row.calls, row.tokens_in, row.tokens_out) for row in found.rows]
    assert told == [
        ("box", "search", "small:1b", 1, 11, 3),
        ("far", "extract_chunk", "large", 2, 22, 6),
        ("far", "seal", "large", 3, 33, 9),
    ]
    assert found.total.cost_usd == pytest.approx(5 * (11 * 2 + 3 * 10) / 1e6)
    assert found.total.invalid == 1


def test_what_growing_took_is_told_for_a_thousand_chunks(money: Money) -> None:
    spend(money, 2)
    with money.connection.write():
        item = add_item(money.connection)
        for number in range(50):
            add_chunk(money.connection, item, f"text {number}", order=number)
    money.connection.run("UPDATE mem_tree_chunks SET created_at_ms = ?", (money.clock.now_ms(),))
    each = usage(7, money.clock, money.paths).per_thousand
    assert each is not None
    assert (each.calls, each.tokens) == (40, 560)


def test_older_days_are_left_out(money: Money) -> None:
    spend(money, 1)
    money.clock.advance(3 * 86_400)
    spend(money, 1)
    assert usage(3, money.clock, money.paths).total.calls == 1
    assert usage(4, money.clock, money.paths).total.calls == 2


def test_a_crash_or_a_lost_memory_makes_nothing_look_cheaper(money: Money) -> None:
    spend(money, 2)
    money.connection.run("DELETE FROM mem_tree_usage")
    assert usage(7, money.clock, money.paths).total.calls == 2
    elsewhere = replace(money.paths, data_dir=money.paths.data_dir / "none")
    assert usage(7, money.clock, elsewhere).total.calls == 2
    assert not elsewhere.database.exists()


def test_a_limit_that_is_reached_says_when_it_goes_on(money: Money) -> None:
    write_atomically(money.paths.config_file, SETTINGS)
    limited = replace(LOCAL, daily_tokens=60)
    calls = money.calls(limited)
    calls.keep(calls.chat(ASK, []), [])
    with pytest.raises(Exception, match="daily limit"):
        money.calls(limited).chat(ASK, [])
    (limit,) = usage(7, money.clock, money.paths).limits
    assert (limit.profile, limit.used, limit.limit) == ("box", 14, 60)
    assert limit.resumes_ms == money.hold().until_ms


def test_a_restore_takes_the_greater_of_what_both_know(money: Money, tmp_path: Path) -> None:
    spend(money, 2)
    file = tmp_path / "memory.backup"
    back_up(money.paths, file)
    spend(money, 3)
    restore(money.paths, file, clock=money.clock)
    assert usage(7, money.clock, money.paths).total.calls == 5
    assert [row[3] for row in money.usage()] == [5], "a limit of the day still counts them"
    usage_file(money.paths).unlink()
    money.connection.run("DELETE FROM mem_tree_usage")
    restore(money.paths, file, clock=money.clock)
    assert usage(7, money.clock, money.paths).total.calls == 2


@pytest.mark.parametrize(
    ("code", "queue", "state"),
    [
        (Hold.AUTH_FAILED, QueueCounts(ready=5), AgentState.ATTENTION),
        (Hold.BUDGET_EXHAUSTED, QueueCounts(failed=1), AgentState.ATTENTION),
        (Hold.MODEL_MISSING, QueueCounts(ready=5), AgentState.ATTENTION),
        (Hold.NO_CONSENT, QueueCounts(deferred=1), AgentState.ATTENTION),
        (Hold.DAILY_LIMIT, QueueCounts(ready=5), AgentState.IDLE),
        (Hold.UNREACHABLE, QueueCounts(ready=5, running=1), AgentState.GROWING),
        (Hold.RATE_LIMITED, QueueCounts(), None),
    ],
)
def test_status_says_what_holds_a_model_back(
    money: Money, code: Hold, queue: QueueCounts, state: AgentState | None
) -> None:
    now_ms = money.clock.now_ms()
    with money.connection.write():
        put_hold_tx(money.connection, HoldRow("box", code, "this is why", now_ms + 60_000, 1, 1), now_ms)
    found = hold_words(hold_of(money.connection, money.intent, now_ms), queue, "3 of 5 chunks")
    assert (None if found is None else found[0]) == state
    assert found is None or "box: this is why" in found[1]


def test_single_failures_and_another_profiles_hold_are_not_told(money: Money) -> None:
    now_ms = money.clock.now_ms()
    for scope, openings in (("box", 0), ("far", 1)):
        with money.connection.write():
            row = HoldRow(scope, Hold.UNREACHABLE, "so", now_ms + 60_000, 3, openings)
            put_hold_tx(money.connection, row, now_ms)
    assert hold_of(money.connection, money.intent, now_ms) is None
