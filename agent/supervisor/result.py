"""What a supervisor is asked for and how it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from agent.paths import Paths

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.queue.types import NewJob
    from agent.supervisor.notices import Seen

IdleHook = Callable[["Connection", int], "Sequence[NewJob]"]
"""``(connection, now_ms)``: the jobs that close every open tail of every tree. Reads only."""

FinishedHook = Callable[["Connection"], "Sequence[str]"]
"""``(connection)``: what is not finished, in words. Reads only."""

GateHook = Callable[[Paths, "Intent", Callable[[], bool], Callable[[], None]], "float | None"]
"""``(paths, intent, is_due, wake)``: look whether a permit's holder died unseen while a row waits for it.

Returns after how many seconds to look again, ``None`` for not before there is work (``agent.gate.serve_waiting``).
"""

PermitsHook = Callable[[Paths, "Intent"], "int | None"]
"""``(paths, intent)``: how many permits are free for LLM-bound rows, ``None`` where the profile needs none."""

LedgerHook = Callable[[Paths, "Connection", int], None]
"""``(paths, connection, now_ms)``: do what forgetting left to be done. Cheap where that is nothing."""

MendHook = Callable[[Paths, "Connection", "Intent", int, bool], None]
"""``(paths, connection, intent, now_ms, at_start)``: end what holds models back where its cause was mended.

``at_start``: no worker runs yet. Reads first: writes nothing where nothing is to do.
"""

NeedsHook = Callable[[Paths, "Connection", "Intent", int], "Seen"]
"""``(paths, connection, intent, now_ms)``: what in the memory wants its owner. Reads only, a few seeks."""


@dataclass(frozen=True)
class CompanionSpec:
    """A process beside the workers: its role, its main by dotted name (``agent.system.companion``).

    ``on_demand``: started when it is asked for. ``off``: why it is not to be had in this run, ``""`` where it is.
    """

    role: str
    target: str
    on_demand: bool = False
    off: str = ""


@dataclass(frozen=True)
class SupervisorArgs:
    """What to supervise. Everything above this room comes as a dotted name, ``package.module:attribute``.

    ``worker`` is run as ``worker(WorkerArgs, life_line)`` in each child. ``kind_names`` are the job kinds. ``workers``
    overrides the largest size of the pool. The hooks are described beside their types. ``open_profile`` is handed to
    the workers (``None``: their own default). ``power_signals`` makes what samples the machine (``PowerSignals``).
    ``companions``: the tray and the page. ``by_person``: somebody started it and looks; a second start then opens the
    page of the first.
    """

    paths: Paths
    worker: str
    kind_names: tuple[str, ...]
    once: bool = False
    workers: int | None = None
    idle_hook: str | None = None
    finished_hook: str | None = None
    gate_hook: str | None = None
    permits_hook: str | None = None
    ledger_hook: str | None = None
    mend_hook: str | None = None
    needs_hook: str | None = None
    open_profile: str | None = None
    power_signals: str = "agent.system.power:SystemPower"
    companions: tuple[CompanionSpec, ...] = ()
    by_person: bool = False
    log_level: str = "INFO"


class Ended(StrEnum):
    """How a supervisor ended."""

    STOPPED = "stopped"  # asked to, by a signal or over the control channel
    HANDED_OVER = "handed_over"  # another one runs and was told
    FINISHED = "finished"  # --once: everything is done
    UNFINISHED = "unfinished"  # --once: the reason says what is left
    FAILED = "failed"  # it cannot work; the reason says why


@dataclass(frozen=True)
class SupervisorResult:
    """How it ended, why, how many jobs are parked as failed, and which signal ended it."""

    ended: Ended
    reason: str = ""
    failed_jobs: int = 0
    signal: int | None = None
    notice: str = ""
    """What an owner is to be told beside it: the memory was damaged and begun anew meanwhile."""

    @property
    def exit_code(self) -> int:
        """What the command ends with: 0 done, 1 not done."""
        return 1 if self.ended in (Ended.UNFINISHED, Ended.FAILED) else 0


def failed(reason: str) -> SupervisorResult:
    """Return the end of an agent that cannot work."""
    return SupervisorResult(Ended.FAILED, reason)


def unfinished(reason: str, failed_jobs: int = 0) -> SupervisorResult:
    """Return the end of a ``--once`` that left something undone."""
    return SupervisorResult(Ended.UNFINISHED, reason, failed_jobs=failed_jobs)
