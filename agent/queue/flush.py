"""Asking for the flush of stale tails: at most once per block of three UTC hours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.queue.enqueue import enqueue
from agent.queue.types import NewJob

if TYPE_CHECKING:
    from agent.db import Connection


def enqueue_flush_stale(connection: Connection, now_ms: int) -> int | None:
    """Enqueue the ``flush_stale`` job of the current block and return its id; ``None`` where the block has had one.

    Looks first for a row of this block in *any* status (point 13): the dedupe index alone would let a block that is
    done be flushed again on every tick. Call it freely.
    """
    job = NewJob.flush_stale(now_ms)
    if connection.value("SELECT 1 FROM mem_tree_jobs WHERE dedupe_key = ? LIMIT 1", (job.dedupe_key,)) is not None:
        return None
    return enqueue(connection, job, now_ms)
