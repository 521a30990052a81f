"""What a report says of the memory: figures, words of state and masked last errors. Never a passage, a title or a name.

The file is read as it is: nothing is migrated, made or mended, and one of a newer version is read as far as it can be.
Each look stands alone. All of it runs in a thread that nobody waits for longer than so many seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agent.actions.bug_known import add_strange
from agent.clock import SYSTEM_CLOCK, iso

if TYPE_CHECKING:
    from agent.actions.bug_masking import Known, Masker
    from agent.db import Connection
    from agent.paths import Paths

BUSY_TIMEOUT_MS = 1_500
CHECK_SECONDS = 5.0
LOOK_SECONDS = 3.0
ROWS = 60
TITLES = 3_000

Look = Callable[["Connection", "Masker"], Iterator[str]]


def open_as_it_is(database: Path) -> Connection:
    """Return a connection that only reads. Raises apsw errors, ``FileNotFoundError`` where there is none."""
    import apsw

    from agent.db.aside import opening
    from agent.db.connection import Connection, refuse_old_sqlite, sqlite_version

    if not database.exists():
        raise FileNotFoundError(2, "there is no memory yet")
    refuse_old_sqlite(sqlite_version())
    with opening(database):
        raw = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        raw.set_busy_timeout(BUSY_TIMEOUT_MS)
        # Nothing of this connection may change the file, whatever is asked of it.
        raw.execute("PRAGMA query_only = ON").fetchall()
        raw.execute("PRAGMA user_version").fetchall()
    except BaseException:
        raw.close()
        raise
    return Connection(raw, None)


def names_in(connection: Connection, known: Known) -> None:
    """Add what the memory knows of names: sources, titles, keys of items, authors. What cannot be read adds nothing."""
    with suppress(Exception):
        rows = connection.all("SELECT source_id FROM mem_tree_sources ORDER BY source_id LIMIT ?", (TITLES,))
        known.add_sources(str(source_id) for (source_id,) in rows)
    for sql, is_title in (
        ("SELECT title FROM mem_tree_items WHERE title IS NOT NULL ORDER BY item_seq DESC LIMIT ?", True),
        ("SELECT item_key FROM mem_tree_items ORDER BY item_seq DESC LIMIT ?", False),
        ("SELECT DISTINCT path FROM mem_tree_files LIMIT ?", False),
        ("SELECT DISTINCT author FROM (SELECT author FROM mem_tree_chunks ORDER BY seq DESC LIMIT ?)", False),
    ):
        with suppress(Exception), _limited(connection, LOOK_SECONDS):
            add_strange(known, (str(row[0]) for row in connection.all(sql, (TITLES,)) if row[0]), title=is_title)


class _limited:  # noqa: N801 - reads as a statement
    """Ends what runs on a connection after so many seconds."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._raw = connection.raw
        self._until = time.monotonic() + seconds

    def __enter__(self) -> None:
        self._raw.set_progress_handler(lambda: time.monotonic() > self._until, 5_000)

    def __exit__(self, *_: object) -> None:
        self._raw.set_progress_handler(None, 0)


def memory_lines(connection: Connection, masker: Masker) -> Iterator[str]:
    """Yield the lines of the report, in Markdown, each look with its own time limit."""
    for name, look in LOOKS:
        yield f"### {name}"
        yield ""
        lines: list[str] = []
        try:
            with _limited(connection, LOOK_SECONDS):
                for line in look(connection, masker):
                    lines.append(line)
        except Exception as error:
            lines.append(f"- not to be had: {type(error).__name__}: {masker.text(str(error))}")
        yield from lines or ["- none"]
        yield ""
    yield "### Integrity (quick)"
    yield ""
    yield from _integrity(connection, masker)
    yield ""


def file_lines(paths: Paths) -> Iterator[str]:
    """Yield the sizes of the memory's files. Asked of the file system alone."""
    from agent.actions.checks.result import size_words
    from agent.db.aside import BEFORE_RESTORE, DAMAGED, copies

    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            yield f"- chunks.db{suffix}: {size_words(Path(f'{paths.database}{suffix}').stat().st_size)}"
    for mark in (DAMAGED, BEFORE_RESTORE):
        found = copies(paths.database, mark)
        if found:
            yield f"- put aside, {mark}: {len(found)}, the last on {iso(found[0].at_ms)}"


def _file(connection: Connection, _masker: Masker) -> Iterator[str]:
    from agent.db.schema import SCHEMA_VERSION

    version = int(connection.value("PRAGMA user_version"))
    newer = " (newer than this build knows)" if version > SCHEMA_VERSION else ""
    yield f"- schema {version}, this build's {SCHEMA_VERSION}{newer}"
    for pragma in ("page_size", "page_count", "freelist_count", "journal_mode"):
        yield f"- {pragma}: {connection.value(f'PRAGMA {pragma}')}"


def _counts(connection: Connection, masker: Masker) -> Iterator[str]:
    for table, column in (
        ("mem_tree_items", "state"),
        ("mem_tree_chunks", "lifecycle"),
        ("mem_tree_trees", "kind"),
    ):
        rows = connection.all(f"SELECT {column}, count(*) FROM {table} GROUP BY {column} ORDER BY {column}")
        said = ", ".join(f"{count} {masker.text(str(word))}" for word, count in rows)
        yield f"- {table.removeprefix('mem_tree_')} by {column}: {said or 'none'}"
    yield f"- summaries: {connection.value('SELECT count(*) FROM mem_tree_summaries')}"
    open_questions = connection.value("SELECT count(*) FROM mem_tree_questions")
    yield f"- open questions: {open_questions}"


def _queue(connection: Connection, masker: Masker) -> Iterator[str]:
    rows = connection.all(
        """
        SELECT kind, status, count(*), sum(attempts), sum(crashes)
          FROM mem_tree_jobs
         GROUP BY kind, status
         ORDER BY kind, status
         LIMIT ?
        """,
        (ROWS,),
    )
    if not rows:
        return
    yield "| kind | status | rows | attempts | crashes |"
    yield "|---|---|---|---|---|"
    for kind, status, *figures in rows:
        shown = " | ".join(str(figure) for figure in figures)
        yield f"| {masker.text(kind)} | {masker.text(status)} | {shown} |"


def _failed(connection: Connection, masker: Masker) -> Iterator[str]:
    rows = connection.all(
        """
        SELECT kind, failure_reason, failure_class, count(*), max(id)
          FROM mem_tree_jobs
         WHERE status = 'failed'
         GROUP BY kind, failure_reason, failure_class
         ORDER BY count(*) DESC, kind, failure_reason
         LIMIT ?
        """,
        (ROWS,),
    )
    for kind, reason, failure_class, count, newest in rows:
        said, at_ms = connection.all("SELECT last_error, completed_at_ms FROM mem_tree_jobs WHERE id = ?", (newest,))[0]
        words = " / ".join(masker.text(str(word)) for word in (kind, failure_class or "no class", reason or "no code"))
        when = f", the last on {iso(at_ms)}" if at_ms else ""
        yield f"- {count} × {words}{when}: {masker.text(said) if said else 'no last error'}"


def _holds(connection: Connection, masker: Masker) -> Iterator[str]:
    now_ms = SYSTEM_CLOCK.now_ms()
    for scope, code, reason, until_ms, failures, openings in connection.all(
        "SELECT scope, code, reason, until_ms, failures, openings FROM mem_tree_holds ORDER BY scope LIMIT ?", (ROWS,)
    ):
        state = f"until {iso(until_ms)}" if until_ms > now_ms else "over"
        yield (
            f"- {masker.mark(scope)}: {masker.text(code)}, {state}, {failures} failed calls in a row, "
            f"opened {openings} times: {masker.text(reason)}"
        )


def _sources(connection: Connection, masker: Masker) -> Iterator[str]:
    for source_id, kind, last_ms, error, items, look_ms in connection.all(
        """
        SELECT source_id, kind, last_sync_ms, last_error, synced_items, look_ms
          FROM mem_tree_sources
         ORDER BY source_id
         LIMIT ?
        """,
        (ROWS,),
    ):
        told = f"last look {iso(last_ms)}" if last_ms else "not looked at yet"
        took = f" in {look_ms} ms" if look_ms is not None else ""
        said = f"; last error: {masker.text(error)}" if error else ""
        yield f"- {masker.mark(source_id)} ({masker.text(kind)}): {items} items, {told}{took}{said}"


def _unreadable(connection: Connection, masker: Masker) -> Iterator[str]:
    for reason, count in connection.all(
        """
        SELECT coalesce(reason, 'no reason'), count(*)
          FROM mem_tree_items
         WHERE state = 'unreadable'
         GROUP BY reason
         ORDER BY count(*) DESC, reason
         LIMIT ?
        """,
        (ROWS,),
    ):
        yield f"- {count} × {masker.text(reason)}"


def _embedding(connection: Connection, masker: Masker) -> Iterator[str]:
    for signature, count in connection.all(
        """
        SELECT s.signature, (SELECT count(*) FROM mem_tree_vectors AS v WHERE v.signature_id = s.signature_id)
          FROM mem_tree_signatures AS s
         ORDER BY s.signature_id
         LIMIT ?
        """,
        (ROWS,),
    ):
        yield f"- {masker.text(signature)}: {count} vectors"


def _usage(connection: Connection, masker: Masker) -> Iterator[str]:
    for kind, calls, invalid, tokens_in, tokens_out in connection.all(
        """
        SELECT kind, sum(calls), sum(invalid), sum(tokens_in), sum(tokens_out)
          FROM mem_tree_usage
         GROUP BY kind
         ORDER BY kind
         LIMIT ?
        """,
        (ROWS,),
    ):
        yield f"- {masker.text(kind)}: {calls} calls, {invalid} of no use, {tokens_in} tokens in, {tokens_out} out"


LOOKS: tuple[tuple[str, Look], ...] = (
    ("File", _file),
    ("What it holds", _counts),
    ("Queue", _queue),
    ("Failed jobs", _failed),
    ("Holds", _holds),
    ("Sources", _sources),
    ("Unreadable items", _unreadable),
    ("Embedding", _embedding),
    ("Calls of models", _usage),
)


def _integrity(connection: Connection, masker: Masker) -> Iterator[str]:
    from agent.db.integrity import damage

    until = time.monotonic() + CHECK_SECONDS
    try:
        found = damage(connection, lambda: time.monotonic() > until, deep=False)
    except Exception as error:
        yield f"- not to be had: {type(error).__name__}: {masker.text(str(error))}"
        return
    if found is None:
        yield f"- broken off after {CHECK_SECONDS:.0f} s: the file is large; `sapwood doctor` reads all of it"
        return
    yield from (f"- {masker.text(line)}" for line in found) if found else ["- sound"]
