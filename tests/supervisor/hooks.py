"""Hooks for ``--once`` as the tree would give them: tails that one more job closes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent.db import Connection
from agent.db.state import get_state
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
