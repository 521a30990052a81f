"""When ``run --once`` is over.

It ends when no row is running or ready, due or delayed, and every tree is finished; if all that is left is due in over
ten minutes it says so instead of waiting (``cli.md``). Rows that wait for a model that cannot be had are due when it is
tried again. Failed rows do not keep it: they are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from agent.clock import iso
from agent.db.text_index import merge_pieces
from agent.queue.claim import next_due_ms
from agent.queue.counts import count_jobs, count_running
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.holds import HoldRow, read_hold
from agent.queue.registry import Registry
from agent.queue.sweep import is_open
from agent.queue.wake import wake_workers
from agent.supervisor.held import active_hold, claimable_kinds
from agent.supervisor.result import Ended, FinishedHook, IdleHook, SupervisorArgs, SupervisorResult, failed, unfinished
from agent.system.entry import find

if TYPE_CHECKING:
    from agent.config import IntentWatcher
    from agent.db import Connection
    from agent.queue.types import NewJob
    from agent.supervisor.looking import QueueLook
    from agent.supervisor.storage import Storage
    from agent.supervisor.tick import Housekeeping
    from agent.supervisor.workforce import Workforce

PATIENCE_MS = 10 * 60 * 1000
SAME_ROUNDS = 5
"""After so many rounds in which the tails asked for the very same jobs nothing is getting on."""
MERGE_S = 2.0
"""So long at most the text index is merged at the end, less than a stop may take; the rest is done in idle moments."""


class Step(Enum):
    """What to do in a quiet moment."""

    WAIT = auto()
    SEARCH = auto()
    """Run the sweeps, then ask for open tails, then whether everything is finished."""
    GIVE_UP = auto()


@dataclass(frozen=True)
class Quiet:
    """The queue at a moment: rows in flight, and when the earliest ready row is due (UTC ms)."""

    running: int
    next_due_ms: int | None
    paused_until_ms: int | None = None
    waits_for: str = ""
    """What holds the earliest of them back, where something does; it is due when that ends, or nobody knows when."""


class OnceGuard:
    """Decides from one moment to the next; remembers whether rounds repeat themselves."""

    def __init__(self) -> None:
        self._asked: tuple[str, ...] = ()
        self._same = 0
        self.reason = ""

    def judge(self, quiet: Quiet, now_ms: int, *, anyone_busy: bool) -> Step:
        """Return what this moment asks for. ``reason`` says why after ``GIVE_UP``."""
        if quiet.paused_until_ms is not None and quiet.paused_until_ms - now_ms > PATIENCE_MS:
            self.reason = "the work is paused: `sapwood resume`, then run again"
            return Step.GIVE_UP
        if anyone_busy or quiet.running:
            return Step.WAIT
        if quiet.next_due_ms is None or quiet.next_due_ms - now_ms > PATIENCE_MS:
            return Step.SEARCH
        return Step.WAIT

    def verdict(self, quiet: Quiet, now_ms: int, unfinished: Sequence[str]) -> str:
        """Return why not all is done after a search that found nothing more, or ``""`` where all is."""
        if quiet.waits_for:
            return quiet.waits_for
        if quiet.next_due_ms is not None:
            minutes = round((quiet.next_due_ms - now_ms) / 60_000)
            return f"what is left is due in {minutes} minutes; run again then, or leave the agent running"
        if unfinished:
            more = f" and {len(unfinished) - 3} more" if len(unfinished) > 3 else ""
            return f"not finished: {'; '.join(unfinished[:3])}{more}"
        return ""

    def is_stuck(self, asked: Sequence[str]) -> bool:
        """Take in what the open tails asked for this time; return whether it is the same as ever."""
        key = tuple(sorted(asked))
        self._same = self._same + 1 if key and key == self._asked else 0
        self._asked = key
        if self._same >= SAME_ROUNDS:
            self.reason = f"the same {len(key)} jobs are asked for again and again: {key[0]}"
            return True
        return False


def held_words(hold: HoldRow) -> str:
    """Return what holds a model back and until when, for people."""
    return f"{hold.scope}: {hold.reason}; it is tried again at {iso(hold.until_ms)}"


class OnceRun:
    """The part of the loop that only ``--once`` has: in a quiet moment it looks for what is left."""

    def __init__(
        self,
        args: SupervisorArgs,
        registry: Registry,
        housekeeping: Housekeeping,
        storage: Storage,
        workforce: Workforce,
        watcher: IntentWatcher,
    ) -> None:
        self._registry = registry
        self._housekeeping = housekeeping
        self._storage = storage
        self._workforce = workforce
        self._watcher = watcher
        self._guard = OnceGuard()
        self._idle_hook: IdleHook | None = find(args.idle_hook) if args.idle_hook else None
        self._finished_hook: FinishedHook | None = find(args.finished_hook) if args.finished_hook else None

    def turn(self, look: QueueLook, now: float, wall_ms: int) -> SupervisorResult | None:
        """Return how it ends, or ``None`` while there is something to wait for."""
        if len(self._workforce.given_up) >= self._workforce.maximum:
            return failed(f"the workers end again and again: {self._workforce.last_failure}")
        if self._workforce.fallen:
            return None
        quiet = Quiet(look.running, look.next_due_ms, look.paused_until_ms)
        if look.is_held:
            # What is due and held is no work for now: it is due when the hold ends.
            found = self._storage.attempt("looking at what is held", lambda it: self._quiet(it, quiet, wall_ms), now)
            quiet = quiet if found is None else found
        step = self._guard.judge(quiet, wall_ms, anyone_busy=self._workforce.is_busy)
        if step is Step.GIVE_UP:
            return unfinished(self._guard.reason)
        if step is Step.WAIT:
            return None
        return self._storage.attempt("looking for what is left", lambda it: self._search(it, quiet, wall_ms), now)

    def _search(self, connection: Connection, quiet: Quiet, wall_ms: int) -> SupervisorResult | None:
        """Look for work that no row asks for: by the sweeps, then in open tails; return the end where there is none."""
        # The look that was judged may be older than the tick of this very turn, which asks for every source at a start.
        quiet = self._quiet(connection, quiet, wall_ms)
        if self._guard.judge(quiet, wall_ms, anyone_busy=False) is not Step.SEARCH:
            return None
        if self._housekeeping.sweep_now(connection, self._watcher.current, wall_ms):
            return None
        asked = list(self._idle_hook(connection, wall_ms)) if self._idle_hook is not None else []
        # What was parked for a reason is not asked for anew: it would only fail again, and hide that reason.
        jobs = [job for job in asked if is_open(connection, job)]
        if self._guard.is_stuck([job.dedupe_key or job.payload_json for job in jobs]):
            return unfinished(self._guard.reason)
        if jobs and self._enqueue(connection, jobs, wall_ms):
            return None
        left = list(self._finished_hook(connection)) if self._finished_hook is not None else []
        reason = self._guard.verdict(quiet, wall_ms, left)
        if reason:
            failed_jobs = count_jobs(connection, wall_ms).failed
            return unfinished(self._with_cause(connection, reason, quiet), failed_jobs)
        merge_pieces(connection, MERGE_S)
        return SupervisorResult(Ended.FINISHED, failed_jobs=count_jobs(connection, wall_ms).failed)

    def _quiet(self, connection: Connection, before: Quiet, wall_ms: int) -> Quiet:
        """Return the queue as of now; rows that a hold keeps back are due when it ends."""
        running, registry, intent = count_running(connection), self._registry, self._watcher.current
        is_barred = self._watcher.problem is not None
        allowed = claimable_kinds(connection, registry, intent, wall_ms, is_barred=is_barred)
        if allowed is None:
            return Quiet(running, next_due_ms(connection, registry), before.paused_until_ms)
        free_ms = next_due_ms(connection, Registry.of(spec for spec in registry if allowed(str(spec.kind))))
        held_ms = next_due_ms(connection, Registry.of(spec for spec in registry if not allowed(str(spec.kind))))
        hold = active_hold(connection, intent, wall_ms)
        if held_ms is None or (free_ms is not None and free_ms <= wall_ms):
            return Quiet(running, free_ms, before.paused_until_ms)
        problem = intent.active_problem
        if problem is not None:
            return Quiet(running, free_ms, before.paused_until_ms, f"{problem[0]}: {problem[1]}, then run again")
        if hold is None:
            words = "nothing goes to a cloud while config.toml cannot be read: `sapwood config edit`, then run again"
            return Quiet(running, free_ms, before.paused_until_ms, words)
        due_ms = max(held_ms, hold.until_ms)
        if free_ms is not None and free_ms <= due_ms:
            return Quiet(running, free_ms, before.paused_until_ms)
        return Quiet(running, due_ms, before.paused_until_ms, held_words(hold))

    def _with_cause(self, connection: Connection, reason: str, quiet: Quiet) -> str:
        """Return why not all is done, with what had the rows fail that are missing."""
        profile = self._watcher.current.active_profile
        hold = None if profile is None or quiet.waits_for else read_hold(connection, profile.name)
        return reason if hold is None or not hold.openings else f"{held_words(hold)} ({reason})"

    def _enqueue(self, connection: Connection, jobs: Sequence[NewJob], wall_ms: int) -> int:
        with connection.write():
            inserted = enqueue_many_tx(connection, jobs, wall_ms, registry=self._registry)
        if inserted:
            wake_workers(connection)
        return inserted
