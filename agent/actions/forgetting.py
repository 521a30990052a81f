"""Forgetting: for good, everywhere, and so that nothing brings it back.

In this order, so that a crash anywhere ends with the words gone (``apply_ledger`` goes on at the next start): hashes
into the ledger, one transaction over the database, the files of the inbox, copies that were put aside, and the
write-ahead log cut to nothing. Only then is it called done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent.actions.choosing import Chosen, Progress, Wanted, choose, folded, hashes_of
from agent.actions.erasing import (
    CHECKPOINT_DUE,
    Erased,
    Erasure,
    applied_mark,
    apply_ledger,
    erase_tx,
    find_pieces,
    is_applied,
)
from agent.actions.times import moment_ms
from agent.db.aside import BEFORE_RESTORE, DAMAGED, copies, drop_copies
from agent.db.state import LEDGER_KEY, get_state, set_state
from agent.errors import AgentFault, UsageFault
from agent.ingest.push import forget_in_inbox
from agent.ledger import append_forgotten, prepare_ledger, read_ledger
from agent.queue.wake import wake_workers

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.clock import Clock
    from agent.db import Connection
    from agent.ledger import Ledger
    from agent.paths import Paths

CHECKPOINT_PATIENCE_S = 30.0
_LOOK_S = 0.05
TRIES = 5
TITLES_SHOWN = 5

LEFT_IN_LOG = (
    "it is forgotten, but another program keeps an old page of the memory open: the agent clears the rest as soon as "
    "it lets go"
)
BACKUPS = "backups that you made may still hold it: delete them, and make a new one"

Step = Callable[[str], None]
Meanwhile = Callable[[], None]
"""Called now and then while the one long transaction goes on."""
_INSTRUCTIONS = 200_000  # of SQLite's: some hundredths of a second


def no_step(name: str) -> None:
    """Do nothing: tests end the process at a step to see what the next start makes of it."""
    del name


@dataclass(frozen=True)
class Preview:
    """What would be forgotten: counts and some titles, and how many more titles there are."""

    items: int
    chunks: int
    titles: tuple[str, ...]
    more_titles: int
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten. ``copies`` are memories put aside that went too; ``words`` is what is left to be told."""

    chunks_removed: int
    summaries_removed: int
    items_removed: int = 0
    copies: tuple[str, ...] = ()
    words: str = ""


def wanted_of(
    home: Home,
    *,
    source: str | None = None,
    item: str | None = None,
    chunk: str | None = None,
    since: str | None = None,
    until: str | None = None,
    mentions: str | None = None,
    entity: str | None = None,
) -> Wanted:
    """Return the filters of an owner's words. Raises ``UsageFault`` where there is none, or one says nothing."""
    if all(value is None for value in (source, item, chunk, since, until, mentions, entity)):
        raise UsageFault(
            "nothing is named to be forgotten",
            "",
            "name a source, or say --mentions, --entity, --since, --until or --chunk",
        )
    for name, value in (("--mentions", mentions), ("--entity", entity), ("--chunk", chunk)):
        if value is not None and not folded(value):
            raise UsageFault(f"{name} says nothing", "", "give it the words, or leave it out")
    now_ms = home.clock.now_ms()
    return Wanted(
        source_id=None if source is None else source_id_of(home, source),
        item_key=item,
        chunk_id=None if chunk is None else _chunk_id(home, chunk),
        since_ms=None if since is None else moment_ms(since, now_ms),
        until_ms=None if until is None else moment_ms(until, now_ms, end=True),
        words=None if mentions is None else folded(mentions),
        entity=None if entity is None else " ".join(entity.casefold().split()),
    )


def source_id_of(home: Home, word: str) -> str:
    """Return the id of a source of the intent, or of one that only the memory still knows. Raises ``UsageFault``."""
    known = home.connection.one(
        """
        SELECT 1 WHERE EXISTS (SELECT 1 FROM mem_tree_sources WHERE source_id = ?1)
                    OR EXISTS (SELECT 1 FROM mem_tree_items WHERE source_id = ?1)
        """,
        (word,),
    )
    if known is not None and home.intent.source(word) is None:
        return word
    return home.source(word).id


def _chunk_id(home: Home, word: str) -> str:
    """Return the whole id of a chunk that is given by its beginning, as ``search`` and ``show`` print it."""
    given = word.lower()
    rows = home.connection.all(
        "SELECT chunk_id FROM mem_tree_chunks WHERE chunk_id >= ?1 AND chunk_id < ?1 || 'g' LIMIT 2", (given,)
    )
    if len(rows) > 1:
        raise UsageFault("several chunks begin like this", word, "give more of its id")
    return str(rows[0][0]) if rows else given


def preview(home: Home, wanted: Wanted, *, progress: Progress | None = None) -> tuple[Preview, Chosen]:
    """Return what would be forgotten, for a question, and the choice itself. Reads only; may read every chunk."""
    with home.connection.snapshot():
        chosen = choose(home.connection, wanted, progress=progress)
        inside = sum(
            int(home.connection.value("SELECT count(*) FROM mem_tree_chunks WHERE item_seq = ?", (seq,)))
            for seq in chosen.items
        )
    return (
        Preview(
            len(chosen.items),
            len(chosen.chunks) + inside,
            tuple(chosen.titles[:TITLES_SHOWN]),
            max(0, len(chosen.titles) - TITLES_SHOWN),
            tuple(sorted(chosen.source_ids)),
        ),
        chosen,
    )


def count_elsewhere(home: Home, wanted: Wanted, chosen: Chosen, *, progress: Progress | None = None) -> int:
    """Return how many other chunks have sentences of chosen ones in them: these are cut out there too.

    Reads every chunk of the sources that lose some of theirs.
    """
    touched = {chunk.source_id for chunk in chosen.chunks.values()}
    if not touched:
        return 0
    held = read_ledger(home.paths)
    ledger = replace(held, pieces=frozenset(hashes_of(held, wanted, chosen)[1]))
    found = Erasure()
    with home.connection.snapshot():
        find_pieces(home.connection, ledger, found, touched, progress)
        inside = {
            chunk
            for seq in chosen.items
            for (chunk,) in home.connection.all("SELECT chunk_id FROM mem_tree_chunks WHERE item_seq = ?", (seq,))
        }
    return len(found.chunks - chosen.chunks.keys() - inside)


def unread_words(connection: Connection, source_id: str | None) -> str:
    """Return what is to be told of items that were seen and not read yet, or an empty text: nobody looked into them."""
    waiting = int(
        connection.value(
            """
            SELECT count(*) FROM mem_tree_items
             WHERE state IN ('found', 'queued') AND seen_hash IS NOT NULL AND (?1 IS NULL OR source_id = ?1)
            """,
            (source_id,),
        )
    )
    if not waiting:
        return ""
    items = "1 item waits" if waiting == 1 else f"{waiting:,} items wait"
    return f"{items} to be read, and what is said there was not looked at: forget it again once they are read"


@contextmanager
def _told(connection: Connection, meanwhile: Meanwhile | None) -> Iterator[None]:
    """Have SQLite call ``meanwhile`` while statements of this block run; it neither reads nor stops anything."""

    def go_on() -> bool:
        if meanwhile is not None:
            meanwhile()
        return False

    connection.raw.set_progress_handler(go_on if meanwhile is not None else None, _INSTRUCTIONS)
    try:
        yield
    finally:
        connection.raw.set_progress_handler(None)


def forget(
    home: Home,
    wanted: Wanted,
    chosen: Chosen,
    *,
    progress: Progress | None = None,
    meanwhile: Meanwhile | None = None,
    step: Step = no_step,
) -> Forgotten:
    """Forget what was chosen, and whatever the same filters choose by then; return how much that was.

    Blocks until it is on the disk and the old bytes are gone, for the log at most 30 s. Raises ``OSError`` where the
    ledger cannot be written: then nothing was forgotten. Works whether or not the agent or a model does.
    """
    connection, paths, now_ms = home.connection, home.paths, home.clock.now_ms()
    before = prepare_ledger(paths)
    was_applied = is_applied(connection, before)
    ours_items, ours_pieces = before.items, before.pieces
    for _ in range(TRIES):
        items, pieces = hashes_of(before, wanted, chosen)
        ledger = append_forgotten(paths, now_ms, items=items, pieces=pieces)
        ours_items |= items
        ours_pieces |= pieces
        # Somebody else may have written down more, and not have come to the database yet.
        was_applied = was_applied and ledger.items == ours_items and ledger.pieces == ours_pieces
        step("ledger")
        with _told(connection, meanwhile):
            erased, chosen_now = _erase(connection, ledger, wanted, chosen, now_ms, progress, step)
        if erased is not None:
            break
        chosen = chosen_now
    else:
        raise AgentFault(
            "the memory grows faster than it can be looked through", "", "stop the agent: `sapwood stop --wait`, again"
        )
    step("transaction")
    wake_workers(connection)
    forget_in_inbox(paths, ledger)
    step("inbox")
    gone = drop_old_copies(paths)
    step("copies")
    # Only now: a crash before this has the next start do all of it again.
    if was_applied:
        with connection.write(full=True):
            set_state(connection, LEDGER_KEY, applied_mark(ledger))
    else:
        erased += apply_ledger(connection, read_ledger(paths), now_ms, progress=progress)
    found = _finish(home, erased, len(chosen.items), gone, step)
    # What is chosen by its name or its source stays out whether it was read or not.
    unread = unread_words(connection, wanted.source_id) if wanted.words or wanted.entity else ""
    return replace(found, words="; ".join(filter(None, (found.words, unread))))


def _erase(
    connection: Connection,
    ledger: Ledger,
    wanted: Wanted,
    chosen: Chosen,
    now_ms: int,
    progress: Progress | None,
    step: Step,
) -> tuple[Erased | None, Chosen]:
    """Take out what was chosen and nothing less; ``None`` and the newer choice where more was stored meanwhile.

    The same sentence may stand elsewhere in the source: it goes there too, and what is left there is read again.
    """
    touched = {chunk.source_id for chunk in chosen.chunks.values()}
    elsewhere = Erasure()
    if touched:
        find_pieces(connection, ledger, elsewhere, touched, progress)
    with connection.write(full=True):
        found = choose(connection, wanted, before=chosen)
        if not chosen.covers(found):
            # Nothing is written yet; the hashes of what came are to be in the ledger first.
            return None, found
        if touched:
            find_pieces(connection, ledger, elsewhere, touched)
        erasure = Erasure(
            found.items,
            set(found.chunks) | elsewhere.chunks,
            found.summaries,
            found.files,
            elsewhere.again - found.items.keys(),
        )
        erased = erase_tx(connection, ledger, erasure, now_ms, wanted.says if wanted.words is not None else None)
        step("uncommitted")
    return erased, found


def remove(home: Home, source: str, *, meanwhile: Meanwhile | None = None, step: Step = no_step) -> Forgotten:
    """Stop reading a source and delete everything that is held of it; return how much that was.

    It is no forgetting: the ledger says nothing of it, and the same folder added again is read again. What was pushed
    to an inbox source lies nowhere else and is deleted with it. Raises ``UsageFault`` for a source nobody knows.
    """
    from agent.actions.removing import remove_source_tx
    from agent.config_edit import remove_source

    source_id = source_id_of(home, source)
    remove_source(home.paths, source_id)
    step("intent")
    with _told(home.connection, meanwhile), home.connection.write(full=True):
        removed, items = remove_source_tx(home.connection, source_id)
        set_state(home.connection, CHECKPOINT_DUE, "1")
        step("uncommitted")
    step("transaction")
    wake_workers(home.connection)
    folder = home.paths.inbox / source_id
    if folder.is_dir():
        shutil.rmtree(folder)
    step("inbox")
    return _finish(home, removed, items, drop_old_copies(home.paths), step)


def is_only_copy(home: Home, source: str) -> bool:
    """Return whether the inbox holds items of this source: removing it deletes what lies nowhere else."""
    return (home.paths.inbox / source_id_of(home, source)).is_dir()


def _finish(home: Home, erased: Erased, items: int, gone: tuple[str, ...], step: Step) -> Forgotten:
    is_clear = truncate_log(home.connection, home.clock, CHECKPOINT_PATIENCE_S)
    step("log")
    return Forgotten(erased.chunks, erased.summaries, items, gone, "" if is_clear else LEFT_IN_LOG)


def drop_old_copies(paths: Paths, until_ms: int | None = None) -> tuple[str, ...]:
    """Delete memories put aside, up to a time (UTC ms), and return their names: they hold what was forgotten."""
    gone = []
    for mark in (DAMAGED, BEFORE_RESTORE):
        old = [copy for copy in copies(paths.database, mark) if until_ms is None or copy.at_ms <= until_ms]
        gone += [copy.path.name for copy in old]
        drop_copies(paths.database, mark, 0, until_ms=until_ms)
    return tuple(gone)


def truncate_log(connection: Connection, clock: Clock, patience_s: float) -> bool:
    """Bring the write-ahead log into the database and cut it to nothing; return whether that was done in time.

    Old pages stand in the log until then. What is left is due from the running agent, and at the next start.
    """
    end = clock.monotonic() + patience_s
    while True:
        row = connection.one("PRAGMA wal_checkpoint(TRUNCATE)")
        if row is not None and row[0] == 0:
            break
        if clock.monotonic() >= end:
            return False
        clock.sleep(_LOOK_S)
    if get_state(connection, CHECKPOINT_DUE) is not None:
        with connection.write():
            set_state(connection, CHECKPOINT_DUE, None)
    return True


def keep_ledger(paths: Paths, connection: Connection, now_ms: int) -> None:
    """Do what forgetting left to be done, if anything: the supervisor's hook, at its start and on each tick.

    Takes out what a crash or a restored backup left, and cuts the log that somebody held open. Reads one small row
    and a ``stat`` where there is nothing to do. Raises ``OSError`` where the ledger cannot be read.
    """
    try:
        size = os.stat(paths.ledger).st_size
    except FileNotFoundError:
        size = 0
    held = get_state(connection, LEDGER_KEY) or "0:0:0"
    if held.split(":")[0] != str(size):
        ledger = read_ledger(paths)
        if not is_applied(connection, ledger):
            forget_in_inbox(paths, ledger)
            # One put aside later was a memory that had forgotten it already: its owner was promised to find it there.
            drop_old_copies(paths, ledger.forgotten_ms)
            apply_ledger(connection, ledger, now_ms)
            wake_workers(connection)
        else:
            with connection.write():
                set_state(connection, LEDGER_KEY, applied_mark(ledger))
    if get_state(connection, CHECKPOINT_DUE) is not None:
        row = connection.one("PRAGMA wal_checkpoint(TRUNCATE)")
        if row is not None and row[0] == 0:
            with connection.write():
                set_state(connection, CHECKPOINT_DUE, None)
