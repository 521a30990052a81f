"""What a failed call means for its row and for all others: one row says it, nobody else asks, one is tried later."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import JobFailure, Postponed
from agent.models.calls import calls_for
from agent.queue import enqueue
from agent.queue.claim import claim_next
from agent.queue.registry import JobSpec, Registry
from agent.queue.settle import mark_failed_typed
from agent.queue.types import NewJob, Plan
from agent.states import Hold
from tests.models.money.conftest import ASK, LOCAL, SILENCE, ChatAnswer, Money, failure

ANSWER = ChatAnswer("tea", 11, 3)


def ask(money: Money) -> Exception | None:
    """Ask once as a job would; return what its row ends with, ``None`` for an answer that was kept."""
    calls = money.calls()
    try:
        answer = calls.chat(ASK, ["notes"])
    except (JobFailure, Postponed) as error:
        return error
    calls.keep(answer, [])
    return None


def sent(money: Money) -> int:
    return len(money.provider.asked)


def park(money: Money, code: str, count: int, scope: str | None = "box") -> None:
    """Let so many rows fail with a code, as rows that met it did."""
    registry = Registry.of([JobSpec("seal", lambda context, job: Plan())])
    for _ in range(count):
        enqueue(money.connection, NewJob("seal", "{}"), money.clock.now_ms())
        job = claim_next(money.connection, registry=registry, worker_id="w", now_ms=money.clock.now_ms())
        assert job is not None
        typed = JobFailure.unrecoverable(code)
        typed.scope = scope
        mark_failed_typed(money.connection, job, code, typed, money.clock.now_ms())


def statuses(money: Money) -> dict[str, int]:
    return dict(money.connection.all("SELECT status, count(*) FROM mem_tree_jobs GROUP BY status"))


@pytest.mark.parametrize("code", ["auth_failed", "budget_exhausted", "model_missing"])
def test_what_no_retry_mends_fails_its_row_in_words_and_no_other_row_asks(money: Money, code: str) -> None:
    money.provider.outcomes = [failure(code, hint="do this")]
    found = ask(money)
    assert isinstance(found, JobFailure)
    assert (found.code, found.scope, found.is_unrecoverable()) == (code, "box", True)
    for _ in range(10):
        later = ask(money)
        assert isinstance(later, Postponed)
        assert (later.code, later.scope) == (code, "box")
        assert "do this" in later.reason
    assert sent(money) == 1


@pytest.mark.parametrize("code", ["auth_failed", "budget_exhausted", "model_missing"])
def test_after_each_hold_exactly_one_is_tried_and_the_wait_doubles_to_a_quarter_of_an_hour(
    money: Money, code: str
) -> None:
    money.provider.outcomes = [failure(code)]
    ask(money)
    for wait_s in (60, 120, 240, 480, 900, 900):
        before = sent(money)
        money.clock.advance(wait_s - 1)
        assert isinstance(ask(money), Postponed)
        assert sent(money) == before
        money.clock.advance(1)
        assert isinstance(ask(money), JobFailure)
        assert isinstance(ask(money), Postponed)
        assert sent(money) == before + 1


def test_below_five_failures_in_a_row_each_row_backs_off_by_itself(money: Money) -> None:
    money.provider.outcomes = [failure("unreachable")] * 4 + [ANSWER] + [failure("unreachable")] * 5
    for _ in range(4):
        found = ask(money)
        assert isinstance(found, JobFailure)
        assert not found.is_unrecoverable()
    assert ask(money) is None
    assert money.hold() is None, "a success ends the row of failures"
    for _ in range(4):
        assert isinstance(ask(money), JobFailure)


def test_five_failures_in_a_row_open_the_breaker_and_rows_wait_without_a_burnt_attempt(money: Money) -> None:
    money.provider.outcomes = [failure("unreachable")]
    for _ in range(4):
        assert isinstance(ask(money), JobFailure)
    opened = ask(money)
    assert isinstance(opened, Postponed)
    assert (opened.code, opened.until_ms) == (Hold.UNREACHABLE, money.clock.now_ms() + 30_000)
    for wait_s in (30, 60, 120, 240, 480, 900, 900):
        before = sent(money)
        money.clock.advance(wait_s - 1)
        assert isinstance(ask(money), Postponed)
        assert sent(money) == before
        money.clock.advance(1)
        assert isinstance(ask(money), Postponed)
        assert isinstance(ask(money), Postponed)
        assert sent(money) == before + 1, "half open: one call"
    money.provider.outcomes = [ANSWER]
    money.clock.advance(900)
    assert ask(money) is None
    assert money.hold() is None
    assert ask(money) is None


def test_retry_after_is_respected_to_the_second_and_burns_no_attempt(money: Money) -> None:
    money.provider.outcomes = [failure("rate_limited", retry_after_ms=137_000)]
    later = ask(money)
    assert isinstance(later, Postponed)
    assert (later.code, later.until_ms) == (Hold.RATE_LIMITED, money.clock.now_ms() + 137_000)
    money.clock.advance(136)
    assert isinstance(ask(money), Postponed)
    assert sent(money) == 1
    money.provider.outcomes = [ANSWER]
    money.clock.advance(1)
    assert ask(money) is None
    assert sent(money) == 2


def test_a_rate_limit_without_a_time_waits_half_a_minute_and_doubles(money: Money) -> None:
    money.provider.outcomes = [failure("rate_limited")]
    for wait_s in (30, 60, 120):
        later = ask(money)
        assert isinstance(later, Postponed)
        assert later.until_ms == money.clock.now_ms() + wait_s * 1000
        money.clock.advance(wait_s)


def test_retry_after_zero_again_and_again_is_no_licence_to_hammer(money: Money) -> None:
    money.provider.outcomes = [failure("rate_limited", retry_after_ms=0)]
    for _ in range(3_600):
        ask(money)
        money.clock.advance(1)
    assert sent(money) < 130


def test_an_overloaded_server_that_says_when_is_asked_then_and_not_before(money: Money) -> None:
    money.provider.outcomes = [failure("unreachable", retry_after_ms=90_000)]
    later = ask(money)
    assert isinstance(later, Postponed)
    assert later.until_ms == money.clock.now_ms() + 90_000


def test_a_server_without_memory_puts_the_row_off(money: Money) -> None:
    money.provider.outcomes = [failure("low_memory")]
    later = ask(money)
    assert isinstance(later, Postponed)
    assert (later.code, later.until_ms) == (Hold.LOW_MEMORY, money.clock.now_ms() + 60_000)


def test_a_text_that_is_too_long_is_its_own_rows_matter(money: Money) -> None:
    money.provider.outcomes = [failure("context_overflow")]
    for _ in range(7):
        found = ask(money)
        assert isinstance(found, JobFailure)
        assert found.is_unrecoverable()
    assert money.hold() is None
    assert sent(money) == 7


def test_one_text_that_a_server_always_chokes_on_comes_to_an_end_and_a_server_that_always_does_is_left_alone(
    money: Money,
) -> None:
    money.provider.outcomes = [failure("bad_output")]
    for _ in range(5):
        assert isinstance(ask(money), JobFailure), "its attempts are counted"
    assert isinstance(ask(money), Postponed), "the others wait"
    assert sent(money) == 5


def test_a_server_that_is_silent_counts_as_unreachable_and_its_connection_is_closed(money: Money) -> None:
    money.provider.outcomes = [SILENCE]
    with pytest.raises(JobFailure) as found:
        money.calls(replace(LOCAL, total_seconds=0.05)).chat(ASK, [])
    assert found.value.code == "unreachable"
    assert money.provider.closed == len(money.provider.endpoints)
    assert money.hold().failures == 1


def hasty(money: Money) -> JobFailure:
    """Ask as a search does, whose person waits for a moment only; return why there was no answer."""
    where = money.connection, money.paths, money.clock, money.intent
    calls = calls_for(*where, LOCAL, "search", shared=money.shared, limit_s=0.05)
    with pytest.raises(JobFailure) as found:
        calls.embed(["where is the kettle"], [])
    return found.value


def test_a_search_that_waits_no_longer_says_nothing_of_its_server(money: Money) -> None:
    money.calls()
    money.provider.outcomes = [SILENCE]
    for _ in range(6):
        assert hasty(money).code == "unreachable"
    assert money.hold() is None
    money.provider.outcomes = [failure("unreachable")]
    assert hasty(money).code == "unreachable"
    assert money.hold().failures == 1, "what fails at once does"


def test_a_search_that_waits_no_longer_gives_the_one_try_back(money: Money) -> None:
    money.provider.outcomes = [failure("auth_failed"), SILENCE, ANSWER]
    ask(money)
    money.clock.advance(60)
    hasty(money)
    assert money.hold().openings == 1
    assert ask(money) is None, "a job may try at once"


def test_success_brings_back_exactly_what_the_cause_had_parked(money: Money) -> None:
    park(money, "budget_exhausted", 165)
    park(money, "context_overflow", 2)
    park(money, "budget_exhausted", 1, scope="far")
    park(money, "unreadable_payload", 1, scope=None)
    money.provider.outcomes = [failure("budget_exhausted"), ANSWER]
    ask(money)
    money.clock.advance(60)
    assert ask(money) is None
    assert statuses(money) == {"ready": 165, "failed": 4}
    left = money.connection.all("SELECT failure_reason, failure_scope FROM mem_tree_jobs WHERE status = 'failed'")
    assert sorted(left, key=str) == [
        ("budget_exhausted", "far"),
        ("context_overflow", "box"),
        ("context_overflow", "box"),
        ("unreadable_payload", None),
    ]


def test_rows_that_were_put_off_for_the_cause_are_due_again_at_once(money: Money) -> None:
    money.provider.outcomes = [failure("rate_limited", retry_after_ms=60_000), ANSWER]
    later = ask(money)
    assert isinstance(later, Postponed)
    far_off = money.clock.now_ms() + 9_000_000
    for scope in ("box", None):
        enqueue(money.connection, NewJob("seal", "{}", available_at_ms=far_off), money.clock.now_ms())
        money.connection.run(
            "UPDATE mem_tree_jobs SET failure_scope = ? WHERE id = ?", (scope, money.connection.last_id)
        )
    money.clock.advance(60)
    assert ask(money) is None
    due = [row[0] for row in money.connection.all("SELECT available_at_ms FROM mem_tree_jobs ORDER BY id")]
    assert due == [money.clock.now_ms(), far_off]


def test_a_success_writes_nothing_about_holds_where_there_is_none(money: Money) -> None:
    seen: list[str] = []
    money.connection.raw.trace_v2(1, lambda event: seen.append(event["sql"]))  # SQLITE_TRACE_STMT
    assert ask(money) is None
    money.connection.raw.trace_v2(0, None)
    assert not [sql for sql in seen if "mem_tree_holds" in sql and "SELECT" not in sql]
    assert not [sql for sql in seen if "UPDATE mem_tree_jobs" in sql]


def test_an_answer_that_was_asked_before_a_limit_was_reached_lifts_nothing(money: Money) -> None:
    slow = money.calls()
    money.provider.outcomes = [ANSWER, failure("rate_limited", retry_after_ms=60_000)]
    answer = slow.chat(ASK, [])
    ask(money)
    slow.keep(answer, [])
    assert money.hold().code == Hold.RATE_LIMITED
    assert isinstance(ask(money), Postponed)


def test_calls_that_fail_side_by_side_open_the_breaker_once(money: Money) -> None:
    from agent.models.breaker import fail

    now_ms = money.clock.now_ms()
    found = [fail(money.connection, failure("unreachable"), "box", now_ms, is_probe=False) for _ in range(8)]
    assert [type(each) for each in found] == [JobFailure] * 4 + [Postponed] * 4
    hold = money.hold()
    assert (hold.openings, hold.until_ms) == (1, now_ms + 30_000)


def test_a_missing_embedding_model_does_not_keep_the_chat_model_waiting(money: Money) -> None:
    money.provider.outcomes = [failure("model_missing"), ANSWER]
    with pytest.raises(JobFailure):
        money.calls().embed(["tea"], [])
    assert money.hold() is None
    assert ask(money) is None


def test_an_embedding_says_nothing_of_a_missing_chat_model(money: Money) -> None:
    missing = failure("model_missing")
    money.provider.outcomes = [missing, ANSWER, missing, ANSWER, missing]
    for wait_s in (60, 120, 240):
        assert isinstance(ask(money), JobFailure)
        assert money.hold().until_ms == money.clock.now_ms() + wait_s * 1000, "the wait doubles all the same"
        money.clock.advance(wait_s)
        if wait_s < 240:
            money.calls().embed(["tea"], [])
            assert money.hold().code == Hold.MODEL_MISSING


def test_a_probe_that_is_ended_from_outside_leaves_its_turn_to_another(money: Money) -> None:
    from agent.errors import LeaseLost
    from tests.models.money.test_before_a_call import Refusing

    money.provider.outcomes = [failure("auth_failed"), SILENCE, ANSWER]
    ask(money)
    money.clock.advance(60)
    with pytest.raises(LeaseLost):
        money.calls(guard=Refusing(LeaseLost("the worker is to stop"), after=2)).chat(ASK, [])
    assert ask(money) is None
    assert money.hold() is None


def test_a_probe_whose_process_died_is_tried_again_by_itself(money: Money) -> None:
    money.provider.outcomes = [failure("auth_failed"), ANSWER]
    ask(money)
    money.clock.advance(60)
    money.calls().chat(ASK, [])  # and its process is gone
    assert isinstance(ask(money), Postponed)
    money.clock.advance(301)
    assert ask(money) is None
    assert money.hold() is None


def test_every_reason_of_a_hold_can_be_read_by_its_owner_without_a_secret(money: Money) -> None:
    money.provider.outcomes = [failure("auth_failed", detail="key sk-abcdefghijklmnop1234567890 of /home/x/y")]
    ask(money)
    assert "sk-abcdef" not in money.hold().reason
