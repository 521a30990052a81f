"""Hooks for ``--once`` as the tree would give them: tails that one more job closes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from agent.config import Intent
from agent.db import Connection
from agent.db.state import get_state
from agent.gate import LlmGate, serve_waiting
from agent.models.protocol import Profile
from agent.paths import Paths, find_paths
from agent.queue.types import NewJob
from tests.supervisor.kinds import job_of, lines_of


def _tails(paths: Paths) -> Path:
    return paths.data_dir / "tails"


def close_tails(connection: Connection, now_ms: int) -> Sequence[NewJob]:
    """Three levels, one after the other."""
    closed = lines_of(_tails(find_paths()))
    return [job_of("t_mark", _tails(find_paths()), f"level{len(closed)}")] if len(closed) < 3 else []


def unfinished(connection: Connection) -> Sequence[str]:
    """What a test put under ``left`` in the database."""
    left = get_state(connection, "left")
    return [left] if left else []


RESOURCE = "local"


def one_permit(intent: Intent, shared: dict[str, Any]) -> Profile:
    """A profile whose models are never asked here, but which needs a permit."""
    from agent.models.profiles import open_profile

    builtin = open_profile(intent, shared)
    return Profile("scripted", builtin.embedder, builtin.summariser, builtin.extractor, RESOURCE, 1)


def watch_gate(paths: Paths, intent: Intent, is_due: Callable[[], bool], wake: Callable[[], None]) -> float | None:
    """What a profile with a permit gives the supervisor to call."""
    return serve_waiting(LlmGate(paths.permits, RESOURCE, 1), is_due, wake)


def free_permits(paths: Paths, intent: Intent) -> int | None:
    """How many permits a worker could take now."""
    return int(LlmGate(paths.permits, RESOURCE, 1).is_free())
