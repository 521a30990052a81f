"""Leasing the next due job.

One statement claims (the k-mood record: a SELECT followed by an UPDATE in a deferred transaction fails with
``SQLITE_BUSY_SNAPSHOT`` at once). The order drains forward instead of widening: most-downstream kinds first, then the
earliest due, then the oldest row. Each kind is one seek into ``mem_tree_jobs_line``, so delayed and settled rows are
never walked and the cost stays flat from a thousand rows to millions. A look that only reads goes first: a claim on
an empty queue would take the write lock for nothing and make every other writer wait (tidebreak 2329).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from agent.queue.registry import Registry
from agent.queue.types import DEFAULT_LOCK_DURATION_MS, Job
from agent.states import FailureClass, JobKind, JobStatus

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.db.connection import Row

log = logging.getLogger("sapwood.queue")

Allowed = Callable[[str], bool]

_new_job = Job.__new__
_TOKEN_BYTES = 8
_POOL_BYTES = 4096

_LEASE = """
UPDATE mem_tree_jobs
   SET status = 'running',
       attempts = attempts + 1,
       started_at_ms = ?,
       locked_until_ms = ?,
       locked_by = ?,
       lease_token = ?
"""
_COLUMNS = """
RETURNING id, kind, payload_json, dedupe_key, attempts, max_attempts, crashes, available_at_ms, last_error,
          failure_reason, failure_class, input_hash, created_at_ms, progress_at_ms
"""
# Rows that crashed a worker are claimed alone, never in a batch (point 6).
_MORE = (
    _LEASE
    + """
 WHERE id IN (SELECT id
                FROM mem_tree_jobs
               WHERE kind = ?
                 AND phase = 2
                 AND at_ms <= ?
                 AND crashes = 0
               ORDER BY at_ms, id
               LIMIT ?)
"""
    + _COLUMNS
)
_PARK = """
UPDATE mem_tree_jobs
   SET status = 'failed',
       attempts = max(attempts - 1, 0),
       failure_class = 'unrecoverable',
       failure_reason = 'unreadable',
       last_error = ?,
       completed_at_ms = ?,
       locked_until_ms = NULL,
       locked_by = NULL,
       lease_token = NULL
 WHERE id = ?
   AND status = 'running'
"""


@dataclass(frozen=True, slots=True)
class Claim:
    """How a worker claims: which kinds it may take, under whose name, for how long.

    ``allowed`` is asked per kind before every claim (the seed's ``wait_for_capacity``). ``with_permit=False`` leaves
    LLM-bound kinds alone (point 7), but for those that are ``unbound``: the active profile calls no model for them.
    ``batch`` bounds how many rows of a kind are taken at once.
    """

    registry: Registry
    worker_id: str
    lease_ms: int = DEFAULT_LOCK_DURATION_MS
    allowed: Allowed | None = None
    with_permit: bool = True
    batch: int | None = None
    unbound: frozenset[str] = frozenset()

    def wanted(self) -> tuple[str, ...]:
        """Return the kinds that may be claimed now."""
        allowed, with_permit, unbound = self.allowed, self.with_permit, self.unbound
        return tuple(
            [
                kind
                for kind, spec in self.registry.specs.items()
                if (with_permit or not spec.llm_bound or kind in unbound) and (allowed is None or allowed(kind))
            ]
        )


@dataclass(frozen=True, slots=True)
class _Statements:
    """The SQL for some kinds: to look whether any has a due row, and to lease the first; with their parameters."""

    look: str
    kinds: tuple[str, ...]
    take: str
    ranked: tuple[str | int, ...]


# Kinds and ranks are few and fixed in a process; a claim happens thousands of times a second.
@lru_cache(maxsize=256)
def _statements(wanted: tuple[str, ...], ranks: tuple[int, ...]) -> _Statements:
    kinds = tuple(str(kind) for kind in wanted)
    return _Statements(
        _look(len(kinds)),
        kinds,
        f"{_LEASE} WHERE id = ({_find(len(kinds))}) {_COLUMNS}",
        tuple(part for pair in zip(kinds, ranks, strict=True) for part in pair),
    )


def _look(kinds: int) -> str:
    # Index only: no row is fetched to learn that there is one.
    names = ", ".join(["(?)"] * kinds)
    return f"""
    WITH wanted (kind) AS (VALUES {names})
    SELECT 1
      FROM wanted
     WHERE EXISTS (SELECT 1
                     FROM mem_tree_jobs
                    WHERE kind = wanted.kind
                      AND phase = 2
                      AND at_ms <= ?)
     LIMIT 1
    """


def _find(kinds: int) -> str:
    # Only the number of placeholders varies; the seek per kind stops at its first due row.
    pairs = ", ".join(["(?, ?)"] * kinds)
    return f"""
    WITH wanted (kind, rank) AS (VALUES {pairs})
    SELECT job.id
      FROM wanted
      JOIN mem_tree_jobs AS job
        ON job.id = (SELECT id
                       FROM mem_tree_jobs
                      WHERE kind = wanted.kind
                        AND phase = 2
                        AND at_ms <= ?
                      ORDER BY at_ms, id
                      LIMIT 1)
     ORDER BY wanted.rank, job.at_ms, job.id
     LIMIT 1
    """


def _prepare(registry: Registry, wanted: tuple[str, ...]) -> _Statements:
    specs = registry.specs
    return _statements(wanted, tuple([specs[kind].rank for kind in wanted]))


class _TokenPool:
    """Random lease tokens: one system call for hundreds of them. A forked child starts a pool of its own."""

    def __init__(self) -> None:
        self._pool = ""
        self._at = 0

    def next(self) -> str:
        at = self._at
        if at >= len(self._pool):
            self._pool, at = os.urandom(_POOL_BYTES).hex(), 0
        self._at = at + 2 * _TOKEN_BYTES
        return self._pool[at : at + 2 * _TOKEN_BYTES]

    def clear(self) -> None:
        self._pool, self._at = "", 0


_tokens = _TokenPool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tokens.clear)


def due(
    connection: Connection,
    *,
    registry: Registry,
    now_ms: int,
    allowed: Allowed | None = None,
    with_permit: bool = True,
) -> bool:
    """Return whether a row could be claimed now. Reads only and takes no write lock."""
    return is_due(connection, Claim(registry, "", allowed=allowed, with_permit=with_permit), now_ms)


def due_llm(
    connection: Connection,
    *,
    registry: Registry,
    now_ms: int,
    allowed: Allowed | None = None,
    unbound: frozenset[str] = frozenset(),
) -> bool:
    """Return whether an LLM-bound row could be claimed now: look before trying for a permit. Reads only."""
    wanted = tuple(
        kind
        for kind, spec in registry.specs.items()
        if spec.llm_bound and kind not in unbound and (allowed is None or allowed(kind))
    )
    return _is_any_due(connection, registry, wanted, now_ms)


def is_due(connection: Connection, claim: Claim, now_ms: int) -> bool:
    """Return whether this claim would find a row now. Reads only."""
    return _is_any_due(connection, claim.registry, claim.wanted(), now_ms)


def count_due(connection: Connection, claim: Claim, now_ms: int, limit: int) -> int:
    """Return how many rows could be claimed now, counting to ``limit`` at most. Reads only."""
    found = 0
    for kind in claim.wanted():
        found += connection.value(
            """
            SELECT count(*)
              FROM (SELECT 1
                      FROM mem_tree_jobs
                     WHERE kind = ?
                       AND phase = 2
                       AND at_ms <= ?
                     LIMIT ?)
            """,
            (str(kind), now_ms, limit - found),
        )
        if found >= limit:
            break
    return found


def next_due_ms(connection: Connection, registry: Registry) -> int | None:
    """Return when the earliest ready row of these kinds is due (UTC ms, maybe past), or ``None``. Reads only."""
    found = [
        value
        for spec in registry
        if (
            value := connection.value(
                "SELECT min(at_ms) FROM mem_tree_jobs WHERE kind = ? AND phase = 2", (str(spec.kind),)
            )
        )
        is not None
    ]
    return min(found, default=None)


def _is_any_due(connection: Connection, registry: Registry, wanted: tuple[str, ...], now_ms: int) -> bool:
    if not wanted:
        return False
    prepared = _prepare(registry, wanted)
    return connection.value(prepared.look, (*prepared.kinds, now_ms)) is not None


def claim_next(
    connection: Connection,
    *,
    registry: Registry,
    worker_id: str,
    now_ms: int,
    lease_ms: int = DEFAULT_LOCK_DURATION_MS,
    allowed: Allowed | None = None,
    with_permit: bool = True,
) -> Job | None:
    """Lease the next due job in a transaction of its own, or return ``None`` (then nothing was written).

    The claim counts as an attempt; deferring, releasing and recovery give it back. Blocks for the writers' turn.
    """
    jobs = claim_jobs(connection, Claim(registry, worker_id, lease_ms, allowed, with_permit, 1), now_ms)
    return jobs[0] if jobs else None


def claim_jobs(connection: Connection, claim: Claim, now_ms: int) -> list[Job]:
    """Lease the next due job, and more of its kind up to its ``batch_size``; ``[]`` where none is due.

    After a commit that reported an error the lease may exist: call ``release_running_locks`` for this worker first.
    """
    if not is_due(connection, claim, now_ms):
        return []
    with connection.write():
        return claim_jobs_tx(connection, claim, now_ms)


def claim_jobs_tx(connection: Connection, claim: Claim, now_ms: int) -> list[Job]:
    """Do what ``claim_jobs`` does inside the caller's write transaction, without looking first."""
    wanted = claim.wanted()
    if not wanted:
        return []
    token, until = _tokens.next(), now_ms + claim.lease_ms
    prepared = _prepare(claim.registry, wanted)
    parameters = (now_ms, until, claim.worker_id, token, *prepared.ranked, now_ms)
    while True:
        row = connection.one(prepared.take, parameters)
        if row is None:
            return []
        job = _read(connection, row, claim.worker_id, token, now_ms, until)
        if job is not None:
            break
    spec = claim.registry[job.kind]
    size = spec.batch_size if claim.batch is None else min(spec.batch_size, claim.batch)
    if size <= 1 or job.crashes:
        return [job]
    return [job, *_take_more(connection, job.kind, claim.worker_id, now_ms, until, size - 1)]


def claim_ready_extract_batch(
    connection: Connection,
    *,
    worker_id: str,
    now_ms: int,
    limit: int,
    lease_ms: int = DEFAULT_LOCK_DURATION_MS,
) -> list[Job]:
    """Lease up to ``limit`` due ``extract_chunk`` rows in one transaction (the worker seed's batch claim).

    A row that crashed a worker is left for a claim of its own. Writes nothing where none is due.
    """
    ready = connection.value(
        """
        SELECT 1 FROM mem_tree_jobs
         WHERE kind = ? AND phase = 2 AND at_ms <= ? AND crashes = 0
         LIMIT 1
        """,
        (str(JobKind.EXTRACT_CHUNK), now_ms),
    )
    if ready is None:
        return []
    with connection.write():
        return _take_more(connection, JobKind.EXTRACT_CHUNK, worker_id, now_ms, now_ms + lease_ms, limit)


def _take_more(connection: Connection, kind: str, worker_id: str, now_ms: int, until: int, limit: int) -> list[Job]:
    # One token for the batch: a token names one claim, and every verb is fenced by id and token together.
    token = _tokens.next()
    rows = connection.all(_MORE, (now_ms, until, worker_id, token, str(kind), now_ms, limit))
    read = (_read(connection, row, worker_id, token, now_ms, until) for row in rows)
    # RETURNING promises no order.
    return sorted((job for job in read if job is not None), key=lambda job: (job.available_at_ms, job.id))


def _read(connection: Connection, row: Row, worker_id: str, token: str, now_ms: int, until: int) -> Job | None:
    job_id, kind, payload, key, attempts, most, crashes, available, error, reason, failure, source, made, moved = row
    try:
        msgspec.json.decode(payload)
        failure_class = None if failure is None else FailureClass(failure)
    except (msgspec.DecodeError, ValueError) as problem:
        # Skipping it would leave it claimable: a silent loop (k-mood). Parked, it is seen.
        log.warning("job %d (%s) cannot be read and was parked: %s", job_id, kind, type(problem).__name__)
        connection.run(_PARK, (f"the row cannot be read: {type(problem).__name__}", now_ms, job_id))
        return None
    # What the dataclass's own __init__ would set, at a quarter of its 4 µs: it is a tenth of what a small job costs.
    job = _new_job(Job)
    job.__dict__.update(
        id=job_id,
        kind=kind,
        payload_json=payload,
        dedupe_key=key,
        status=JobStatus.RUNNING,
        attempts=attempts,
        max_attempts=most,
        crashes=crashes,
        available_at_ms=available,
        locked_until_ms=until,
        locked_by=worker_id,
        lease_token=token,
        last_error=error,
        failure_reason=reason,
        failure_class=failure_class,
        input_hash=source,
        created_at_ms=made,
        progress_at_ms=moved,
        started_at_ms=now_ms,
        completed_at_ms=None,
    )
    return job
