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

MANY_FAILURES = 20
RECENT_MS = 24 * 3_600_000
LEASE_SLACK_MS = 60_000


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


def leases(connection: Connection, now_ms: int) -> Iterator[str]:
    """Yield running rows whose lease ended a while ago: on a running agent the next tick takes them back."""
    for job_id, kind in connection.all(
        "SELECT id, kind FROM mem_tree_jobs WHERE status = 'running' AND locked_until_ms < ? LIMIT 1000",
        (now_ms - LEASE_SLACK_MS,),
    ):
        yield f"the lease of job {job_id} ({kind}) has ended"


def failure_runs(connection: Connection, now_ms: int) -> list[tuple[str, str, int]]:
    """Return (kind, reason, count) of kinds that failed many times within a day with one reason."""
    return [
        (kind, reason, count)
        for kind, reason, count in connection.all(
            """
            SELECT kind, coalesce(failure_reason, 'error'), count(*)
              FROM mem_tree_jobs
             WHERE status = 'failed' AND completed_at_ms > ?
             GROUP BY 1, 2
            HAVING count(*) >= ?
             ORDER BY 3 DESC
            """,
            (now_ms - RECENT_MS, MANY_FAILURES),
        )
    ]


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
