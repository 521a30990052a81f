"""Becoming the one supervisor of a data directory, or telling the one that there is."""

from __future__ import annotations

import threading
import time

from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import IntentWatcher
from agent.config_edit import keep_last_good
from agent.errors import AgentFault, AgentNotRunning, ConfigBroken
from agent.supervisor.control import SingleInstance, call
from agent.supervisor.result import Ended, SupervisorArgs, SupervisorResult, failed
from agent.supervisor.supervisor import Supervisor
from agent.system.streams import ensure_streams

HAND_OVER_PATIENCE_S = 5.0
_LOOK_S = 0.1


def supervise(args: SupervisorArgs, *, clock: Clock = SYSTEM_CLOCK) -> SupervisorResult:
    """Run the agent until it is told to stop, or with ``once`` until everything is done; blocks meanwhile.

    Main thread only (``AgentFault``). Where another supervisor has the data directory, tells it and returns
    ``HANDED_OVER``. A database that cannot be opened is not an error here: the control channel answers and says why.
    """
    if threading.current_thread() is not threading.main_thread():
        raise AgentFault("the supervisor runs in the main thread only", threading.current_thread().name)
    ensure_streams()
    args.paths.make()
    instance = SingleInstance(args.paths)
    refused = _take_over_or_hand_over(args, instance)
    if refused is not None:
        return refused
    try:
        watcher = IntentWatcher(args.paths, on_good=keep_last_good)
    except ConfigBroken as error:
        instance.release()
        return failed(f"{error}; {error.hint}")
    try:
        return Supervisor(args, watcher, clock).run()
    finally:
        instance.release()


def _take_over_or_hand_over(args: SupervisorArgs, instance: SingleInstance) -> SupervisorResult | None:
    end = time.monotonic() + HAND_OVER_PATIENCE_S
    while not instance.acquire():
        try:
            # Who starts it a second time wants to see it; a login, or a script, wants it to run.
            call(args.paths, "open" if args.by_person else "look", timeout=2.0)
            return SupervisorResult(Ended.HANDED_OVER, "the agent is already running")
        except AgentNotRunning:
            # It is just coming up, or just going: one of the two ends within moments.
            problem = "another process holds the agent's lock and does not answer"
        except AgentFault as error:
            problem = str(error)
        if time.monotonic() >= end:
            return failed(problem)
        time.sleep(_LOOK_S)
    return None
