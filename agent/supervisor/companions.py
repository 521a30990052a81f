"""The processes beside the workers: the tray for as long as its owner wants one, the page when it is asked for.

Started from the main thread, tied to this process like a worker, told of changes over their life line. Nothing here
waits for them: a tray that hangs, crashes or never reads costs the agent nothing.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from typing import Any

from agent.config import Intent
from agent.states import CompanionState, WorkerState
from agent.supervisor.children import spawn
from agent.supervisor.companion import Companion, CompanionView, Do, exit_words
from agent.supervisor.companion_news import News, Pace
from agent.supervisor.result import SupervisorArgs
from agent.supervisor.stopping import KILL_AT_S, TERMINATE_AT_S, Force
from agent.system.companion import CompanionArgs, CompanionLine, CompanionSender, Say
from agent.system.parent import ProcessGroup, child_group

TRAY, GATEWAY = "tray", "gateway"
TRAY_OFF = "desktop.tray is off: `sapwood config set desktop.tray true` shows it"
PRESS_LOOK_S = 0.1
MESSAGES_A_TURN = 50

_log = logging.getLogger("sapwood.supervisor")


@dataclass
class _Running:
    """The process of a companion."""

    companion: Companion
    process: SpawnProcess
    line: CompanionLine
    sender: CompanionSender
    pid: int
    told_at: float | None = None
    is_deaf: bool = False
    """Its end of the line is closed."""
    serial: int = -1
    """The last state that it was told."""

    def tell_to_stop(self, now: float) -> None:
        self.companion.ending()
        if self.told_at is None:
            self.told_at = now
            self.sender.post(Say.STOP)

    def use_force(self, force: Force) -> None:
        with contextlib.suppress(OSError, ValueError):
            if force is Force.TERMINATED:
                self.process.terminate()
            elif force is Force.KILLED:
                self.process.kill()


class Companions:
    """All of them. Times are monotonic seconds, handed in. Only ``ask`` and ``views`` run in other threads."""

    def __init__(self, args: SupervisorArgs, group: ProcessGroup | None = None) -> None:
        self._args = args
        self._group = child_group(may_break_away=True) if group is None else group
        self._context = multiprocessing.get_context("spawn")
        chance = random.Random()
        self._all = {spec.role: Companion(spec, lambda: chance.uniform(-1, 1)) for spec in args.companions}
        self._running: dict[int, _Running] = {}
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._pace = Pace()

    def __len__(self) -> int:
        return len(self._running)

    @property
    def sentinels(self) -> list[int]:
        """What becomes ready when one ends."""
        return list(self._running)

    @property
    def waitables(self) -> list[Any]:
        """What becomes ready when one ends or says something."""
        return [*self._running, *(each.line.waitable for each in self._running.values() if not each.is_deaf)]

    # -- from other threads -------------------------------------------------------------------------------------------

    def ask(self, role: str, now: float) -> dict[str, Any]:
        """Note that somebody wants it, and return how it is or will be in a moment. Does not block."""
        companion = self._all.get(role)
        if companion is None:
            return _told(CompanionView(CompanionState.IMPOSSIBLE, "this run of the agent has none"), None)
        with self._lock:
            self._asked.add(role)
        return _told(companion.view_when_asked(now), self._pid_of(companion))

    def views(self) -> dict[str, dict[str, Any]]:
        """Return how each of them is, by role, as ``status`` shows it."""
        return {role: _told(each.view(), self._pid_of(each)) for role, each in self._all.items()}

    def _pid_of(self, companion: Companion) -> int | None:
        return next((each.pid for each in list(self._running.values()) if each.companion is companion), None)

    # -- the main loop's ----------------------------------------------------------------------------------------------

    def turn(self, now: float, intent: Intent, *, may_start: bool) -> None:
        """Start what is due, end what nobody wants. Starting one takes some milliseconds.

        ``may_start``: the workers are up, so that what is not asked for by anybody is in nobody's way.
        """
        with self._lock:
            asked, self._asked = self._asked, set()
        for role, companion in self._all.items():
            companion.allow(TRAY_OFF if role == TRAY and not intent.desktop.tray else "")
            if role in asked:
                companion.ask(now)
            step = companion.next_step(now, may_start=may_start)
            if step is Do.START:
                self._start(companion, now, intent)
            elif step is Do.END:
                self._end(companion, now)
        for running in list(self._running.values()):
            self._press(running, now)

    def _start(self, companion: Companion, now: float, intent: Intent) -> None:
        role = companion.spec.role
        sender: CompanionSender | None = None
        try:
            ours, theirs = self._context.Pipe(duplex=True)
            line = CompanionLine(ours)
            sender = CompanionSender(line)
            args = CompanionArgs(self._args.paths, role, os.getpid(), self._args.log_level)
            process, pid = spawn(self._context, self._group, companion.spec.target, args, (ours, theirs), role)
        except (OSError, RuntimeError) as error:
            # No memory, no descriptors, no threads: as bad as a process that dies at once, and no worse.
            _log.error("the %s could not be started: %s", role, error)
            if sender is not None:
                sender.close()
            companion.not_started(str(error), now, intent.supervisor)
            return
        companion.started(now)
        self._running[process.sentinel] = _Running(companion, process, line, sender, pid)
        _log.info("the %s is process %d", role, pid)

    def _end(self, companion: Companion, now: float) -> None:
        for running in list(self._running.values()):
            if running.companion is companion:
                running.tell_to_stop(now)

    def _press(self, running: _Running, now: float) -> None:
        if running.is_deaf and running.told_at is None:
            # It can be told nothing any more: another one can.
            running.told_at = now
        elif running.companion.slot.state is WorkerState.STOPPING:
            running.tell_to_stop(now)
        if running.told_at is None:
            return
        if now - running.told_at >= KILL_AT_S:
            running.use_force(Force.KILLED)
        elif now - running.told_at >= TERMINATE_AT_S:
            running.use_force(Force.TERMINATED)

    def take(self, ready: Sequence[object], now: float, intent: Intent) -> None:
        """Take in what the ready ones say, then those that have ended."""
        for running in list(self._running.values()):
            if running.line.waitable in ready:
                self._hear(running, now)
        self.bury(ready, now, intent)

    def _hear(self, running: _Running, now: float) -> None:
        for _ in range(MESSAGES_A_TURN):
            if running.is_deaf or not running.line.poll():
                return
            # Blocks for no longer than our own code takes to write a few hundred bytes in one go.
            message = running.line.receive()
            if message is None:
                running.is_deaf = True
                return
            before = running.companion.view()
            running.companion.said(message, now)
            after = running.companion.view()
            if after != before:
                told = f" ({after.reason or after.detail})" if after.reason or after.detail else ""
                _log.info("the %s is %s%s", running.companion.spec.role, after.state, told)

    def bury(self, ready: Iterable[object], now: float, intent: Intent) -> None:
        """Take in those that have ended."""
        for sentinel in ready:
            running = self._running.get(sentinel) if isinstance(sentinel, int) else None
            if running is None:
                continue
            # What it said last says why it ended.
            self._hear(running, now)
            running.process.join()
            code, companion = running.process.exitcode, running.companion
            # First, so that nobody who asks meanwhile is told that it is up and has no process.
            has_given_up = companion.exited(code, now, intent.supervisor)
            del self._running[running.process.sentinel]
            running.sender.close()
            running.process.close()
            role, state = companion.spec.role, companion.view().state
            level = logging.WARNING if state in (CompanionState.STARTING, CompanionState.FAILED) else logging.INFO
            _log.log(level, "the %s ended: %s", role, exit_words(code))
            if has_given_up:
                _log.error("the %s ends again and again (%s); it is tried slowly", role, exit_words(code))

    def tell(self, news: News, now: float) -> None:
        """Tell those that run what has changed: at most twice a second, and now and then while the memory grows."""
        pace = self._pace
        pace.note(news, now)
        behind = self._behind()
        if not behind or not pace.may_tell(now):
            return
        pace.told(now)
        for running in behind:
            running.serial = pace.serial
            running.sender.post(Say.STATE, state=str(news.state), reason=news.reason, serial=pace.serial)

    def _behind(self) -> list[_Running]:
        return [each for each in self._running.values() if each.serial != self._pace.serial and each.told_at is None]

    def next_moment(self, now: float) -> float | None:
        """Return when something here is due (monotonic), or ``None`` while all is at rest."""
        moments = [moment for each in self._all.values() if (moment := each.next_moment()) is not None]
        with self._lock:
            if self._asked:
                moments.append(now)
        if any(each.told_at is not None for each in self._running.values()):
            moments.append(now + PRESS_LOOK_S)
        if self._running and (at := self._pace.next_moment(is_behind=bool(self._behind()))) is not None:
            moments.append(at)
        return min(moments, default=None)

    # -- the end ------------------------------------------------------------------------------------------------------

    def use_force(self, force: Force, now: float) -> None:
        """Ask, then make every one end, as the budget of a stop says. None is started any more."""
        for companion in self._all.values():
            companion.allow("the agent is ending")
        for running in self._running.values():
            running.tell_to_stop(now)
            running.use_force(force)


def _told(view: CompanionView, pid: int | None) -> dict[str, Any]:
    return {"state": str(view.state), "reason": view.reason, "detail": view.detail, "pid": pid}
