"""``run --once`` while a model cannot be had: it waits as long as that is worth it, and says what holds it back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.config_edit import write_atomically
from agent.db import Connection
from agent.paths import Paths
from agent.queue.holds import HoldRow, put_hold_tx
from agent.states import Hold
from agent.supervisor.once import PATIENCE_MS, OnceGuard, Quiet, Step, held_words
from tests.supervisor.conftest import Rows, StartAgent
from tests.supervisor.kinds import job_of

HOOKS = {"idle_hook": "tests.supervisor.hooks:close_tails", "finished_hook": "tests.supervisor.hooks:unfinished"}
NOW = 1_700_000_000_000
LOCAL = '[models]\nactive = "box"\n[[profiles]]\nname = "box"\nprovider = "ollama"\nchat_model = "small"\n'
CLOUD = (
    '[models]\nactive = "box"\n[[profiles]]\nname = "box"\nprovider = "openai"\nchat_model = "large"\n'
    'consent = "api.openai.com"\n'
)


def hold(connection: Connection, wait_ms: int, code: Hold = Hold.BUDGET_EXHAUSTED) -> HoldRow:
    now_ms = time.time_ns() // 1_000_000
    row = HoldRow("box", code, "the credit is used up", now_ms + wait_ms, 1, 1)
    with connection.write():
        put_hold_tx(connection, row, now_ms)
    return row


@pytest.fixture
def box(paths: Paths) -> None:
    write_atomically(paths.config_file, LOCAL)


def test_a_hold_that_ends_soon_is_waited_for_and_one_that_ends_late_is_told() -> None:
    row = HoldRow("box", Hold.DAILY_LIMIT, "the daily limit is reached", NOW + PATIENCE_MS + 1, 0, 1)
    guard = OnceGuard()
    late = Quiet(0, row.until_ms, waits_for=held_words(row))
    assert guard.judge(Quiet(0, NOW + PATIENCE_MS, waits_for="x"), NOW, anyone_busy=False) is Step.WAIT
    assert guard.judge(late, NOW, anyone_busy=False) is Step.SEARCH
    assert guard.verdict(late, NOW, []).startswith("box: the daily limit is reached; it is tried again at 20")


def test_it_ends_with_the_reason_where_the_hold_is_long_and_does_all_that_needs_no_model(
    box: None, start_agent: StartAgent, put: Callable[..., int], rows: Rows, connection: Connection, tmp_path: Path
) -> None:
    hold(connection, 2 * PATIENCE_MS)
    model = put(job_of("t_think", tmp_path / "left", "model"))
    plain = put(job_of("t_mark", tmp_path / "left", "plain"))
    said = start_agent(once=True, **HOOKS).wait(30)
    assert (said["ended"], said["code"]) == ("unfinished", 1)
    assert "box: the credit is used up; it is tried again at " in said["reason"]
    assert (rows.status(model), rows.status(plain)) == ("ready", "done")


def test_it_waits_for_a_hold_that_ends_soon_and_finishes(
    box: None, start_agent: StartAgent, put: Callable[..., int], rows: Rows, connection: Connection, tmp_path: Path
) -> None:
    hold(connection, 3_000)
    model = put(job_of("t_think", tmp_path / "left", "model"))
    said = start_agent(once=True, **HOOKS).wait(30)
    assert (said["ended"], said["code"]) == ("finished", 0)
    assert rows.status(model) == "done"


def test_rows_that_are_barred_by_broken_settings_do_not_keep_it_for_ever(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, paths: Paths, tmp_path: Path
) -> None:
    write_atomically(paths.config_file, "[broken")
    write_atomically(paths.last_good_config, CLOUD)
    model = put(job_of("t_think", tmp_path / "left", "model"))
    said = start_agent(once=True, **HOOKS).wait(30)
    assert (said["ended"], said["code"]) == ("unfinished", 1)
    assert "config.toml cannot be read" in said["reason"]
    assert rows.status(model) == "ready"


def test_a_name_that_no_profile_has_fails_no_row_and_is_told(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, paths: Paths, tmp_path: Path
) -> None:
    write_atomically(paths.config_file, '[models]\nactive = "bxo"\n')
    model = put(job_of("t_think", tmp_path / "left", "model"))
    plain = put(job_of("t_mark", tmp_path / "left", "plain"))
    said = start_agent(once=True, **HOOKS).wait(30)
    assert (said["ended"], said["code"]) == ("unfinished", 1)
    assert "there is no model profile 'bxo': `sapwood model use NAME`" in said["reason"]
    assert (rows.status(model), rows.status(plain)) == ("ready", "done")


def test_where_rows_are_parked_the_cause_is_said_beside_what_is_not_finished(
    box: None, start_agent: StartAgent, connection: Connection
) -> None:
    from agent.db.state import set_state

    hold(connection, 60_000)
    with connection.write():
        set_state(connection, "left", "tree source:notes@1")
    said = start_agent(once=True, **HOOKS).wait(30)
    assert said["ended"] == "unfinished"
    assert "the credit is used up" in said["reason"]
    assert "not finished: tree source:notes@1" in said["reason"]
