"""What mends a cause brings back exactly what it had parked; what only trying tells is tried with one row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.clock import FakeClock
from agent.db import Connection
from agent.errors import JobFailure, Postponed
from agent.models import mending
from agent.models.mending import DAY_MS, TRY_EVERY_MS, mend, tend
from agent.models.results import WorkUnit, store_results
from agent.queue import enqueue
from agent.queue.claim import claim_next
from agent.queue.holds import HoldRow, put_hold_tx
from agent.queue.registry import JobSpec, Registry
from agent.queue.types import NewJob
from agent.states import Hold
from tests.models.money.conftest import ASK, CLOUD, LOCAL, Money, failure
from tests.models.money.test_what_a_failure_means import ask, park, statuses
from tests.worker.memory import add_chunk, add_item


@pytest.fixture(autouse=True)
def nothing_tried_yet() -> None:
    mending._tried_ms.clear()


def tick(money: Money, *, at_start: bool = False) -> None:
    tend(money.paths, money.connection, money.intent, money.clock.now_ms(), at_start)


def hold(money: Money, code: Hold, wait_ms: int = 900_000, scope: str = "box", reason: str = "it is so") -> None:
    now_ms = money.clock.now_ms()
    with money.connection.write():
        put_hold_tx(money.connection, HoldRow(scope, code, reason, now_ms + wait_ms, 1, 1), now_ms)


def changes(connection: Connection) -> int:
    return connection.raw.total_changes()


def test_one_top_up_brings_back_all_165(money: Money) -> None:
    park(money, "budget_exhausted", 165)
    hold(money, Hold.BUDGET_EXHAUSTED)
    tick(money)
    assert statuses(money) == {"failed": 165}, "while the hold is on nothing is tried"
    money.clock.advance(901)
    tick(money)
    tick(money)
    assert statuses(money) == {"ready": 1, "failed": 164}, "exactly one is tried"
    assert ask(money) is None
    assert statuses(money) == {"ready": 165}


def test_a_try_that_fails_again_leaves_the_others_parked(money: Money) -> None:
    park(money, "budget_exhausted", 5)
    hold(money, Hold.BUDGET_EXHAUSTED, wait_ms=0)
    tick(money)
    money.provider.outcomes = [failure("budget_exhausted")]
    assert isinstance(ask(money), JobFailure)
    money.connection.run("UPDATE mem_tree_jobs SET status = 'failed' WHERE status = 'ready'")
    tick(money)
    assert statuses(money) == {"failed": 5}


def test_the_newest_parked_row_is_the_one_that_is_tried_and_not_where_another_waits_anyway(money: Money) -> None:
    park(money, "auth_failed", 3)
    hold(money, Hold.AUTH_FAILED, wait_ms=0)
    waiting = enqueue(money.connection, NewJob("seal", "{}"), money.clock.now_ms())
    tick(money)
    assert statuses(money) == {"failed": 3, "ready": 1}
    money.connection.run("DELETE FROM mem_tree_jobs WHERE id = ?", (waiting,))
    enqueue(money.connection, NewJob("sync_source", "{}"), money.clock.now_ms())
    tick(money)
    assert money.connection.value("SELECT id FROM mem_tree_jobs WHERE kind = 'seal' AND status = 'ready'") == 3


def test_parked_rows_without_any_hold_are_tried_four_times_an_hour_at_most(money: Money) -> None:
    park(money, "model_missing", 2)
    tick(money)
    assert statuses(money) == {"failed": 1, "ready": 1}
    money.connection.run(
        "UPDATE mem_tree_jobs SET status = 'failed', failure_scope = 'box', "
        "failure_reason = 'model_missing' WHERE status = 'ready'"
    )
    for _ in range(50):
        tick(money)
        money.clock.advance(15)
    assert statuses(money) == {"failed": 2}
    money.clock.advance(TRY_EVERY_MS / 1000)
    tick(money)
    assert statuses(money) == {"failed": 1, "ready": 1}


def test_what_one_profile_could_not_do_goes_to_the_profile_that_is_active_now(money: Money) -> None:
    for code in ("auth_failed", "budget_exhausted", "context_overflow"):
        park(money, code, 2, scope="far")
    park(money, "context_overflow", 1)
    park(money, "crash_loop", 1, scope=None)
    hold(money, Hold.AUTH_FAILED, scope="far")
    tick(money)
    assert statuses(money) == {"ready": 6, "failed": 2}
    assert money.hold("far") is None


def test_with_the_built_in_profile_everything_that_waited_for_a_model_goes_on(money: Money) -> None:
    money.active = "builtin"
    park(money, "auth_failed", 2)
    hold(money, Hold.AUTH_FAILED)
    tick(money)
    assert statuses(money) == {"ready": 2}


def test_a_name_that_no_profile_has_moves_nothing(money: Money) -> None:
    money.active = "bxo"
    park(money, "auth_failed", 2)
    hold(money, Hold.AUTH_FAILED)
    tick(money)
    assert statuses(money) == {"failed": 2}


def test_consent_that_was_given_ends_the_wait_at_the_next_tick(money: Money) -> None:
    money.active = "far"
    money.profiles["far"] = replace(CLOUD, consent="")
    hold(money, Hold.NO_CONSENT, scope="far")
    tick(money)
    assert money.hold("far") is not None
    money.profiles["far"] = CLOUD
    tick(money)
    assert money.hold("far") is None


@pytest.mark.parametrize(("limit", "ends"), [(100, False), (1_000, True), (None, True), (60, False)])
def test_a_limit_that_was_raised_or_removed_ends_the_wait(money: Money, limit: int | None, ends: bool) -> None:
    limited = replace(LOCAL, daily_tokens=100)
    for _ in range(4):
        calls = money.calls(limited)
        calls.keep(calls.chat(ASK, []), [])
    with pytest.raises(Postponed):
        money.calls(limited).chat(ASK, [])
    assert money.hold().code == Hold.DAILY_LIMIT
    money.connection.run("UPDATE mem_tree_usage SET tokens_in = 70")
    money.profiles["box"] = replace(LOCAL, daily_tokens=limit)
    tick(money)
    assert (money.hold() is None) is ends


def test_a_clock_that_is_set_back_makes_no_hold_longer(money: Money) -> None:
    hold(money, Hold.UNREACHABLE, wait_ms=30_000)
    tick(money)
    money.clock.set_wall(money.clock.now_ms() - 30 * DAY_MS)
    tick(money)
    assert money.hold().until_ms == money.clock.now_ms() + 30_000
    money.clock.advance(30)
    assert ask(money) is None
    assert money.hold() is None


def test_parked_rows_are_tried_after_a_clock_was_set_back_too(money: Money) -> None:
    money.clock.advance(30 * DAY_MS / 1000)
    park(money, "model_missing", 1)
    tick(money)
    assert statuses(money) == {"ready": 1}
    money.connection.run("DELETE FROM mem_tree_jobs")
    money.clock.set_wall(money.clock.now_ms() - 30 * DAY_MS)
    park(money, "model_missing", 1)
    tick(money)
    assert statuses(money) == {"ready": 1}


@pytest.mark.parametrize(
    "mended",
    [{"context_tokens": 32_000}, {"chat_model": "larger"}, {"base_url": "http://127.0.0.1:9"}],
)
def test_a_profile_that_was_changed_brings_back_what_it_could_not_do(money: Money, mended: dict[str, object]) -> None:
    for code in ("context_overflow", "model_missing", "not_local"):
        park(money, code, 2)
    park(money, "context_overflow", 1, scope=None)
    hold(money, Hold.MODEL_MISSING)
    for _ in range(3):
        tick(money)
    assert statuses(money) == {"failed": 7}
    money.profiles["box"] = replace(LOCAL, **mended)  # type: ignore[arg-type]
    tick(money)
    assert statuses(money) == {"ready": 6, "failed": 1}
    assert money.hold() is None
    money.connection.run("UPDATE mem_tree_jobs SET status = 'failed', failure_scope = 'box' WHERE status = 'ready'")
    hold(money, Hold.MODEL_MISSING)
    tick(money)
    assert statuses(money) == {"failed": 7}, "once for each change"


def test_a_host_that_is_named_as_local_now_brings_back_what_was_not_let_there(money: Money) -> None:
    park(money, "not_local", 2)
    tick(money)
    money.local_hosts = ("box.example",)
    tick(money)
    assert statuses(money) == {"ready": 2}


@pytest.mark.parametrize("active", ["box", "builtin"])
def test_a_row_that_is_put_off_after_its_hold_was_lifted_does_not_wait_for_tomorrow(money: Money, active: str) -> None:
    from agent.queue.settle import settle
    from agent.queue.types import Defer, Plan

    registry = Registry.of([JobSpec("seal", lambda context, job: Plan())])
    now_ms = money.clock.now_ms()
    enqueue(money.connection, NewJob("seal", "{}"), now_ms)
    job = claim_next(money.connection, registry=registry, worker_id="w", now_ms=now_ms)
    assert job is not None
    # Its call met the limit; before it settles, the limit is raised and the hold lifted.
    later = Defer(now_ms + DAY_MS, "the daily limit is reached", str(Hold.DAILY_LIMIT), "box")
    settle(money.connection, job, Plan(outcome=later), now_ms)
    failing = enqueue(money.connection, NewJob("seal", "{}", available_at_ms=now_ms + DAY_MS), now_ms)
    money.connection.run(
        "UPDATE mem_tree_jobs SET failure_scope = 'box', failure_reason = 'unreachable', failure_class = 'transient' "
        "WHERE id = ?",
        (failing,),
    )
    money.active = active
    tick(money)
    due: dict[int, int] = dict(money.connection.all("SELECT id, available_at_ms FROM mem_tree_jobs"))
    assert due == {job.id: now_ms, failing: now_ms + DAY_MS}, "one that backs off goes on resting"
    before = changes(money.connection)
    tick(money)
    assert changes(money.connection) == before


def test_mending_one_cause_of_one_profile_touches_nothing_else(money: Money) -> None:
    park(money, "auth_failed", 3)
    park(money, "budget_exhausted", 2)
    park(money, "auth_failed", 4, scope="far")
    hold(money, Hold.AUTH_FAILED)
    hold(money, Hold.BUDGET_EXHAUSTED, scope="far")
    assert mend(money.connection, money.clock.now_ms(), scopes=["box"], codes=["auth_failed", "keys_not_yet"]) == 3
    assert statuses(money) == {"ready": 3, "failed": 6}
    assert money.hold("box") is None
    assert money.hold("far") is not None
    assert mend(money.connection, money.clock.now_ms(), scopes=["far"], codes=["auth_failed"]) == 4
    assert money.hold("far").code == Hold.BUDGET_EXHAUSTED, "another cause"


def test_a_key_that_is_set_brings_back_what_failed_for_the_lack_of_it(money: Money) -> None:
    from agent.actions.keys import _mend
    from agent.config_edit import write_atomically

    write_atomically(
        money.paths.config_file,
        '[[profiles]]\nname = "far"\nprovider = "openai"\nchat_model = "large"\n'
        '[[profiles]]\nname = "box"\nprovider = "ollama"\nchat_model = "small"\n',
    )
    park(money, "auth_failed", 3, scope="far")
    park(money, "auth_failed", 1)
    hold(money, Hold.AUTH_FAILED, scope="far")
    assert _mend(money.paths, "openai", FakeClock(money.clock.now_ms())) == 3
    assert statuses(money) == {"ready": 3, "failed": 1}
    assert money.hold("far") is None


def test_a_tick_with_nothing_to_mend_writes_nothing(money: Money) -> None:
    assert ask(money) is None
    tick(money, at_start=True)
    park(money, "context_overflow", 1, scope=None)
    before = changes(money.connection)
    for _ in range(3):
        tick(money)
    assert changes(money.connection) == before
    hold(money, Hold.AUTH_FAILED)
    tick(money)  # which remembers for which profile
    before = changes(money.connection)
    for _ in range(3):
        tick(money)
    assert changes(money.connection) == before


def test_answers_in_vain_are_forgotten_while_the_agent_runs(money: Money) -> None:
    calls = money.calls()
    unit = WorkUnit.of("summary", "t", "s", "Marlena met Quist", "node")
    calls.refuse(calls.chat(ASK, []), [(unit, "too_long")])
    tick(money)
    assert money.connection.value("SELECT count(*) FROM mem_tree_attempts") == 1
    money.clock.advance(12 * 3_600 + 1)
    tick(money)
    assert money.connection.value("SELECT count(*) FROM mem_tree_attempts") == 0


def test_a_start_compares_what_was_spent_with_the_lines_beside_the_ledger(money: Money) -> None:
    assert ask(money) is None
    spent = money.usage()
    money.connection.run("DELETE FROM mem_tree_usage")
    tick(money)
    assert money.usage() == [], "workers may be between a line and its row"
    tick(money, at_start=True)
    assert money.usage() == spent


def test_answers_that_a_rebuild_kept_go_a_day_after_all_has_grown(money: Money) -> None:
    from agent.db.state import REGROWING_KEY, get_state, set_state

    money.sources = ()
    with money.connection.write():
        node = add_chunk(money.connection, add_item(money.connection), "We meet on Monday.")
    unit = WorkUnit.of("extract", "t", "s", "kept", node)
    gone = replace(unit, input_hash="gone", node_id=node)
    store_results(money.connection, [(unit, "kept"), (gone, "gone")], 1)
    money.connection.run("UPDATE mem_tree_result_inputs SET node_id = 'nowhere' WHERE input_hash = 'gone'")
    with money.connection.write():
        set_state(money.connection, REGROWING_KEY, str(money.clock.now_ms()))

    def left() -> list[str]:
        return [row[0] for row in money.connection.all("SELECT result FROM mem_tree_results ORDER BY 1")]

    tick(money)
    money.clock.advance(DAY_MS / 1000 + 1)
    tick(money)
    assert left() == ["gone", "kept"], "a chunk is still to be extracted"
    money.connection.run("UPDATE mem_tree_chunks SET lifecycle = 'sealed'")
    tick(money)
    assert left() == ["kept"]
    tick(money)
    assert get_state(money.connection, REGROWING_KEY) is None
