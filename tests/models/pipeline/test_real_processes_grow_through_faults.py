"""``sapwood run --once`` with real workers against a server in another process: every call of it in its own log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent.db import Connection, Database
from agent.models.key_file import write_key_file
from agent.paths import Paths
from agent.queue.holds import bring_forward, read_hold
from agent.tree.check import problems
from agent.tree.flush import unfinished
from tests.cli.agents import run
from tests.models.pipeline.asking import edit
from tests.models.pipeline.growing import PROVIDERS, config_of, write_corpus
from tests.scripted import Spawned, behave, spawned

pytestmark = pytest.mark.slow


@dataclass
class Home:
    paths: Paths
    server: Spawned

    def run(self) -> tuple[int, str]:
        """Grow with real processes; return the exit code and what is said at the end (progress is told elsewhere)."""
        ran = run(self.paths, "run", "--once")
        return ran.returncode, " ".join(ran.stdout.split())

    @contextmanager
    def opened(self) -> Iterator[Connection]:
        database = Database(self.paths.database, self.paths.write_turn)
        try:
            yield database.connection
        finally:
            database.close()

    def value(self, query: str) -> Any:
        with self.opened() as connection:
            return connection.value(query)

    def assert_whole(self) -> None:
        with self.opened() as connection:
            assert unfinished(connection) == []
            assert problems(connection) == []
            assert connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'failed'") == 0
            assert connection.value("SELECT count(*) FROM mem_tree_chunks WHERE lifecycle NOT IN ('sealed')") == 0
            assert connection.value("SELECT count(*) FROM mem_tree_summaries WHERE degraded > 0") == 0
        good = [call for call in self.server.calls("chat") if (call.behaviour, call.how) == ("ok", "answered")]
        assert good
        twice = Counter(json.dumps(call.body) for call in good)
        assert max(twice.values()) == 1, "no good answer was paid for twice"


@pytest.fixture(params=PROVIDERS)
def home(request: pytest.FixtureRequest, paths: Paths, tmp_path: Path) -> Iterator[Home]:
    write_corpus(tmp_path / "owner")
    write_key_file(paths, {"anthropic": "scripted"})
    with spawned(tmp_path / "calls.jsonl") as server:
        url = server.base_url(request.param)
        edit(paths, config_of(request.param, url, tmp_path / "owner", read_seconds=1.0))
        yield Home(paths, server)


def test_a_server_that_fails_now_and_then_costs_time_and_nothing_else(home: Home) -> None:
    # No lost connections among them: the queue waits a minute after one, and this is real time.
    home.server.queue("prose", behave("rate_limited", headers={"Retry-After": "1"}), "invented", "think")
    code, words = home.run()
    assert (code, words) == (0, "everything is grown")
    home.assert_whole()
    asked = {call.behaviour for call in home.server.calls("chat")}
    assert asked == {"prose", "rate_limited", "invented", "think", "ok"}
    assert home.value("SELECT sum(calls) FROM mem_tree_usage") == sum(
        call.behaviour != "rate_limited" for call in home.server.calls("chat")
    )


def test_an_empty_account_is_said_at_the_end_of_the_run_and_the_next_one_grows_all(home: Home) -> None:
    home.server.use(behave("payment"))
    # As after some hours: the wait is longer than a run has patience for.
    with home.opened() as connection, connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_holds (scope, code, reason, until_ms, failures, openings, changed_at_ms)
            VALUES ('box', 'budget_exhausted', 'no credit', 0, 6, 6, 0)
            """
        )
    code, words = home.run()
    assert code != 0
    assert "the credit is used up" in words
    assert len(home.server.calls("chat")) == 1
    with home.opened() as connection:
        hold = read_hold(connection, "box")
        assert hold is not None
        assert hold.code == "budget_exhausted"
        assert connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'failed'") == 1
    home.server.use("ok")
    with home.opened() as connection, connection.write():
        connection.run("UPDATE mem_tree_holds SET until_ms = 0")
    with home.opened() as connection:
        bring_forward(connection, "box", 0)
    code, words = home.run()
    assert (code, words) == (0, "everything is grown")
    home.assert_whole()


def test_a_server_that_takes_no_text_is_said_at_the_end_of_the_run_and_asked_no_more(home: Home) -> None:
    home.server.use("too_long_input")
    code, words = home.run()
    assert code != 0
    assert "not everything is grown: not finished: " in words
    failed = home.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'failed'")
    assert f"{failed} failed, see `sapwood jobs --status failed`" in words
    with home.opened() as connection:
        reasons = connection.all("SELECT dedupe_key, failure_reason FROM mem_tree_jobs WHERE status = 'failed'")
    assert {reason for _, reason in reasons} == {"context_overflow"}
    assert len({key for key, _ in reasons}) == failed, "each of them once"
    asked = Counter(json.dumps(call.body) for call in home.server.calls("chat"))
    assert len(asked) < 40
