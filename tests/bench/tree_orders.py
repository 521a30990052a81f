"""One corpus grown by one worker and by four, in order and shuffled: equal trees, and equal to the naive builder's.

Files are laid into the sources' folders batch by batch, while worker processes with the eight kinds of job read,
extract, append and seal under the built-in profile.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory

from agent import ids
from agent.clock import SYSTEM_CLOCK
from agent.config import Intent, SourceIntent
from agent.db import Connection, Database
from agent.models.profiles import open_profile
from agent.paths import paths_under
from agent.queue.enqueue import enqueue_many_tx
from agent.queue.registry import Registry
from agent.queue.run import LocalContext, drain_until_idle, run_once
from agent.queue.types import NewJob
from agent.tree.check import problems
from agent.tree.flush import close_all_tails, unfinished
from agent.tree.shape import ShapeNode, groups, joined
from agent.tree.store import END, find_tree, order_bytes, rows_between
from agent.worker.kinds import KIND_NAMES
from tests.bench.harness import Result
from tests.bench.tree_edits import Prose
from tests.naive.builder import grow_memory, sha256

MAILS = 600
DOCUMENTS = 120
STATES = 10
DEADLINE_S = 600.0
_FIRST = datetime(2024, 3, 1, tzinfo=UTC).timestamp()
_KINDS = {"notes": "folder", "post": "eml", "talk": "irc"}


@dataclass(frozen=True)
class File:
    """One file of a source."""

    source: str
    name: str
    data: bytes


def corpus(data: Path | None, mails: int = MAILS, documents: int = DOCUMENTS) -> list[File]:
    """Return the files of a folder of notes and a mailbox, and of real chat logs where these are, in their order."""
    prose = Prose(21)
    found = []
    for number in range(documents):
        blocks = ["# " + prose.heading().lstrip("# ")]
        for _ in range(prose.chance.randint(1, 60)):
            blocks.append(prose.heading() if prose.chance.random() < 0.1 else prose.paragraph())
        found.append(File("notes", f"part{number // 9:02d}/{number:03d}.md", "\n\n".join(blocks).encode()))
    for number in range(mails):
        mail = EmailMessage()
        thread = number - number % 6
        mail["Message-ID"] = f"<{number}@example.org>"
        mail["Subject"] = f"{'Re: ' if number % 6 else ''}{prose.heading().lstrip('# ')}"
        mail["From"] = f"Writer {number % 7} <writer{number % 7}@example.org>"
        mail["To"] = "reader@example.org"
        mail["Date"] = format_datetime(datetime.fromtimestamp(_FIRST + number * 5_000, UTC))
        if number % 6:
            mail["References"] = f"<{thread}@example.org>"
        mail.set_content("\n\n".join(prose.paragraph() for _ in range(prose.chance.randint(1, 4))))
        found.append(File("post", f"{number:05d}.eml", mail.as_bytes()))
    if data is not None and (data / "irc").is_dir():
        found += [File("talk", path.name, path.read_bytes()) for path in sorted((data / "irc").glob("*.txt"))]
    return found


def intent_for(folders: Path) -> Intent:
    """Return the intent that names one folder for each source."""
    sources = []
    for source, kind in _KINDS.items():
        (folders / source).mkdir(parents=True, exist_ok=True)
        sources.append(SourceIntent(source, kind, source, (str(folders / source),)))
    return Intent(sources=tuple(sources))


def work(home: str, intent: Intent, stop: Event) -> None:
    """Be a worker process: claim, handle, settle, until told to stop."""
    paths = paths_under(Path(home))
    database = Database(paths.database, paths.write_turn)
    registry = Registry.load(KIND_NAMES)
    context = LocalContext(database.connection, SYSTEM_CLOCK, intent, paths)
    worker_id = ids.random_id()
    while not stop.is_set():
        if not run_once(database.connection, registry, context, worker_id=worker_id):
            time.sleep(0.002)
    database.close()


@contextmanager
def workers(home: Path, intent: Intent, count: int) -> Iterator[None]:
    """Hold so many worker processes; they are gone at the end. Raises ``RuntimeError`` where one ended badly."""
    spawn = multiprocessing.get_context("spawn")
    stop = spawn.Event()
    processes = [spawn.Process(target=work, args=(str(home), intent, stop), daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join(60)
    if any(process.exitcode != 0 for process in processes):
        raise RuntimeError("a worker process did not end well")


@dataclass
class Outcome:
    """What one way of growing arrived at."""

    fingerprints: set[tuple[str, str]]
    chunks: int
    wrong: list[str]
    naive_differ: int
    states_short: int


def grow(files: Sequence[File], worker_count: int, states: int = STATES) -> Outcome:
    """Grow a memory from files in this order, with so many worker processes."""
    with TemporaryDirectory(prefix="sapwood-bench-") as folder:
        home, folders = Path(folder) / "home", Path(folder) / "sources"
        intent, paths = intent_for(folders), paths_under(home).make()
        database = Database(paths.database, paths.write_turn)
        connection = database.connection
        context = LocalContext(connection, SYSTEM_CLOCK, intent, paths)
        short = 0
        size = -(-len(files) // (states + 1))
        with workers(home, intent, worker_count):
            for start in range(0, len(files), size):
                _lay(folders, files[start : start + size])
                with connection.write():
                    enqueue_many_tx(
                        connection, [NewJob.sync_source(source) for source in _KINDS], SYSTEM_CLOCK.now_ms()
                    )
                _wait(connection, _SYNCING, leave=0)
                _wait(connection, _DUE, leave=size // 2)
                if start + size < len(files):
                    closed, standing = _early_state(connection)
                    short += standing * 2 < closed
            _wait(connection, _DUE, leave=0)
        drain_until_idle(context, Registry.load(KIND_NAMES), flush=close_all_tails)
        wrong = problems(connection) + unfinished(connection)
        fingerprints = {
            (summary, sha256(text))
            for summary, text in connection.all("SELECT summary_id, text FROM mem_tree_summaries")
        }
        naive = grow_memory(connection, open_profile(intent, context.shared).summariser).fingerprints()
        chunks = connection.value("SELECT count(*) FROM mem_tree_chunks")
        database.close()
        return Outcome(fingerprints, chunks, wrong, len(fingerprints ^ naive), short)


def _lay(folders: Path, files: Sequence[File]) -> None:
    for file in files:
        path = folders / file.source / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)


def _wait(connection: Connection, which: str, leave: int) -> None:
    """Wait until no more than so many of these jobs are left; raises ``RuntimeError`` at a deadline."""
    until = time.monotonic() + DEADLINE_S
    while _under_way(connection, which) > leave:
        if time.monotonic() > until:
            raise RuntimeError("the workers do not come to rest")
        time.sleep(0.003)


_DUE = """
SELECT count(*)
  FROM mem_tree_jobs
 WHERE status = 'running' OR (status = 'ready' AND kind <> 'reembed_backfill')
"""

_SYNCING = "SELECT count(*) FROM mem_tree_jobs WHERE status IN ('ready', 'running') AND kind = 'sync_source'"

_SEALING = """
SELECT count(*)
  FROM mem_tree_jobs
 WHERE status IN ('ready', 'running') AND kind IN ('append_buffer', 'seal')
"""


def _under_way(connection: Connection, which: str) -> int:
    found: int = connection.value(which)
    return found


def _early_state(connection: Connection) -> tuple[int, int]:
    """Return how many groups of source trees have closed so far, and how many of them have summaries.

    Looked at when no append and no seal is under way, which is often: a seal comes first. A group is open while a chunk
    inside it is pending, an item of it on its way, or a document's tree not there yet.
    """
    _wait(connection, _SEALING, leave=0)
    closed = standing = 0
    with connection.snapshot():
        for source in _KINDS:
            tree = find_tree(connection, ids.tree_id("source", source))
            if tree is None:
                continue
            live = {
                shape
                for (shape,) in connection.all(
                    "SELECT shape_id FROM mem_tree_summaries WHERE tree_seq = ? AND stale = 0", (tree.tree_seq,)
                )
            }
            pending = _open_keys(connection, source)
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
            level = 0
            while nodes:
                above = []
                for group in groups(nodes, level, closed=False):
                    members = nodes[group.start : group.end]
                    key, last = members[0].sort_key, members[-1].last_key
                    if len(members) == 1:
                        above.append(members[0])
                        continue
                    above.append(joined(tree.tree_id, level, members, key, last))
                    if bisect_right(pending, last) == bisect_left(pending, key):
                        closed += 1
                        standing += above[-1].shape_id in live
                nodes, level = above, level + 1
    return closed, standing


def _open_keys(connection: Connection, source: str) -> list[bytes]:
    chunks = connection.all(
        """
        SELECT sort_key, order_key
          FROM mem_tree_chunks
         WHERE lifecycle = 'pending_extraction' AND source_id = ? AND source_kind <> 'document'
        """,
        (source,),
    )
    items = connection.all(
        """
        SELECT sort_key
          FROM mem_tree_items
         WHERE source_id = ?
           AND (state = 'queued' OR (source_kind = 'document' AND held_hash IS NOT grown_hash))
        """,
        (source,),
    )
    return sorted([key + order_bytes(order) for key, order in chunks] + [key for (key,) in items])


def measure_orders(result: Result, data: Path | None, shuffles: int) -> None:
    """Grow the corpus in order by one worker, shuffled by four, and back to front by four, and compare."""
    files = corpus(data)
    reference = grow(files, 1)
    outcomes = [reference]
    for seed in range(shuffles):
        order = list(files)
        random.Random(seed).shuffle(order)
        outcomes.append(grow(order, 4))
    outcomes.append(grow(files[::-1], 4))
    result.figures["trees_chunks"] = reference.chunks
    result.figures["trees_summaries"] = len(reference.fingerprints)
    result.figures["trees_differ"] = sum(
        len(outcome.fingerprints ^ reference.fingerprints) + len(outcome.wrong) for outcome in outcomes
    )
    result.figures["naive_differ"] = sum(outcome.naive_differ for outcome in outcomes)
    result.figures["early_states_short"] = sum(outcome.states_short for outcome in outcomes)
    for name in ("trees_differ", "naive_differ", "early_states_short"):
        result.hold(name, "<=", 0)
