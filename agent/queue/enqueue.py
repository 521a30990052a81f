"""Putting work into ``mem_tree_jobs``.

One upsert (point 2 of the queue): an enqueue that meets a ready row with its key is the seed's silent no-op, also
when that row is delayed, for its delay is a backoff or a pace that was chosen with care; one that meets a *running*
row marks it ``rerun``, and settling that row inserts a fresh ready one, so that nothing suppressed is ever lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agent.queue.types import AT_ONCE_MS, DEFAULT_MAX_ATTEMPTS, NewJob
from agent.queue.wake import send_wake, wake_ports
from agent.states import is_retired_kind

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.registry import Registry

_UPSERT = """
INSERT INTO mem_tree_jobs
       (kind, payload_json, dedupe_key, status, max_attempts, available_at_ms, input_hash, created_at_ms)
VALUES (?, ?, ?, 'ready', ?, ?, ?, ?)
ON CONFLICT (dedupe_key) WHERE dedupe_key IS NOT NULL AND status IN ('ready', 'running')
DO UPDATE SET rerun = 1,
              rerun_payload = excluded.payload_json,
              rerun_input_hash = excluded.input_hash
 WHERE status = 'running'
RETURNING id, rerun
"""

# What somebody waits for pulls the row that stands for it to the front of its rank: a look that the watcher asked for
# a moment ago stood behind a thousand others. A row that is not due yet keeps its delay.
_PULL = """
UPDATE mem_tree_jobs
   SET available_at_ms = ?
 WHERE dedupe_key = ?
   AND status IN ('ready', 'running')
   AND available_at_ms <= ?
"""


def enqueue(connection: Connection, job: NewJob, now_ms: int, *, registry: Registry | None = None) -> int | None:
    """Insert a job in a transaction of its own, then wake the workers; return its id.

    ``None`` where a row with its key is ready (silent no-op) or running (it will run once more). Safe to repeat.
    Raises ``ValueError`` for a retired kind. ``registry`` gives the kind's own ``max_attempts``.
    """
    with connection.write():
        inserted = enqueue_tx(connection, job, now_ms, registry=registry)
        ports = wake_ports(connection) if inserted is not None else []
    send_wake(ports)
    return inserted


def enqueue_tx(connection: Connection, job: NewJob, now_ms: int, *, registry: Registry | None = None) -> int | None:
    """Insert a job inside the caller's transaction, so that it commits with its cause; return as ``enqueue`` does.

    Nobody is woken before the caller's commit: call ``wake_workers`` after it.
    """
    kind = job.kind
    if is_retired_kind(kind):
        raise ValueError(f"retired job kind: {kind}")
    attempts = job.max_attempts
    if attempts is None:
        attempts = registry[kind].max_attempts if registry is not None and kind in registry else DEFAULT_MAX_ATTEMPTS
    available = now_ms if job.available_at_ms is None else job.available_at_ms
    row = connection.one(
        _UPSERT,
        (str(kind), job.payload_json, job.dedupe_key, attempts, available, job.input_hash, now_ms),
    )
    if row is None or row[1]:
        if available == AT_ONCE_MS:
            connection.run(_PULL, (AT_ONCE_MS, job.dedupe_key, now_ms))
        return None
    inserted: int = row[0]
    return inserted


def enqueue_many_tx(
    connection: Connection, jobs: Iterable[NewJob], now_ms: int, *, registry: Registry | None = None
) -> int:
    """Insert jobs inside the caller's transaction and return how many rows are new."""
    return sum(enqueue_tx(connection, job, now_ms, registry=registry) is not None for job in jobs)
