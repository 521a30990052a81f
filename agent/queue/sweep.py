"""Finding work again from domain state: the queue may be lost.

The rule of the k-mood record (point 12): a kind exists only if a query over domain state finds the same work. Each
kind's sweep is that query, in the room whose state it reads; this is what runs them. Deleting every row of
``mem_tree_jobs`` costs time, never memory.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.db.faults import is_database_fault
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.registry import JobSpec, Registry, SweepContext
from agent.queue.types import NewJob
from agent.queue.wake import wake_workers
from agent.states import JobStatus

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection

log = logging.getLogger("sapwood.queue")


def sweep(connection: Connection, registry: Registry, intent: Intent, now_ms: int) -> dict[str, int]:
    """Run the sweep of every kind that has one, enqueue what is missing, and return how many rows per kind.

    At most ``sweep.batch`` new rows per kind and call. Skipped are keys with a ready or running row, and keys whose
    newest row is failed or cancelled, unless that row looked at another input: only ``retry``, self-heal, a mended
    cause or changed input opens those again. Writes nothing where nothing is missing. A sweep that fails stops none of
    the others; faults of the database are raised.
    """
    added: dict[str, int] = {}
    for spec in registry:
        if spec.sweep is None:
            continue
        try:
            missing = find_missing(connection, spec, intent, now_ms)
        except Exception as error:
            if is_database_fault(error):
                raise
            log.exception("the sweep of %s failed", spec.kind)
            continue
        if not missing:
            continue
        with connection.write():
            count = enqueue_many_tx(connection, missing, now_ms, registry=registry)
        if count:
            added[str(spec.kind)] = count
            log.info("a sweep found %d %s jobs that the queue did not hold", count, spec.kind)
    if added:
        wake_workers(connection)
    return added


def find_missing(connection: Connection, spec: JobSpec, intent: Intent, now_ms: int) -> Sequence[NewJob]:
    """Return the jobs that a kind's sweep asks for and the queue neither holds nor has parked. Reads only."""
    if spec.sweep is None:
        return ()
    bound = intent.sweep.batch
    # A sweep bounds its own query by the limit; parked keys come up in it each time and must not crowd out the rest.
    parked = connection.value(
        "SELECT count(*) FROM mem_tree_jobs WHERE kind = ? AND phase IN (3, 4)", (str(spec.kind),)
    )
    missing: list[NewJob] = []
    for job in spec.sweep(SweepContext(connection, intent, now_ms, bound + parked)):
        if not is_open(connection, job):
            continue
        missing.append(job)
        if len(missing) >= bound:
            break
    return missing


def is_open(connection: Connection, job: NewJob) -> bool:
    """Return whether a sweep may ask for this job: its key is neither being worked on nor parked. Reads only."""
    if job.dedupe_key is None:
        return True
    newest = connection.one(
        "SELECT status, input_hash FROM mem_tree_jobs WHERE dedupe_key = ? ORDER BY id DESC LIMIT 1",
        (job.dedupe_key,),
    )
    if newest is None:
        return True
    status, input_hash = newest
    if status in (JobStatus.READY, JobStatus.RUNNING):
        return False
    if status in (JobStatus.FAILED, JobStatus.CANCELLED):
        return job.input_hash is not None and job.input_hash != input_hash
    return True


def has_failed(connection: Connection, job: NewJob) -> bool:
    """Return whether the newest row of a job's key has failed. Reads only."""
    newest = connection.value(
        "SELECT status FROM mem_tree_jobs WHERE dedupe_key = ? ORDER BY id DESC LIMIT 1", (job.dedupe_key,)
    )
    return bool(newest == JobStatus.FAILED)
