"""One corpus grown by one worker and by four, in order and shuffled: equal trees, and equal to the naive builder's."""

from __future__ import annotations

import multiprocessing
import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from pathlib import Path

from agent import ids
from agent.clock import SYSTEM_CLOCK
from agent.config import Intent
from agent.db import Connection, Database
from agent.db.text_index import add_text
from agent.paths import paths_under
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.registry import JobContext, JobSpec, Registry
from agent.queue.run import LocalContext, run_once
from agent.queue.types import ExtractChunkPayload, Job, NewJob, NodeRef, Plan
from agent.states import ItemState, JobKind, Lifecycle, SourceKind
from agent.tokens import count_tokens
from agent.tree.check import problems
from agent.tree.shape import ShapeNode, groups, joined
from agent.tree.store import END, find_tree, order_bytes, rows_between
from agent.tree.waiting import chunks_pending
from tests.bench.harness import Result
from tests.bench.tree_edits import Prose
from tests.bench.tree_ground import T0, Counting, Ground, new_ground, registry_for
from tests.naive.builder import grow_memory, sha256

MAILS = 2_400
DOCUMENTS = 80
STATES = 10
BACKLOG = 100  # as a sync that keeps a bounded number of items under way
DROPPED = 11  # one chunk in so many is not admitted


@dataclass(frozen=True)
class Item:
    """One mail of one chunk, or one document."""

    source: str
    key: str
    kind: SourceKind
    sort_key: bytes
    texts: tuple[str, ...]
    time_ms: int | None


def corpus() -> list[Item]:
    """Return a stream and a folder, in the order of their places."""
    prose = Prose(21)
    found = []
    for place in range(MAILS):
        time_ms = T0 + place * 60_000
        key = f"<{place:06d}@example.org>"
        sort_key = (time_ms + 2**62).to_bytes(8, "big") + key.encode()
        found.append(Item("post", key, SourceKind.EMAIL, sort_key, (prose.paragraph(),), time_ms))
    for number in range(DOCUMENTS):
        key = f"part{number // 9}/{number:03d}.md"
        texts = tuple(prose.paragraph() for _ in range(prose.chance.randint(0, 40)))
        found.append(Item("notes", key, SourceKind.DOCUMENT, key.encode(), texts, None))
    return found


def put(connection: Connection, item: Item) -> None:
    """Store one item with its chunks pending and ask for their extraction, as ingest does."""
    now = SYSTEM_CLOCK.now_ms()
    jobs = []
    with connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_items (
              source_id, item_key, source_kind, place, sort_key, held_hash, version_ms, state
            ) VALUES (?, ?, ?, '{}', ?, 'held', 1, ?)
            """,
            (item.source, item.key, item.kind, item.sort_key, ItemState.CURRENT),
        )
        item_seq = connection.last_id
        for at, text in enumerate(item.texts):
            body_hash = ids.content_hash(text)
            chunk_id = ids.chunk_id(item.kind, item.source, item.key, 0, body_hash)
            connection.run(
                """
                INSERT INTO mem_tree_chunks (
                  chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key,
                  break_key, time_ms, locator, tokens, text, lifecycle, created_at_ms
                ) VALUES (?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, '{}', ?, ?, ?, ?)
                """,
                (
                    chunk_id,
                    item.kind,
                    item.source,
                    item.key,
                    item_seq,
                    body_hash,
                    (at + 1) << 20,
                    item.sort_key,
                    (item.time_ms or 0) // 1_200_000 + at // 6,
                    item.time_ms,
                    count_tokens(text),
                    text,
                    Lifecycle.PENDING_EXTRACTION,
                    now,
                ),
            )
            add_text(connection, connection.last_id, None, None, text)
            jobs.append(NewJob.extract_chunk(chunk_id))
        if not item.texts:
            jobs.append(NewJob.seal_document(f"{item.source}/{item.key}", 1))
        enqueue_many_tx(connection, jobs, now)


def extract(context: JobContext, job: Job) -> Plan:
    """Admit or drop one chunk by its id alone, and ask for what extract asks for."""
    chunk_id = job.payload(ExtractChunkPayload).chunk_id
    admitted = int(chunk_id, 16) % DROPPED != 0

    def writes(connection: Connection) -> list[NewJob]:
        connection.run(
            "UPDATE mem_tree_chunks SET lifecycle = ? WHERE chunk_id = ? AND lifecycle = 'pending_extraction'",
            (Lifecycle.ADMITTED if admitted else Lifecycle.DROPPED, chunk_id),
        )
        source, key, kind, item_seq = connection.all(
            "SELECT source_id, item_key, source_kind, item_seq FROM mem_tree_chunks WHERE chunk_id = ?", (chunk_id,)
        )[0]
        if kind == SourceKind.DOCUMENT:
            return [] if chunks_pending(connection, item_seq) else [NewJob.seal_document(f"{source}/{key}", 1)]
        if admitted:
            return [NewJob.append_buffer("source", source, NodeRef.leaf(chunk_id))]
        return [NewJob.seal(ids.tree_id("source", source), 0)]

    return Plan(writes)


def full_registry(summariser: Counting) -> Registry:
    """Return the tree's kinds and an extract that needs no model."""
    return Registry.of([*registry_for(summariser), JobSpec(JobKind.EXTRACT_CHUNK, extract)])


def work(home: str, stop: Event) -> None:
    """Be a worker process: claim, handle, settle, until told to stop."""
    paths = paths_under(Path(home))
    database = Database(paths.database, paths.write_turn)
    registry = full_registry(Counting())
    context = LocalContext(database.connection, SYSTEM_CLOCK, Intent(), paths)
    worker_id = ids.random_id()
    while not stop.is_set():
        if not run_once(database.connection, registry, context, worker_id=worker_id):
            time.sleep(0.002)
    database.close()


@contextmanager
def workers(home: Path, count: int) -> Iterator[None]:
    """Hold so many worker processes; they are gone at the end."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    processes = [spawn.Process(target=work, args=(str(home), stop), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join(30)
    if any(process.exitcode != 0 for process in processes):
        raise RuntimeError("a worker process did not end well")


@dataclass
class Outcome:
    """What one way of growing arrived at."""

    fingerprints: set[tuple[str, str]]
    wrong: list[str]
    naive_differ: int
    states_short: int


def grow(order: list[Item], worker_count: int) -> Outcome:
    """Grow a memory from items in this order; with no worker process the jobs are run in between, in this one."""
    with new_ground() as ground:
        ground.registry = full_registry(ground.summariser)
        short = 0
        marks = {round(len(order) * (state + 1) / (STATES + 1)) for state in range(STATES)}
        if worker_count:
            with workers(ground.home, worker_count):
                short = _fill(ground, order, marks, in_process=False)
                _wait_for_rest(ground.connection)
        else:
            short = _fill(ground, order, marks, in_process=True)
        ground.finish()
        fingerprints = {
            (summary, sha256(text))
            for summary, text in ground.connection.all("SELECT summary_id, text FROM mem_tree_summaries")
        }
        naive = grow_memory(ground.connection, ground.summariser).fingerprints()
        return Outcome(fingerprints, problems(ground.connection), len(fingerprints ^ naive), short)


def _fill(ground: Ground, order: list[Item], marks: set[int], *, in_process: bool) -> int:
    short = 0
    for number, item in enumerate(order):
        put(ground.connection, item)
        while _backlog(ground.connection) > BACKLOG:
            if not in_process:
                time.sleep(0.002)
            else:
                run_once(ground.connection, ground.registry, ground.context)
        if number + 1 in marks:
            _let_seals_end(ground, in_process=in_process)
            closed, standing = early_state(ground.connection)
            short += standing * 2 < closed
    return short


def _let_seals_end(ground: Ground, *, in_process: bool) -> None:
    """Wait until no append and no seal is under way: a state is looked at as it is, not in the middle of a step."""
    while ground.connection.value(
        "SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running') AND kind IN ('append_buffer', 'seal')"
    ):
        if in_process:
            run_once(ground.connection, ground.registry, ground.context)
        else:
            time.sleep(0.002)


def _backlog(connection: Connection) -> int:
    found: int = connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status = 'ready'")
    return found


def _wait_for_rest(connection: Connection) -> None:
    until = time.monotonic() + 300
    while connection.value("SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running')"):
        if time.monotonic() > until:
            raise RuntimeError("the workers do not come to rest")
        time.sleep(0.02)


def early_state(connection: Connection) -> tuple[int, int]:
    """Return how many groups of source trees have closed so far, and how many of them have summaries.

    A group is open while a chunk inside it is pending, or a document whose tree is not there yet.
    """
    closed = standing = 0
    with connection.snapshot():
        for source in ("post", "notes"):
            tree = find_tree(connection, ids.tree_id("source", source))
            if tree is None:
                continue
            live = {
                shape
                for (shape,) in connection.all(
                    "SELECT shape_id FROM mem_tree_summaries WHERE tree_seq = ? AND stale = 0", (tree.tree_seq,)
                )
            }
            nodes = [
                ShapeNode(
                    row.shape_id,
                    row.leaf_id,
                    row.tokens,
                    row.first_break,
                    row.last_break,
                    row.sort_key,
                    row.last_key,
                )
                for row in rows_between(connection, tree.tree_seq, 0, b"", END)
            ]
            pending = _pending_keys(connection, source)
            level = 0
            while nodes:
                above = []
                for group in groups(nodes, level, closed=False):
                    members = nodes[group.start : group.end]
                    above.append(
                        joined(tree.tree_id, level, members, members[0].sort_key, members[-1].last_key)
                        if len(members) > 1
                        else members[0]
                    )
                    inside = bisect_right(pending, members[-1].last_key) - bisect_left(pending, members[0].sort_key)
                    if len(members) > 1 and not inside:
                        closed += 1
                        standing += above[-1].shape_id in live
                nodes, level = above, level + 1
    return closed, standing


def _pending_keys(connection: Connection, source: str) -> list[bytes]:
    chunks = connection.all(
        """
        SELECT sort_key, order_key
          FROM mem_tree_chunks
         WHERE lifecycle = 'pending_extraction' AND source_id = ? AND source_kind <> 'document'
        """,
        (source,),
    )
    documents = connection.all(
        """
        SELECT sort_key
          FROM mem_tree_items
         WHERE source_kind = 'document' AND held_hash IS NOT grown_hash AND source_id = ?
        """,
        (source,),
    )
    return sorted([key + order_bytes(order) for key, order in chunks] + [key for (key,) in documents])


def measure_orders(result: Result, shuffles: int) -> None:
    """Grow the corpus in order and shuffled, in one process and with four workers, and compare."""
    items = corpus()
    reference = grow(items, 0)
    outcomes = [reference]
    for seed in range(shuffles):
        order = list(items)
        random.Random(seed).shuffle(order)
        outcomes.append(grow(order, 4 if seed % 2 == 0 else 0))
    outcomes.append(grow(items, 4))
    outcomes.append(grow(items, 1))
    result.figures["trees_summaries"] = len(reference.fingerprints)
    result.figures["trees_differ"] = sum(
        len(outcome.fingerprints ^ reference.fingerprints) + len(outcome.wrong) for outcome in outcomes
    )
    result.figures["naive_differ"] = sum(outcome.naive_differ for outcome in outcomes)
    result.figures["early_states_short"] = sum(outcome.states_short for outcome in outcomes)
    for name in ("trees_differ", "naive_differ", "early_states_short"):
        result.hold(name, "<=", 0)
