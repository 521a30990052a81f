"""The keys of model accounts: where a process gets one from, and how long it keeps it.

A key lies in the system's keyring, or in ``keys.json`` where its owner asked for that; variables of the environment are
not read. It is kept in the process that uses it until the intent or the keys change, or ``forget`` says that it was
refused. What keeps a key writes no core dump from then on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agent.clock import Clock
from agent.config import stamp_of
from agent.models.key_file import read_key_file
from agent.paths import Paths
from agent.states import KeyState
from agent.system.keyring import Check, Keyring

AFTER_LOGIN_MS = 60_000
"""For so long after the login nobody asks the keyring: it may be about to open, and a prompt would be in the way."""
LOOK_AGAIN_S = 30.0
"""A look that brought no key is not repeated sooner, so that a locked keyring does not cost 5 s for each job."""

Stamp = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class KeyResult:
    """A key, or why there is none: ``reason`` in words, ``hint`` what to do, ``again_ms`` when to look again (UTC).

    The key is in no ``repr``.
    """

    state: KeyState
    value: str | None = field(default=None, repr=False)
    reason: str = ""
    hint: str = ""
    again_ms: int | None = None


class KeySource(Protocol):
    """Where calls of a model get their keys from."""

    def get(self, name: str, check: Check | None = None) -> KeyResult:
        """Return a key. Blocks for at most 5 s, and not at all where one is kept or a look failed just now.

        ``check`` is called four times a second meanwhile; what it raises goes through. Raises nothing else.
        """
        ...

    def forget(self, name: str) -> None:
        """Let go of a key that was refused (401): the next ``get`` looks anew."""
        ...


class FakeKeys:
    """Keys that a test sets; a name without one is missing."""

    def __init__(self, **held: str) -> None:
        self.held = dict(held)
        self.states: dict[str, KeyResult] = {}
        self.asked: list[str] = []
        self.forgotten: list[str] = []

    def get(self, name: str, check: Check | None = None) -> KeyResult:
        self.asked.append(name)
        if check is not None:
            check()
        if name in self.states:
            return self.states[name]
        if name in self.held:
            return KeyResult(KeyState.VALUE, self.held[name])
        return KeyResult(KeyState.MISSING, reason=f"there is no key {name}", hint=f"`sapwood key set {name}`")

    def forget(self, name: str) -> None:
        self.forgotten.append(name)


class StoredKeys:
    """The keys of one home. Used by one thread."""

    def __init__(self, paths: Paths, clock: Clock, ring: Keyring, keep: Callable[[], None] = lambda: None) -> None:
        """``keep`` is called before the first key is kept: it sees to it that no core dump shows it."""
        self._paths = paths
        self._clock = clock
        self._ring = ring
        self._keep = keep
        self._stamp: Stamp = ()
        self._kept: dict[str, KeyResult] = {}
        self._failed: dict[str, tuple[float, KeyResult]] = {}

    def get(self, name: str, check: Check | None = None) -> KeyResult:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            self._kept.clear()
            self._failed.clear()
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        now = self._clock.monotonic()
        failed = self._failed.get(name)
        if failed is not None and failed[0] > now:
            return failed[1]
        found = self._look(name, check)
        if found.state is KeyState.VALUE:
            self._keep()
            self._kept[name] = found
        elif found.state is not KeyState.NOT_YET:
            self._failed[name] = (self._clock.monotonic() + LOOK_AGAIN_S, found)
        return found

    def forget(self, name: str) -> None:
        self._kept.pop(name, None)
        self._failed.pop(name, None)

    def _stamp_now(self) -> Stamp:
        folder = self._paths.config_dir
        return tuple(
            stamp_of(path) for path in (self._paths.config_file, folder / "keys.json", changed_mark(self._paths))
        )

    def _look(self, name: str, check: Check | None) -> KeyResult:
        file = read_key_file(self._paths)
        if name in file.keys:
            return KeyResult(KeyState.VALUE, file.keys[name])
        until_ms = login_end_ms(self._paths)
        now_ms = self._clock.now_ms()
        if until_ms is not None and now_ms < until_ms <= now_ms + AFTER_LOGIN_MS:
            return KeyResult(
                KeyState.NOT_YET, reason="the login is less than a minute old: keys come later", again_ms=until_ms
            )
        answer = self._ring.read(name, check)
        if answer.state is KeyState.VALUE and answer.value:
            return KeyResult(KeyState.VALUE, answer.value)
        if file.problem:
            return self._none(KeyState.UNAVAILABLE, f"{file.problem}: it is not used", file.hint)
        if answer.state in (KeyState.VALUE, KeyState.MISSING):
            return self._none(KeyState.MISSING, f"there is no key {name}", f"`sapwood key set {name}`")
        return self._none(answer.state, answer.reason, HINTS[answer.state])

    def _none(self, state: KeyState, reason: str, hint: str) -> KeyResult:
        return KeyResult(state, reason=reason, hint=hint, again_ms=self._clock.now_ms() + round(LOOK_AGAIN_S * 1000))


_OPEN: dict[Path, KeySource] = {}


def open_keys(paths: Paths, clock: Clock) -> KeySource:
    """Return the keys of this home; one object for each process and home, so that what it found is kept."""
    from agent.system.core_dumps import forbid_core_dumps
    from agent.system.keyring import SystemKeyring

    found = _OPEN.get(paths.config_dir)
    if found is None:
        found = _OPEN[paths.config_dir] = StoredKeys(paths, clock, SystemKeyring(), forbid_core_dumps)
    return found


HINTS = {
    KeyState.LOCKED: "unlock the keyring of this login",
    KeyState.TIMED_OUT: "answer the keyring's question on the screen, or unlock the keyring of this login",
    KeyState.UNAVAILABLE: "`sapwood doctor` says what is wrong; `sapwood key set NAME --in-file` needs no keyring",
}


def changed_mark(paths: Paths) -> Path:
    """Return the file whose change tells other processes that a key was set or removed."""
    return paths.config_dir / "keys.changed"


@contextlib.contextmanager
def changing_keys(paths: Paths) -> Iterator[None]:
    """Let one writer at a time change keys; tell all processes afterwards that they were changed.

    Raises ``filelock.Timeout`` after 20 s, ``OSError``.
    """
    from filelock import FileLock

    from agent.config_edit import write_atomically

    paths.config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(paths.config_dir / "keys.lock", timeout=20):
        try:
            yield
        finally:
            write_atomically(changed_mark(paths), "")


def mark_login(paths: Paths, now_ms: int) -> None:
    """Note that the agent was started by the login just now. Raises ``OSError``."""
    (paths.runtime_dir / "login").write_text(str(now_ms), "ascii")


def login_end_ms(paths: Paths) -> int | None:
    """Return until when (UTC ms) the login counts as young, or ``None`` where no login started the agent."""
    try:
        return int((paths.runtime_dir / "login").read_text("ascii")) + AFTER_LOGIN_MS
    except (OSError, ValueError):
        return None
