"""``--deep``: every invariant of the memory, read from its rows in one snapshot; nothing is written.

What still grows is no fault: each look knows what is between two states. A look that fails, on a damaged page for one,
is a finding and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.actions.checks.result import Check, guarded, summed
from agent.actions.erasing import CHECKPOINT_DUE, find_forgotten
from agent.clock import SYSTEM_CLOCK
from agent.config import load_intent
from agent.db import check as nodes
from agent.db import check_text as texts
from agent.db.serving import count_private, serving_signature
from agent.db.state import get_state
from agent.errors import ConfigBroken, SapwoodError
from agent.ingest import check as reading
from agent.ledger import read_ledger
from agent.models.profiles import open_builtin, open_profile
from agent.queue.check import lost_work, rows_readable
from agent.queue.registry import Registry
from agent.tokens import count_tokens
from agent.tree import check as trees
from agent.worker.embedding_batch import MOST_HEAD
from agent.worker.kinds import KIND_NAMES
from agent.worker.reembed_sweep import OPEN_SOURCES_KEY

if TYPE_CHECKING:
    from agent.actions.checks.progress import Told
    from agent.config import Intent
    from agent.db import Connection
    from agent.ledger import Ledger
    from agent.paths import Paths

REBUILD = "`sapwood rebuild` grows the memory again from its sources"
REBUILD_SUMMARIES = "`sapwood rebuild --summaries` makes the summaries again"
SYNC = "`sapwood sync` looks at the sources again"
FORGET = "forget it again with `sapwood forget`"
CLOCK = "set the date and time of this machine; what it ordered wrongly is put right by `sapwood rebuild`"

CLOCK_SLACK_MS = 60_000
SWEPT = 10_000
"""Jobs that one sweep is asked for at most: what is lost beyond that is found at the next ticks."""


@dataclass(frozen=True)
class _Ground:
    """What the looks read: the snapshot, the time it was taken, and what the owner said (``None``: unreadable)."""

    connection: Connection
    paths: Paths
    now_ms: int
    intent: Intent | None
    ledger: Ledger | None


Look = Callable[[_Ground], Iterator[Check]]


def look_deeper(paths: Paths, connection: Connection, told: Told) -> Iterator[Check]:
    """Yield one check for each invariant, all of one snapshot. Blocks for some seconds per ten thousand chunks."""
    with connection.snapshot():
        now_ms = SYSTEM_CLOCK.now_ms()
        ground = _Ground(connection, paths, now_ms, _intent_of(paths), _ledger_of(paths))
        for name, look in LOOKS:
            told.step(name)
            yield from guarded(name, lambda look=look: look(ground))  # type: ignore[misc]


def _intent_of(paths: Paths) -> Intent | None:

    try:
        return load_intent(paths).intent
    except ConfigBroken:
        return None


def _ledger_of(paths: Paths) -> Ledger | None:

    try:
        return read_ledger(paths)
    except OSError:
        return None


def _rows(name: str, find: Callable[[Connection], Iterable[str]], well: str, remedy: str) -> tuple[str, Look]:
    """Return a look that sums up what a function of a room yields about the rows alone."""

    def look(ground: _Ground) -> Iterator[Check]:
        yield summed(name, find(ground.connection), well, remedy)

    return name, look


def _open_documents(ground: _Ground) -> Iterator[Check]:

    trees.mark_open(ground.connection)
    count = ground.connection.value("SELECT count(*) FROM temp.doctor_open")
    yield Check("growing", True, f"{count} documents are on their way" if count else "no document is on its way")


def _vectors(ground: _Ground) -> Iterator[Check]:

    def findings() -> Iterator[str]:
        yield from nodes.vectors(ground.connection)
        yield from _without_vector(ground)

    yield summed(
        "vectors",
        findings(),
        "each node that counts as embedded is",
        f"{REBUILD}; until then search by meaning does not find these",
    )


def _without_vector(ground: _Ground) -> Iterator[str]:
    """Yield nodes that count as embedded at what serves or is wanted, have no vector, and whose text says something.

    A text of which the built-in table knows no word has none by right; what a model refused has a row that says so.
    """
    if ground.intent is None:
        return
    builtin = open_builtin({}).embedder
    try:
        wanted = open_profile(ground.intent, {}).embedder.signature
    except SapwoodError:
        wanted = builtin.signature
    for signature in sorted({wanted, serving_signature(ground.connection, wanted)}):
        for name, text, title, heading_path in nodes.bare_nodes(ground.connection, signature):
            if signature == builtin.signature:
                head = ". ".join(part for part in (title, heading_path) if part)[:MOST_HEAD]
                windows = [f"{head}. {window}" if head else window for window in builtin.windows(text)]
                found: Any = builtin.embed(windows)
                says_something = bool(found.any())
            else:
                says_something = count_tokens(text) > 0
            if says_something:
                yield f"{name} counts as embedded and has no vector"
    if get_state(ground.connection, OPEN_SOURCES_KEY) is None and (marked := count_private(ground.connection)):
        yield f"{marked} nodes are marked as private, and nothing says since when: no model would ever be given them"


def _items(ground: _Ground) -> Iterator[Check]:

    yield summed(
        "items", reading.items_agree(ground.connection), "their states agree with what is held", f"{SYNC}; {REBUILD}"
    )


def _files(ground: _Ground) -> Iterator[Check]:

    if ground.intent is None:
        yield Check("files", True, "not compared: the settings cannot be read")
        return
    yield summed(
        "files",
        reading.files_and_items(ground.connection, ground.intent, ground.paths),
        "each has its item, each item its file",
        REBUILD,
    )


def _sources(ground: _Ground) -> Iterator[Check]:

    if ground.intent is None:
        yield Check("sources held", True, "not compared: the settings cannot be read")
        return
    yield summed(
        "sources held",
        reading.sources_known(ground.connection, ground.intent, ground.paths),
        "each is in the settings",
        "add the source again with `sapwood add`, or let its memory go with `sapwood remove SOURCE`",
    )


def _work(ground: _Ground) -> Iterator[Check]:

    if ground.intent is None:
        yield Check("unfinished work", True, "not compared: the settings cannot be read")
        return
    registry = Registry.load(KIND_NAMES)
    lost, broken = lost_work(ground.connection, registry, ground.intent, ground.now_ms, SWEPT)
    asked = ", ".join(f"{count} {kind}" for kind, count in lost.items())
    well = f"the queue does not hold {asked}; sweeps ask for it" if asked else "the queue holds all of it"
    findings = [*broken, *reading.unfound_items(ground.connection, ground.intent)]
    yield summed("unfinished work", findings, well, f"{SYNC}; where that does not help, {REBUILD}")


def _job_rows(ground: _Ground) -> Iterator[Check]:

    yield summed(
        "job rows",
        rows_readable(ground.connection, ground.now_ms),
        "each can be read and is there once",
        "the agent parks them by itself: `sapwood run`; `sapwood cancel ID` removes one from the list",
    )


def _forgotten(ground: _Ground) -> Iterator[Check]:
    if ground.ledger is None:
        yield Check("forgotten", True, "not compared: the ledger cannot be read")
        return
    well = "nothing that was forgotten is there" if ground.ledger.forgets_anything else "nothing was ever forgotten"
    if get_state(ground.connection, CHECKPOINT_DUE) == "1":
        well += "; its bytes leave the log as soon as no program reads an old page of it"
    yield summed(
        "forgotten",
        find_forgotten(ground.connection, ground.ledger),
        well,
        f"the agent takes it out by itself: `sapwood run`; else {FORGET}",
    )


def _times(ground: _Ground) -> Iterator[Check]:

    yield summed(
        "times", nodes.future_times(ground.connection, ground.now_ms + CLOCK_SLACK_MS), "none is of the future", CLOCK
    )


LOOKS: tuple[tuple[str, Look], ...] = (
    ("growing", _open_documents),
    _rows("chunk ids", nodes.chunk_ids, "each is named after its parts", REBUILD),
    _rows("chunk texts", nodes.chunk_bodies, "each is the one it was named after", REBUILD),
    _rows("token counts", nodes.token_counts, "as the estimator counts them", REBUILD),
    _rows("chunks and items", nodes.chunks_of_items, "each chunk has its place in its item", REBUILD),
    _rows("summary ids", nodes.summary_ids, "each is named after its shape", REBUILD_SUMMARIES),
    _rows("tree ids", nodes.tree_ids, "each is named after its scope", REBUILD),
    _rows("tree links", trees.tree_links, "children and parents agree", REBUILD),
    _rows("tree nodes", trees.tree_nodes, "each place is that of its node", REBUILD),
    _rows("tree shapes", trees.tree_shapes, "each tree is its shape", REBUILD),
    _rows("reach", trees.chunks_reached, "each admitted chunk is reached once from its root", REBUILD),
    _rows("lifecycle", trees.lifecycles, "each chunk is called what it is", REBUILD),
    _rows("documents", trees.documents_standing, "each stands in the tree of its source", REBUILD),
    _rows("index", texts.index_structure, "sound by its own check", REBUILD),
    _rows("index rows", texts.index_rows, "one for each node and no other", REBUILD),
    _rows("index words", texts.index_words, "each node is found by its words", REBUILD),
    ("vectors", _vectors),
    _rows("stray rows", nodes.stray_rows, "no row outlived its node", REBUILD),
    ("items", _items),
    ("files", _files),
    ("sources held", _sources),
    ("unfinished work", _work),
    ("job rows", _job_rows),
    ("forgotten", _forgotten),
    ("times", _times),
)
