"""How far the memory has grown, how long the rest will take, and the words for both. Counts along indexes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.actions.times import span_words
from agent.queue.counts import count_done_since, count_waiting, has_waiting
from agent.states import JobKind, Lifecycle

if TYPE_CHECKING:
    from agent.db import Connection

RATE_WINDOW_MS = 60_000
# Fewer settled jobs than this in the window say nothing about how long the rest will take.
RATE_MINIMUM = 20
# Nor does a pace of a few seconds: workers come up, and the first rows are all of one kind.
RATE_AFTER_MS = 6_000
# While a look of so long goes on its workers find things instead of growing them: no pace of growing.
LONG_LOOK_MS = 3_000


@dataclass(frozen=True)
class Unread:
    """Items that were found and wait for a job of their own, and how many were read. ``looking``: more may come."""

    waiting: int = 0
    read: int = 0
    looking: bool = False


@dataclass(frozen=True)
class Growth:
    """How far the memory has grown: ``grown`` of ``chunks`` have left the queue, ``jobs`` rows have still to run."""

    grown: int
    chunks: int
    jobs: int
    summaries: int
    unread: Unread = Unread()
    seconds_left: int | None = None

    @property
    def share(self) -> float:
        """How much of what is known of is grown, 0 … 1; an item that waits counts as much as one that was read."""
        known = self.chunks * (1 + self.unread.waiting / max(1, self.unread.read))
        return self.grown / known if known else 0.0


def growth(connection: Connection, now_ms: int) -> Growth:
    """Return how far it is, from indexes alone, so that it can be asked several times a second."""
    pending, admitted, chunks, summaries = connection.all(
        """
        SELECT (SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = 'pending_extraction'),
               (SELECT count(*) FROM mem_tree_chunks WHERE lifecycle = 'admitted'),
               (SELECT count(*) FROM mem_tree_chunks),
               (SELECT count(*) FROM mem_tree_summaries)
        """
    )[0]
    jobs, unread = count_waiting(connection), unread_items(connection)
    left = seconds_left(connection, jobs, unread, now_ms) if jobs else 0
    return Growth(chunks - pending - admitted, chunks, jobs, summaries, unread, left)


def growth_of(chunks: dict[str, int], jobs: int, summaries: int, unread: Unread) -> Growth:
    """Return the same from counts that are there already, without the time that is left."""
    total = sum(chunks.values())
    grown = total - chunks[Lifecycle.PENDING_EXTRACTION] - chunks[Lifecycle.ADMITTED]
    return Growth(grown, total, jobs, summaries, unread)


def growing_words(found: Growth) -> str:
    """Return how far it is for people, what matters most first, short enough for a line of 80 columns.

    ``812 of 3,400 chunks, 11,800 items to read, about 12 minutes left``. While a source is looked at for the first
    time nobody knows how much there is: then it says how much was found so far.
    """
    parts = [f"{found.grown:,} of {found.chunks:,} chunks"] if found.chunks else []
    known = found.unread.waiting + found.unread.read
    if found.unread.looking and known:
        parts.append(f"{known:,} {'item' if known == 1 else 'items'} found so far")
        return ", ".join(parts)
    if found.unread.waiting:
        parts.append(f"{found.unread.waiting:,} {'item' if found.unread.waiting == 1 else 'items'} to read")
    if not found.unread.waiting or not found.seconds_left:
        parts.append(f"{found.jobs:,} {'job' if found.jobs == 1 else 'jobs'}")
    if found.seconds_left:
        parts.append(f"about {span_words(found.seconds_left)}")
    return f"{', '.join(parts)} left"


def unread_items(connection: Connection) -> Unread:
    """Return how many items wait to be read and how many were, along one index."""
    waiting, known = connection.all(
        "SELECT coalesce(sum(state = 'found'), 0), count(*) FROM mem_tree_items INDEXED BY mem_tree_items_by_state"
    )[0]
    return Unread(waiting, known - waiting, _is_first_look(connection))


def _is_first_look(connection: Connection) -> bool:
    """Return whether a source is being looked at for the first time: what is known of it is not all of it."""
    if not has_waiting(connection, str(JobKind.SYNC_SOURCE)):
        return False
    return bool(
        connection.value(
            """
            SELECT EXISTS (SELECT 1
                             FROM mem_tree_jobs AS j
                            WHERE j.kind = 'sync_source'
                              AND j.status IN ('ready', 'running')
                              AND NOT EXISTS (SELECT 1
                                                FROM mem_tree_sources AS s
                                               WHERE 'sync:' || s.source_id = j.dedupe_key
                                                 AND s.last_sync_ms IS NOT NULL))
            """
        )
    )


def seconds_left(connection: Connection, jobs: int, unread: Unread, now_ms: int) -> int | None:
    """Return how long what is known of will take at the pace of the last minute; ``None`` where that says nothing.

    The minute begins after the last long look at a source. An item that waits counts as its reading, its sealing, and
    an extraction for each chunk that items have on average.
    """
    if unread.looking:
        return None
    looked_ms = connection.value("SELECT max(last_sync_ms) FROM mem_tree_sources WHERE look_ms >= ?", (LONG_LOOK_MS,))
    settled, first_ms = count_done_since(connection, max(now_ms - RATE_WINDOW_MS, looked_ms or 0))
    if settled < RATE_MINIMUM or first_ms is None or now_ms - first_ms < RATE_AFTER_MS:
        return None
    chunks = int(connection.value("SELECT count(*) FROM mem_tree_chunks")) if unread.waiting else 0
    left = jobs + unread.waiting * (2 + chunks / max(1, unread.read))
    return round(left * max(1, now_ms - first_ms) / settled / 1000)


def chunk_counts(connection: Connection) -> dict[str, int]:
    """Return how many chunks are in each lifecycle state, zeros included."""
    found = {
        str(row[0]): int(row[1])
        for row in connection.all("SELECT lifecycle, count(*) FROM mem_tree_chunks GROUP BY lifecycle")
    }
    return {str(state): found.get(state, 0) for state in Lifecycle}
