"""``sapwood self-test``: what a build runs on itself, with its real processes, in a home that is thrown away.

A frozen build lacks what nobody told it of, and only notices when an owner gets there. So every part is loaded, and
the program is started as its owner would start it: it grows the samples, is searched, shows its page and its icon, and
ends. Nothing of the owner's is read or changed; their keyring is asked which of our names it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent.actions import self_test_parts as parts
from agent.actions import self_test_processes as processes
from agent.actions.checks.progress import Say, Told
from agent.actions.checks.result import Check, Diagnosis, guarded
from agent.actions.demo import throwaway_home
from agent.actions.self_test_trying import Tried

Look = Callable[[Tried], Iterator[Check]]

_LOOKS: tuple[tuple[str, Look], ...] = (
    ("modules", parts.look_at_modules),
    ("libraries", parts.look_at_libraries),
    ("data files", parts.look_at_data_files),
    ("built-in model", parts.look_at_meaning),
    ("sqlite", parts.look_at_sqlite_itself),
    ("keyring", parts.look_at_keyring),
    ("closed streams", processes.look_at_closed_streams),
    ("workers", processes.look_at_growing),
    ("agent", processes.look_at_agent),
    ("page", processes.look_at_page),
    ("assistants", processes.look_at_assistants),
    ("tray", processes.look_at_tray),
    ("end", processes.look_at_ending),
)


def self_test(*, say: Say | None = None) -> Diagnosis:
    """Try every part of this build and return what was found; blocks for ten seconds to a minute.

    Starts processes and ends all of them; ``say`` is told of each step. Never raises for what it finds.
    """
    told = Told(len(_LOOKS), say)
    checks: list[Check] = []
    with throwaway_home() as (paths, samples):
        tried = Tried(paths, samples)
        try:
            for name, look in _LOOKS:
                told.step(name)
                checks += guarded(name, lambda look=look: look(tried))  # type: ignore[misc]
        finally:
            tried.close()
    return Diagnosis(all(check.ok for check in checks), tuple(checks))
