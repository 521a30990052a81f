"""The pool at work: slots with their processes, looked at, held to their limits, replaced when they end."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.config import Intent
from agent.queue.handling import handling_path, read_handling
from agent.states import WorkerState
from agent.supervisor.children import Child, Children, Death, judge
from agent.supervisor.limits import RunWatch
from agent.supervisor.pool import HEAVY_BYTES, Claimable, WorkerFacts, decide
from agent.supervisor.slots import Exit, Slot
from agent.supervisor.stopping import Force
from agent.system.memory import MemoryProbe, SystemMemory

if TYPE_CHECKING:
    from agent.paths import Paths

TERMINATE_AFTER_S = 5.0
KILL_AFTER_S = 8.0
"""How long a worker that is no longer wanted may take to leave, while the agent itself goes on."""
BUSY_LOOK_S = 0.5
"""How often memory and time of busy workers are looked at."""
STARTING_LOOK_S = 0.05

_log = logging.getLogger("sapwood.supervisor")


@dataclass(frozen=True)
class Fallen:
    """A worker that is gone and whose leases are still to be given back. ``crashed_job`` answers for the death."""

    worker_id: str
    crashed_job: int | None


class Workforce:
    """Slots and children. Times are monotonic seconds (``now``) and UTC ms (``wall_ms``), handed in."""

    def __init__(
        self,
        paths: Paths,
        children: Children,
        intent: Callable[[], Intent],
        *,
        override: int | None = None,
        memory: MemoryProbe | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._paths = paths
        self.children = children
        self._intent = intent
        self._override = override
        self._memory = SystemMemory() if memory is None else memory
        self._chance = random.Random() if chance is None else chance
        self._runs = RunWatch()
        self.held_to: int | None = None
        """How many workers the power policy allows, ``None`` for as many as the owner set."""
        self._looked_at: float | None = None
        self.slots: list[Slot] = []
        self.fallen: list[Fallen] = []
        self.last_failure = ""

    # -- what there is ------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a worker was handling a job when last looked at."""
        return any(child.job_id is not None for child in self.children)

    @property
    def is_up(self) -> bool:
        """Whether a worker is up."""
        return any(slot.state is WorkerState.RUNNING for slot in self.slots)

    @property
    def is_changing(self) -> bool:
        """Whether a process is coming up or going down."""
        # Whoever finishes a job before it leaves may take minutes, and is not watched for that.
        return any(child.slot.state is WorkerState.STARTING or child.told_at is not None for child in self.children)

    @property
    def given_up(self) -> list[Slot]:
        """The slots that fail again and again."""
        return [slot for slot in self.slots if slot.state is WorkerState.FAILED]

    @property
    def maximum(self) -> int:
        """How many workers there may be."""
        wanted = self._override if self._override is not None else self._intent().pool.max_workers
        return wanted if self.held_to is None else min(wanted, self.held_to)

    @property
    def minimum(self) -> int:
        """How many workers there are at least."""
        return min(self._intent().pool.min_workers, self.maximum)

    def next_moment(self, now: float) -> float | None:
        """Return when something here is due (monotonic), or ``None`` while all is at rest."""
        moments = [slot.start_at for slot in self.slots if slot.start_at is not None]
        if self.is_changing:
            moments.append(now + STARTING_LOOK_S)
        elif self.is_busy:
            moments.append(now + BUSY_LOOK_S)
            deadline = self._runs.next_deadline
            if deadline is not None:
                moments.append(deadline)
        can_shrink = sum(1 for slot in self.slots if slot.serves) > self.minimum
        # Never in the past: a rested worker may have to stay because of what is still to be claimed.
        moments += [
            max(child.idle_since + self._intent().pool.idle_seconds, now + BUSY_LOOK_S)
            for child in self.children
            if child.idle_since is not None and child.slot.serves and (can_shrink or _grown(child) >= HEAVY_BYTES)
        ]
        return min(moments, default=None)

    def views(self) -> list[dict[str, Any]]:
        """Return the live workers as ``status`` shows them. May be called from another thread."""
        shown = []
        for child in list(self.children):
            handling = read_handling(handling_path(self._paths, child.worker_id))
            job = handling.job_id if handling is not None else None
            shown.append(
                {
                    "id": child.worker_id,
                    "slot": child.slot.index,
                    "pid": child.pid,
                    "job": job,
                    "kind": handling.kind if handling is not None and job is not None else None,
                    "rss_bytes": self._memory.rss_bytes(child.pid),
                    "state": str(child.slot.state),
                }
            )
        return sorted(shown, key=lambda view: int(view["slot"]))

    def slot_states(self) -> list[str]:
        """Return the states of all slots in order, those without a process too. May be called from another thread."""
        return [str(slot.state) for slot in list(self.slots)]

    # -- looking ------------------------------------------------------------------------------------------------------

    def look(self, now: float, wall_ms: int) -> None:
        """Read what every worker does and end those that are past a limit of time or memory."""
        ago = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        for child in self.children:
            self._look_at(child, now, wall_ms, ago)

    def _look_at(self, child: Child, now: float, wall_ms: int, ago: float) -> None:
        handling = read_handling(handling_path(self._paths, child.worker_id))
        if handling is None:
            self._press(child, now)
            return
        if child.slot.state is WorkerState.STARTING:
            child.slot.ready(now)
            child.first_rss = self._memory.rss_bytes(child.pid)
        child.job_id = handling.job_id
        # Sampled while idle too: a short job may have come and gone between two looks.
        child.rss = self._memory.rss_bytes(child.pid)
        if handling.job_id is not None:
            child.idle_since = None
        elif child.idle_since is None:
            child.idle_since = now
        is_over = self._runs.look(
            child.worker_id,
            handling.job_id,
            handling.started_ms,
            handling.limit_ms,
            wall_ms=wall_ms,
            monotonic=now,
            looked_s_ago=ago,
        )
        allowed = self._intent().limits.worker_rss_bytes
        if child.over_limit is None and is_over:
            self._end_for(child, f"{handling.kind} job {handling.job_id} ran past {handling.limit_ms / 1000:g} s")
        elif child.over_limit is None and child.rss is not None and child.rss > allowed:
            self._end_for(child, f"{handling.kind or 'no'} job {handling.job_id} took {child.rss} bytes of {allowed}")
        self._press(child, now)

    def _end_for(self, child: Child, limit: str) -> None:
        child.over_limit = limit
        _log.warning("worker %d.%d is ended: %s", child.slot.index, child.slot.generation, limit)
        child.kill()

    def _press(self, child: Child, now: float) -> None:
        if child.told_at is None:
            return
        if now - child.told_at >= KILL_AFTER_S:
            child.kill()
        elif now - child.told_at >= TERMINATE_AFTER_S:
            child.terminate()

    def slept(self, seconds: float) -> None:
        """The machine slept: the runs did not get that time."""
        self._runs.slept(seconds)

    # -- starting, growing, shrinking ---------------------------------------------------------------------------------

    def start_due(self, now: float) -> int:
        """Start the processes that are due; return how many. Blocks for a few milliseconds each."""
        started = 0
        for slot in self.slots:
            if slot.is_due(now):
                self._start(slot, now)
                started += 1
        return started

    def _start(self, slot: Slot, now: float) -> None:
        try:
            self.children.start(slot, now)
        except OSError as error:
            # No memory, no descriptors, no processes: as bad as a process that dies at once.
            _log.error("worker %d could not be started: %s", slot.index, error)
            self.last_failure = str(error)
            slot.exited(Exit.FAILURE, now, self._intent().supervisor)

    def adjust(self, claimable: Claimable, now: float, *, may_grow: bool) -> None:
        """Bring the number of workers to what this moment asks for. Below the minimum it always grows."""
        facts = [
            WorkerFacts(
                child.slot.index,
                None if child.idle_since is None else now - child.idle_since,
                starting=child.slot.state is WorkerState.STARTING,
                grown_bytes=_grown(child),
            )
            for child in self.children
            if child.slot.serves
        ]
        # A slot that waits for its restart is one of the pool; one that was given up is not, the others do its work.
        waiting = [slot for slot in self.slots if slot.state is WorkerState.BACKOFF]
        facts += [WorkerFacts(slot.index, None, starting=True) for slot in waiting]
        leaving = sum(1 for slot in self.slots if slot.state is WorkerState.STOPPING)
        change = decide(
            facts,
            claimable,
            minimum=self.minimum,
            maximum=self.maximum,
            idle_seconds=self._intent().pool.idle_seconds,
            leaving=leaving,
        )
        if change.add and (may_grow or len(facts) < self.minimum):
            self._add(change.add, now)
        for index in change.end:
            self._tell(index, Exit.ORDERED, now)
        for index in change.refresh:
            self._tell(index, Exit.FRESH, now)

    def _add(self, count: int, now: float) -> None:
        free = [slot for slot in self.slots if slot.state is WorkerState.STOPPED]
        while len(free) < count and len(self.slots) < self.maximum:
            slot = Slot(len(self.slots), lambda: self._chance.uniform(-1, 1))
            self.slots.append(slot)
            free.append(slot)
        for slot in free[:count]:
            self._start(slot, now)

    def _tell(self, index: int, how: Exit, now: float) -> None:
        child = self.children.of_slot(self.slots[index])
        if child is None:
            return
        if child.job_id is not None and how is Exit.ORDERED:
            child.tell_to_leave()
        else:
            child.tell_to_stop(how, now)

    # -- ends ---------------------------------------------------------------------------------------------------------

    def bury(self, ready: Iterable[object], now: float) -> list[Death]:
        """Take in the children whose sentinels are ready; their leases are then waiting in ``fallen``."""
        deaths = []
        for sentinel in ready:
            child = self.children.by_sentinel(sentinel)
            if child is not None:
                deaths.append(self._bury(child, now))
        return deaths

    def _bury(self, child: Child, now: float) -> Death:
        handling = read_handling(handling_path(self._paths, child.worker_id))
        job_id = handling.job_id if handling is not None else None
        code = self.children.reap(child)
        self._runs.forget(child.worker_id)
        death = judge(child, code, handled_a_job=job_id is not None)
        self.fallen.append(Fallen(child.worker_id, job_id if death.counts_as_crash else None))
        has_given_up = child.slot.exited(death.how, now, self._intent().supervisor)
        level = logging.WARNING if death.how is Exit.FAILURE else logging.INFO
        _log.log(level, "worker %d.%d ended: %s", child.slot.index, child.slot.generation, death.in_words())
        if death.how is Exit.FAILURE:
            self.last_failure = death.in_words()
        if has_given_up:
            _log.error("worker %d fails again and again (%s); it is tried slowly", child.slot.index, death.in_words())
        return death

    def use_force(self, force: Force, now: float) -> None:
        """Ask, then make every child end, as the budget of a stop says."""
        for slot in self.slots:
            if not slot.has_process:
                slot.put_away()
        for child in self.children:
            child.tell_to_stop(Exit.ORDERED, now)
            if force is Force.TERMINATED:
                child.terminate()
            elif force is Force.KILLED:
                child.kill()


def _grown(child: Child) -> int:
    if child.first_rss is None or child.rss is None:
        return 0
    return max(0, child.rss - child.first_rss)
