"""Looking at a source: what is there, what changed, what is gone.

A look costs a ``stat`` for each unchanged file. One run writes at most ``RUN_LIMIT`` changed items, then asks for its
own next run, which goes on behind what is already known. What is no longer there is marked ``gone``; its job takes it
out of the memory (``removal.py``). Where more than half would go at once nothing goes: the owner is asked
(``holdback.py``).
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.config import load_intent, stamp_of
from agent.db.state import get_state, set_state
from agent.errors import ConfigBroken, UsageFault
from agent.ingest.fence import Fence, open_fence
from agent.ingest.holdback import answer_to, ask_tx, drop_question_tx
from agent.ingest.look import Look, on_disk
from agent.ingest.moves import move_tx
from agent.ingest.readers.protocol import Resume, SourceMissing
from agent.ingest.readers.registry import find_source, reader_for
from agent.ingest.reading import READING_VERSION, read_again_tx
from agent.ingest.seen import mark_urgent_tx, store_item_tx
from agent.ingest.stamps import VEIL, KnownFiles, drop_stamp, load_stamps, store_stamp
from agent.ingest.window import URGENT_LIMIT, top_up
from agent.queue.types import NOTHING_TO_DO, NewJob, Plan, StalePlan, SyncSourcePayload
from agent.states import Answer

if TYPE_CHECKING:
    from agent.config import Intent, SourceIntent
    from agent.db import Connection
    from agent.paths import Paths
    from agent.queue.registry import JobContext

log = logging.getLogger("sapwood.ingest")

RUN_LIMIT = 2_000
_SAMPLE = 3


@dataclass(frozen=True, slots=True)
class _Under:
    """What a plan was made under, and what it took: the ledger, the intent, the time (UTC ms), the length (ms)."""

    fence: Fence
    intent: Intent
    paths: Paths
    config_stamp: tuple[int, int, int]
    now_ms: int
    took_ms: int = 0

    def check(self, source_id: str) -> bool:
        """Return whether the source is still to be read. Raises ``StalePlan`` if the ledger changed."""
        self.fence.check()
        if self.config_stamp == (0, 0, 0) and stamp_of(self.paths.config_file) == self.config_stamp:
            return True
        try:
            intent = load_intent(self.paths).intent
        except ConfigBroken:
            return True  # who cannot be read has taken nothing back
        return find_source(intent, self.paths, source_id) is not None


def plan_sync(context: JobContext, payload: SyncSourcePayload, *, run_limit: int = RUN_LIMIT) -> Plan:
    """Return the plan of one look at a source. Blocks on the disk; writes at most about ``run_limit`` changed items.

    A source that is not there, or of a kind that is not built, is recorded as that, and nothing about its items is
    concluded. The plan's writes raise ``StalePlan`` where anything was forgotten or came back meanwhile.
    """
    connection, intent, now_ms = context.connection, context.intent, context.clock.now_ms()
    source = find_source(intent, context.paths, payload.source_id)
    if source is None:
        return NOTHING_TO_DO
    begun = context.clock.monotonic()
    fence = open_fence(context)
    config_stamp = stamp_of(context.paths.config_file)
    try:
        reader = reader_for(source.kind)
    except UsageFault as error:
        # An intent written by another version: said, not retried.
        refusal = str(error)
        return Plan(lambda connection: _record_tx(connection, source, now_ms, refusal))
    known = KnownFiles(load_stamps(connection, source.id), fence.ledger, source.id)
    look = Look(connection, source, known, fence.ledger, run_limit)
    try:
        for event in reader.scan(source, known, _load_cursor(connection, source.id)):
            context.check()
            if look.take(event):
                break
        else:
            look.end()
    except SourceMissing as error:
        reason = str(error)
        log.warning("source %s is not there", source.id)
        return Plan(lambda connection: _record_tx(connection, source, now_ms, reason))
    took_ms = round((context.clock.monotonic() - begun) * 1000)
    under = _Under(fence, intent, context.paths, config_stamp, now_ms, took_ms)
    return Plan(lambda connection: _write_tx(connection, look, under))


def _write_tx(connection: Connection, look: Look, under: _Under) -> list[NewJob]:
    source = look.source
    if not under.check(source.id):
        return []
    problem = _judge_tx(connection, look, under) if look.finished else None
    jobs = move_tx(connection, source.id, list(look.moves.values()))
    for item in look.items.values():
        store_item_tx(connection, source.id, item)
    for path in look.unnamed:
        drop_stamp(connection, source.id, path)
    for path, stamp in look.stamps.items():
        store_stamp(connection, source.id, path, stamp, document=source.kind == "folder")
    _save_cursor(connection, source.id, look.cursor)
    if look.finished:
        # What was pushed is waited for, the first of it too.
        known = source.kind == "inbox" or _looked_before(connection, source.id)
        if known and len(look.items) + len(look.moves) <= URGENT_LIMIT:
            mark_urgent_tx(connection, source.id, [*look.items, *look.moves])
        read_again_tx(connection, source.id)
        _record_tx(connection, source, under.now_ms, problem, _length_tx(connection, look, under))
    else:
        _length_tx(connection, look, under)
        jobs.append(NewJob.sync_source(source.id))
    return [*top_up(connection, under.intent, first=source.id, always=True), *jobs]


def _judge_tx(connection: Connection, look: Look, under: _Under) -> str | None:
    """Decide about what is missing: it goes, or it is held back. Return what the owner is to know of the look."""
    source_id, loss = look.source.id, look.loss
    problem = f"{look.hidden[0].path}: {look.hidden[0].reason}" if look.hidden else None
    answer = answer_to(connection, under.fence.ledger, source_id, loss) if loss.is_large else Answer.ACCEPT
    if answer is Answer.ACCEPT:
        _check_missing(look)
        look.let_go()
        drop_question_tx(connection, source_id)
        return problem
    look.hold_back(look_again=answer is None)
    if answer is None:
        ask_tx(connection, source_id, loss, under.now_ms)
        return problem
    # The question stays to be answered otherwise, but is not asked any more.
    return (
        f"{loss.gone or len(loss.keys)} of {loss.held} items are no longer there; they are kept, as you answered: "
        f"`sapwood sync {source_id} --accept` lets them go"
    )


def _check_missing(look: Look) -> None:
    """Raise ``StalePlan`` if what is missing has come back, or if what was there is missing too: a disk went away.

    Also where a file that lost something is still being written: a program that writes a mailbox anew cuts it first.
    """
    for path in look.left if look.departures else ():
        found, seen = on_disk(look.source, {"path": path}), look.stamps.get(path)
        if found is None or seen is None:
            continue
        if (found.st_size, found.st_mtime_ns) != (seen.size, seen.mtime_ns):
            raise StalePlan("a file that lost something is being written")
    if not look.gone:
        return
    if any(on_disk(look.source, {"path": path}) for path in look.gone):
        raise StalePlan("what was missing is there again")
    sample = sorted(path for path in look.here if not path.startswith(VEIL))[:_SAMPLE]
    if sample and not any(on_disk(look.source, {"path": path}) for path in sample):
        raise StalePlan("the source went away")


def _looked_before(connection: Connection, source_id: str) -> bool:
    row = connection.one("SELECT last_sync_ms FROM mem_tree_sources WHERE source_id = ?", (source_id,))
    return row is not None and row[0] is not None


def _record_tx(
    connection: Connection, source: SourceIntent, now_ms: int, problem: str | None, look_ms: int | None = None
) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_sources
               (source_id, kind, last_sync_ms, last_error, synced_items, look_ms, reading_version)
        VALUES (?, ?, ?, ?, (SELECT count(*) FROM mem_tree_items WHERE source_id = ? AND state <> 'gone'), ?, ?)
        ON CONFLICT (source_id) DO UPDATE
           SET kind = excluded.kind, last_sync_ms = excluded.last_sync_ms, last_error = excluded.last_error,
               synced_items = excluded.synced_items, look_ms = coalesce(excluded.look_ms, look_ms)
        """,
        (source.id, source.kind, now_ms, problem, source.id, look_ms, READING_VERSION),
    )


def _length_tx(connection: Connection, look: Look, under: _Under) -> int:
    """Return how long the whole look took so far (ms), all of its runs together."""
    key = f"sync_took:{look.source.id}"
    before = get_state(connection, key)
    took_ms = int(before or 0) + under.took_ms
    if not look.finished:
        set_state(connection, key, str(took_ms))
    elif before is not None:
        set_state(connection, key, None)
    return took_ms


def _load_cursor(connection: Connection, source_id: str) -> Resume | None:
    raw = get_state(connection, f"sync_cursor:{source_id}")
    if raw is None:
        return None
    path, offset = json.loads(raw)
    return Resume(path, offset)


def _save_cursor(connection: Connection, source_id: str, cursor: Resume | None) -> None:
    value = None if cursor is None else json.dumps([cursor.path, cursor.offset])
    if value is not None or get_state(connection, f"sync_cursor:{source_id}") is not None:
        set_state(connection, f"sync_cursor:{source_id}", value)
