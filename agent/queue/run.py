"""The loop without processes: claim, handle, settle, in the caller's own thread.

``run_once`` and ``drain_until_idle`` are the seed's; a worker process runs the same steps with a heartbeat and limits
around them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from agent.db.faults import is_database_fault
from agent.errors import AgentFault, JobFailure, LeaseLost, Postponed
from agent.queue.claim import Allowed, Claim, claim_jobs, due_llm, next_due_ms
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.registry import JobContext, Registry
from agent.queue.settle import Result, settle_and_claim
from agent.queue.types import DEFAULT_LOCK_DURATION_MS, Job, NewJob

if TYPE_CHECKING:
    from agent.clock import Clock
    from agent.config import Intent
    from agent.db import Connection
    from agent.paths import Paths

log = logging.getLogger("sapwood.queue")

Permit = Callable[[], "AbstractContextManager[object] | None"]
Flush = Callable[["Connection", int], Sequence[NewJob]]

LOCAL_WORKER = "local"
DRAIN_LIMIT = 200_000
DRAIN_HORIZON_MS = 30 * 24 * 3_600_000


@dataclass
class LocalContext:
    """A ``JobContext`` for handlers that run in the caller's own process. Nothing here can be lost or stopped."""

    connection: Connection
    clock: Clock
    intent: Intent
    paths: Paths
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def intent_now(self) -> Intent:
        """The intent: nobody changes it meanwhile."""
        return self.intent

    @property
    def intent_problem(self) -> str | None:
        """``None``: it was read."""
        return None

    def check(self) -> None:
        """Return at once: nobody else can take this lease."""

    def begin(self, job: Job) -> None:
        """Return at once: nobody watches over this process."""
        del job


class _ShiftedClock:
    """A clock some time ahead of another; sleeping on it moves it without waiting."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead_ms / 1000

    def sleep(self, seconds: float) -> None:
        self._ahead_ms += round(seconds * 1000)

    def move_to(self, now_ms: int) -> None:
        self._ahead_ms += max(0, now_ms - self.now_ms())


def handle_jobs(context: JobContext, registry: Registry, jobs: Sequence[Job]) -> list[tuple[Job, Result]]:
    """Run the handler of jobs of one kind, outside any transaction, and return each job with its plan or its error.

    A batch handler that fails in an unforeseen way is replaced by the row's own handler, row by row, so that one bad
    row takes no batch mate with it; a typed failure (no key, no credit) is everybody's, and not asked for again.
    Raises ``LeaseLost`` where the context's check does.
    """
    spec = registry[jobs[0].kind]
    if spec.batch is not None and len(jobs) > 1:
        try:
            return list(zip(jobs, spec.batch(context, jobs), strict=True))
        except LeaseLost:
            raise
        except Exception as error:
            if isinstance(error, JobFailure | Postponed) or is_database_fault(error):
                return [(job, error) for job in jobs]
            log.warning("a batch of %d %s failed (%s): row by row", len(jobs), spec.kind, type(error).__name__)
    return [(job, _handle_one(context, registry, job)) for job in jobs]


def _handle_one(context: JobContext, registry: Registry, job: Job) -> Result:
    context.begin(job)
    try:
        return registry[job.kind].handle(context, job)
    except LeaseLost:
        raise
    except Exception as error:
        return error


def run_once(
    connection: Connection,
    registry: Registry,
    context: JobContext,
    *,
    now_ms: int | None = None,
    worker_id: str = LOCAL_WORKER,
    permit: Permit | None = None,
    allowed: Allowed | None = None,
    lease_ms: int = DEFAULT_LOCK_DURATION_MS,
) -> bool:
    """Claim one job (or one batch of a kind with a batch handler), run its handler, settle; return whether it did.

    ``permit`` is tried before an LLM-bound row is claimed and given back before the row is settled; where it returns
    ``None`` only kinds that need none are claimed. ``now_ms`` replaces the context's clock. Raises faults of the
    database only; a handler's error is settled into its row.
    """
    claim = Claim(registry, worker_id, lease_ms, allowed)
    return _run(connection, claim, context, now_ms=now_ms, permit=permit, limit=1) > 0


def run_due(
    connection: Connection,
    registry: Registry,
    context: JobContext,
    *,
    worker_id: str = LOCAL_WORKER,
    permit: Permit | None = None,
    allowed: Allowed | None = None,
    lease_ms: int = DEFAULT_LOCK_DURATION_MS,
    limit: int | None = None,
) -> int:
    """Run what is due until nothing is, ``limit`` jobs or a little more at most, and return how many were run.

    Like ``run_once`` over and over, with each settling and the next claim in one transaction where it needs no permit.
    """
    claim = Claim(registry, worker_id, lease_ms, allowed)
    return _run(connection, claim, context, now_ms=None, permit=permit, limit=limit)


def _run(
    connection: Connection,
    claim: Claim,
    context: JobContext,
    *,
    now_ms: int | None,
    permit: Permit | None,
    limit: int | None,
) -> int:
    registry, clock = claim.registry, context.clock
    without = claim if permit is None else replace(claim, with_permit=False)
    jobs: list[Job] = []
    total = 0
    while limit is None or total < limit or jobs:
        with ExitStack() as held:
            if not jobs:
                now = clock.now_ms() if now_ms is None else now_ms
                given = None
                if permit is not None and due_llm(connection, registry=registry, now_ms=now, allowed=claim.allowed):
                    given = permit()
                if given is not None:
                    held.enter_context(given)
                jobs = claim_jobs(connection, claim if given is not None else without, now)
                if not jobs:
                    break
                if not registry[jobs[0].kind].llm_bound:
                    held.close()
            total += len(jobs)
            try:
                results = handle_jobs(context, registry, jobs)
            except LeaseLost:
                jobs = []
                continue
        following = without if limit is None or total < limit else None
        now = clock.now_ms() if now_ms is None else now_ms
        _, jobs = settle_and_claim(connection, results, now, following)
    return total


def drain_until_idle(
    context: LocalContext,
    registry: Registry,
    *,
    flush: Flush | None = None,
    permit: Permit | None = None,
    limit: int = DRAIN_LIMIT,
    horizon_ms: int = DRAIN_HORIZON_MS,
) -> int:
    """Run jobs until none is ready, due or delayed, and return how many were run (the seed's test driver).

    Nothing is waited for: where the next row is due later (a backoff, a 750 ms revisit), time goes on to it, for the
    handlers' clock too. Once idle, ``flush(connection, now_ms)`` may name more jobs (closing the tails of trees); it
    is asked again until it names nothing new. Rows due beyond ``horizon_ms`` are left. Raises ``AgentFault`` after
    ``limit`` jobs: a queue that feeds itself for ever.
    """
    connection = context.connection
    clock = _ShiftedClock(context.clock)
    inner = replace(context, clock=clock)
    claim = Claim(registry, LOCAL_WORKER)
    end = clock.now_ms() + horizon_ms
    total = 0
    while True:
        total += _run(connection, claim, inner, now_ms=None, permit=permit, limit=limit - total + 1)
        if total > limit:
            raise AgentFault("the queue does not come to rest", f"{total} jobs were run, and more are ready")
        due_ms = next_due_ms(connection, registry)
        if due_ms is not None and clock.now_ms() < due_ms <= end:
            clock.move_to(due_ms)
            continue
        jobs = () if flush is None else flush(connection, clock.now_ms())
        if not jobs:
            return total
        with connection.write():
            inserted = enqueue_many_tx(connection, jobs, clock.now_ms(), registry=registry)
        if not inserted:
            return total
