"""Jobs that ask the active profile's model one question each through the real way to it, and jobs that ask nobody.

Imported by the worker processes of the tests beside it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

from agent.models.providers.protocol import ChatAsk, Message
from agent.paths import Paths
from agent.profile_intent import ProfileIntent
from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import NOTHING_TO_DO, Job, NewJob, Plan
from agent.worker.guard import JobGuard
from tests.scripted import Serving, Spawned

QUESTION = "What grows in the greenhouse?"
KINDS = (f"{__name__}:ASK", f"{__name__}:PLAIN")


def _ask(context: JobContext, job: Job) -> Plan:
    from agent.models.calls import calls_of

    profile = context.intent.active_profile
    if profile is None:
        return NOTHING_TO_DO
    calls = calls_of(context, profile, job.kind, JobGuard(context))
    answer = calls.chat(ChatAsk((Message("user", f"{QUESTION} {job.payload_json}"),), 20, 40), ())
    calls.keep(answer, [])
    return NOTHING_TO_DO


def _nothing(context: JobContext, job: Job) -> Plan:
    del context, job
    return NOTHING_TO_DO


ASK = JobSpec("p_ask", _ask, llm_bound=True, time_limit_s=120.0)
PLAIN = JobSpec("p_plain", _nothing)


def question(number: int) -> NewJob:
    return NewJob(ASK.kind, str(number), f"ask:{number}")


def plain(number: int) -> NewJob:
    return NewJob(PLAIN.kind, str(number), f"plain:{number}")


def own_address() -> str | None:
    """Return an address of this machine that is not loopback, ``None`` where it has none.

    To Sapwood a server there is a cloud, and nothing that is sent to it leaves the machine.
    """
    for addresses in psutil.net_if_addrs().values():
        for found in addresses:
            if found.family is socket.AF_INET and not ip_address(found.address).is_loopback:
                return str(found.address)
    return None


def profile_text(name: str, server: Serving | Spawned, **more: Any) -> str:
    """Return a ``[[profiles]]`` table of ``config.toml``; its owner has agreed to the host."""
    values = {
        "name": name,
        "provider": "openai",
        "chat_model": "scripted-chat",
        "base_url": server.base_url("openai"),
        "consent": server.host,
        "allow_http": True,
        "context_tokens": 8192,
        **more,
    }
    lines = (
        f"{key} = {str(value).lower()}" if isinstance(value, int) else f'{key} = "{value}"'
        for key, value in values.items()
    )
    return "[[profiles]]\n" + "\n".join(lines) + "\n"


def edit(paths: Paths, text: str) -> None:
    """Write ``config.toml`` by hand: as editors do, into a new file that takes its place."""
    new = paths.config_file.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    new.replace(paths.config_file)


def keep_key(paths: Paths, server: Serving | Spawned) -> None:
    """Keep a key for a server that counts as a cloud in the home's own file, as an owner without a keyring does."""
    from agent.models.key_file import write_key_file

    profile = ProfileIntent("far", "openai", "x", base_url=server.base_url("openai"))
    write_key_file(paths, {profile.key_name: "scripted"})


def outsider(home: str, count: str) -> None:
    """What a command of the owner does in a process of its own: take a permit and ask, so many times.

    Prints a line for each: monotonic seconds when it asked for the permit and when it had it.
    """
    from agent.clock import SYSTEM_CLOCK
    from agent.config import load_intent
    from agent.db import Database
    from agent.gate import LlmGate
    from agent.models.calls import calls_for
    from agent.paths import paths_under

    paths = paths_under(Path(home))
    intent = load_intent(paths).intent
    profile = intent.active_profile
    assert profile is not None
    local = intent.is_local(profile)
    permits = intent.models.local_permits if local else profile.max_concurrent
    gate = LlmGate(paths.permits, profile.resource(intent.models.local_hosts), permits)
    database = Database(paths.database, paths.write_turn)
    for number in range(int(count)):
        asked = time.monotonic()
        with gate.acquire():
            got = time.monotonic()
            calls = calls_for(database.connection, paths, SYSTEM_CLOCK, intent, profile, "test")
            ask = ChatAsk((Message("user", f"outside {os.getpid()} {number}"),), 20, 40)
            calls.keep(calls.chat(ask, ()), [])
        print(json.dumps([asked, got]), flush=True)
    database.close()
