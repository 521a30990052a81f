"""Lane 1 from top to bottom, for one item.

::

    canonicalize → chunk_markdown → without_forgotten → score_chunks_fast → upsert_chunks_tx → pending_extraction
                 → fast score rows → enqueue extract_chunk per chunk → the settle wakes the workers

Everything up to the scores happens outside any transaction; everything from ``upsert_chunks_tx`` on in the one that
settles the job. No model is called here, ever.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from agent import ids
from agent.db.items import remove_item
from agent.db.nodes import detach_node, remove_chunk
from agent.db.text_index import add_text
from agent.ingest.admission import admit_parked_tx
from agent.ingest.chunker import Chunk, chunk_markdown
from agent.ingest.fence import Fence, open_fence
from agent.ingest.forgotten import hash_of_words, without_forgotten
from agent.ingest.order import assign_order_keys, item_sort_key
from agent.ingest.readers.protocol import Moved, Part, Unreachable, Unreadable
from agent.ingest.readers.registry import find_source, reader_for
from agent.ingest.removal import is_leaving, remove_tx, seal_source, seal_waiting
from agent.ingest.score import SCORE_VERSION, FastScore, score_chunks_fast
from agent.ingest.stamps import distrust_stamp
from agent.ingest.window import Pace, top_up
from agent.queue.types import NOTHING_TO_DO, IngestFilePayload, NewJob, NodeRef, Plan, StalePlan
from agent.states import ItemState, Lifecycle, SourceKind

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.db import Connection
    from agent.ingest.canonical import CanonicalItem
    from agent.queue.registry import JobContext

log = logging.getLogger("sapwood.ingest")

WAITING = (ItemState.FOUND, ItemState.QUEUED)


@dataclass(frozen=True, slots=True)
class Item:
    """A row of ``mem_tree_items`` as it was when the plan was made."""

    item_seq: int
    source_id: str
    item_key: str
    source_kind: SourceKind
    parts: tuple[Part, ...]
    seen_hash: str | None
    held_hash: str | None
    version_ms: int | None
    sort_key: bytes
    state: ItemState


def plan_ingest(context: JobContext, payload: IngestFilePayload) -> Plan:
    """Return the plan that brings one item into the memory: its reading, cutting and scoring are done by then.

    An item that cannot be read is listed with its reason and the job is done: it stops no other. Blocks on the disk.
    The plan's writes raise ``StalePlan`` where the item was seen anew meanwhile.
    """
    item = load_item(context.connection, payload.source_id, payload.item_key)
    if item is None:
        return NOTHING_TO_DO
    now_ms, intent = context.clock.now_ms(), context.intent
    pace = context.shared.setdefault("ingest_pace", Pace())
    if is_leaving(item.state, item.seen_hash):
        return _plan_removal(item, intent, pace)
    source = find_source(intent, context.paths, payload.source_id)
    if item.state not in WAITING or source is None:
        # Nothing to read; but a chunk whose extract job is parked may wait to be let in (sweeps.py).
        return Plan(lambda connection: admit_parked_tx(connection, item.item_seq, now_ms))
    fence = open_fence(context)
    try:
        canonical = reader_for(source.kind).read(source, item.item_key, item.parts)
    except Moved as error:
        path = error.path
        return Plan(lambda connection: _look_again_tx(connection, item, path))
    except Unreadable as error:
        log.warning("an item of %s cannot be read: %s", item.source_id, error.title)
        reason, later = error.title, isinstance(error, Unreachable)
        return Plan(lambda connection: _list_unreadable_tx(connection, intent, item, reason, later=later))
    context.check()
    if fence.ledger.forgets_item(item.source_id, item.item_key, canonical.content_hash):
        return Plan(lambda connection: _leave_out_tx(connection, intent, item, fence))
    cut = chunk_markdown(canonical)
    if cut and item.source_kind is SourceKind.EMAIL and fence.ledger.items:
        words = hash_of_words(canonical.time_ms, [chunk.body_hash for chunk in cut])
        if fence.ledger.forgets_item(item.source_id, item.item_key, words):
            return Plan(lambda connection: _leave_out_tx(connection, intent, item, fence))
    chunks = without_forgotten(cut, fence.ledger, item.source_id, item.item_key)
    if cut and not chunks:
        canonical = replace(canonical, title=None)  # its words are those of a text that was forgotten
    context.check()
    scores = score_chunks_fast(chunks)
    version = Version(canonical, tuple(chunks), tuple(scores), now_ms)
    return Plan(lambda connection: _store_tx(connection, intent, item, version, pace, fence))


def _plan_removal(item: Item, intent: Intent, pace: Pace) -> Plan:
    def writes(connection: Connection) -> list[NewJob]:
        return remove_tx(connection, item.item_seq, lambda: top_up(connection, intent, first=item.source_id, pace=pace))

    return Plan(writes)


def _leave_out_tx(connection: Connection, intent: Intent, item: Item, fence: Fence) -> list[NewJob]:
    """Take an item out that turns out to be a forgotten one: nothing of it is stored, nothing of it stays."""
    fence.check()
    _check_unseen(connection, item)
    remove_item(connection, item.item_seq, spare_running=True)
    return [*top_up(connection, intent, first=item.source_id), *seal_source(connection, item.source_id)]


@dataclass(frozen=True, slots=True)
class Version:
    """What was read of an item: its canonical form, its chunks and their fast scores, as of an instant (UTC ms)."""

    canonical: CanonicalItem
    chunks: tuple[Chunk, ...]
    scores: tuple[FastScore, ...]
    now_ms: int


def _store_tx(
    connection: Connection, intent: Intent, item: Item, version: Version, pace: Pace, fence: Fence
) -> list[NewJob]:
    fence.check()
    jobs = upsert_chunks_tx(connection, item, version)
    jobs.extend(top_up(connection, intent, first=item.source_id, pace=pace))
    return jobs


def load_item(connection: Connection, source_id: str, item_key: str) -> Item | None:
    """Return an item, or ``None`` where there is none with that key."""
    row = connection.one(
        """
        SELECT item_seq, source_kind, place, seen_hash, held_hash, version_ms, sort_key, state
          FROM mem_tree_items
         WHERE source_id = ? AND item_key = ?
        """,
        (source_id, item_key),
    )
    if row is None:
        return None
    item_seq, source_kind, place, seen_hash, held_hash, version_ms, sort_key, state = row
    parts = tuple(msgspec.json.decode(place)["parts"])
    return Item(
        item_seq,
        source_id,
        item_key,
        SourceKind(source_kind),
        parts,
        seen_hash,
        held_hash,
        version_ms,
        bytes(sort_key),
        ItemState(state),
    )


def upsert_chunks_tx(connection: Connection, item: Item, version: Version) -> list[NewJob]:
    """Store a version of an item inside the caller's transaction and return what has to be done next.

    Chunks that were there stay as they are; what is new waits for extraction; what is no longer in the item goes, with
    everything made from it. Raises ``StalePlan`` where another version was seen since the plan was made.
    """
    _check_unseen(connection, item)
    canonical, now_ms = version.canonical, version.now_ms
    version_ms = item.version_ms
    if canonical.content_hash != item.held_hash or version_ms is None:
        version_ms = now_ms if version_ms is None else max(now_ms, version_ms + 1)
    sort_key = item_sort_key(canonical.source_kind, item.item_key, canonical.time_ms)
    connection.run(
        """
        UPDATE mem_tree_items
           SET title = ?, time_ms = ?, sort_key = ?, seen_hash = ?, held_hash = ?, version_ms = ?, state = ?,
               reason = NULL, masked = ?, urgent = 0
         WHERE item_seq = ?
        """,
        (
            canonical.title,
            canonical.time_ms,
            sort_key,
            canonical.content_hash,
            canonical.content_hash,
            version_ms,
            str(ItemState.CURRENT),
            canonical.masked,
            item.item_seq,
        ),
    )
    change = _apply(connection, item, sort_key, version)
    return _follow_ups(connection, item, change, version_ms)


@dataclass(frozen=True, slots=True)
class _Change:
    new: tuple[str, ...]
    removed: int
    moved: frozenset[str]


def _apply(connection: Connection, item: Item, sort_key: bytes, version: Version) -> _Change:
    chunks, scores, now_ms = version.chunks, version.scores, version.now_ms
    held = {
        row[0]: row[1:]
        for row in connection.all(
            """
            SELECT chunk_id, order_key, title, heading_path, author, time_ms, break_key, reference, locator, sort_key
              FROM mem_tree_chunks
             WHERE item_seq = ?
            """,
            (item.item_seq,),
        )
    }
    order = [
        ids.chunk_id(chunk.source_kind, item.source_id, item.item_key, chunk.position, chunk.body_hash)
        for chunk in chunks
    ]
    kept_ids = set(order)
    ordering = assign_order_keys(order, {chunk_id: row[0] for chunk_id, row in held.items()})
    gone = [chunk_id for chunk_id in held if chunk_id not in kept_ids]
    for chunk_id in gone:
        remove_chunk(connection, chunk_id)
    new: list[str] = []
    moved: set[str] = set()
    for chunk_id, order_key, chunk, score in zip(order, ordering.keys, chunks, scores, strict=True):
        row = held.get(chunk_id)
        if row is not None and row[1:6] != (
            chunk.title,
            chunk.heading_path,
            chunk.author,
            chunk.time_ms,
            chunk.break_key,
        ):
            # Its words stayed, but what was made from it (index, extraction, summaries) also used these.
            remove_chunk(connection, chunk_id)
            row = None
        locator = _json(chunk.locator)
        if row is None:
            _insert_chunk(connection, item, chunk_id, order_key, sort_key, chunk, locator, score, now_ms)
            new.append(chunk_id)
        else:
            if chunk_id in ordering.moved or bytes(row[8]) != sort_key:
                moved.add(chunk_id)
            if (row[0], row[6], row[7], bytes(row[8])) != (order_key, chunk.reference, locator, sort_key):
                connection.run(
                    """
                    UPDATE mem_tree_chunks SET order_key = ?, reference = ?, locator = ?, sort_key = ?
                     WHERE chunk_id = ?
                    """,
                    (order_key, chunk.reference, locator, sort_key, chunk_id),
                )
    return _Change(tuple(new), len(gone), frozenset(moved))


def _insert_chunk(
    connection: Connection,
    item: Item,
    chunk_id: str,
    order_key: int,
    sort_key: bytes,
    chunk: Chunk,
    locator: str,
    score: FastScore,
    now_ms: int,
) -> None:
    connection.run(
        """
        INSERT INTO mem_tree_chunks
               (chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                break_key, time_ms, author, reference, title, heading_path, locator, tokens, text, lifecycle,
                created_at_ms)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
        """,
        (
            chunk_id,
            str(chunk.source_kind),
            item.source_id,
            item.item_key,
            item.item_seq,
            chunk.position,
            chunk.body_hash,
            order_key,
            sort_key,
            chunk.break_key,
            chunk.time_ms,
            chunk.author,
            chunk.reference,
            chunk.title,
            chunk.heading_path,
            locator,
            chunk.tokens,
            chunk.text,
            str(Lifecycle.PENDING_EXTRACTION),
            now_ms,
        ),
    )
    seq = connection.last_id
    connection.run(
        "INSERT INTO mem_tree_score (chunk_seq, fast, signals, score_version) VALUES (?, ?, ?, ?)",
        (seq, score.score, _json(score.signals), SCORE_VERSION),
    )
    add_text(connection, seq, chunk.title, chunk.heading_path, chunk.text)


def _follow_ups(connection: Connection, item: Item, change: _Change, version_ms: int | None) -> list[NewJob]:
    jobs = [NewJob.extract_chunk(chunk_id) for chunk_id in change.new]
    if not change.new and not change.removed and not change.moved and not _is_ungrown(connection, item):
        return seal_waiting(connection, item.source_id)
    if item.source_kind is SourceKind.DOCUMENT:
        if not change.new:
            # Removed, re-ordered, or only a new version of the same chunks: the document's tree has to say so.
            jobs.append(NewJob.seal_document(f"{item.source_id}/{item.item_key}", version_ms))
        return jobs
    for chunk_id in sorted(change.moved):
        jobs.extend(_append_anew_tx(connection, item.source_id, chunk_id))
    if change.removed or change.moved:
        jobs.extend(seal_source(connection, item.source_id))
    return jobs


def _is_ungrown(connection: Connection, item: Item) -> bool:
    """Return whether an item is a document whose held version does not stand in its folder's tree yet."""
    if item.source_kind is not SourceKind.DOCUMENT:
        return False
    row = connection.one("SELECT held_hash IS NOT grown_hash FROM mem_tree_items WHERE item_seq = ?", (item.item_seq,))
    return row is None or bool(row[0])


def _append_anew_tx(connection: Connection, source_id: str, chunk_id: str) -> list[NewJob]:
    """Take a leaf out of its stream's tree, where it no longer stands in order, and have it appended again."""
    detach_node(connection, chunk_id)
    connection.run(
        "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ? AND lifecycle IN (?, ?)",
        (str(Lifecycle.ADMITTED), chunk_id, str(Lifecycle.BUFFERED), str(Lifecycle.SEALED)),
    )
    lifecycle = connection.value("SELECT lifecycle FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,))
    if lifecycle != Lifecycle.ADMITTED:
        return []
    return [NewJob.append_buffer("source", source_id, NodeRef.leaf(chunk_id))]


def _list_unreadable_tx(
    connection: Connection, intent: Intent, item: Item, reason: str, *, later: bool
) -> list[NewJob]:
    """Keep what is held of an item, list it with its reason; a change of its file tries again.

    ``later``: nothing is known about its content (no permission now), so each look at the source tries again.
    """
    _check_unseen(connection, item)
    connection.run(
        """
        UPDATE mem_tree_items
           SET state = ?, reason = ?, urgent = 0, seen_hash = CASE WHEN ? THEN NULL ELSE seen_hash END
         WHERE item_seq = ?
        """,
        (str(ItemState.UNREADABLE), reason, later, item.item_seq),
    )
    if later:
        for path in {str(part["path"]) for part in item.parts}:
            distrust_stamp(connection, item.source_id, path)
    jobs = top_up(connection, intent, first=item.source_id)
    jobs.extend(seal_waiting(connection, item.source_id))
    return jobs


def _look_again_tx(connection: Connection, item: Item, path: str) -> list[NewJob]:
    """The file is not what was seen: its stamp is worth nothing, and it has to be looked at again."""
    _check_unseen(connection, item)
    log.info("a file of %s changed while it was to be read", item.source_id)
    distrust_stamp(connection, item.source_id, path)
    return [NewJob.sync_source(item.source_id)]


def _check_unseen(connection: Connection, item: Item) -> None:
    row = connection.one("SELECT seen_hash, item_key FROM mem_tree_items WHERE item_seq = ?", (item.item_seq,))
    # A file that was renamed meanwhile is the same row and the same content under another key.
    if row is None or row != (item.seen_hash, item.item_key):
        raise StalePlan(f"item {item.item_seq}")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
