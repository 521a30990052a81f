"""What the agent is doing, how far it is, and why it waits. Read from the memory, so it works without the agent."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.actions.asking import asked_about, asked_words
from agent.actions.companions import CompanionStatus, companion_of
from agent.actions.growth import chunk_counts, growing_words, growth_of, seconds_left, unread_items
from agent.actions.held import NEEDS_OWNER, failing_words, hold_of, hold_words, unusable_words
from agent.actions.home import NOT_RUNNING
from agent.actions.pausing import Paused, read_paused
from agent.clock import iso
from agent.db.aside import read_damage
from agent.db.power_row import read_power
from agent.db.serving import EmbeddingProgress, embedding_progress
from agent.queue.counts import QueueCounts, count_jobs
from agent.states import AgentState, PowerCause, PowerMode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.actions.home import Home
    from agent.db.power_row import PowerRow
    from agent.queue.holds import HoldRow

WORKERS_SHOWN = 16
CRASH_SHOWN_MS = 7 * 86_400_000
ASK_PATIENCE_S = 1.0
# A write-ahead log may take 16 MB; with less than a few of these free the next job may find no room.
FULL_DISK_BYTES = 4_000_000


@dataclass(frozen=True)
class WorkerStatus:
    """One worker process: ``job`` is the row it handles, ``rss_bytes`` what it holds of the machine's memory."""

    id: str
    pid: int
    job: int | None
    kind: str | None
    rss_bytes: int | None


@dataclass(frozen=True)
class Watching:
    """How changes of a source are noticed: ``watched``, or ``looked at every N min`` for a reason."""

    source: str
    how: str
    reason: str = ""

    @property
    def is_watched(self) -> bool:
        """Whether changes are noticed as they happen."""
        return self.how == "watched"


@dataclass(frozen=True)
class Power:
    """What the machine's own state allows: ``mode`` and why, the word for it and words (``""``: nothing is restricted).

    ``in_spite_of``: the causes that the owner said to work on in spite of.
    """

    mode: str
    cause: str | None = None
    reason: str = ""
    in_spite_of: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether what loads the machine is held. The owner's own pause is said elsewhere, and first."""
        return self.mode == PowerMode.PAUSED and self.cause != PowerCause.OWNER

    @property
    def words(self) -> str:
        """What an owner is told where there is something to tell, else ``""``."""
        if self.in_spite_of:
            return f"works on in spite of it ({', '.join(self.in_spite_of).replace('_', ' ')}), as you said"
        return f"{self.mode}: {self.reason}" if self.reason and self.cause != PowerCause.OWNER else ""


@dataclass(frozen=True)
class Status:
    """All of ``sapwood status``. ``eta_seconds`` is ``None`` where it cannot be told yet."""

    state: AgentState
    reason: str
    profile: str
    workers: tuple[WorkerStatus, ...]
    queue: QueueCounts
    sources: int
    items: dict[str, int]
    chunks: dict[str, int]
    summaries: int
    embedded: int
    eta_seconds: int | None
    paused_until_ms: int | None
    running: bool
    config_problem: str | None
    notice: str | None = None
    """What an owner is to be told for some days: the memory was damaged and grown again."""
    crashed: str = ""
    """Which process left a crash dump last, for some days, and what takes it along; ``""`` where none did."""
    watching: tuple[Watching, ...] = ()
    """One for each source; empty while the agent does not run."""
    questions: tuple[str, ...] = ()
    """The sources that a question is open about."""
    power: Power | None = None
    """What the power policy allows; ``None`` while the agent does not run."""
    place: str = "here"
    """Where the active profile's models are: ``here`` (built in), ``local`` or ``cloud``, with their host."""
    models: str = ""
    """Why they cannot be had, in words; ``""`` where they can."""
    embedding: EmbeddingProgress | None = None
    """How far the vectors of the wanted model are, and which serve searches meanwhile."""
    tray: CompanionStatus | None = None
    """Whether there is an icon on the desktop, and why not; ``None`` while the agent does not run."""
    gateway: CompanionStatus | None = None
    """The same of the page."""

    @property
    def total_chunks(self) -> int:
        """All chunks of the memory."""
        return sum(self.chunks.values())


def status(home: Home) -> Status:
    """Return the state of the agent and its memory, all counts from one view of the database."""
    now_ms = home.clock.now_ms()
    running = home.running
    with home.connection.snapshot() as connection:
        queue = count_jobs(connection, now_ms)
        chunks = chunk_counts(connection)
        items = {
            str(state): count
            for state, count in connection.all("SELECT state, count(*) FROM mem_tree_items GROUP BY state")
        }
        summaries = int(connection.value("SELECT count(*) FROM mem_tree_summaries"))
        embedding = embedding_progress(connection, _wanted_signature(home), now_ms)
        paused = read_paused(connection, now_ms)
        damage = read_damage(connection, now_ms)
        asked = asked_about(connection, home.paths, home.intent)
        unread = unread_items(connection)
        eta = None
        if running and paused.paused_until_ms is None:
            due = queue.ready + queue.running
            eta = 0 if not due and not queue.deferred else seconds_left(connection, due, unread, now_ms)
        stored = read_power(connection)
        hold = hold_of(connection, home.intent, now_ms)
        failing = failing_words(connection, home.intent, queue)
    answer = ask_the_agent(home) if running else {}
    power = power_of(answer, stored) if running else None
    workers = worker_statuses(home) if running else ()
    growing = growing_words(growth_of(chunks, queue.waiting, summaries, unread))
    held = unusable_words(home.intent, queue) or hold_words(hold, queue, growing) or failing
    state, reason = state_of(
        running, paused, queue, len(home.intent.sources), home.config_problem, growing, asked, power, held
    )
    watching: tuple[Watching, ...] = ()
    if running:
        state, reason = as_the_agent_says(answer) or (state, reason)
        watching = _watching_of(answer)
        if state is AgentState.GROWING and free_bytes(home) < FULL_DISK_BYTES:
            state, reason, eta = AgentState.ATTENTION, full_words(home), None
    if power is not None and power.holds:
        eta = None
    return Status(
        state=state,
        reason=reason,
        profile=home.intent.models.active,
        workers=workers,
        queue=queue,
        sources=len(home.intent.sources),
        items=items,
        chunks=chunks,
        summaries=summaries,
        embedded=embedding.embedded,
        eta_seconds=eta,
        paused_until_ms=paused.paused_until_ms,
        running=running,
        config_problem=home.config_problem,
        notice=damage.words if damage is not None else None,
        crashed=crash_words(home, now_ms),
        watching=watching,
        questions=asked,
        power=power,
        place=_place(home),
        models=_kept_from(home, hold),
        embedding=embedding,
        tray=companion_of(answer, "tray"),
        gateway=companion_of(answer, "gateway"),
    )


def crash_words(home: Home, now_ms: int) -> str:
    """Return which process of ours left a crash dump last, within seven days; ``""`` where none did."""
    from agent.crash import dumps

    found = dumps(home.paths.log_dir)
    if not found or now_ms - found[0].at_ms > CRASH_SHOWN_MS:
        return ""
    return f"{found[0].process} on {iso(found[0].at_ms)}; `sapwood bug-report` takes its dump along"


def _place(home: Home) -> str:
    profile = home.intent.active_profile
    if profile is None:
        return "here"
    return f"{'local' if home.intent.is_local(profile) else 'cloud'}, {profile.host}"


def _kept_from(home: Home, hold: HoldRow | None) -> str:
    problem = home.intent.active_problem
    if problem is not None:
        return f"{problem[0]}: {problem[1]}"
    if hold is None:
        return ""
    return hold.reason if hold.code in NEEDS_OWNER else f"{hold.reason}; until {iso(hold.until_ms)}"


def worker_statuses(home: Home) -> tuple[WorkerStatus, ...]:
    """Return the live workers, each with the row it handles right now; reads one small file for each."""
    import psutil  # type: ignore[import-untyped,unused-ignore]

    from agent.queue.handling import all_handling

    found = []
    for reading in all_handling(home.paths)[:WORKERS_SHOWN]:
        try:
            process = psutil.Process(reading.pid)
            # A pid counts only with the start of its process.
            if abs(process.create_time() - reading.process_started_s) > 1.0:
                continue
            rss: int | None = process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError):
            rss = None
        found.append(
            WorkerStatus(reading.worker_id, reading.pid, reading.job_id, reading.kind if reading.job_id else None, rss)
        )
    return tuple(found)


def _wanted_signature(home: Home) -> str:
    from agent.errors import JobFailure
    from agent.models.profiles import open_profile

    try:
        return open_profile(home.intent, {}).embedder.signature
    except JobFailure:
        return ""


def free_bytes(home: Home) -> int:
    """Return how much room the disk of the memory has."""
    return shutil.disk_usage(home.paths.data_dir).free


def full_words(home: Home) -> str:
    """Return what an owner is told of a disk that takes nothing more."""
    return (
        f"the disk of {home.paths.data_dir} is full: make room on it; nothing is lost, and the work goes on by itself "
        "within five minutes of that"
    )


def ask_the_agent(home: Home) -> dict[str, Any]:
    """Return what the agent says of itself, ``{}`` where it does not answer; blocks for a second at most."""
    from agent.errors import SapwoodError
    from agent.supervisor.control import call

    try:
        return call(home.paths, "status", ASK_PATIENCE_S)
    except SapwoodError:
        return {}


def as_the_agent_says(answer: Mapping[str, Any]) -> tuple[AgentState, str] | None:
    """Return state and reason from the agent itself where it knows more than the memory does."""
    try:
        state = AgentState(answer["state"])
    except (KeyError, ValueError):
        return None
    if state in (AgentState.ERROR, AgentState.ATTENTION, AgentState.STARTING, AgentState.STOPPED):
        return state, str(answer.get("reason") or {AgentState.STARTING: "starting"}.get(state, ""))
    return None


def _watching_of(answer: dict[str, Any]) -> tuple[Watching, ...]:
    # An agent of another version may say nothing of it.
    return tuple(
        Watching(str(each["source"]), str(each["how"]), str(each.get("reason", "")))
        for each in answer.get("watching", ())
    )


def power_of(answer: Mapping[str, Any], stored: PowerRow | None) -> Power:
    """Return what the power policy allows, by the agent's answer, or else by what it stored for its workers."""
    said = answer.get("power")
    if isinstance(said, dict):
        return Power(str(said["mode"]), said["cause"], str(said["reason"]), tuple(said["in_spite_of"]))
    # An agent that is too busy to answer has told its workers.
    if stored is None:
        return Power(str(PowerMode.NORMAL))
    return Power(str(stored.mode), str(stored.cause), stored.reason)


def state_of(
    running: bool,
    paused: Paused,
    queue: QueueCounts,
    sources: int,
    config_problem: str | None,
    growing: str,
    asked: tuple[str, ...],
    power: Power | None,
    held: tuple[AgentState, str] | None = None,
) -> tuple[AgentState, str]:
    """Return what the agent does and why, from what the memory and the intent tell. Pure."""
    if not running:
        return AgentState.STOPPED, NOT_RUNNING
    if config_problem is not None:
        return AgentState.ATTENTION, f"config.toml cannot be read, the last good copy is in use: {config_problem}"
    if paused.paused_until_ms is not None:
        until = "until `sapwood resume`" if paused.indefinite else f"until {iso(paused.paused_until_ms)}"
        return AgentState.PAUSED, f"paused by its owner {until}"
    if power is not None and power.holds and queue.ready:
        return AgentState.PAUSED, f"{power.reason}; `sapwood resume` works on all the same"
    if held is not None:
        return held
    if queue.ready or queue.running:
        return AgentState.GROWING, growing
    if queue.failed:
        return AgentState.ATTENTION, f"{queue.failed} jobs failed; see `sapwood jobs --status failed`"
    if asked:
        return AgentState.ATTENTION, asked_words(asked)
    if not sources:
        return AgentState.IDLE, "there is nothing to read yet; name a source with `sapwood add PATH`"
    if queue.deferred:
        return AgentState.IDLE, "1 job is due later" if queue.deferred == 1 else f"{queue.deferred} jobs are due later"
    return AgentState.IDLE, "everything is grown"
