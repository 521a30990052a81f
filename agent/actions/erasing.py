"""Taking out of the database what the ledger forgets: at once in ``forget``, later wherever it came back from.

A crash between the ledger and the transaction, a backup that was put back, a memory grown again: in each the ledger
knows more than the database. ``apply_ledger`` brings them together again; it is the one way for all of these.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.actions.choosing import PAGE, ChosenItem, Progress, paths_in
from agent.db.items import remove_item
from agent.db.nodes import remove_stray_results
from agent.db.state import LEDGER_KEY, get_state, set_state
from agent.ids import tree_id
from agent.ingest.forgotten import path_left, text_left
from agent.ingest.stamps import VEIL, veil
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.types import NewJob
from agent.states import ItemState, SourceKind, TreeKind
from agent.tree.forget import take_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.db import Connection
    from agent.ledger import Ledger

CHECKPOINT_DUE = "forget_checkpoint_due"
"""``1`` while bytes of what was forgotten may still stand in the write-ahead log."""

ITEMS_A_TIME = 2_000


@dataclass
class Erasure:
    """What one transaction takes out. ``again`` are items that lost a part and are to be read again."""

    items: dict[int, ChosenItem] = field(default_factory=dict)
    chunks: set[str] = field(default_factory=set)
    summaries: set[str] = field(default_factory=set)
    files: set[tuple[str, str]] = field(default_factory=set)
    again: set[int] = field(default_factory=set)
    last_chunk: int = 0

    def __bool__(self) -> bool:
        return bool(self.items or self.chunks or self.summaries or self.files)


@dataclass(frozen=True)
class Erased:
    """How many chunks and summaries went."""

    chunks: int = 0
    summaries: int = 0

    def __add__(self, other: Erased) -> Erased:
        return Erased(self.chunks + other.chunks, self.summaries + other.summaries)


def applied_mark(ledger: Ledger) -> str:
    """Return the value of the state ``ledger_applied`` for a ledger: its size, and how much it forgets."""
    return f"{ledger.stamp[1]}:{len(ledger.items)}:{len(ledger.pieces)}"


def is_applied(connection: Connection, ledger: Ledger) -> bool:
    """Return whether all that the ledger forgets was taken out of this database. An answer forgets nothing."""
    held = get_state(connection, LEDGER_KEY) or "0:0:0"
    return held.split(":")[1:] == [str(len(ledger.items)), str(len(ledger.pieces))]


def find_pieces(
    connection: Connection,
    ledger: Ledger,
    erasure: Erasure,
    source_ids: Collection[str] | None = None,
    progress: Progress | None = None,
) -> None:
    """Add every chunk that holds a forgotten piece, from ``last_chunk`` of the erasure on. Reads only."""
    total = int(connection.value("SELECT coalesce(max(seq), 0) FROM mem_tree_chunks"))
    after = erasure.last_chunk
    while ledger.pieces:
        rows = connection.all(
            """
            SELECT seq, chunk_id, item_seq, source_id, item_key, source_kind, text, heading_path
              FROM mem_tree_chunks
             WHERE seq > ?
             ORDER BY seq
             LIMIT ?
            """,
            (after, PAGE),
        )
        for _, chunk_id, item_seq, source_id, item_key, source_kind, text, heading_path in rows:
            if source_ids is not None and source_id not in source_ids:
                continue
            left = text_left(ledger, source_id, item_key, text, source_kind)
            if left is text and path_left(ledger, source_id, item_key, heading_path) == heading_path:
                continue
            erasure.chunks.add(chunk_id)
            if left is not None:
                erasure.again.add(item_seq)
        if len(rows) < PAGE:
            break
        after = rows[-1][0]
        if progress is not None:
            progress(after, total)
    erasure.last_chunk = max(erasure.last_chunk, total)


def find_items(connection: Connection, ledger: Ledger, erasure: Erasure) -> None:
    """Add every item that the ledger forgets, by name or by content. Reads only."""
    if not ledger.items:
        return
    for row in connection.all(
        "SELECT item_seq, source_id, item_key, source_kind, title, held_hash, seen_hash FROM mem_tree_items"
    ):
        item = ChosenItem(*row)
        if ledger.forgets_item(item.source_id, item.item_key, item.held_hash):
            erasure.items[item.item_seq] = item
    # Compared as a whole: SQLite's functions on texts take a veiled path for an empty one, its zero ends it.
    for source_id, path in connection.all(
        "SELECT source_id, path FROM mem_tree_files WHERE NOT (path >= ? AND path < ?)", (VEIL, chr(ord(VEIL) + 1))
    ):
        if ledger.forgets_item(source_id, path):
            erasure.files.add((source_id, path))


def find_forgotten(connection: Connection, ledger: Ledger, progress: Progress | None = None) -> list[str]:
    """Return what is in the database although the ledger forgets it, by id and never by name; for ``doctor``."""
    erasure = Erasure()
    find_items(connection, ledger, erasure)
    find_pieces(connection, ledger, erasure, progress=progress)
    found = [f"item {seq} of {item.source_id} was forgotten" for seq, item in sorted(erasure.items.items())]
    found += [f"a file of {source_id} has a forgotten name" for source_id, _ in sorted(erasure.files)]
    return found + [f"chunk {chunk} holds forgotten words" for chunk in sorted(erasure.chunks)]


def apply_ledger(connection: Connection, ledger: Ledger, now_ms: int, *, progress: Progress | None = None) -> Erased:
    """Take out whatever the ledger forgets and the database still holds; return how much that was.

    Looks first and writes in FULL transactions, some thousands of items each, so that nobody is held up for long; safe
    to repeat and to interrupt. The caller truncates the write-ahead log, and wakes the workers.
    """
    erased = Erased()
    while True:
        erasure = Erasure()
        find_items(connection, ledger, erasure)
        find_pieces(connection, ledger, erasure, progress=progress)
        if not erasure:
            break
        for part in _in_parts(erasure):
            with connection.write(full=True):
                erased += erase_tx(connection, ledger, part, now_ms)
    with connection.write(full=True):
        set_state(connection, LEDGER_KEY, applied_mark(ledger))
    return erased


def _in_parts(erasure: Erasure) -> Iterator[Erasure]:
    items, chunks = list(erasure.items.items()), sorted(erasure.chunks)
    yield Erasure(files=erasure.files)
    for at in range(0, len(items), ITEMS_A_TIME):
        yield Erasure(items=dict(items[at : at + ITEMS_A_TIME]))
    for at in range(0, len(chunks), ITEMS_A_TIME):
        yield Erasure(chunks=set(chunks[at : at + ITEMS_A_TIME]), again=erasure.again)


def erase_tx(
    connection: Connection,
    ledger: Ledger,
    erasure: Erasure,
    now_ms: int,
    says: Callable[[str | None], bool] | None = None,
) -> Erased:
    """Take it out with all that was made from it, inside the caller's FULL transaction; enqueue what follows.

    ``says`` tells whether a text has words in it that are to be gone: then also rows of the queue, cursors, questions
    and reasons that say them.
    """
    chunks, summaries = set(erasure.chunks), set(erasure.summaries)
    for item in erasure.items.values():
        chunks.update(
            chunk
            for (chunk,) in connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ?", (item.item_seq,))
        )
        if item.source_kind == SourceKind.DOCUMENT:
            summaries.update(_summaries_of(connection, item))
    shortened = _items_of(connection, erasure.chunks) - erasure.items.keys() - erasure.again
    for source_id in _whole_sources(connection, erasure.items.values()):
        summaries.update(_clear_trees(connection, source_id))
    taken = take_out(connection, chunks, summaries, now_ms)
    files = erasure.files | set(_files_left_over(connection, erasure.items.values()))
    for item in erasure.items.values():
        remove_item(connection, item.item_seq)
    for source_id, path in files:
        connection.run(
            "UPDATE OR REPLACE mem_tree_files SET path = ?, reason = NULL WHERE source_id = ? AND path = ?",
            (veil(ledger, source_id, path), source_id, path),
        )
    names = {item.item_key for item in erasure.items.values()} | {path for _, path in files}
    _forget_names(connection, names, says)
    # Those too that a rebuild left for what had not grown again yet: nobody can tell any more whose words they hold.
    remove_stray_results(connection)
    gone = {f"{item.source_id}/{item.item_key}" for item in erasure.items.values()}
    gone |= set(_empty(connection, shortened))
    jobs = [job for job in taken.jobs if not _names_document(job, gone)]
    enqueue_many_tx(connection, [*jobs, *_read_again(connection, erasure.again)], now_ms)
    set_state(connection, CHECKPOINT_DUE, "1")
    return Erased(taken.chunks, taken.summaries)


def _items_of(connection: Connection, chunks: Iterable[str]) -> set[int]:
    return {
        int(seq)
        for chunk in chunks
        for (seq,) in connection.all("SELECT item_seq FROM mem_tree_chunks WHERE chunk_id = ?", (chunk,))
    }


def _empty(connection: Connection, item_seqs: Iterable[int]) -> Iterator[str]:
    """Let items of which nothing is left lose their titles, which are words of theirs; yield those that go whole.

    What was handed in goes: its file in the inbox does, and nobody is to be asked where that is.
    """
    for seq in sorted(item_seqs):
        row = connection.one(
            """
            SELECT i.source_id, i.item_key, coalesce(s.kind = 'inbox', 0)
              FROM mem_tree_items AS i
              LEFT JOIN mem_tree_sources AS s ON s.source_id = i.source_id
             WHERE i.item_seq = ?1
               AND NOT EXISTS (SELECT 1 FROM mem_tree_chunks AS c WHERE c.item_seq = ?1)
            """,
            (seq,),
        )
        if row is None:
            continue
        source_id, item_key, is_handed_in = row
        if is_handed_in:
            remove_item(connection, seq)
            yield f"{source_id}/{item_key}"
        else:
            connection.run("UPDATE mem_tree_items SET title = NULL WHERE item_seq = ?", (seq,))


def _names_document(job: NewJob, documents: Collection[str]) -> bool:
    if not (job.dedupe_key or "").startswith("seal_doc:"):
        return False
    return str(json.loads(job.payload_json)["doc_id"]) in documents


def _summaries_of(connection: Connection, item: ChosenItem) -> Iterator[str]:
    for (summary,) in connection.all(
        """
        SELECT s.summary_id
          FROM mem_tree_trees AS t
          JOIN mem_tree_summaries AS s ON s.tree_seq = t.tree_seq
         WHERE t.tree_id = ?
        """,
        (tree_id(TreeKind.DOCUMENT, item.source_id, item.item_key),),
    ):
        yield summary


def _whole_sources(connection: Connection, items: Iterable[ChosenItem]) -> list[str]:
    """Return the sources of which no item stays."""
    going = Counter(item.source_id for item in items)
    return [
        source_id
        for source_id, count in going.items()
        if count == connection.value("SELECT count(*) FROM mem_tree_items WHERE source_id = ?", (source_id,))
    ]


def _clear_trees(connection: Connection, source_id: str) -> set[str]:
    """Empty the trees of a source that loses all it has, and return the summaries of them, which are to go too.

    Done first and in bulk: to take each of 20,000 mails from its place by itself doubles how long others have to wait.
    """
    trees = "(SELECT tree_seq FROM mem_tree_trees WHERE source_id = ?)"
    for table in ("edges", "buffers"):
        connection.run(f"DELETE FROM mem_tree_{table} WHERE tree_seq IN {trees}", (source_id,))
    connection.run(
        "UPDATE mem_tree_trees SET root_id = NULL, root_kind = NULL, max_level = 0 WHERE source_id = ?", (source_id,)
    )
    rows = connection.all("SELECT summary_id FROM mem_tree_summaries WHERE source_id = ?", (source_id,))
    return {summary for (summary,) in rows}


def _files_left_over(connection: Connection, items: Iterable[ChosenItem]) -> Iterator[tuple[str, str]]:
    """Yield the files of which no item stays: their names would be all that is left of them."""
    gone: dict[str, set[int]] = {}
    for item in items:
        gone.setdefault(item.source_id, set()).add(item.item_seq)
    for source_id, seqs in gone.items():
        lost: set[str] = set()
        kept: set[str] = set()
        for seq, place in connection.all(
            "SELECT item_seq, place FROM mem_tree_items WHERE source_id = ?", (source_id,)
        ):
            (lost if seq in seqs else kept).update(paths_in(place))
        for path in lost - kept:
            yield source_id, path


def _read_again(connection: Connection, item_seqs: Iterable[int]) -> Iterator[NewJob]:
    for seq in item_seqs:
        row = connection.one(
            """
            UPDATE mem_tree_items SET state = ?
             WHERE item_seq = ? AND state = ? AND seen_hash IS NOT NULL
            RETURNING source_id, item_key, seen_hash
            """,
            (str(ItemState.QUEUED), seq, str(ItemState.CURRENT)),
        )
        if row is not None:
            yield NewJob.ingest_file(*row)


def _forget_names(connection: Connection, names: Collection[str], says: Callable[[str | None], bool] | None) -> None:
    """Take names, and words to be gone, out of what the queue and the looks at sources keep beside the items."""

    def named(text: str | None) -> bool:
        if text is None:
            return False
        return (says is not None and says(text)) or any(name in text for name in names)

    for job_id, *texts in connection.all(
        """
        SELECT id, last_error, rerun_payload, payload_json, dedupe_key
          FROM mem_tree_jobs
         WHERE ?1 OR last_error IS NOT NULL
        """,
        (int(says is not None),),
    ):
        if named(texts[0]) or (says is not None and any(map(says, texts))):
            connection.run("DELETE FROM mem_tree_jobs WHERE id = ?", (job_id,))
    for source_id, error in connection.all(
        "SELECT source_id, last_error FROM mem_tree_sources WHERE last_error IS NOT NULL"
    ):
        if named(error):
            connection.run("UPDATE mem_tree_sources SET last_error = NULL WHERE source_id = ?", (source_id,))
    for source_id, examples in connection.all("SELECT source_id, examples FROM mem_tree_questions"):
        held = json.loads(examples)
        kept = [key for key in held if key not in names and not (says is not None and says(key))]
        if kept != held:
            connection.run(
                "UPDATE mem_tree_questions SET examples = ? WHERE source_id = ?",
                (json.dumps(kept, ensure_ascii=False), source_id),
            )
    for key, value in connection.all("SELECT key, value FROM mem_tree_state WHERE key LIKE 'sync_cursor:%'"):
        if named(json.loads(value)[0]):
            set_state(connection, key, None)
