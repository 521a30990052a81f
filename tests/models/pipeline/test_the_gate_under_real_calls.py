"""The gate with everybody there and real providers: six workers, two commands of the owner, one server that counts."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agent.actions.running import GATE_HOOK, PERMITS_HOOK
from agent.db import Database
from agent.paths import Paths
from agent.queue.types import NewJob
from tests.conftest import REPOSITORY
from tests.models.pipeline.asking import KINDS, edit, keep_key, own_address, plain, profile_text, question
from tests.scripted import behave, spawned
from tests.supervisor.conftest import Rows, StartAgent, put, rows, start_agent

__all__ = ["put", "rows", "start_agent"]

WORKERS = 6
OUTSIDERS = 2
QUESTIONS = 40
QUESTIONS_OUTSIDE = 6


@contextmanager
def outsiders(paths: Paths, count: int, questions: int) -> Iterator[list[subprocess.Popen[str]]]:
    code = "import sys; from tests.models.pipeline.asking import outsider; outsider(*sys.argv[1:])"
    argv = [sys.executable, "-c", code, str(paths.config_dir.parent), str(questions)]
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            process = stack.enter_context(
                subprocess.Popen(argv, cwd=REPOSITORY, stdout=subprocess.PIPE, encoding="utf-8")
            )
            stack.callback(process.kill)
            found.append(process)
        yield found


@pytest.fixture
def start_workers(
    start_agent: StartAgent,
    wait_until: Callable[..., None],
) -> Callable[[], None]:
    def start() -> None:
        env = {"SAPWOOD_POOL__MIN_WORKERS": str(WORKERS), "SAPWOOD_POOL__MAX_WORKERS": str(WORKERS)}
        agent = start_agent(kind_names=KINDS, gate_hook=GATE_HOOK, permits_hook=PERMITS_HOOK, env=env)
        wait_until(lambda: len(agent.running()) == WORKERS, 60, "six workers")

    return start


def are_settled(database: Database) -> bool:
    return not database.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')")


@pytest.mark.slow
@pytest.mark.parametrize(("place", "permits"), [("local", 1), ("cloud", 4)])
def test_eight_processes_never_make_more_calls_than_there_are_permits_and_other_work_goes_on(
    place: str,
    permits: int,
    paths: Paths,
    start_workers: Callable[[], None],
    put: Callable[[NewJob], int],
    rows: Rows,
    database: Database,
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    host = "127.0.0.1" if place == "local" else own_address()
    if host is None:
        pytest.skip("this machine has no address but loopback, and that is no cloud: connect it to a network")
    with spawned(tmp_path / "calls.jsonl", host) as server:
        server.use("held")
        keep_key(paths, server) if place == "cloud" else None
        edit(paths, '[models]\nactive = "box"\n\n' + profile_text("box", server))
        start_workers()
        jobs = [put(question(number)) for number in range(QUESTIONS)]
        wait_until(lambda: server.in_flight == permits, 60, "a call for each permit")
        # All permits are taken and nobody answers: what needs no model is done all the same.
        others = [put(plain(number)) for number in range(20)]
        wait_until(lambda: all(rows.status(job) == "done" for job in others), 30, "jobs that need no model")
        assert server.in_flight == permits
        server.use(behave("slow", first_byte_s=0.05, between_s=0.0))
        with outsiders(paths, OUTSIDERS, QUESTIONS_OUTSIDE) as outside:
            server.release()
            ended = [process.wait(60) for process in outside]
        wait_until(lambda: are_settled(database), 60, "every question")
        assert ended == [0] * OUTSIDERS
        assert server.most == permits
        assert {rows.status(job) for job in jobs} == {"done"}
        asked = Counter(call.body["messages"][0]["content"] for call in server.calls("chat"))
        assert set(asked.values()) == {1}, "every question once"
        assert len(asked) == QUESTIONS + OUTSIDERS * QUESTIONS_OUTSIDE
        assert {call.how for call in server.calls("chat")} == {"answered"}


@pytest.mark.slow
def test_a_person_who_asks_waits_for_one_call_at_most(
    paths: Paths,
    start_workers: Callable[[], None],
    put: Callable[[NewJob], int],
    wait_until: Callable[..., None],
    tmp_path: Path,
) -> None:
    with spawned(tmp_path / "calls.jsonl") as server:
        server.use(behave("slow", first_byte_s=0.3, between_s=0.0))
        edit(paths, '[models]\nactive = "box"\n\n' + profile_text("box", server))
        start_workers()
        for number in range(300):
            put(question(number))
        wait_until(lambda: len(server.calls("chat")) > 1, 30, "a call of a worker")
        with outsiders(paths, 1, 5) as (person,):
            said, _ = person.communicate(timeout=60)
        assert person.returncode == 0
        calls = server.calls("chat")
        for asked, got in map(json.loads, said.splitlines()):
            theirs = [call for call in calls if "outside" not in call.body["messages"][0]["content"]]
            between = [call for call in theirs if call.ended is not None and call.ended > asked and call.began < got]
            assert len(between) <= 1, "the one in flight, and no other"
        assert server.most == 1
