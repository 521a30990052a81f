"""The memory as a file and as a queue: can it be opened, is it sound, does its work get done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.actions.checks.result import DAMAGED, Check, guarded, size_words
from agent.actions.remedies import remedy_of
from agent.clock import SYSTEM_CLOCK, iso
from agent.errors import SapwoodError

if TYPE_CHECKING:
    from agent.actions.checks.progress import Told
    from agent.db import Connection
    from agent.paths import Paths

LARGE_WAL_BYTES = 128 * 1024 * 1024
# A doctor waits less than a worker: whoever holds the file that long is itself the finding.
BUSY_TIMEOUT_MS = 3_000
FAILURES_NAMED = 5
CLOCK_SLACK_MS = 60_000


def look_at_memory(paths: Paths, *, deep: bool, told: Told) -> Iterator[Check]:
    """Yield what there is to say of the memory, each look on its own: a damaged table stops no other look."""
    from agent.db.connection import connect

    yield from guarded("put aside", lambda: _put_aside(paths))
    yield from guarded("log size", lambda: _wal_size(paths))
    if not paths.database.exists():
        yield Check("database", True, "none yet; the first command makes it")
        return
    try:
        connection = connect(paths.database, paths.write_turn, busy_timeout_ms=BUSY_TIMEOUT_MS, create=False)
    except SapwoodError as error:
        yield Check("database", False, str(error), error.hint)
        if deep:
            yield Check(
                "invariants", False, "not looked at: the memory cannot be opened", "mend what `database` says first"
            )
        return
    try:
        yield Check("database", True, f"{paths.database}, {size_words(paths.database.stat().st_size)}")
        for name, look in looks(deep=deep):
            told.step(name)
            yield from guarded(name, lambda look=look: look(connection))  # type: ignore[misc]
        if deep:
            from agent.actions.checks.deep import look_deeper

            yield from look_deeper(paths, connection, told)
    finally:
        connection.close()


def looks(*, deep: bool) -> tuple[tuple[str, Callable[[Connection], Iterator[Check]]], ...]:
    """Return the looks at an open memory by name; the invariants come behind them."""
    return (
        ("schema", _schema),
        ("past damage", _past_damage),
        ("integrity", lambda connection: _integrity(connection, deep=deep)),
        ("queue", _queue),
        ("failed jobs", _failures),
        ("leases", _leases),
        ("looks", _looks),
        ("questions", _questions),
        ("embedding", _embedding),
    )


def _put_aside(paths: Paths) -> Iterator[Check]:
    from agent.db.aside import BEFORE_RESTORE, DAMAGED, copies

    found = [
        f"{copy.path.name} ({size_words(copy.path.stat().st_size)})"
        for mark in (DAMAGED, BEFORE_RESTORE)
        for copy in copies(paths.database, mark)
    ]
    # No fault: they are kept on purpose, and nothing reads them.
    yield Check(
        "put aside",
        True,
        f"{', '.join(found)} in {paths.data_dir}; delete what you do not need" if found else "nothing",
    )


def _wal_size(paths: Paths) -> Iterator[Check]:
    # Asked of the file system only: opening the side file here could drop SQLite's locks on it.
    try:
        size = paths.database.with_name(paths.database.name + "-wal").stat().st_size
    except FileNotFoundError:
        size = 0
    yield Check(
        "log size",
        size <= LARGE_WAL_BYTES,
        size_words(size),
        "a program keeps an old view of the memory open; close other `sapwood` commands and restart the agent",
    )


def _schema(connection: Connection) -> Iterator[Check]:
    yield Check("schema", True, f"version {connection.value('PRAGMA user_version')}")


def _past_damage(connection: Connection) -> Iterator[Check]:
    from agent.db.aside import read_damage

    found = read_damage(connection, _now_ms())
    # Told, not a fault: what there was to mend was mended.
    yield Check("past damage", True, "none" if found is None else found.words)


def _integrity(connection: Connection, *, deep: bool) -> Iterator[Check]:
    from agent.db.integrity import findings

    found = findings(connection, deep)
    yield Check("integrity", not found, "; ".join(found[:5]) if found else "sound", DAMAGED)


def _now_ms() -> int:
    return SYSTEM_CLOCK.now_ms()


def _queue(connection: Connection) -> Iterator[Check]:
    from agent.queue.counts import count_jobs

    counts = count_jobs(connection, _now_ms())
    yield Check(
        "queue",
        True,
        f"{counts.ready} due, {counts.deferred} deferred, {counts.running} running, {counts.failed} failed",
    )


def _failures(connection: Connection) -> Iterator[Check]:
    from agent.queue.check import failures

    found = failures(connection, _now_ms())
    seen: set[str] = set()
    for kind, reason, count, recent, last_error, scope in found[:FAILURES_NAMED]:
        name = f"failed {kind}"
        run = f", {recent} of them within a day" if recent and count > 1 else ""
        yield Check(
            name if name not in seen else f"{name} ({reason})",
            False,
            f"{count} × {reason}{run}" + (f": {last_error}" if last_error else ""),
            remedy_of(reason, scope),
        )
        seen.add(name)
    if not found:
        yield Check("failed jobs", True, "none")


def _leases(connection: Connection) -> Iterator[Check]:
    from agent.queue.check import ended_leases

    stale = ended_leases(connection, _now_ms())
    yield Check(
        "leases",
        not stale,
        f"{stale} past their end" if stale else "none past its end",
        "they are taken back when the agent runs: `sapwood run`",
    )


def _looks(connection: Connection) -> Iterator[Check]:
    """Whether a look at a source is said to have been in the future: the clock was ahead then, or is behind now."""
    latest = connection.value("SELECT max(last_sync_ms) FROM mem_tree_sources")
    ahead = latest is not None and latest > _now_ms() + CLOCK_SLACK_MS
    yield Check(
        "looks",
        not ahead,
        "no source was looked at yet" if latest is None else f"the last look at a source was {iso(latest)}",
        "set the date and time of this machine; the next look, `sapwood sync`, puts it right",
    )


def _questions(connection: Connection) -> Iterator[Check]:
    from agent.ingest.check import open_questions

    found = [
        f"{gone} of {held} items of {source} are no longer there: `sapwood sync {source} --accept` lets them go, "
        "`--refuse` keeps them"
        for source, gone, held in open_questions(connection)
    ]
    # No fault of the memory: what it is held back for is the owner's to say.
    yield Check("questions", True, "; ".join(found) if found else "none is open")


def _embedding(connection: Connection) -> Iterator[Check]:
    from agent.db.serving import count_private, count_refused, serving_signature, stuck_backfill

    serving = serving_signature(connection, "")
    stuck = stuck_backfill(connection, SYSTEM_CLOCK.now_ms())
    if stuck is not None:
        since_ms, reason = stuck
        why = f": {reason}" if reason else ""
        yield Check(
            "embedding",
            False,
            f"the back-fill of vectors has not moved since {iso(since_ms)}{why}",
            "`sapwood model test` says what its model answers; with another model, or without one, it goes on",
        )
        return
    facts = [f"searches are served by {serving}" if serving else "nothing is embedded yet"]
    if refused := count_refused(connection, serving):
        facts.append(f"{refused} nodes without a vector: the model refused them")
    if private := count_private(connection):
        facts.append(f"{private} nodes without a vector: they are private and the model is a cloud's")
    yield Check("embedding", True, "; ".join(facts))
