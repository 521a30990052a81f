"""``sapwood model test`` while a hold is on: it asks all the same, mends what it disproves, and holds nobody back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent.actions.home import open_home
from agent.paths import Paths
from agent.queue.holds import HoldRow, put_hold_tx, read_hold
from agent.queue.types import NewJob
from agent.states import Hold
from tests.cli.conftest import Sapwood, widths
from tests.scripted import serving
from tests.scripted.thread import Serving

NEVER_MS = 9_999_999_999_999


@pytest.fixture
def near(sapwood: Sapwood) -> Iterator[Serving]:
    with serving() as server:
        url = server.base_url("ollama")
        ran = sapwood("model", "add", "near", "--provider", "ollama", "--model", "scripted-chat", "--url", url)
        assert ran.code == 0, ran.err
        yield server


def park(paths: Paths, code: str) -> int:
    with open_home(paths) as home:
        home.enqueue(NewJob("seal", "{}", f"seal:{code}"))
        job: int = home.connection.value("SELECT max(id) FROM mem_tree_jobs")
        home.connection.run(
            """
            UPDATE mem_tree_jobs
               SET status = 'failed', failure_class = 'unrecoverable', failure_reason = ?, failure_scope = 'near',
                   completed_at_ms = 1
             WHERE id = ?
            """,
            (code, job),
        )
    return job


def hold(paths: Paths, code: Hold) -> HoldRow:
    row = HoldRow("near", code, "it was refused", NEVER_MS, 3, 4)
    with open_home(paths) as home, home.connection.write():
        put_hold_tx(home.connection, row, 1)
    return row


def held(paths: Paths) -> HoldRow | None:
    with open_home(paths) as home:
        return read_hold(home.connection, "near")


def statuses(paths: Paths) -> dict[int, str]:
    with open_home(paths) as home:
        return dict(home.connection.all("SELECT id, status FROM mem_tree_jobs"))


@pytest.mark.parametrize("code", list(Hold))
def test_an_answer_lifts_the_hold_and_brings_back_what_it_had_parked(
    code: Hold, sapwood: Sapwood, near: Serving, paths: Paths
) -> None:
    hold(paths, code)
    parked, too_long = park(paths, str(code)), park(paths, "context_overflow")
    ran = sapwood("model", "test", "near")
    assert ran.code == 0, ran.err
    assert "1 job that had waited for it is tried again" in ran.out
    assert len(near.calls("chat")) == 1
    assert held(paths) is None
    assert statuses(paths) == {parked: "ready", too_long: "failed"}, "a long text is no shorter now"


@pytest.mark.parametrize(
    ("trouble", "said"),
    [("no_model", "ollama pull scripted-chat"), ("reset", "broke off"), ("out_of_memory", "memory")],
)
def test_a_failure_is_told_as_it_is_and_changes_nothing_for_others(
    trouble: str, said: str, sapwood: Sapwood, near: Serving, paths: Paths
) -> None:
    before = hold(paths, Hold.BUDGET_EXHAUSTED)
    parked = park(paths, "budget_exhausted")
    near.use(trouble)
    ran = sapwood("model", "test", "near")
    assert ran.code == 1
    assert said in " ".join(ran.err.split())
    assert max(widths(ran.err)) <= 80
    assert held(paths) == before
    assert statuses(paths) == {parked: "failed"}


def test_five_trials_that_fail_open_no_hold(sapwood: Sapwood, near: Serving, paths: Paths) -> None:
    near.go_away()
    for _ in range(5):
        assert sapwood("model", "test", "near").code == 1
    near.come_back()
    assert held(paths) is None


def test_a_trial_over_the_daily_limit_says_how_to_raise_it(sapwood: Sapwood, near: Serving, paths: Paths) -> None:
    assert sapwood("config", "set", "profiles.near.daily_tokens", "5").code == 0
    ran = sapwood("model", "test", "near")
    assert ran.code == 1
    assert "profiles.near.daily_tokens" in " ".join(ran.err.split())
    assert near.calls("chat") == []
    assert held(paths) is None


def test_an_answer_with_its_thinking_before_it_is_of_use_and_prose_is_not(sapwood: Sapwood, near: Serving) -> None:
    near.use("think")
    assert sapwood("model", "test", "near", "--json").document["structured"] is True
    near.use("prose")
    assert sapwood("model", "test", "near", "--json").document["structured"] is False
    assert "no: its answers will be asked for again" in " ".join(sapwood("model", "test", "near").out.split())
