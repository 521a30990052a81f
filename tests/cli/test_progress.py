"""The progress line: in place on a terminal, now and then in a pipe, silent about its own troubles."""

from __future__ import annotations

import errno
import io
from collections.abc import Callable

import pytest

from agent.actions.growth import Growth, Unread
from agent.cli import progress
from agent.cli.progress import Progress, bar_line, words
from agent.db import Connection, Database
from agent.db.aside import move_aside
from agent.paths import Paths

CHUNK = """
INSERT INTO mem_tree_chunks
       (chunk_id, source_kind, source_id, item_key, item_seq, position, body_hash, order_key, sort_key, break_key,
        locator, tokens, text, lifecycle, created_at_ms)
VALUES (?, 'document', 's', 'i', 1, 0, '', 0, x'00', 0, '{}', 1, '', ?, 0)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def put(connection: Connection) -> None:
    with connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_items (item_seq, source_id, item_key, source_kind, place, sort_key, state)
            VALUES (1, 's', 'i', 'document', '{}', x'00', 'current')
            """
        )
        connection.many(CHUNK, [("1", "sealed"), ("2", "pending_extraction"), ("3", "admitted"), ("4", "dropped")])
        connection.run(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms)
            VALUES ('seal', '{}', 'ready', 5, 0, 0)
            """
        )


def test_line_in_a_pipe_counts_chunks_and_jobs(
    paths: Paths, connection: Connection, wait_until: Callable[..., None]
) -> None:
    put(connection)
    stream = io.StringIO()
    with Progress(paths, stream):
        wait_until(lambda: "\n" in stream.getvalue())
    assert stream.getvalue() == "growing: 2 of 4 chunks, 1 job left\n"


def test_line_on_a_terminal_is_wiped_at_the_end(
    paths: Paths, connection: Connection, wait_until: Callable[..., None]
) -> None:
    put(connection)
    stream = Terminal()
    with Progress(paths, stream):
        wait_until(lambda: "2 of 4" in stream.getvalue())
    assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


class Deaf(io.StringIO):
    """What is written to a pipe that nobody reads any more."""

    def write(self, text: str, /) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_nobody_reads_the_line_and_the_agent_runs_all_the_same(paths: Paths, connection: Connection) -> None:
    put(connection)
    for greeting in ("", "the agent runs"):
        with Progress(paths, Deaf(), greeting=greeting) as line:
            line._thread.join(10)
            assert not line._thread.is_alive(), "it does not go on for nobody"


def test_memory_that_is_not_there_or_is_damaged_is_not_its_business(paths: Paths) -> None:
    stream = io.StringIO()
    with Progress(paths, stream):
        pass
    paths.database.write_bytes(b"no database" * 100)
    with Progress(paths, stream) as line:
        line._thread.join(0.2)
    assert stream.getvalue() == ""


def test_line_follows_a_memory_that_was_begun_anew(
    paths: Paths, database: Database, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "IDLE_EVERY_S", 0.01)
    monkeypatch.setattr(progress, "PIPE_EVERY_S", 0.01)
    database.connection.run("DELETE FROM mem_tree_state")
    stream = io.StringIO()
    with Progress(paths, stream):
        wait_until(lambda: "grown: 0 chunks" in stream.getvalue())
        database.close()
        move_aside(paths.database, 1_750_000_000_000)
        put(database.connection)
        wait_until(lambda: "2 of 4 chunks" in stream.getvalue())


def test_bar_fits_the_terminal_and_is_full_only_at_the_end() -> None:
    for columns in (20, 40, 80):
        assert len(bar_line(Growth(3, 4, 2, 0), columns)) < columns
    assert "─" in bar_line(Growth(4, 4, 1, 0), 80)
    assert "─" not in bar_line(Growth(4, 4, 0, 1), 80)
    assert words(Growth(0, 0, 3, 0)) == "looking: 3 jobs left"


def test_items_that_wait_and_the_time_that_is_left_are_told_once_known() -> None:
    early = Growth(20, 40, 12, 3, Unread(160, 40, looking=True))
    assert words(early) == "growing: 20 of 40 chunks, 200 items found so far"
    later = Growth(20, 40, 12, 3, Unread(160, 40))
    assert words(later) == "growing: 20 of 40 chunks, 160 items to read, 12 jobs left"
    late = Growth(20, 40, 1, 3, Unread(1, 40), seconds_left=150)
    assert words(late) == "growing: 20 of 40 chunks, 1 item to read, about 2 minutes left"
    last = Growth(38, 40, 2, 3, Unread(0, 41), seconds_left=150)
    assert words(last) == "growing: 38 of 40 chunks, 2 jobs, about 2 minutes left"
    assert early.share == pytest.approx(0.1), "items that wait are not grown"


def test_a_first_look_counts_what_it_finds_rather_than_nothing() -> None:
    assert words(Growth(0, 0, 1, 0, Unread(12_000, 0, looking=True))) == "looking: 12,000 items found so far"
    assert words(Growth(0, 0, 1, 0, Unread(0, 0, looking=True))) == "looking: 1 job left"


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_time_left_is_seen_on_a_terminal_of_80_columns(columns: int) -> None:
    large = Growth(81_234, 341_234, 200, 9_000, Unread(118_000, 60_000), seconds_left=42 * 60)
    line = bar_line(large, columns)
    assert len(line) < columns
    if columns >= 80:
        assert line.endswith("about 42 minutes left")
    assert ("━" in line) == (columns >= 120)
