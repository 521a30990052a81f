"""What must hold for the rows of ``mem_tree_jobs``: words that are known, payloads that can be read, keys held once.

Each function yields what is wrong as words and writes nothing; for ``doctor``, inside one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from agent.db.check import pages
from agent.queue.recovery import ABSURD_DELAY_MS
from agent.queue.sweep import is_open
from agent.queue.types import (
    AppendBufferPayload,
    ExtractChunkPayload,
    FlushStalePayload,
    IngestFilePayload,
    ReembedBackfillPayload,
    SealDocumentPayload,
    SealPayload,
    SyncSourcePayload,
)
from agent.states import JobKind, JobStatus

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.registry import Registry
    from agent.queue.types import Payload

_PAYLOADS: dict[str, type[Payload]] = {
    JobKind.EXTRACT_CHUNK: ExtractChunkPayload,
    JobKind.APPEND_BUFFER: AppendBufferPayload,
    JobKind.SEAL: SealPayload,
    JobKind.FLUSH_STALE: FlushStalePayload,
    JobKind.REEMBED_BACKFILL: ReembedBackfillPayload,
    JobKind.SEAL_DOCUMENT: SealDocumentPayload,
    JobKind.SYNC_SOURCE: SyncSourcePayload,
    JobKind.INGEST_FILE: IngestFilePayload,
}
_STATUSES = ", ".join(f"'{status}'" for status in JobStatus)

RECENT_MS = 24 * 3_600_000


def rows_readable(connection: Connection, now_ms: int) -> Iterator[str]:
    """Yield rows that no worker can work on: status, kind, payload or time unknown, or a key held twice.

    What was parked as unreadable already is known, and a row that is done is nobody's work any more.
    """
    for job_id, status in connection.all(
        f"SELECT id, status FROM mem_tree_jobs WHERE status NOT IN ({_STATUSES}) LIMIT 1000"
    ):
        yield f"job {job_id} is {status}, which is no status"
    for job_id, kind, payload, key in pages(
        connection,
        """
        SELECT id, kind, payload_json, dedupe_key
          FROM mem_tree_jobs
         WHERE id > ?1 AND status IN ('ready', 'running')
         ORDER BY id
         LIMIT ?2
        """,
        size=2_000,
    ):
        known = _PAYLOADS.get(kind)
        if known is None:
            yield f"job {job_id} is of the kind {kind}, which this version does not know"
            continue
        try:
            wanted = msgspec.json.decode(payload, type=known).dedupe_key()
        except (msgspec.MsgspecError, ValueError):
            yield f"the payload of job {job_id} ({kind}) cannot be read"
            continue
        if wanted != key:
            yield f"job {job_id} ({kind}) has another key than its payload"
    for number, kind in connection.all(
        """
        SELECT count(*), min(kind)
          FROM mem_tree_jobs NOT INDEXED
         WHERE dedupe_key IS NOT NULL AND status IN ('ready', 'running')
         GROUP BY dedupe_key
        HAVING count(*) > 1
         LIMIT 1000
        """
    ):
        yield f"{number} jobs ({kind}) with one key are to be done at once"
    for (job_id,) in connection.all(
        "SELECT id FROM mem_tree_jobs WHERE status = 'ready' AND available_at_ms >= ? LIMIT 1000",
        (now_ms + ABSURD_DELAY_MS,),
    ):
        yield f"job {job_id} is due in more than a year"
    for (job_id,) in connection.all(
        """
        SELECT id FROM mem_tree_jobs
         WHERE status = 'running' AND (lease_token IS NULL OR locked_by IS NULL OR locked_until_ms IS NULL)
         LIMIT 1000
        """
    ):
        yield f"job {job_id} is running for nobody"


def failures(connection: Connection, now_ms: int) -> list[tuple[str, str, int, int, str | None, str | None]]:
    """Return (kind, reason, how many, how many of them within a day, words, model profile) of failed rows, most first.

    The words and the profile are those of one of the rows; most have no profile.
    """
    return [
        (kind, reason, count, recent, words, scope)
        for kind, reason, count, recent, words, scope in connection.all(
            """
            SELECT job.kind, coalesce(job.failure_reason, 'error'), count(*), sum(job.at_ms > ?), max(job.last_error),
                   max(job.failure_scope)
              FROM mem_tree_job_kinds AS kinds
             CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 3
             GROUP BY 1, 2
             ORDER BY 3 DESC
            """,
            (now_ms - RECENT_MS,),
        )
    ]


def ended_leases(connection: Connection, now_ms: int) -> int:
    """Return how many rows are running under a lease that has ended; a running agent takes them back at its tick."""
    count: int = connection.value(
        """
        SELECT count(*)
          FROM mem_tree_job_kinds AS kinds
         CROSS JOIN mem_tree_jobs AS job ON job.kind = kinds.kind AND job.phase = 1 AND job.at_ms < ?
        """,
        (now_ms,),
    )
    return count


def lost_work(
    connection: Connection, registry: Registry, intent: Intent, now_ms: int, limit: int
) -> tuple[dict[str, int], list[str]]:
    """Run every kind's sweep without writing; return how many jobs each found that the queue does not hold.

    ``limit`` bounds each. The second are the kinds whose sweep cannot be run, with the reason: what they would find is
    found by nobody.
    """
    from agent.queue.registry import SweepContext

    found: dict[str, int] = {}
    broken: list[str] = []
    for spec in registry:
        if spec.sweep is None:
            broken.append(f"{spec.kind} has no sweep")
            continue
        try:
            missing = sum(
                is_open(connection, job) for job in spec.sweep(SweepContext(connection, intent, now_ms, limit))
            )
        except Exception as error:
            broken.append(f"the sweep of {spec.kind} cannot be run: {type(error).__name__}")
            continue
        if missing:
            found[str(spec.kind)] = missing
    return found, broken
