"""Waiting for a real agent, with a limit: what the benchmarks of waking and of dying share."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from agent.errors import SapwoodError
from agent.paths import Paths
from agent.supervisor.control import call


def running_workers(paths: Paths) -> int:
    """Return how many workers the agent of this home has up; 0 where it does not answer."""
    with suppress(SapwoodError):
        return sum(worker["state"] == "running" for worker in call(paths, "status")["workers"])
    return 0


def poll(condition: Callable[[], object], what: str, patience_s: float) -> None:
    """Block until the condition holds. Raises ``TimeoutError`` after ``patience_s`` seconds."""
    end = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come in {patience_s:.0f} s")
        time.sleep(0.01)
