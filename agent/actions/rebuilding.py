"""``sapwood rebuild``: the memory grown again from the intent, the inbox, the ledger and the sources.

Ids depend on content alone, so what grows is what was there. What models answered is kept and found again: nothing is
paid for twice; what belongs to nothing any more is taken out a day after all has grown. A sound memory is emptied in
place, whether or not the agent runs; a damaged one is moved aside, by the agent where it runs, else under its lock so
that none starts meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from agent.actions.damaged import ask_agent
from agent.actions.home import is_running
from agent.clock import SYSTEM_CLOCK, Clock
from agent.config import Intent, SourceIntent, load_intent
from agent.db.aside import DAMAGED, copies, move_aside
from agent.db.backup import open_damaged
from agent.db.connection import connect
from agent.db.faults import FaultClass, classify
from agent.db.integrity import damage
from agent.db.state import PAUSE_KEY, REGROWING_KEY, set_state
from agent.db.wipe import wipe, wipe_summaries
from agent.errors import AgentFault, ConfigBroken, DatabaseCorrupt, UsageFault
from agent.ledger import read_ledger
from agent.queue.types import NewJob
from agent.states import Answer

if TYPE_CHECKING:
    from agent.db import Connection
    from agent.paths import Paths

AGENT_PATIENCE_S = 30.0
SHRINK_PATIENCE_MS = 300
_LOOK_S = 0.1


@dataclass(frozen=True)
class AtRisk:
    """A source whose content cannot be read again now, why, and how many passages are held of it."""

    source_id: str
    why: str
    passages: int


@dataclass(frozen=True)
class Plan:
    """What a rebuild would do: how the memory is, and what would be lost for good."""

    is_sound: bool
    exists: bool
    at_risk: tuple[AtRisk, ...] = ()


@dataclass(frozen=True)
class Rebuilt:
    """A memory that grows again: its file, its bytes now, what went, where a damaged file is, what was queued."""

    path: str
    bytes: int
    ok: bool
    chunks: int
    summaries: int
    moved_to: str | None
    queued: tuple[str, ...]
    running: bool


def look(paths: Paths) -> Plan:
    """Return what a rebuild would do and what it would lose, once the whole file was read. Changes nothing.

    Where the owner ever said that something gone is to be kept, the sources are read too: only they tell what is gone.
    Blocks for as long as that takes. Raises ``DatabaseRefused`` and, where the memory is sound, ``ConfigBroken``.
    """
    if not paths.database.exists():
        return Plan(is_sound=True, exists=False)
    try:
        connection = connect(paths.database, paths.write_turn, create=False)
        try:
            # An index that does not match its table would outlive an emptying in place.
            if damage(connection, lambda: False, deep=True):
                return Plan(is_sound=False, exists=True)
            return Plan(True, True, _at_risk(connection, load_intent(paths).intent, _kept_questions(paths)))
        finally:
            connection.close()
    except (apsw.Error, DatabaseCorrupt) as error:
        if classify(error) is not FaultClass.CORRUPT:
            raise
        return Plan(is_sound=False, exists=True)


def _kept_questions(paths: Paths) -> frozenset[str] | None:
    """Return the questions whose owner said that what is gone is to be kept; ``None`` where nobody can tell."""
    try:
        answers = read_ledger(paths).answers
    except OSError:
        return None
    return frozenset(question_id for question_id, answer in answers.items() if answer is Answer.REFUSE)


def _at_risk(connection: Connection, intent: Intent, kept_questions: frozenset[str] | None) -> tuple[AtRisk, ...]:
    held = {
        str(source_id): int(count)
        for source_id, count in connection.all("SELECT source_id, count(*) FROM mem_tree_chunks GROUP BY source_id")
    }
    asked = {
        str(source_id): int(gone)
        for source_id, question_id, gone in connection.all(
            "SELECT source_id, question_id, gone FROM mem_tree_questions"
        )
        if question_id not in (kept_questions or ())
    }
    may_be_kept = kept_questions is None or bool(kept_questions)
    found = []
    for source in intent.sources:
        passages = held.pop(source.id, 0)
        missing = [path for path in source.paths if not Path(path).exists()]
        if missing and passages:
            found.append(AtRisk(source.id, f"not there now: {', '.join(missing)}", passages))
        elif source.id in asked:
            found.append(AtRisk(source.id, f"{asked[source.id]} of its items are gone and you were asked", passages))
        elif may_be_kept and passages and (kept := _passages_kept(connection, source)):
            found.append(AtRisk(source.id, "not there any more, and kept", kept))
    found += [AtRisk(source_id, "no longer in the settings", passages) for source_id, passages in sorted(held.items())]
    return tuple(found)


def _passages_kept(connection: Connection, source: SourceIntent) -> int:
    from agent.ingest.kept import passages_without_source

    try:
        return passages_without_source(connection, source)
    except UsageFault:
        return 0  # of a kind that nothing is held of


def rebuild(paths: Paths, *, plan: Plan | None = None, summaries: bool = False, clock: Clock = SYSTEM_CLOCK) -> Rebuilt:
    """Empty the memory, or move a damaged one aside, and queue every source; return at once, growing is the agent's.

    ``plan`` is what ``look_leniently`` just said. ``summaries``: only the trees are made again, nothing is read. Raises
    ``ConfigBroken`` where no settings can be read at all and the memory is sound: nothing would grow again. Blocks for
    the writing, or while the agent does it.
    """
    plan = look_leniently(paths) if plan is None else plan
    if not plan.is_sound or not plan.exists:
        return _begin_anew(paths, clock)
    intent = load_intent(paths).intent
    try:
        return _in_place(paths, intent, summaries=summaries, clock=clock)
    except (apsw.Error, DatabaseCorrupt) as error:
        # Opening it met nothing damaged, emptying it did.
        if classify(error) is not FaultClass.CORRUPT:
            raise
        return _begin_anew(paths, clock)


def look_leniently(paths: Paths) -> Plan:
    """Return the plan where the settings may be unreadable: a damaged memory does not need them."""
    try:
        return look(paths)
    except ConfigBroken:
        return Plan(is_sound=True, exists=True)


def _in_place(paths: Paths, intent: Intent, *, summaries: bool, clock: Clock) -> Rebuilt:
    connection = connect(paths.database, paths.write_turn)
    try:
        with connection.write(full=True):
            gone = wipe_summaries(connection) if summaries else wipe(connection)
            set_state(connection, REGROWING_KEY, str(clock.now_ms()))
        queued = () if summaries else _queue_all(connection, intent, clock)
        _shrink(connection)
    finally:
        connection.close()
    _forget_held()
    # It looks at every source, runs the sweeps, and wakes whoever sleeps.
    running = ask_agent(paths, "reload") or is_running(paths)
    return _rebuilt(paths, gone.chunks, gone.summaries, None, queued, running=running)


def _shrink(connection: Connection) -> None:
    connection.raw.set_busy_timeout(SHRINK_PATIENCE_MS)
    try:
        connection.run("PRAGMA wal_checkpoint(TRUNCATE)")
    except apsw.Error as error:
        # Somebody reads: the log is brought in at the next quiet moment.
        if classify(error) is not FaultClass.BUSY:
            raise


def _queue_all(connection: Connection, intent: Intent, clock: Clock) -> tuple[str, ...]:
    from agent.queue.enqueue import enqueue

    for source in intent.sources:
        enqueue(connection, NewJob.sync_source(source.id), clock.now_ms())
    return tuple(source.id for source in intent.sources)


def _begin_anew(paths: Paths, clock: Clock) -> Rebuilt:
    from agent.supervisor.control import SingleInstance

    instance = SingleInstance(paths)
    if not instance.acquire():
        return _by_the_agent(paths)
    try:
        moved_to, queued = set_aside(paths, clock)
    finally:
        instance.release()
    return _rebuilt(paths, 0, 0, None if moved_to is None else str(moved_to), queued, running=False)


def set_aside(paths: Paths, clock: Clock) -> tuple[Path | None, tuple[str, ...]]:
    """Move a damaged memory away, make a new one and queue every source; return where it is and what was queued.

    The caller holds the supervisor's lock. The owner's pause goes along where it can be read. Raises ``OSError``.
    """
    pause, moved_to = None, None
    if paths.database.exists():
        pause = _pause_of(paths)
        moved_to = move_aside(paths.database, clock.now_ms())
    connection = connect(paths.database, paths.write_turn)
    try:
        if pause is not None:
            with connection.write(full=True):
                set_state(connection, PAUSE_KEY, pause)
        try:
            queued = _queue_all(connection, load_intent(paths).intent, clock)
        except ConfigBroken:
            queued = ()  # mended settings are read by the next start
    finally:
        connection.close()
    _forget_held()
    return moved_to, queued


def _pause_of(paths: Paths) -> str | None:
    try:
        with open_damaged(paths.database) as bare:
            rows = bare.execute("SELECT value FROM mem_tree_state WHERE key = ?", (PAUSE_KEY,)).fetchall()
            return str(rows[0][0]) if rows else None
    except apsw.Error:
        return None


def _by_the_agent(paths: Paths) -> Rebuilt:
    """Have the running agent do it: its workers hold the file."""
    was_there = paths.database.exists()
    before = {copy.path for copy in copies(paths.database, DAMAGED)}
    if not ask_agent(paths, "rebuild"):
        raise AgentFault(
            "the agent holds the memory and does not answer", "", "end it with `sapwood stop`, then try again"
        )
    end = time.monotonic() + AGENT_PATIENCE_S
    while time.monotonic() < end:
        new = [copy.path for copy in copies(paths.database, DAMAGED) if copy.path not in before]
        if (new or not was_there) and paths.database.exists():
            return _rebuilt(paths, 0, 0, str(new[0]) if new else None, _sources(paths), running=True)
        time.sleep(_LOOK_S)
    raise AgentFault(
        "the agent has not begun the memory anew yet", "", "see `sapwood status` for why; it goes on trying"
    )


def _sources(paths: Paths) -> tuple[str, ...]:
    try:
        return tuple(source.id for source in load_intent(paths).intent.sources)
    except ConfigBroken:
        return ()


def _rebuilt(
    paths: Paths, chunks: int, summaries: int, moved_to: str | None, queued: tuple[str, ...], *, running: bool
) -> Rebuilt:
    return Rebuilt(
        path=str(paths.database),
        bytes=paths.database.stat().st_size,
        ok=True,
        chunks=chunks,
        summaries=summaries,
        moved_to=moved_to,
        queued=queued,
        running=running,
    )


def _forget_held() -> None:
    from agent.recall.vectors import forget_held_windows

    forget_held_windows()
