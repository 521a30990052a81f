"""Sapwood beside a real model server: claims, the permit, structured output, cancelling, switching, crashes.

What a model of 135 million parameters says is of no use; that everything around it holds is what is proved here.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.actions.doctor import doctor
from agent.actions.home import open_home
from agent.actions.sources import add
from agent.clock import SYSTEM_CLOCK
from agent.config import load_intent
from agent.config_edit import edit_intent
from agent.db import Connection
from agent.errors import JobFailure, Postponed
from agent.models.answers import summary_schema
from agent.models.calls import calls_for
from agent.models.providers.protocol import ChatAsk, Message
from agent.paths import Paths
from agent.profile_intent import ProfileIntent
from agent.queue.handling import all_handling
from tests.conftest import REPOSITORY
from tests.local_model.conftest import WORDS
from tests.local_model.counting import Passage, counted
from tests.local_model.server import LocalServer, local_server

pytestmark = pytest.mark.slow

Choose = Callable[..., None]
LONG = "\n\n".join(f"{words} This is entry {part}.{at}." for part in range(12) for at, words in enumerate(WORDS))
ENVIRON = {"SAPWOOD_SUPERVISOR__BACKOFF_BASE_SECONDS": "0.05", "SAPWOOD_SUPERVISOR__BACKOFF_CAP_SECONDS": "0.1"}


def ask(words: str, limit: int = 80) -> ChatAsk:
    messages = (Message("system", "You summarise notes. Answer in JSON."), Message("user", words))
    return ChatAsk(messages, 100, limit, summary_schema(), "summary")


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the agent as a process; it is asked to end with the block."""
    argv = [sys.executable, "-m", "agent.cli.main", "run", *arguments]
    process = subprocess.Popen(
        argv,
        cwd=REPOSITORY,
        env={**os.environ, **ENVIRON},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def grown(process: subprocess.Popen[str], patience_s: float = 240.0) -> str:
    said = process.communicate(timeout=patience_s)[0]
    assert process.returncode == 0, said
    return said


def is_sound(paths: Paths) -> bool:
    with open_home(paths) as home:
        found = doctor(home.paths, deep=True)
    # The machine of a test may have no keyring and little memory; the memory is what is looked at.
    return all(check.ok for check in found.checks if check.name in ("database", "tree", "queue", "items", "text"))


def profile_of(paths: Paths) -> ProfileIntent:
    profile = load_intent(paths).intent.active_profile
    assert profile is not None
    return profile


def test_a_memory_grows_with_one_call_at_a_time_and_every_call_is_metered(
    model: LocalServer, choose: Choose, paths: Paths, notes: Path
) -> None:
    with counted(model.address) as passage:
        choose(model, base_url=f"{passage.address}/v1")
        with open_home(paths) as home:
            add(home, [str(notes)])
        with running("--once", "--workers", "4") as process:
            grown(process)
    assert passage.most == 1, "one permit for all workers"
    with open_home(paths) as home:
        made = home.connection.all("SELECT signature, degraded FROM mem_tree_summaries")
        calls, tokens = home.connection.all("SELECT sum(calls), sum(tokens_in + tokens_out) FROM mem_tree_usage")[0]
    assert any(signature.startswith("openai:smollm2") for signature, _ in made)
    assert calls >= 1
    assert tokens > 100
    assert is_sound(paths)


def test_its_structured_answers_are_json_of_the_schema(
    model: LocalServer, choose: Choose, paths: Paths, connection: Connection
) -> None:
    choose(model)
    calls = calls_for(connection, paths, SYSTEM_CLOCK, load_intent(paths).intent, profile_of(paths), "test")
    answer = calls.chat(ask(f"Summarise in ten words: {WORDS[0]}", 200), ())
    calls.refuse(answer, ())
    assert isinstance(json.loads(answer.text)["summary"], str)
    assert answer.counted
    assert connection.value("SELECT tokens_in FROM mem_tree_usage") == answer.tokens_in


class Ends:
    """A guard that ends the call from a moment on."""

    def __init__(self, when: Callable[[], bool]) -> None:
        self.when = when
        self.ended_at: float | None = None

    def look(self, profile: ProfileIntent) -> Exception | None:
        if not self.when():
            return None
        self.ended_at = self.ended_at or time.monotonic()
        return Postponed(SYSTEM_CLOCK.now_ms(), "the owner has switched to another model")


@pytest.mark.parametrize("moment", ["before the first token", "in the middle"])
def test_a_cancelled_call_leaves_the_server_at_once_and_free_for_the_next(
    moment: str,
    model: LocalServer,
    choose: Choose,
    paths: Paths,
    connection: Connection,
    wait_until: Callable[..., None],
) -> None:
    with counted(model.address) as passage:
        choose(model, base_url=f"{passage.address}/v1")
        profile = profile_of(paths)
        intent = load_intent(paths).intent

        def is_time() -> bool:
            now = passage.open_now
            return bool(now) and (moment == "before the first token" or now[0].answered is not None)

        guard = Ends(is_time)
        calls = calls_for(connection, paths, SYSTEM_CLOCK, intent, profile, "test", guard)
        with pytest.raises(Postponed):
            calls.chat(ask(LONG, 300), ())
        cancelled = passage.passed[-1]
        wait_until(lambda: cancelled.ended is not None, 2, "the end of the call")
        assert cancelled.ended is not None
        assert guard.ended_at is not None
        assert cancelled.ended - guard.ended_at < 1.0
        if moment == "before the first token":
            assert cancelled.answered is None
        calls = calls_for(connection, paths, SYSTEM_CLOCK, intent, profile, "test")
        calls.refuse(calls.chat(ask("Say yes.", 20), ()), ())
    assert connection.value("SELECT sum(calls) FROM mem_tree_usage") == 1, "the cancelled one is not paid"


def test_the_owner_switches_away_in_the_middle_of_a_call_and_the_built_in_profile_finishes(
    model: LocalServer, choose: Choose, paths: Paths, notes: Path, wait_until: Callable[..., None]
) -> None:
    with counted(model.address) as passage:
        choose(model, base_url=f"{passage.address}/v1")
        with open_home(paths) as home:
            add(home, [str(notes)])
        with running("--once") as process:
            wait_until(lambda: passage.open_now, 60, "a call")
            edit_intent(paths, lambda document: document["models"].update(active="builtin"))
            switched = time.monotonic()
            grown(process, 60)
        assert all((each.ended or 0) - switched < 1.0 for each in passage.passed)
        assert not [each for each in passage.passed if each.began > switched + 0.25]
    with open_home(paths) as home:
        assert home.connection.value("SELECT count(*) FROM mem_tree_jobs WHERE attempts > 1") == 0
    assert is_sound(paths)


def test_a_worker_that_is_killed_in_a_call_gives_its_permit_back_and_nothing_is_lost(
    model: LocalServer, choose: Choose, paths: Paths, notes: Path, wait_until: Callable[..., None]
) -> None:
    with counted(model.address) as passage:
        choose(model, base_url=f"{passage.address}/v1")
        with open_home(paths) as home:
            add(home, [str(notes)])
        with running("--once", "--workers", "2") as process:
            wait_until(lambda: _calling(paths, passage), 60, "a worker in a call")
            os.kill(_calling(paths, passage)[0], signal.SIGKILL)
            grown(process)
        assert passage.most == 1
    assert is_sound(paths)


def _calling(paths: Paths, passage: Passage) -> list[int]:
    busy = [each.pid for each in all_handling(paths) if each.kind in ("seal", "seal_document", "extract_chunk")]
    return busy if passage.open_now and busy else []


def test_a_server_that_is_killed_is_named_and_one_that_comes_back_is_used_again(
    choose: Choose, paths: Paths, connection: Connection
) -> None:
    from tests.local_model.server import MISSING, WHY_NOT

    if MISSING:
        pytest.skip(WHY_NOT)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with local_server(port=port) as first:
        choose(first)
        profile, intent = profile_of(paths), load_intent(paths).intent
        killed: list[float] = []

        class Kills:
            def look(self, profile: ProfileIntent) -> Exception | None:
                if not killed and time.monotonic() - began > 1.0:
                    killed.append(time.monotonic())
                    first.process.kill()
                return None

        calls = calls_for(connection, paths, SYSTEM_CLOCK, intent, profile, "test", Kills())
        began = time.monotonic()
        with pytest.raises(JobFailure) as caught:
            calls.chat(ask(LONG, 300), ())
        assert caught.value.code == "unreachable"
        assert not caught.value.is_unrecoverable()
    with pytest.raises(JobFailure, match=r"127\.0\.0\.1"):
        calls_for(connection, paths, SYSTEM_CLOCK, intent, profile, "test").chat(ask("Say yes.", 20), ())
    with local_server(port=port):
        calls = calls_for(connection, paths, SYSTEM_CLOCK, intent, profile, "test")
        calls.refuse(calls.chat(ask("Say yes.", 20), ()), ())
