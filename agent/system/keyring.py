"""The system's keyring: asked in a short-lived child of ours, because a prompt that nobody answers blocks for ever.

``SystemKeyring`` starts ``sapwood _key`` (``keyring_child.py``), hands it the question on its stdin, and ends it after
five seconds. A key is thereby never in an argument nor in an environment, and no worker imports a keyring library.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from agent.states import KeyState

LIMIT_S = 5.0

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
