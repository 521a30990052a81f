"""What the benchmarks of models share: an agent on a throw-away home, two servers, an endless supply of questions.

The question is a job of the benchmark's own that asks the active profile's model through the same calls as every other
job and puts itself off at once. The cloud is this machine under its own address on the network: to the agent that is a
host like any other, and nothing leaves the machine.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil

from agent.actions.running import GATE_HOOK, PERMITS_HOOK
from agent.clock import SYSTEM_CLOCK
from agent.config_edit import edit_intent
from agent.db import Connection, Database
from agent.errors import SapwoodError
from agent.models.key_file import write_key_file
from agent.models.providers.protocol import ChatAsk, Message
from agent.paths import Paths, paths_under
from agent.profile_intent import ProfileIntent
from agent.queue import Defer, Job, JobContext, JobSpec, NewJob, Plan, enqueue_many_tx, wake_workers
from agent.supervisor.control import call
from agent.worker.guard import JobGuard
from tests.bench.waiting import poll, running_workers
from tests.scripted.process import Spawned

PATIENCE_S = 30.0
QUESTION = "Name one plant that grows in a greenhouse."
ANSWER_TOKENS = 40
BEGUN = "begun.log"
"""Beside the memory: when each of the benchmark's jobs began, monotonic seconds, a line each."""


def _ask(context: JobContext, job: Job) -> Plan:
    from agent.models.calls import calls_of

    with (context.paths.data_dir / BEGUN).open("a") as file:
        file.write(f"{time.monotonic()}\n")
    again = Plan(outcome=Defer(context.clock.now_ms(), "asks again"))
    profile = context.intent.active_profile
    if profile is None:
        # The built-in profile asks nobody; a moment later the owner may have switched back.
        return Plan(outcome=Defer(context.clock.now_ms() + 20, "no model to ask"))
    calls = calls_of(context, profile, job.kind, JobGuard(context))
    answer = calls.chat(ChatAsk((Message("user", f"{QUESTION} {job.payload_json}"),), 20, ANSWER_TOKENS), ())
    calls.refuse(answer, ())
    return again


ASK = JobSpec("b_ask", _ask, llm_bound=True, time_limit_s=60.0)
ASK_NAME = "tests.bench.model_ground:ASK"


def own_address() -> str | None:
    """Return an IPv4 address of this machine that is not loopback, ``None`` where it has none."""
    for addresses in psutil.net_if_addrs().values():
        for found in addresses:
            if found.family is socket.AF_INET and not ip_address(found.address).is_loopback:
                return str(found.address)
    return None


@dataclass(frozen=True)
class Bench:
    """A running agent: its home, a connection of our own, its supervisor's process."""

    paths: Paths
    connection: Connection
    process: subprocess.Popen[bytes]


def begun(paths: Paths) -> list[float]:
    """Return when the benchmark's jobs began, monotonic seconds."""
    file = paths.data_dir / BEGUN
    return [float(line) for line in file.read_text().split()] if file.exists() else []


def profile_table(name: str, server: Spawned, **more: Any) -> dict[str, Any]:
    """Return a profile of the intent that asks a scripted server as an OpenAI-compatible one."""
    return {
        "name": name,
        "provider": "openai",
        "chat_model": "scripted-chat",
        "base_url": server.base_url("openai"),
        "key": "",
        "consent": server.host,
        "allow_http": True,
        **more,
    }


def use_profile(paths: Paths, name: str) -> None:
    """Make a profile the active one, as its owner would."""
    edit_intent(paths, lambda document: document.setdefault("models", {}).update(active=name))


@contextmanager
def agent(
    profiles: list[dict[str, Any]], active: str, *, workers: int, questions: int, environ: dict[str, str] | None = None
) -> Iterator[Bench]:
    """Run an agent with these profiles until the block ends, ``questions`` jobs asking again and again."""
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        home = Path(folder) / "home"
        paths = paths_under(home).make()
        _write_keys(paths, profiles)

        def write(document: Any) -> None:
            document["models"] = {"active": active}
            document["profiles"] = profiles

        edit_intent(paths, write)
        env = {
            **os.environ,
            "SAPWOOD_HOME": str(home),
            "SAPWOOD_POOL__MIN_WORKERS": str(workers),
            "SAPWOOD_POOL__MAX_WORKERS": str(workers),
            **(environ or {}),
        }
        options = json.dumps({"kind_names": [ASK_NAME], "gate_hook": GATE_HOOK, "permits_hook": PERMITS_HOOK})
        argv = [sys.executable, "-m", "tests.supervisor.runner", str(home), options]
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL)
        database = Database(paths.database, paths.write_turn)
        try:
            poll(lambda: running_workers(paths) == workers, "the workers", PATIENCE_S)
            with database.connection.write():
                jobs = [NewJob(ASK.kind, str(number), f"ask:{number}") for number in range(questions)]
                enqueue_many_tx(database.connection, jobs, SYSTEM_CLOCK.now_ms())
            wake_workers(database.connection)
            yield Bench(paths, database.connection, process)
        finally:
            database.close()
            with suppress(SapwoodError):
                call(paths, "stop")
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()


def _write_keys(paths: Paths, profiles: list[dict[str, Any]]) -> None:
    """Keep a key for each account in the home's own file, as an owner without a keyring does."""
    names = {ProfileIntent(**table).key_name for table in profiles} - {""}
    if names:
        write_key_file(paths, dict.fromkeys(names, "scripted"))
