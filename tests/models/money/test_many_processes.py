"""One breaker, one probe and one meter for all processes of a home; a day of errors is a handful of calls."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent
from agent.db import Database
from agent.errors import JobFailure, Postponed
from agent.models.calls import calls_of
from agent.models.keys import FakeKeys
from agent.models.profiles import open_profile
from agent.models.providers.protocol import ChatAnswer
from agent.models.spending import Spent, read_file
from agent.models.surroundings import KEYS_KEY, MEMORY_KEY, OPENER_KEY
from agent.paths import paths_under
from agent.queue.holds import HoldRow, put_hold_tx
from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import Job, NewJob, Plan
from agent.states import Hold
from agent.system.memory import FakeMemory
from agent.worker.guard import JobGuard
from tests.models.money.conftest import ASK, LOCAL, FakeProvider, Money, failure
from tests.worker.conftest import make_bench

__all__ = ["make_bench"]

DAY_S = 24 * 3_600


def asking(home: str, code: str, times: int, now_ms: int, barrier: Any, results: Any) -> None:
    """Ask again and again in a process of its own and say what came of each."""
    paths = paths_under(Path(home))
    database = Database(paths.database, paths.write_turn)
    provider = FakeProvider([ChatAnswer("tea", 11, 3) if code == "answer" else failure(code)])
    memory = FakeMemory(available=1 << 40)
    money = Money(database.connection, paths, FakeClock(now_ms), provider, FakeKeys(), memory, {"box": LOCAL})
    barrier.wait(30)
    found: list[str] = []
    for _ in range(times):
        calls = money.calls()
        try:
            answer = calls.chat(ASK, [])
        except (JobFailure, Postponed) as error:
            found.append(type(error).__name__)
        else:
            calls.keep(answer, [])
            found.append("answer")
    results.put((found, len(provider.asked)))
    database.close()


def in_processes(money: Money, code: str, processes: int, times: int) -> tuple[Counter[str], int]:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes), context.Queue()
    home, now_ms = str(money.paths.config_dir.parent), money.clock.now_ms()
    running = [
        context.Process(target=asking, args=(home, code, times, now_ms, barrier, results)) for _ in range(processes)
    ]
    for process in running:
        process.start()
    found = [results.get(timeout=60) for _ in running]
    for process in running:
        process.join(30)
    results.close()
    return Counter(word for words, _ in found for word in words), sum(sent for _, sent in found)


def test_two_processes_have_one_breaker(money: Money) -> None:
    words, sent = in_processes(money, "unreachable", 2, 20)
    assert words["JobFailure"] == 4
    assert words["Postponed"] == 36
    assert 5 <= sent <= 6, "five in a row, and one that was under way"
    assert money.hold().openings == 1


def test_two_processes_try_one_call_when_the_hold_ends(money: Money) -> None:
    with money.connection.write():
        put_hold_tx(money.connection, HoldRow("box", Hold.AUTH_FAILED, "refused", money.clock.now_ms(), 1, 1), 0)
    words, sent = in_processes(money, "auth_failed", 3, 5)
    assert (words["JobFailure"], words["Postponed"], sent) == (1, 14, 1)
    assert money.hold().until_ms == money.clock.now_ms() + 120_000


def test_processes_that_spend_side_by_side_lose_nothing_of_it(money: Money) -> None:
    in_processes(money, "answer", 3, 8)
    assert money.usage() == [("box", "small:1b", "seal", 24, 0, 264, 72)]
    assert sum(read_file(money.paths).values(), Spent()).calls == 24


def note(context: JobContext, job: Job) -> Plan:
    calls = calls_of(context, LOCAL, job.kind, JobGuard(context))
    calls.keep(calls.chat(ASK, []), [])
    return Plan()


@pytest.mark.slow
@pytest.mark.parametrize("code", ["budget_exhausted", "auth_failed", "unreachable"])
def test_a_day_of_errors_is_a_hundred_calls_and_not_twelve_thousand(make_bench: Any, code: str) -> None:
    intent = Intent(models=ModelsIntent(active="box"), profiles=(LOCAL,))
    bench = make_bench(JobSpec("seal", note, llm_bound=True), open_profile=open_profile, intent=intent)
    provider = FakeProvider([failure(code)])
    bench.loop.context.shared |= {
        OPENER_KEY: provider.open,
        KEYS_KEY: FakeKeys(),
        MEMORY_KEY: FakeMemory(available=1 << 40),
    }
    for _ in range(1_000):
        bench.add(NewJob("seal", "{}"))
    end_ms = bench.clock.now_ms() + DAY_S * 1000
    while bench.clock.now_ms() < end_ms:
        bench.steps(1)
        bench.clock.advance(5)
    assert 50 < len(provider.asked) <= 110
    counts = dict(bench.connection.all("SELECT status, count(*) FROM mem_tree_jobs GROUP BY status"))
    assert counts["ready"] >= 1_000 - len(provider.asked)
    provider.outcomes = [ChatAnswer("tea", 11, 3)]
    bench.clock.advance(901)
    bench.steps(2_500)
    assert dict(bench.connection.all("SELECT status, count(*) FROM mem_tree_jobs GROUP BY status")) == {"done": 1_000}
