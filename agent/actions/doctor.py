"""``sapwood doctor``: looks at everything and says how to mend it. Works without a healthy memory or intent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.actions.checks.keys import look_at_keys
from agent.actions.checks.login import look_at_login
from agent.actions.checks.machine import (
    look_at_clock,
    look_at_disk,
    look_at_folders,
    look_at_locks,
    look_at_permissions,
    look_at_python,
    look_at_space,
    look_at_sqlite,
    look_at_wal,
)
from agent.actions.checks.memory import look_at_memory, looks
from agent.actions.checks.models import look_at_models
from agent.actions.checks.process import look_at_agent, look_at_crashes
from agent.actions.checks.progress import Say, Told
from agent.actions.checks.result import Check, Diagnosis, guarded, size_words
from agent.actions.checks.settings import look_at_config, look_at_ledger
from agent.paths import find_paths

if TYPE_CHECKING:
    from agent.paths import Paths

__all__ = ["Check", "Diagnosis", "doctor", "size_words"]

_BEFORE: tuple[tuple[str, Callable[[Paths], Iterator[Check]]], ...] = (
    ("python", look_at_python),
    ("sqlite", look_at_sqlite),
    ("folders", look_at_folders),
    ("permissions", look_at_permissions),
    ("free space", look_at_space),
    ("local disk", look_at_disk),
    ("file locks", look_at_locks),
    ("write-ahead log", look_at_wal),
    ("clock", look_at_clock),
    ("config", look_at_config),
    ("models", look_at_models),
    ("keys", look_at_keys),
    ("start at login", look_at_login),
    ("ledger", look_at_ledger),
    ("agent", look_at_agent),
    ("crash dumps", look_at_crashes),
)


def doctor(paths: Paths | None = None, *, deep: bool = False, say: Say | None = None) -> Diagnosis:
    """Check environment, intent, memory and queue; ``deep``: every invariant of the memory as well.

    Never raises for what it finds. Blocks for as long as reading the memory's file once takes, deep for some seconds
    per ten thousand chunks; ``say`` is told of each step. Writes nothing to the memory, but that opening it brings an
    older schema up as any command does.
    """
    paths = find_paths() if paths is None else paths
    checks = tuple(looking(paths, deep=deep, say=say))
    return Diagnosis(all(check.ok for check in checks), checks)


def looking(paths: Paths, *, deep: bool = False, say: Say | None = None) -> Iterator[Check]:
    """Yield what each look says as soon as it is known, for those who cannot wait for all of them."""
    steps = len(_BEFORE) + len(looks(deep=deep))
    if deep:
        from agent.actions.checks.deep import LOOKS

        steps += len(LOOKS)
    told = Told(steps, say)
    for name, look in _BEFORE:
        told.step(name)
        yield from guarded(name, lambda look=look: look(paths))  # type: ignore[misc]
    yield from guarded("database", lambda: look_at_memory(paths, deep=deep, told=told))
