"""One worker's loop: claim → handle → settle, and what it does when there is nothing or when the database refuses.

The permit comes before the claim and goes back before the row is settled (design, point 7 and the seed's ``run_once``).
Where the next claim needs no permit, settling and claiming are one transaction. Errors of the database are not errors
of the job that met them: the loop waits by their class (worker seed: tiers of backoff) and burns no attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeGuard

from agent.db import faults
from agent.errors import JobFailure, LeaseLost, Postponed
from agent.logs import job_scope
from agent.queue.claim import Claim, claim_jobs, due_llm, next_due_ms
from agent.queue.recovery import release_running_locks
from agent.queue.settle import Result, Settled, postponed, settle_and_claim
from agent.queue.worker_args import EXIT_CORRUPT, EXIT_LEASE, EXIT_RECYCLE
from agent.worker.border import at_the_border, where
from agent.worker.permits import NO_PERMIT, AnyPermit, Permits

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.gate import LlmGate
    from agent.queue.registry import BatchHandler, JobSpec
    from agent.queue.types import Job
    from agent.worker.capacity import Capacity
    from agent.worker.context import StopFlag, WorkerContext

JITTER = 0.5
MEMORY_LOOK_S = 10.0
_log = logging.getLogger("sapwood.worker")


class Waiter(Protocol):
    """How an idle worker sleeps."""

    def wait(self, timeout_s: float) -> None:
        """Block until there may be work, the worker is to stop, or the time is over. Forgets wake-ups it has seen."""
        ...

    def rest(self, timeout_s: float) -> None:
        """Block until the worker is to stop or the time is over: new work does not end a backoff."""
        ...


class Episode:
    """One line in the log when the database begins to refuse, and one when it is well again; none per attempt."""

    def __init__(self) -> None:
        self.fault: faults.FaultClass | None = None

    def begin(self, error: BaseException) -> faults.FaultClass:
        """Take in an error and return its class."""
        fault = faults.classify(error)
        if fault is not self.fault:
            level = logging.DEBUG if fault is faults.FaultClass.BUSY else logging.WARNING
            _log.log(level, "the database refuses (%s, code %s): waiting", fault, faults.extended_code(error))
            self.fault = fault
        return fault

    def end(self) -> None:
        """The database answered."""
        if self.fault is not None:
            if self.fault is not faults.FaultClass.BUSY:
                _log.warning("the database answers again (was: %s)", self.fault)
            self.fault = None


@dataclass
class Loop:
    """A worker's loop. ``random`` gives numbers in 0 … 1; ``rss_bytes`` the memory of this process.

    ``problem`` says why the intent's file cannot be read, if it cannot.

    ``step`` is one turn: handle what can be claimed, or wait. ``run`` turns until the worker is to end and returns its
    exit code.
    """

    context: WorkerContext
    worker_id: str
    capacity: Capacity
    permits: Permits
    waiter: Waiter
    intent: Callable[[], Intent]
    random: Callable[[], float]
    rss_bytes: Callable[[], int]
    problem: Callable[[], str | None] = lambda: None
    episode: Episode = field(default_factory=Episode)
    _next: tuple[list[Job], AnyPermit] | None = None
    _has_llm_bound: bool = field(init=False)
    _needs_none: Intent | None = None  # the intent whose profile was seen to need no permit
    _may_hold_unseen: bool = False  # a lease may have been taken by a commit that reported an error
    _has_worked: bool = False
    _memory_seen_s: float = field(init=False)
    _claims: dict[tuple[bool, bool], tuple[Intent, Claim]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._has_llm_bound = any(spec.llm_bound for spec in self.context.registry)
        self._memory_seen_s = self.context.clock.monotonic()

    @property
    def _connection(self) -> Connection:
        return self.context.connection

    @property
    def _stop(self) -> StopFlag:
        return self.context.stop

    def start(self, register: Callable[[], None]) -> None:
        """Do what is due before the first turn; blocks where the database refuses, until it does not or a stop."""
        while not self._stop.is_set():
            try:
                register()
                return
            except Exception as error:
                self._back_off(error)

    def run(self) -> int:
        """Turn until the worker is to end; release what is held and return the exit code."""
        while not self._stop.is_leaving:
            self.step()
        self._release_leases()
        return self._stop.exit_code

    def step(self) -> None:
        """Take one turn. Raises what is neither a handler's error nor a fault of the database."""
        try:
            claimed = self._next or self._claim()
            self._next = None
        except Exception as error:
            self._back_off(error)
            return
        jobs, permit = claimed
        if not jobs:
            self._idle()
            return
        self.episode.end()  # a lease was written; a look that only reads may succeed on a full disk
        self._has_worked = True
        began_s = self.context.clock.monotonic()
        results = self._handle(jobs, permit)
        self.capacity.handled(jobs[0].kind, self.context.clock.monotonic() - began_s)
        if results is not None:
            self._settle(results)
        self._recycle_in_the_middle()

    # -- claim

    def _claim(self) -> tuple[list[Job], AnyPermit]:
        if self._may_hold_unseen:
            release_running_locks(self._connection, [self.worker_id], self.context.clock.now_ms())
            self._may_hold_unseen = False
        intent = self._take_intent()
        now_ms = self.context.clock.now_ms()
        permit = self._permit(intent, now_ms)
        jobs: list[Job] = []
        try:
            # Under a permit one row at a time: a run makes at most one call, so that a person waits for no more.
            one = permit is not None and permit is not NO_PERMIT and not self.permits.packs
            claim = self._claim_of(intent, with_permit=permit is not None, one=one)
            jobs = claim_jobs(self._connection, claim, now_ms)
        finally:
            # Where the row that came first needs none, the permit goes back at once, and a waiter is told.
            if permit is not None and not self._are_llm_bound(jobs):
                permit.release()
        return jobs, permit or NO_PERMIT

    def _take_intent(self) -> Intent:
        """Read the intent for the next job, and tell what may hold back the kinds that call its profile's models."""
        intent = self.context.intent = self.intent()
        profile = intent.active_profile
        if intent.active_problem is not None:
            # No row is failed for a slip in the settings: what needs a model waits until it is mended.
            bound = frozenset(kind for kind, spec in self.context.registry.specs.items() if spec.llm_bound)
            self.capacity.watch(intent.models.active, bound, barred=True)
            return intent
        if profile is None:
            self.capacity.watch(None, frozenset())
            return intent
        # Whoever broke the file may be withdrawing consent: nothing goes to a cloud until it can be read again.
        barred = self.problem() is not None and not intent.is_local(profile)
        bound = self.permits.bound(intent, self.context.registry)
        self.capacity.watch(profile.name, bound, barred=barred)
        return intent

    def _permit(self, intent: Intent, now_ms: int) -> AnyPermit | None:
        if not self._has_llm_bound or self._needs_none is intent:
            return NO_PERMIT
        # Looked at first: a try without a row to use it on would only get in a person's way.
        if not self._is_llm_due(now_ms):
            return None
        gate = self._gate(intent)
        return NO_PERMIT if gate is None else gate.try_acquire()

    def _gate(self, intent: Intent) -> LlmGate | None:
        gate = self.permits.gate(intent)
        self._needs_none = intent if gate is None and self.permits.is_sure else None
        return gate

    def _is_llm_due(self, now_ms: int) -> bool:
        return due_llm(
            self._connection,
            registry=self.context.registry,
            now_ms=now_ms,
            allowed=self.capacity.limits(),
            unbound=self.permits.unbound,
        )

    def _claim_of(self, intent: Intent, *, with_permit: bool, one: bool = False) -> Claim:
        limits = self.capacity.limits()
        unbound = self.permits.unbound
        made = self._claims.get((with_permit, one))
        if made is None or made[0] is not intent or made[1].allowed is not limits or made[1].unbound != unbound:
            claim = Claim(
                registry=self.context.registry,
                worker_id=self.worker_id,
                lease_ms=self.context.heartbeat.lease_ms,
                allowed=limits,
                with_permit=with_permit,
                batch=1 if one else intent.queue.extract_batch,
                unbound=unbound,
            )
            made = self._claims[with_permit, one] = (intent, claim)
        return made[1]

    def _are_llm_bound(self, jobs: Sequence[Job]) -> bool:
        if not jobs or jobs[0].kind in self.permits.unbound:
            return False
        return self.context.registry[jobs[0].kind].llm_bound

    # -- handle

    def _handle(self, jobs: list[Job], permit: AnyPermit) -> list[tuple[Job, Result]] | None:
        context = self.context
        context.start(jobs)
        try:
            return self._run_handlers(jobs)
        except LeaseLost:
            # Settling would apply nothing. On a stop the leases are released when the loop has ended.
            context.finish()
            return None
        finally:
            permit.release()

    def _run_handlers(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        context, spec = self.context, self.context.registry[jobs[0].kind]
        if spec.batch is not None and len(jobs) > 1:
            found = self._run_batch(spec, spec.batch, jobs)
            if found is not None:
                return found
        results: list[tuple[Job, Result]] = []
        for job in jobs:
            context.check()
            context.begin(job)
            results.append((job, self._run_one(spec, job)))
        return results

    def _run_batch(self, spec: JobSpec, handle: BatchHandler, jobs: list[Job]) -> list[tuple[Job, Result]] | None:
        try:
            self.context.begin(jobs[0])
            with job_scope(jobs[0].id, spec.kind):
                plans = handle(self.context, jobs)
            return list(zip(jobs, plans, strict=True))
        except LeaseLost:
            raise
        except Postponed as later:
            return [(job, postponed(later)) for job in jobs]
        except Exception as error:
            if isinstance(error, JobFailure) or faults.is_database_fault(error):
                # A typed failure (no key, no credit) is everybody's, and is not asked for again row by row.
                return [(job, error) for job in jobs]
            # Each row's own run meets the error again and settles it where it belongs.
            _log.warning("a batch of %s failed: %s; row by row now", spec.kind, where(error))
            return None

    def _run_one(self, spec: JobSpec, job: Job) -> Result:
        with job_scope(job.id, spec.kind):
            try:
                return spec.handle(self.context, job)
            except LeaseLost:
                raise
            except Postponed as later:
                return postponed(later)
            except Exception as error:
                return at_the_border(error, job.kind)

    # -- settle

    def _settle(self, results: list[tuple[Job, Result]]) -> None:
        refused = [error for _, error in results if _is_refusal(error)]
        if refused:
            # Not their failure: these rows go back as they were, once the rest is settled.
            results = [result for result in results if not _is_refusal(result[1])]
        if len(results) > 1:
            self.context.handling.end()  # the batch is over: no row of it is being handled any more
        claim = None if refused or self._stop.is_leaving else self._fused_claim()
        settled: list[Settled] = []
        claimed: list[Job] = []
        while results:
            try:
                now_ms = self.context.clock.now_ms()
                settled, claimed = settle_and_claim(self._connection, results, now_ms, claim)
                break
            except Exception as error:
                # The plans are kept and their leases go on: what was done must not be done twice.
                self._back_off(error)
                claim = None
                if self._stop.is_set():
                    break
        _report(results, settled)
        if refused:
            if self._release_leases():
                self.context.finish()
            # Otherwise they stay held meanwhile: a lease that ends is counted as a crash.
            self._back_off(refused[0])
        self.context.finish()
        if claimed:
            self._next = (claimed, NO_PERMIT)

    def _fused_claim(self) -> Claim | None:
        """Return what may be claimed in the settling transaction: anything that needs no permit first tried for."""
        try:
            intent = self._take_intent()
            if not self._has_llm_bound or self._needs_none is intent:
                return self._claim_of(intent, with_permit=True)
            # With a permit to be had for a due row, that row may be the one to come first.
            if self._is_llm_due(self.context.clock.now_ms()):
                return None
            return self._claim_of(intent, with_permit=False)
        except Exception as error:
            if not faults.is_database_fault(error):
                raise
            return None

    # -- neither

    def _recycle_in_the_middle(self) -> None:
        # One that is never idle must not grow on to the limit at which it is killed and a row is blamed for it.
        now_s = self.context.clock.monotonic()
        if now_s - self._memory_seen_s >= MEMORY_LOOK_S:
            self._memory_seen_s = now_s
            self._recycle_if_grown()

    def _recycle_if_grown(self) -> bool:
        if self.rss_bytes() <= self.context.intent.limits.recycle_rss_bytes:
            return False
        _log.info("this worker has grown and asks for a fresh one in its place")
        self._stop.set(EXIT_RECYCLE)
        return True

    def _idle(self) -> None:
        if self._has_worked and self._recycle_if_grown():
            return
        idle_s, rest_s = self._idle_s(), self.capacity.rest_s
        self.waiter.wait(min(idle_s, rest_s) if rest_s else idle_s)
        self.capacity.look_again()

    def _idle_s(self) -> float:
        poll_s = self.context.intent.queue.poll_seconds
        try:
            due_ms = next_due_ms(self._connection, self.context.registry)
        except Exception as error:
            if not faults.is_database_fault(error):
                raise
            return poll_s
        now_ms = self.context.clock.now_ms()
        # A row that is due and was not claimed waits for a permit or for the end of a pause: both wake us.
        if due_ms is None or due_ms <= now_ms:
            return poll_s
        return min(poll_s, (due_ms - now_ms) / 1000)

    def _back_off(self, error: BaseException) -> None:
        """Wait as the class of a database fault asks for; raise anything else."""
        if not faults.is_database_fault(error):
            raise error
        fault = self.episode.begin(error)
        self._may_hold_unseen = True
        self.context.handling.end()  # waiting is not handling: no time limit runs
        if fault is faults.FaultClass.CORRUPT:
            self._stop.set(EXIT_CORRUPT)
            return
        pause_s = faults.PAUSE_S[fault]
        if fault is faults.FaultClass.BUSY:
            # Who collided once must not meet again.
            pause_s *= 1 - JITTER + 2 * JITTER * self.random()
        self.waiter.rest(pause_s)

    def _release_leases(self) -> bool:
        if self._stop.exit_code in (EXIT_CORRUPT, EXIT_LEASE):
            return False
        try:
            release_running_locks(self._connection, [self.worker_id], self.context.clock.now_ms())
        except Exception as error:
            # The next claim tries again; after the end of this process the supervisor does.
            _log.info("leases could not be released now: %s", where(error))
            return False
        return True


def _is_refusal(result: Result) -> TypeGuard[Exception]:
    return isinstance(result, Exception) and faults.is_database_fault(result)


def _report(results: Sequence[tuple[Job, Result]], settled: Sequence[Settled]) -> None:
    for (job, result), word in zip(results, settled, strict=False):
        if word in (Settled.DONE, Settled.DEFERRED, Settled.STALE):
            continue
        code = result.code if isinstance(result, JobFailure) else type(result).__name__
        level = logging.INFO if word in (Settled.LOST, Settled.RETRY) else logging.WARNING
        _log.log(level, "job %d (%s) settled as %s: %s", job.id, job.kind, word, code)
