"""``run --once`` with real processes: it ends by itself, and says so where it cannot."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from agent.db import Connection
from agent.db.state import PAUSE_KEY, set_state
from agent.paths import Paths
from agent.worker import capacity
from tests.supervisor.conftest import Rows, StartAgent, lines
from tests.supervisor.kinds import job_of

HOOKS = {"idle_hook": "tests.supervisor.hooks:close_tails", "finished_hook": "tests.supervisor.hooks:unfinished"}
MINUTE_MS = 60_000


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def test_ends_when_no_row_is_left_due_or_delayed_and_every_tail_is_closed(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, paths: Paths, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    jobs = [put(job_of("t_mark", left, f"{number}")) for number in range(20)]
    jobs.append(put(job_of("t_mark", left, "late", available_at_ms=_now_ms() + 1500)))

    said = start_agent(once=True, **HOOKS).wait(30)

    assert (said["ended"], said["code"]) == ("finished", 0)
    assert [rows.status(job) for job in jobs] == ["done"] * 21
    assert [line[0] for line in lines(paths.data_dir / "tails")] == ["level0", "level1", "level2"]


def test_says_when_all_that_is_left_is_due_much_later(
    start_agent: StartAgent, put: Callable[..., int], rows: Rows, tmp_path: Path
) -> None:
    now = put(job_of("t_mark", tmp_path / "left", "now"))
    later = put(job_of("t_mark", tmp_path / "left", "later", available_at_ms=_now_ms() + 30 * MINUTE_MS))
    said = start_agent(once=True, **HOOKS).wait(20)
    assert (said["ended"], said["code"]) == ("unfinished", 1)
    assert "30 minutes" in said["reason"]
    assert (rows.status(now), rows.status(later)) == ("done", "ready")


def test_unfinished_trees_are_named(start_agent: StartAgent, connection: Connection) -> None:
    with connection.write():
        set_state(connection, "left", "tree source:notes@1")
    said = start_agent(once=True, **HOOKS).wait(20)
    assert (said["ended"], said["reason"]) == ("unfinished", "not finished: tree source:notes@1")


def test_a_long_pause_is_no_reason_to_wait(
    start_agent: StartAgent, put: Callable[..., int], connection: Connection, tmp_path: Path
) -> None:
    assert PAUSE_KEY == capacity.PAUSE_KEY
    with connection.write():
        set_state(connection, PAUSE_KEY, str(_now_ms() + 60 * MINUTE_MS))
    put(job_of("t_mark", tmp_path / "left", "waits"))
    said = start_agent(once=True).wait(20)
    assert (said["ended"], said["code"]) == ("unfinished", 1)
    assert "resume" in said["reason"]


def test_workers_that_never_come_up_end_it(start_agent: StartAgent, put: Callable[..., int], tmp_path: Path) -> None:
    put(job_of("t_mark", tmp_path / "left", "waits"))
    said = start_agent(
        once=True,
        workers=1,
        worker="tests.supervisor.odd_workers:dies_at_once",
        env={"SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "2"},
    ).wait(20)
    assert (said["ended"], said["code"]) == ("failed", 1)
    assert "exit code 3" in said["reason"]


def test_slot_that_was_given_up_asks_for_attention(start_agent: StartAgent, wait_until: Callable[..., None]) -> None:
    agent = start_agent(
        worker="tests.supervisor.odd_workers:dies_at_once", env={"SAPWOOD_SUPERVISOR__FAILURE_LIMIT": "2"}
    )

    def state() -> tuple[str, str]:
        try:
            status = agent.status()
        except Exception:
            return "", ""
        return status["state"], status["reason"]

    wait_until(lambda: state()[0] == "attention", what="attention")
    assert "exit code 3" in state()[1]
