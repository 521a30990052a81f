"""The system's keyring: asked in a short-lived child of ours, because a prompt that nobody answers blocks for ever.

``SystemKeyring`` starts ``sapwood _key`` (``keyring_child.py``), hands it the question on its stdin, and ends it after
five seconds. A key is thereby never in an argument nor in an environment, and no worker imports a keyring library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agent.launch import clean_environment
from agent.states import KeyState

LIMIT_S = 5.0
CHILD_COMMAND = "_key"
_LOOK_S = 0.2
# PYTHON_KEYRING_BACKEND is the owner's own choice of a keyring.
_FOR_OUR_INTERPRETER = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHON_KEYRING_BACKEND")

Check = Callable[[], None]
"""Called at least four times a second while a child is waited for; what it raises ends the child and goes through."""


@dataclass(frozen=True)
class RingAnswer:
    """What the keyring said. ``value`` is there with ``VALUE`` of a read alone, and in no ``repr``.

    ``reason`` says in words why there is none; ``names`` are those that it holds, where that was asked and can be told.
    """

    state: KeyState
    value: str | None = field(default=None, repr=False)
    reason: str = ""
    backend: str = ""
    names: tuple[str, ...] = ()


class Keyring(Protocol):
    """Holds keys by their names. Every call blocks for at most ``LIMIT_S`` seconds and raises only what ``check`` does.

    Who writes holds the lock of ``agent/models/keys.py``: all keys are one item on most systems.
    """

    def read(self, name: str, check: Check | None = None) -> RingAnswer:
        """Return a key, or why there is none."""
        ...

    def write(self, name: str, value: str) -> RingAnswer:
        """Store a key; ``VALUE`` says that it is stored."""
        ...

    def remove(self, name: str) -> RingAnswer:
        """Take a key out: ``VALUE`` where it was there, ``MISSING`` where it was not."""
        ...

    def look(self, names: tuple[str, ...] = ()) -> RingAnswer:
        """Return which names it holds, those asked for and all others that it knows of; never a key."""
        ...


class SystemKeyring:
    """The keyring of this login, asked in a child."""

    def __init__(self, *, limit_s: float = LIMIT_S, environ: Mapping[str, str] | None = None) -> None:
        self._limit_s = limit_s
        self._environ = environ

    def read(self, name: str, check: Check | None = None) -> RingAnswer:
        return self._ask({"op": "read", "name": name}, check)

    def write(self, name: str, value: str) -> RingAnswer:
        return self._ask({"op": "write", "name": name, "value": value})

    def remove(self, name: str) -> RingAnswer:
        return self._ask({"op": "remove", "name": name})

    def look(self, names: tuple[str, ...] = ()) -> RingAnswer:
        return self._ask({"op": "look", "names": list(names)})

    def _ask(self, question: dict[str, Any], check: Check | None = None) -> RingAnswer:
        question |= {"parent": os.getpid(), "limit_s": self._limit_s, "per_name": sys.platform == "win32"}
        try:
            process = subprocess.Popen(
                child_argv(),
                # Where our own package lies: with -m a folder that the owner happens to be in would come first.
                cwd=Path(__file__).resolve().parents[2],
                env=child_environment(self._environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
            )
        except OSError as error:
            return RingAnswer(KeyState.UNAVAILABLE, reason=f"the keyring cannot be asked: {error.strerror}")
        try:
            said = self._wait(process, json.dumps(question).encode() + b"\n", check)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    _close(stream)
        if said is None:
            reason = f"the keyring did not answer within {self._limit_s:g} s: it may wait for its owner"
            return RingAnswer(KeyState.TIMED_OUT, reason=reason)
        return _understood(said)

    def _wait(self, process: subprocess.Popen[bytes], line: bytes, check: Check | None) -> bytes | None:
        end = time.monotonic() + self._limit_s
        to_send: bytes | None = line
        while True:
            left = end - time.monotonic()
            try:
                return process.communicate(to_send, timeout=max(0.01, min(_LOOK_S, left)))[0]
            except subprocess.TimeoutExpired:
                to_send = None  # what is not sent yet is sent by the next call all the same
                if time.monotonic() >= end:
                    return None
            if check is not None:
                check()


def child_argv(command: str = CHILD_COMMAND) -> list[str]:
    """Return how a child of ours is started by its hidden command: the frozen program itself, or this interpreter."""
    if getattr(sys, "frozen", False):
        return [sys.executable, command]
    return [sys.executable, "-m", "agent.cli.main", command]


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the child's environment: the owner's (session bus, home), and what our interpreter finds its modules by.

    Nothing of ``SAPWOOD_*``: it reads no file of ours.
    """
    source = os.environ if environ is None else environ
    return clean_environment(source) | {name: source[name] for name in _FOR_OUR_INTERPRETER if name in source}


def _close(stream: Any) -> None:
    try:
        stream.close()
    except OSError:
        # What it did not read any more before it was ended.
        return


def _understood(said: bytes) -> RingAnswer:
    try:
        found = json.loads(said)
        state = KeyState(found["state"])
        return RingAnswer(
            state, found.get("value"), found.get("reason", ""), found.get("backend", ""), tuple(found.get("names", ()))
        )
    except (ValueError, KeyError, TypeError):
        return RingAnswer(KeyState.UNAVAILABLE, reason="the keyring's library ended without an answer")


class FakeKeyring:
    """A keyring in memory. ``fault`` (locked, unavailable, timed out) is what every call answers while it is set."""

    def __init__(self, **held: str) -> None:
        self.held = dict(held)
        self.fault: KeyState | None = None
        self.asked: list[str] = []

    def read(self, name: str, check: Check | None = None) -> RingAnswer:
        self.asked.append(f"read {name}")
        if check is not None:
            check()
        if self.fault is not None:
            return self._refusal()
        if name not in self.held:
            return RingAnswer(KeyState.MISSING, backend="fake")
        return RingAnswer(KeyState.VALUE, self.held[name], backend="fake")

    def write(self, name: str, value: str) -> RingAnswer:
        self.asked.append(f"write {name}")
        if self.fault is not None:
            return self._refusal()
        self.held[name] = value
        return RingAnswer(KeyState.VALUE, backend="fake")

    def remove(self, name: str) -> RingAnswer:
        self.asked.append(f"remove {name}")
        if self.fault is not None:
            return self._refusal()
        found = self.held.pop(name, None)
        return RingAnswer(KeyState.MISSING if found is None else KeyState.VALUE, backend="fake")

    def look(self, names: tuple[str, ...] = ()) -> RingAnswer:
        self.asked.append("look")
        if self.fault is not None:
            return self._refusal()
        return RingAnswer(KeyState.VALUE, backend="fake", names=tuple(sorted(self.held)))

    def _refusal(self) -> RingAnswer:
        assert self.fault is not None
        return RingAnswer(self.fault, reason="made to", backend="fake")
