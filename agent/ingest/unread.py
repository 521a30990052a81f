"""What of a source could not be read, and why, in words for its owner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.ingest.stamps import VEIL
from agent.queue.recovery import CRASH_LOOP
from agent.queue.types import SyncSourcePayload
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.db import Connection


@dataclass(frozen=True, slots=True)
class NotRead:
    """A file or an item that could not be read, and why."""

    path: str
    reason: str


def list_unreadable(connection: Connection, source_id: str) -> list[NotRead]:
    """Return what of a source could not be read, files and items alike, each once, by path.

    An item whose ``ingest_file`` is parked is among it: it stays unread until its owner or self-heal tries again.
    """
    rows = connection.all(
        """
        SELECT path, reason FROM mem_tree_files WHERE source_id = ? AND state = 'unreadable'
        UNION
        SELECT item_key, reason FROM mem_tree_items WHERE source_id = ? AND state = 'unreadable'
        """,
        (source_id, source_id),
    )
    # A forgotten file has no name any more that could be listed.
    found = [NotRead(path, reason or "") for path, reason in rows if not path.startswith(VEIL)]
    return sorted([*found, *list_parked(connection, source_id)], key=lambda each: (each.path, each.reason))


def list_parked(connection: Connection, source_id: str) -> list[NotRead]:
    """Return the items of a source that wait for a job that is parked (the newest row of its key), in no order."""
    rows = connection.all(
        """
        SELECT i.item_key, j.id, j.status, j.failure_reason, j.last_error
          FROM mem_tree_items AS i INDEXED BY mem_tree_items_by_state
         CROSS JOIN mem_tree_jobs AS j
            ON j.id = (SELECT newest.id
                         FROM mem_tree_jobs AS newest
                        WHERE newest.dedupe_key = 'ingest:' || i.source_id || ':' || i.item_key
                        ORDER BY newest.id DESC
                        LIMIT 1)
         WHERE i.source_id = ?
           AND i.state = 'queued'
           AND j.status IN ('failed', 'cancelled')
        """,
        (source_id,),
    )
    return [NotRead(key, _words(job, status, reason, error)) for key, job, status, reason, error in rows]


def parked_look(connection: Connection, source_id: str) -> str | None:
    """Return why a source is no longer looked at, where the newest job that looks at it is parked, or ``None``."""
    row = connection.one(
        """
        SELECT id, status, failure_reason, last_error
          FROM mem_tree_jobs
         WHERE dedupe_key = ?
         ORDER BY id DESC
         LIMIT 1
        """,
        (SyncSourcePayload(source_id).dedupe_key(),),
    )
    if row is None or row[1] not in (JobStatus.FAILED, JobStatus.CANCELLED):
        return None
    _, status, reason, error = row
    if status == JobStatus.CANCELLED:
        what = "the look at it was cancelled"
    elif reason == CRASH_LOOP:
        what = f"looking at it ended the worker three times ({error})"
    else:
        what = f"looking at it failed: {error or reason or 'no reason is known'}"
    return f"{what}; `sapwood sync {source_id}` tries again"


def _words(job_id: int, status: str, reason: str | None, error: str | None) -> str:
    if status == JobStatus.CANCELLED:
        what = "its reading was cancelled"
    elif reason == CRASH_LOOP:
        what = "its reading ended the worker three times"
    else:
        what = f"its reading failed: {error or reason or 'no reason is known'}"
    return f"{what}; `sapwood retry {job_id}` tries again"
