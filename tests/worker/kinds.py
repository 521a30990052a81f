"""Job kinds and profiles that only tests have. Handlers talk to their test through files under the data folder."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.config import Intent
from agent.errors import JobFailure
from agent.models.protocol import Profile
from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import DONE, Defer, Job, NewJob, Plan, StalePlan, encode_payload


@dataclass(frozen=True)
class Note:
    """A payload: what the handler is to do with its row."""

    name: str
    word: str = ""
    number: int = 0

    def dedupe_key(self) -> str:
        return f"note:{self.name}"


def new_job(kind: str, name: str, word: str = "", number: int = 0, available_at_ms: int | None = None) -> NewJob:
    return NewJob(kind, encode_payload(Note(name, word, number)), f"{kind}:{name}", None, available_at_ms)


def mark(context: JobContext, name: str) -> Path:
    path = context.paths.data_dir / f"{name}.mark"
    path.write_text(str(context.clock.now_ms()))
    return path


def store(name: str) -> Any:
    """Return writes that count how often a job's effects were applied."""

    def writes(connection: Any) -> None:
        connection.run(
            """
            INSERT INTO mem_tree_state (key, value) VALUES (?, 1)
            ON CONFLICT (key) DO UPDATE SET value = value + 1
            """,
            (f"applied:{name}",),
        )

    return writes


def handle_note(context: JobContext, job: Job) -> Plan:
    note = job.payload(Note)
    if note.word == "fail":
        raise JobFailure.transient("net_down")
    if note.word == "park":
        raise JobFailure.unrecoverable("no_key")
    if note.word == "surprise":
        raise ValueError("what the owner wrote")
    if note.word == "eat":
        raise MemoryError
    if note.word == "stale":
        raise StalePlan("a child")
    if note.word == "defer":
        return Plan(outcome=Defer(context.clock.now_ms() + note.number, "later"))
    return Plan(writes=store(note.name), outcome=DONE)


def handle_busy(context: JobContext, job: Job) -> Plan:
    """Work for ``number`` ms, looking at its lease all the time."""
    note = job.payload(Note)
    mark(context, note.name)
    end = time.monotonic() + note.number / 1000
    while time.monotonic() < end:
        context.check()
        time.sleep(0.005)
    return Plan(writes=store(note.name))


def handle_hung(context: JobContext, job: Job) -> Plan:
    """Work for ``number`` ms and look at nothing."""
    note = job.payload(Note)
    mark(context, note.name)
    time.sleep(note.number / 1000)
    return Plan(writes=store(note.name))


def handle_call(context: JobContext, job: Job) -> Plan:
    """Make one call of a model: to the loopback port in the payload."""
    note = job.payload(Note)
    with socket.create_connection(("127.0.0.1", note.number)) as connection:
        connection.sendall(b"call 0 0\n")
        connection.recv(16)
    return Plan(writes=store(note.name))


def handle_batch(context: JobContext, jobs: Any) -> list[Plan]:
    plans = []
    for job in jobs:
        context.check()
        context.begin(job)
        plans.append(handle_note(context, job))
    return plans


NOTE = JobSpec("test_note", handle_note, rank=2)
BUSY = JobSpec("test_busy", handle_busy, time_limit_s=7.0)
HUNG = JobSpec("test_hung", handle_hung)
CALL = JobSpec("test_call", handle_call, llm_bound=True, rank=1)
BATCH = JobSpec("test_batch", handle_note, batch=handle_batch, batch_size=8)

NAMES = tuple(f"tests.worker.kinds:{name}" for name in ("NOTE", "BUSY", "HUNG", "CALL", "BATCH"))


class NoModel:
    """Stands where a profile wants a model and no test kind asks it."""

    signature = "test:none@1"
    dimensions = 1


def open_profile(intent: Intent, shared: dict[str, Any]) -> Profile:
    """A profile whose model is on this machine: one permit."""
    del intent, shared
    model: Any = NoModel()
    return Profile("test", model, model, model, resource="local", permits=1)


def open_free_profile(intent: Intent, shared: dict[str, Any]) -> Profile:
    """A profile that needs no permit."""
    del intent, shared
    model: Any = NoModel()
    return Profile("free", model, model, model)
