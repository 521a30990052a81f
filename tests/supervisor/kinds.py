"""Job kinds for tests with real processes: what they do is left in files, so that it can be seen from outside."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.queue.registry import JobContext, JobSpec
from agent.queue.types import NOTHING_TO_DO, Job, NewJob, Plan, encode_payload


@dataclass(frozen=True)
class Note:
    """A file to write to, and a word for it."""

    path: str
    word: str = ""
    key: str | None = None
    number: float = 0.0

    def dedupe_key(self) -> str:
        return self.key or f"{self.path}:{self.word}"


def job_of(kind: str, path: Path, word: str = "", *, number: float = 0.0, available_at_ms: int | None = None) -> NewJob:
    return NewJob(
        kind, encode_payload(Note(str(path), word, None, number)), f"{kind}:{path}:{word}", None, available_at_ms
    )


def leave(path: str, text: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def lines_of(path: Path) -> list[list[str]]:
    """What the test kinds left in a file, split into words."""
    try:
        return [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return []


def _mark(context: JobContext, job: Job) -> Plan:
    note = job.payload(Note)
    leave(note.path, f"{note.word} {os.getpid()} {time.time_ns()}")
    return NOTHING_TO_DO


def _nap(context: JobContext, job: Job) -> Plan:
    note = job.payload(Note)
    leave(note.path, f"{note.word} {os.getpid()}")
    end = time.monotonic() + note.number
    while time.monotonic() < end:
        context.check()
        time.sleep(0.005)
    return NOTHING_TO_DO


def _hold_first(context: JobContext, job: Job) -> Plan:
    """Stay for ever the first time, be done the second."""
    note = job.payload(Note)
    is_first = not Path(note.path).exists()
    leave(note.path, f"{os.getpid()} {time.time_ns()}")
    while is_first:
        context.check()
        time.sleep(0.005)
    return NOTHING_TO_DO


def _deaf(context: JobContext, job: Job) -> Plan:
    """Stay inside one C call: no signal handler runs. ``word`` says which."""
    note = job.payload(Note)
    leave(note.path, str(os.getpid()))
    if note.word == "locked":
        # An endless loop in C that keeps the interpreter's lock: no other thread of the process runs either.
        deque(itertools.repeat(0), maxlen=0)
    elif note.word == "hash":
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 1_000_000_000)
    return NOTHING_TO_DO


def _hang(context: JobContext, job: Job) -> Plan:
    leave(job.payload(Note).path, str(os.getpid()))
    while True:
        time.sleep(0.05)


def _eat(context: JobContext, job: Job) -> Plan:
    leave(job.payload(Note).path, str(os.getpid()))
    eaten = []
    while True:
        eaten.append(b"\x01" * 20_000_000)
        time.sleep(0.02)


def _one_of_many(context: JobContext, job: Job) -> Plan:
    return _many(context, [job])[0]


def _many(context: JobContext, jobs: Sequence[Job]) -> list[Plan]:
    """A batch in which some rows are poison: ``hang``, ``eat`` or ``die``."""
    plans = []
    for job in jobs:
        context.begin(job)
        note = job.payload(Note)
        if note.word.startswith("hang"):
            _hang(context, job)
        elif note.word.startswith("eat"):
            _eat(context, job)
        elif note.word.startswith("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        plans.append(NOTHING_TO_DO)
    return plans


def _grow(context: JobContext, job: Job) -> Plan:
    """Load something heavy that stays."""
    note = job.payload(Note)
    context.shared.setdefault("ballast", []).append(b"\x01" * round(note.number))
    leave(note.path, str(os.getpid()))
    return NOTHING_TO_DO


def _burn(context: JobContext, job: Job) -> Plan:
    """Keep a processor busy for ``number`` seconds."""
    note = job.payload(Note)
    leave(note.path, f"{note.word} {os.getpid()} {time.time_ns()}")
    end = time.monotonic() + note.number
    while time.monotonic() < end:
        context.check()
        sum(range(10_000))
    leave(note.path, f"{note.word}:end {os.getpid()} {time.time_ns()}")
    return NOTHING_TO_DO


MARK = JobSpec("t_mark", _mark)
NAP = JobSpec("t_nap", _nap)
HOLD = JobSpec("t_hold", _hold_first)
DEAF = JobSpec("t_deaf", _deaf)
HANG = JobSpec("t_hang", _hang, time_limit_s=1.0)
EAT = JobSpec("t_eat", _eat)
MANY = JobSpec("t_many", _one_of_many, batch=_many, batch_size=16, time_limit_s=1.0)
GROW = JobSpec("t_grow", _grow)
THINK = JobSpec("t_think", _mark, llm_bound=True)
BURN = JobSpec("t_burn", _burn, llm_bound=True)

_NAMES = ("MARK", "NAP", "HOLD", "DEAF", "HANG", "EAT", "MANY", "GROW", "THINK", "BURN")
ALL = tuple(f"{__name__}:{name}" for name in _NAMES)
