"""The supervisor: one loop over exits, callers, signals, wake-ups and the next thing that is due.

It holds no work of its own: it opens (and so migrates) the database, keeps the pool at work, ticks, and ends in under
four seconds. What is decided is decided in modules without processes and clocks: ``slots``, ``pool``, ``limits``,
``sleepgap``, ``stopping``, ``once``.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from agent.clock import Clock
from agent.config import Intent, IntentWatcher
from agent.ids import random_id
from agent.queue.registry import Registry
from agent.queue.wake import WakeSocket, register_worker, wake_workers
from agent.states import JobKind, PowerMode
from agent.supervisor.beginning import Beginning
from agent.supervisor.children import Children
from agent.supervisor.companion_watch import CompanionWatch
from agent.supervisor.companions import Companions
from agent.supervisor.control import ControlServer
from agent.supervisor.damage import DamageControl, Outcome
from agent.supervisor.ending import end_children, give_back, release_all
from agent.supervisor.gatewatch import GateWatch
from agent.supervisor.held import active_hold, claimable_kinds, without_heavy
from agent.supervisor.looking import QueueLook, look_at_queue
from agent.supervisor.noticewatch import NoticeWatch
from agent.supervisor.nudge import Nudge, StopSignals
from agent.supervisor.once import OnceRun
from agent.supervisor.power_watch import PowerWatch
from agent.supervisor.requests import Requests
from agent.supervisor.rest import Rest
from agent.supervisor.result import Ended, SupervisorArgs, SupervisorResult, failed
from agent.supervisor.sleepgap import GAP_SECONDS, SleepGap
from agent.supervisor.status import Facts, state_of
from agent.supervisor.stopping import StopBudget
from agent.supervisor.storage import Storage
from agent.supervisor.tick import Housekeeping, ledger_keeper, mender, tidy
from agent.supervisor.ticking import Ticking
from agent.supervisor.watch import SourceWatch
from agent.supervisor.workforce import Workforce
from agent.system.session_end import session_end
from agent.system.watching import SystemWatching

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.queue.claim import Allowed

GROW_AFTER_S = 0.2
"""Rows must be left over for so long before another worker is started: most bursts are gone by then."""
BUSY_LOOK_S = 0.25
ONCE_LOOK_S = 0.05
RECLAIM_AGAIN_S = 0.1
SHORTEST_WAIT_S = 0.005
LONGEST_WAIT_S = 60.0

_log = logging.getLogger("sapwood.supervisor")


class Supervisor:
    """The state of one run. Only ``run`` is called from outside; ``_status`` alone runs in other threads."""

    def __init__(self, args: SupervisorArgs, watcher: IntentWatcher, clock: Clock) -> None:
        self._args = args
        self._paths = args.paths
        self._watcher = watcher
        self._clock = clock
        self._intent: Intent = watcher.current
        self._nudge = Nudge()
        self._signals = StopSignals(self._nudge)
        self._storage = Storage(args.paths)
        self._registry = Registry.load(args.kind_names)
        self._housekeeping = Housekeeping(
            self._registry, once=args.once, keep_ledger=ledger_keeper(args), mend=mender(args)
        )
        children = Children(args)
        self._workforce = Workforce(args.paths, children, lambda: self._intent, override=args.workers)
        self._damage = DamageControl(
            args.paths, self._storage, self._workforce, lambda: self._stop_began_at() is not None
        )
        self._companions = Companions(args)
        self._notices = NoticeWatch(args)
        self._requests = Requests(clock, self._nudge, self._damage, self._companions, self._status)
        self._control = ControlServer(args.paths, self._requests.answer)
        self._session_end = session_end()
        self._wake = WakeSocket()
        self._wake_id = random_id()
        self._gate = GateWatch(args, self._registry)
        self._power = PowerWatch(args)
        now = clock.monotonic()
        self._gap = SleepGap(
            clock.now_ms(),
            renewal_seconds=self._intent.queue.lease_seconds / 3,
            catch_up_seconds=self._intent.supervisor.wake_grace_seconds,
        )
        self._once = (
            OnceRun(args, self._registry, self._housekeeping, self._storage, self._workforce, watcher)
            if args.once
            else None
        )
        has_looks = str(JobKind.SYNC_SOURCE) in self._registry and not args.once
        self._watch = SourceWatch(args.paths, SystemWatching(), clock, self._nudge.nudge) if has_looks else None
        self._beginning = Beginning(args.paths, self._storage, self._begin)
        self._look = QueueLook()
        self._hold_ends_ms: int | None = None
        self._rest = Rest()
        self._ticking = Ticking(self._housekeeping, self._storage, self._gap, self._requests)
        self._listen_at = now
        self._reclaim_at = 0.0
        self._turned_at = now
        self._meant_to_wait = 0.0
        self._companion_watch = CompanionWatch(self._companions, self._storage, now)
        self._is_stopping = False

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self) -> SupervisorResult:
        """Run to the end and leave nothing behind."""
        try:
            with self._signals:
                self._control.start()
                self._session_end.start(self._requests.ask_to_stop)
                _log.info("the supervisor is up")
                try:
                    result = self._loop()
                except BaseException:
                    _log.exception("the supervisor ends by an error nobody caught")
                    self._stop(SupervisorResult(Ended.FAILED))
                    raise
                return self._stop(result)
        finally:
            self._session_end.put_away()
            self._nudge.close()

    def _loop(self) -> SupervisorResult:
        while True:
            now = self._clock.monotonic()
            if self._stop_began_at() is not None:
                return SupervisorResult(Ended.STOPPED, signal=self._signals.received)
            self._notice_sleep(now)
            result = self._turn(now, self._clock.now_ms())
            if result is not None:
                return result
            # What the power policy holds back is in the state; what it would hold back is no news while nobody works.
            shown = (self._look.paused_until_ms, self._hold_ends_ms)
            self._companion_watch.turn(self._facts, shown, self._intent, now, is_up=self._workforce.is_up)
            self._notices.turn(self._facts, self._storage, self._intent, now, self._clock.now_ms())
            now = self._clock.monotonic()
            self._meant_to_wait = self._wait_s(now)
            self._turned_at = now
            ready = wait(self._waitables(now), self._meant_to_wait)
            self._take(ready, self._clock.monotonic())

    def _stop_began_at(self) -> float | None:
        if self._signals.received is not None:
            return self._signals.received_at
        return self._requests.stop_asked_at

    def _notice_sleep(self, now: float) -> None:
        slept = self._gap.look(self._clock.now_ms(), now, self._meant_to_wait)
        if slept:
            _log.info("the clock went on by %.0f s meanwhile: the machine slept, or the clock was set", slept)
            counted = now - self._turned_at - self._meant_to_wait
            if counted >= GAP_SECONDS:
                self._workforce.slept(counted)
                self._housekeeping.look_at_all()

    def _waitables(self, now: float) -> list[Any]:
        # The wake-up descriptor as a number: on Windows it is an event's handle, not something to read from.
        listening = [self._wake.fileno()] if now >= self._listen_at else []
        return [self._nudge.waitable, *listening, *self._workforce.children.sentinels, *self._companions.waitables]

    def _take(self, ready: list[Any], now: float) -> None:
        if self._nudge.waitable in ready:
            self._nudge.drain()
        if self._wake.fileno() in ready:
            # Every settled job wakes somebody; four looks a second are enough for us.
            self._wake.drain()
            self._listen_at = now + BUSY_LOOK_S
        self._companions.take(ready, now, self._intent)
        for death in self._workforce.bury(ready, now):
            self._reclaim_at = 0.0
            if death.corrupt:
                self._storage.suspect_corruption()

    # -- one turn -----------------------------------------------------------------------------------------------------

    def _turn(self, now: float, wall_ms: int) -> SupervisorResult | None:
        self._intent = self._watcher.current
        if self._watch is not None:
            self._watch.follow(self._intent)
        if not self._storage.open(now) and not self._storage.is_corrupt:
            problem = self._storage.problem
            return failed(problem) if self._args.once and problem is not None else None
        self._workforce.look(now, wall_ms)
        self._give_back(now, wall_ms)
        if self._storage.is_corrupt:
            return self._look_into_damage(now, wall_ms)
        if not self._beginning.turn(now, wall_ms, crash_limit=self._intent.queue.crash_limit):
            return None
        look = self._storage.attempt("looking at the queue", lambda it: self._look_at_queue(it, wall_ms), now)
        if look is not None:
            self._look = look
            self._note_rest(now)
        self._watch_power(now)
        self._ticking.turn(now, wall_ms, self._intent, is_resting=self._rest.is_on)
        if self._watch is not None:
            self._ticking.look_at_changes(self._watch, now, wall_ms)
        self._staff(now)
        self._watch_gate(now, wall_ms)
        if self._once is not None and look is not None and self._ticking.has_begun:
            return self._once.turn(self._look, now, wall_ms)
        return None

    def _begin(self, connection: Connection, wall_ms: int) -> bool:
        self._storage.read_notice(connection, wall_ms)
        self._housekeeping.start(connection, self._intent, wall_ms)
        register_worker(connection, self._wake_id, self._wake.port, wall_ms)
        return True

    def _look_at_queue(self, connection: Connection, wall_ms: int) -> QueueLook:
        hold = active_hold(connection, self._intent, wall_ms)
        self._hold_ends_ms = None if hold is None else hold.until_ms
        return look_at_queue(
            connection,
            self._registry,
            wall_ms,
            limit=self._workforce.maximum + 1,
            free_permits=lambda: self._gate.free_permits(self._intent),
            allowed=self._claimable(connection, wall_ms),
        )

    def _claimable(self, connection: Connection, wall_ms: int) -> Allowed | None:
        is_barred = self._watcher.problem is not None
        allowed = claimable_kinds(connection, self._registry, self._intent, wall_ms, is_barred=is_barred)
        return without_heavy(self._registry, allowed) if self._power.decision.holds else allowed

    def _watch_power(self, now: float) -> None:
        """Decide what the machine's state allows, and tell the workers where that has changed."""
        power = self._power
        power.look(self._look, self._intent, now, is_resting=self._rest.is_on)
        self._workforce.held_to = power.decision.workers
        if power.owes():
            self._storage.attempt("the power state", power.push, now)

    def _note_rest(self, now: float) -> None:
        claimable = self._look.claimable.now
        self._rest.note(
            now,
            is_busy=self._workforce.is_busy or claimable > 0 or self._look.running > 0,
            is_left_over=claimable > 0 and not self._workforce.is_changing,
        )
        tidy_up = self._rest.is_to_shrink(now)
        if tidy_up and self._storage.attempt("tidying up", lambda it: tidy(it, self._paths.database), now) is False:
            self._rest.shrink_again()

    def _staff(self, now: float) -> None:
        self._workforce.start_due(now)
        since = self._rest.left_over_since
        patience_s = 0.0 if self._power.decision.mode is PowerMode.AGGRESSIVE else GROW_AFTER_S
        is_left_over = since is not None and now - since >= patience_s
        self._workforce.adjust(self._look.claimable, now, may_grow=is_left_over)
        if is_left_over:
            # Somebody idle may have missed a datagram, or come up just after it was sent.
            self._storage.attempt("a wake", wake_workers, now)

    def _watch_gate(self, now: float, wall_ms: int) -> None:
        has_hands = any(child.idle_since is not None for child in self._workforce.children)
        is_paused = self._look.paused_until_ms is not None
        self._gate.look(
            self._storage,
            self._intent,
            now,
            wall_ms,
            has_hands=has_hands and not is_paused,
            allowed=lambda connection: self._claimable(connection, wall_ms),
        )

    def _give_back(self, now: float, wall_ms: int) -> None:
        """Give back the leases of workers that are gone; what the database refuses is tried again in a moment."""
        if now < self._reclaim_at:
            return
        limit = self._intent.queue.crash_limit
        if not give_back(self._paths, self._storage, self._workforce, now, wall_ms, crash_limit=limit):
            self._reclaim_at = now + RECLAIM_AGAIN_S

    def _look_into_damage(self, now: float, wall_ms: int) -> SupervisorResult | None:
        outcome = self._damage.turn(now, wall_ms)
        if outcome is Outcome.MOVED:
            self._beginning.again()
            self._look, self._rest = QueueLook(), Rest()
            self._ticking.again()
        elif outcome is Outcome.STUCK and self._args.once:
            return failed(self._storage.problem or "")
        return None

    def _wait_s(self, now: float) -> float:
        """Return how long nothing is due, in seconds."""
        if not self._beginning.is_done or self._storage.is_corrupt:
            moments = self._moments_without_memory(now)
        else:
            moments = self._moments(now)
        moments.append(self._companions.next_moment(now))
        soonest = min(moment for moment in moments if moment is not None)
        return min(max(soonest - now, SHORTEST_WAIT_S), LONGEST_WAIT_S)

    def _moments_without_memory(self, now: float) -> list[float | None]:
        if len(self._workforce.children):
            return [now + ONCE_LOOK_S]
        if self._storage.is_corrupt:
            return [self._damage.next_moment(now)]
        return [max(self._storage.retry_at, now + ONCE_LOOK_S)]

    def _moments(self, now: float) -> list[float | None]:
        tick_at = self._ticking.next_at(now, self._intent, is_resting=self._rest.is_on)
        moments: list[float | None] = [tick_at, self._workforce.next_moment(now), self._gate.again_at]
        moments.append(self._notices.again_at)
        moments.append(self._power.next_moment())
        if self._storage.retry_at > now:
            moments.append(self._storage.retry_at)
        if self._watch is not None and self._gap.catch_up_at is None:
            moments.append(self._watch.next_moment())
        if self._listen_at > now:
            moments.append(self._listen_at)
        if self._workforce.fallen:
            moments.append(max(self._reclaim_at, self._storage.retry_at))
        if self._args.once:
            moments.append(now + ONCE_LOOK_S)
        else:
            moments.append(self._rest.shrink_at() if self._rest.is_on else now + BUSY_LOOK_S)
        # Whoever resumes wakes us; until then what is due is nobody's.
        paused_ms = self._look.paused_until_ms
        for next_ms in (self._look.next_claimable_ms, self._hold_ends_ms) if paused_ms is None else (paused_ms,):
            if next_ms is not None:
                moments.append(now + max((next_ms - self._clock.now_ms()) / 1000, BUSY_LOOK_S))
        return moments

    # -- the end ------------------------------------------------------------------------------------------------------

    def _stop(self, result: SupervisorResult) -> SupervisorResult:
        """End every child within the budget, give their leases back, and leave no file that says we are here."""
        began = self._stop_began_at()
        budget = StopBudget(self._clock.monotonic() if began is None else began)
        self._is_stopping = True
        if self._watch is not None:
            self._watch.stop()
        end_children(self._workforce, self._companions, budget, self._clock, self._intent)
        has_time = budget.has_time_for_checkpoint(self._clock.monotonic())
        now_ms, limit = self._clock.now_ms(), self._intent.queue.crash_limit
        release_all(self._paths, self._storage, self._workforce, [self._wake_id], now_ms, crash_limit=limit)
        self._storage.close(checkpoint=has_time and not self._storage.is_corrupt)
        self._control.close()
        self._wake.close()
        if self._watch is not None:
            self._watch.join()
        _log.info("the supervisor ends: %s %s", result.ended, result.reason)
        return replace(result, notice=self._storage.begun_anew_after)

    # -- what others are told ------------------------------------------------------------------------------------------

    def _facts(self) -> Facts:
        return Facts(
            problem=self._storage.problem,
            needs_owner=self._damage.needs_owner,
            notice=self._storage.notice(self._clock.now_ms()),
            is_prepared=self._beginning.is_done,
            is_stopping=self._is_stopping,
            given_up=len(self._workforce.given_up),
            last_failure=self._workforce.last_failure,
            config_problem=self._watcher.problem,
            paused_until_ms=self._look.paused_until_ms,
            held_by_power=self._power.decision.reason if self._power.holds_work() else "",
            is_resting=self._rest.is_on,
        )

    def _status(self) -> dict[str, Any]:
        """Return what ``status`` shows; runs in a caller's thread, so it only reads."""
        state, reason = state_of(self._facts())
        return {
            "state": str(state),
            "reason": reason,
            "once": self._args.once,
            "workers": self._workforce.views(),
            "slots": self._workforce.slot_states(),
            "power": self._power.view(),
            "watching": [] if self._watch is None else self._watch.hows(self._intent),
            **self._companions.views(),
        }
