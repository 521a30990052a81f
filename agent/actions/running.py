"""Starting and ending the agent. This is the room that names the processes, the kinds and the hooks to supervise."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.errors import AgentFault, AgentNotRunning, SapwoodError
from agent.paths import Paths, find_paths

if TYPE_CHECKING:
    from agent.supervisor.result import CompanionSpec, SupervisorResult

WORKER = "agent.worker.process:worker_main"
IDLE_HOOK = "agent.tree.flush:close_all_tails"
FINISHED_HOOK = "agent.tree.flush:unfinished"
GATE_HOOK = "agent.worker.permits:serve_unseen"
PERMITS_HOOK = "agent.worker.permits:free_permits"
LEDGER_HOOK = "agent.actions.forgetting:keep_ledger"
MEND_HOOK = "agent.models.mending:tend"
NEEDS_HOOK = "agent.actions.notifying:what_is_needed"
TRAY = "agent.desktop.tray.process:tray_main"
GATEWAY = "agent.gateway.process:gateway_main"

INTERRUPTED = 130
# The stop budget of the supervisor is four seconds; a machine under load gets some more.
STOP_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Ran:
    """How a run of the agent ended: the supervisor's word for it, what an owner is told, the exit code."""

    ended: str
    words: str
    failed_jobs: int
    exit_code: int
    notice: str = ""
    questions: tuple[str, ...] = ()
    """The sources that a question is open about."""


@dataclass(frozen=True)
class Stopped:
    """Which process was asked to end, and whether it has."""

    pid: int
    ended: bool


def run_agent(
    paths: Paths | None = None,
    *,
    once: bool = False,
    workers: int | None = None,
    debug: bool = False,
    headless: bool = False,
    by_person: bool = False,
) -> Ran:
    """Run the agent in this process and its workers below it; blocks until it ends.

    ``headless``: without a tray, whatever the settings say. ``by_person``: not by a login.

    Called from the main thread (processes are started from there alone). Raises ``AgentFault`` where it cannot start.
    """
    from agent import crash
    from agent.actions.autostart import repair_autostart
    from agent.logs import start_logging
    from agent.supervisor import Ended, SupervisorArgs, supervise
    from agent.system.instance_mutex import show_that_it_runs
    from agent.worker.kinds import KIND_NAMES

    paths = (find_paths() if paths is None else paths).make()
    level = "DEBUG" if debug else "INFO"
    start_logging(paths, "supervisor", level, to_stderr=debug)
    crash.arm(paths, "supervisor")
    show_that_it_runs()
    if not once:
        repair_autostart(paths)
    result = supervise(
        SupervisorArgs(
            paths=paths,
            worker=WORKER,
            kind_names=tuple(KIND_NAMES),
            once=once,
            workers=workers,
            idle_hook=IDLE_HOOK,
            finished_hook=FINISHED_HOOK,
            gate_hook=GATE_HOOK,
            permits_hook=PERMITS_HOOK,
            ledger_hook=LEDGER_HOOK,
            mend_hook=MEND_HOOK,
            needs_hook=NEEDS_HOOK,
            companions=_companions(once=once, headless=headless),
            by_person=by_person and not once,
            log_level=level,
        )
    )
    asked = _asked_about(paths) if result.ended is Ended.FINISHED else ()
    return _told(result, asked, once=once)


def _companions(*, once: bool, headless: bool) -> tuple[CompanionSpec, ...]:
    from agent.supervisor import CompanionSpec

    no_tray = "it runs with --once" if once else "it runs with --headless" if headless else ""
    no_page = "it runs with --once and ends when all is grown: start it with `sapwood run`" if once else ""
    return (
        CompanionSpec("tray", TRAY, off=no_tray),
        CompanionSpec("gateway", GATEWAY, on_demand=True, off=no_page),
    )


def _asked_about(paths: Paths) -> tuple[str, ...]:
    from agent.actions.asking import asked_about
    from agent.actions.home import open_home
    from agent.db.faults import is_database_fault

    try:
        with open_home(paths) as home:
            return asked_about(home.connection, paths, home.intent)
    except Exception as error:
        # The run is done, whatever hinders this look at what it left.
        if not isinstance(error, SapwoodError | OSError) and not is_database_fault(error):
            raise
        return ()


def _told(result: SupervisorResult, asked: tuple[str, ...], *, once: bool) -> Ran:
    from agent.actions.asking import asked_words
    from agent.supervisor.result import Ended

    words = {
        Ended.STOPPED: "the agent has ended",
        Ended.HANDED_OVER: "the agent is running already; "
        + ("it grows what there is, this run did nothing: see `sapwood status`" if once else "see `sapwood status`"),
        Ended.FINISHED: "everything is grown",
        Ended.UNFINISHED: "not everything is grown",
        Ended.FAILED: "the agent cannot work",
    }[result.ended]
    if result.reason and result.ended is not Ended.HANDED_OVER:
        words = f"{words}: {result.reason}"
    if result.failed_jobs:
        words = f"{words}; {result.failed_jobs} failed, see `sapwood jobs --status failed`"
    if asked:
        words = f"{words}, but {asked_words(asked)}"
    code = INTERRUPTED if result.signal == signal.SIGINT else result.exit_code
    return Ran(str(result.ended), words, result.failed_jobs, code, result.notice, asked)


def is_running(paths: Paths) -> bool:
    """Return whether an agent of this home runs already. Never blocks; it may have ended a moment later."""
    from agent.supervisor.control import running_agent

    return running_agent(paths) is not None


def held_otherwise(paths: Paths) -> str:
    """Return why the power policy would hold the work back now, ``""`` where it would not. Takes some milliseconds."""
    from agent.config import IntentWatcher
    from agent.errors import ConfigBroken
    from agent.supervisor.power import PowerPolicy
    from agent.system.power import SystemPower

    try:
        settings = IntentWatcher(paths).current.power
    except ConfigBroken:
        return ""  # whoever runs the agent says so
    decision = PowerPolicy().decide(SystemPower().sample(), settings, 0.0)
    return "" if decision.row is None else decision.reason


def stop_agent(paths: Paths | None = None, *, wait: bool = False) -> Stopped:
    """Ask the running agent to end; with ``wait`` return when it has. Needs no memory: it may be damaged or gone.

    Raises ``AgentNotRunning``, and ``AgentFault`` where it does not end in time.
    """
    from agent.supervisor.control import call, running_agent, wait_until_gone

    paths = find_paths() if paths is None else paths
    found = running_agent(paths)
    if found is None:
        raise AgentNotRunning("so there is nothing to end")
    call(paths, "stop")
    if not wait:
        return Stopped(found.pid, ended=False)
    if not wait_until_gone(found, STOP_PATIENCE_S):
        raise AgentFault(
            "the agent has not ended", f"process {found.pid}, after {STOP_PATIENCE_S:.0f} seconds", "try once more"
        )
    return Stopped(found.pid, ended=True)
