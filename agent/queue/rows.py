"""Reading rows of ``mem_tree_jobs`` as they are, whoever holds them. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent.queue.types import Job
from agent.states import FailureClass, JobStatus

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.db.connection import Row


def get_job(connection: Connection, job_id: int) -> Job | None:
    """Return one row as it is now, or ``None``. Raises ``ValueError`` for a status this build does not know."""
    rows = select_jobs(connection, "WHERE id = ?", (job_id,))
    return rows[0] if rows else None


def select_jobs(connection: Connection, tail: str, params: Sequence[object]) -> list[Job]:
    """Return rows in full; ``tail`` is one of this room's own constant clauses."""
    rows = connection.all(
        f"""
        SELECT id, kind, payload_json, dedupe_key, status, attempts, max_attempts, crashes, available_at_ms,
               locked_until_ms, locked_by, lease_token, last_error, failure_reason, failure_class, input_hash,
               created_at_ms, progress_at_ms, started_at_ms, completed_at_ms
          FROM mem_tree_jobs
        {tail}
        """,
        params,
    )
    return [_row_as_job(row) for row in rows]


def _row_as_job(row: Row) -> Job:
    fields: list[Any] = list(row)
    fields[4] = JobStatus(fields[4])
    fields[14] = None if fields[14] is None else FailureClass(fields[14])
    return Job(*fields)
