"""Old pages in the write-ahead log: cut before it is called done, or said and done later."""

from __future__ import annotations

import pytest

from agent.actions.erasing import CHECKPOINT_DUE
from agent.actions.forgetting import LEFT_IN_LOG, forget, keep_ledger, preview, truncate_log, wanted_of
from agent.actions.home import open_home
from agent.clock import FakeClock
from agent.config import Intent
from agent.db import connect
from agent.db.state import get_state
from agent.paths import Paths
from agent.queue import Registry
from agent.supervisor.tick import Housekeeping
from tests.forget.planted import MARKER
from tests.forget.test_nothing_is_left import where


def test_a_reader_that_holds_the_log_is_said_and_the_agent_cuts_it_later(planted: Paths) -> None:
    clock = FakeClock()
    reader = connect(planted.database)
    try:
        with open_home(planted, clock=clock) as home:
            home.connection.raw.set_busy_timeout(5)
            with reader.snapshot():
                reader.value("SELECT count(*) FROM mem_tree_chunks")
                wanted = wanted_of(home, mentions=MARKER)
                found = forget(home, wanted, preview(home, wanted)[1])
                assert found.words == LEFT_IN_LOG
                assert get_state(home.connection, CHECKPOINT_DUE) == "1"
                keep_ledger(planted, home.connection, clock.now_ms())
                assert get_state(home.connection, CHECKPOINT_DUE) == "1"
            housekeeping = Housekeeping(
                Registry(), keep_ledger=lambda connection, now_ms: keep_ledger(planted, connection, now_ms)
            )
            housekeeping.tick(home.connection, Intent(), clock.now_ms())
            assert get_state(home.connection, CHECKPOINT_DUE) is None
            # What that took to write down holds no word any more.
            assert truncate_log(home.connection, clock, 1.0)
    finally:
        reader.close()
    assert where(planted) == []


def test_a_start_finishes_what_was_left(planted: Paths) -> None:
    with open_home(planted) as home:
        wanted = wanted_of(home, mentions=MARKER)
        _, chosen = preview(home, wanted)

        class Killed(Exception):
            pass

        def step(name: str) -> None:
            if name == "ledger":
                raise Killed

        with pytest.raises(Killed):
            forget(home, wanted, chosen, step=step)
        assert where(planted)
        housekeeping = Housekeeping(
            Registry(), keep_ledger=lambda connection, now_ms: keep_ledger(planted, connection, now_ms)
        )
        housekeeping.start(home.connection, Intent(), home.clock.now_ms())
    assert where(planted) == []


def test_an_unreadable_ledger_stops_no_tick(planted: Paths) -> None:
    planted.ledger.unlink(missing_ok=True)
    planted.ledger.mkdir()
    with open_home(planted) as home:
        housekeeping = Housekeeping(
            Registry(), keep_ledger=lambda connection, now_ms: keep_ledger(planted, connection, now_ms)
        )
        housekeeping.tick(home.connection, Intent(), home.clock.now_ms())
