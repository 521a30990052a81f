"""Each of the eight handlers run twice, and twice at once with one lease lost: the same rows as once.

A small memory is grown with the real rooms. The first time that a kind is about to change something, the database is
copied with the row still running; the experiments then run on copies of that copy.
"""

from __future__ import annotations

import mailbox
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.config import Intent, SourceIntent
from agent.db import Connection, Database
from agent.paths import Paths, paths_under
from agent.queue import LocalContext, enqueue, settle
from agent.queue.claim import Claim, claim_jobs, next_due_ms
from agent.queue.registry import Registry
from agent.queue.settle import Settled
from agent.queue.types import Job, NewJob
from agent.states import JobKind
from agent.worker.kinds import KIND_NAMES

WORDS = "The old pear tree by the lower gate was planted by Ines Carvalho in the spring of 1962. "


@dataclass(frozen=True)
class Moment:
    """A database file with one row running, that row, and the time."""

    file: Path
    job: Job
    now_ms: int


@dataclass(frozen=True)
class Grown:
    """One moment per kind, and the intent they belong to."""

    intent: Intent
    moments: dict[str, Moment]


def write_sources(folder: Path) -> Intent:
    notes = folder / "notes"
    notes.mkdir(parents=True)
    for number in range(6):
        sections = [f"## Part {part}\n\n" + (f"{WORDS} Note {number}, part {part}. " * 12) for part in range(6)]
        (notes / f"note-{number}.md").write_text(f"# Note {number}\n\n" + "\n\n".join(sections))
    box = mailbox.mbox(folder / "mail.mbox")
    for number in range(30):
        mail = EmailMessage()
        mail["From"] = "Ines Carvalho <ines@example.org>"
        mail["To"] = "club@example.org"
        mail["Subject"] = f"Work day {number}"
        mail["Date"] = f"Mon, {number % 28 + 1:02} Jan 2024 10:00:00 +0000"
        mail["Message-ID"] = f"<{number}@example.org>"
        mail.set_content(f"{WORDS} We meet on day {number} at ten, bring gloves and a saw.")
        box.add(mail)
    box.close()
    return Intent(
        sources=(
            SourceIntent("notes", "folder", "Notes", (str(notes),)),
            SourceIntent("mail", "mbox", "Mail", (str(folder / "mail.mbox"),)),
        )
    )


def dump(connection: Connection) -> dict[str, list[Any]]:
    """Return every row of the memory; of the queue only what is asked for by it."""
    tables = [
        row[0]
        for row in connection.all(
            """
            SELECT name FROM sqlite_schema
             WHERE type = 'table'
               AND name NOT LIKE 'sqlite%'
               AND name NOT LIKE 'mem_tree_text%'
               AND name NOT IN ('mem_tree_jobs', 'mem_tree_workers')
            """
        )
    ]
    found = {table: sorted(connection.all(f"SELECT * FROM {table}"), key=repr) for table in tables}
    found["indexed"] = connection.all("SELECT id, sz FROM mem_tree_text_docsize ORDER BY id")
    return found


def asked_for(connection: Connection, but: int) -> set[str]:
    rows = connection.all("SELECT dedupe_key FROM mem_tree_jobs WHERE status = 'ready' AND id <> ?", (but,))
    return {row[0] for row in rows}


def grow(paths: Paths, intent: Intent) -> dict[str, Moment]:
    """Run the jobs one by one until each kind was about to change something once; return these moments."""
    registry = Registry.of(replace(spec, batch=None, batch_size=1) for spec in Registry.load(KIND_NAMES))
    clock = FakeClock()
    database = Database(paths.database, paths.write_turn)
    connection = database.connection
    context = LocalContext(connection, clock, intent, paths)
    moments: dict[str, Moment] = {}
    for source in intent.sources:
        enqueue(connection, NewJob.sync_source(source.id), clock.now_ms())
    claim = Claim(registry, "w")
    while len(moments) < len(JobKind):
        jobs = claim_jobs(connection, claim, clock.now_ms())
        if not jobs:
            due_ms = next_due_ms(connection, registry)
            if due_ms is None:
                # All that is left is in tails: let them grow old.
                clock.advance(2 * 3600)
                assert enqueue(connection, NewJob.flush_stale(clock.now_ms()), clock.now_ms()) is not None, moments
            else:
                clock.advance(max(due_ms - clock.now_ms(), 1) / 1000)
            continue
        (job,) = jobs
        before = dump(connection) if job.kind not in moments else {}
        file = paths.data_dir / f"{job.kind}-{job.id}.db"
        if job.kind not in moments:
            connection.run("VACUUM INTO ?", (str(file),))
        now_ms = clock.now_ms()
        assert settle(connection, job, registry[job.kind].handle(context, job), now_ms) in (
            Settled.DONE,
            Settled.DEFERRED,
        )
        if job.kind not in moments and dump(connection) != before:
            moments[job.kind] = Moment(file, job, now_ms)
    database.close()
    return moments


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    folder = tmp_path_factory.mktemp("twice")
    intent = write_sources(folder / "sources")
    return Grown(intent, grow(paths_under(folder / "home").make(), intent))


@dataclass
class Copy:
    """A database at a moment, and what is needed to run its row there."""

    connection: Connection
    context: LocalContext
    registry: Registry
    job: Job
    now_ms: int

    def plan(self) -> Any:
        return self.registry[self.job.kind].handle(self.context, self.job)

    def settle(self, job: Job, plan: Any) -> Settled:
        return settle(self.connection, job, plan, self.now_ms)

    def take_over(self, token: str) -> Job:
        """Let the row run again under another lease, as after a recovery."""
        with self.connection.write():
            self.connection.run(
                """
                UPDATE mem_tree_jobs
                   SET status = 'running', attempts = attempts + 1, locked_by = 'other', lease_token = ?
                 WHERE id = ?
                """,
                (token, self.job.id),
            )
        return replace(self.job, lease_token=token, locked_by="other")


@pytest.fixture
def copy(grown: Grown, tmp_path: Path) -> Iterator[Callable[[str], Copy]]:
    opened: list[Database] = []

    def make(kind: str) -> Copy:
        moment = grown.moments[kind]
        paths = paths_under(tmp_path / f"copy-{len(opened)}").make()
        paths.database.write_bytes(moment.file.read_bytes())
        database = Database(paths.database, paths.write_turn)
        opened.append(database)
        connection = database.connection
        context = LocalContext(connection, FakeClock(moment.now_ms), grown.intent, paths)
        return Copy(connection, context, Registry.load(KIND_NAMES), moment.job, moment.now_ms)

    yield make
    for database in opened:
        database.close()


@pytest.fixture
def once(copy: Callable[[str], Copy]) -> Callable[[str], tuple[dict[str, list[Any]], set[str]]]:
    def run(kind: str) -> tuple[dict[str, list[Any]], set[str]]:
        one = copy(kind)
        before = dump(one.connection)
        assert one.settle(one.job, one.plan()) in (Settled.DONE, Settled.DEFERRED)
        after = dump(one.connection)
        assert after != before, "a run that changes nothing would prove nothing"
        return after, asked_for(one.connection, one.job.id)

    return run


EVERY_KIND = pytest.mark.parametrize("kind", [str(kind) for kind in JobKind])


@EVERY_KIND
def test_run_twice_gives_the_same_rows_as_once(kind: str, copy: Any, once: Any) -> None:
    rows, follow_ups = once(kind)
    two = copy(kind)
    two.settle(two.job, two.plan())
    again = two.take_over("again")
    assert two.settle(again, two.plan()) in (Settled.DONE, Settled.DEFERRED)
    assert dump(two.connection) == rows
    assert asked_for(two.connection, two.job.id) >= follow_ups


@EVERY_KIND
@pytest.mark.parametrize("late", [True, False], ids=["the lost one settles last", "the lost one settles first"])
def test_twice_at_once_with_one_lease_lost_gives_the_same_rows_as_once(
    kind: str, late: bool, copy: Any, once: Any
) -> None:
    rows, follow_ups = once(kind)
    two = copy(kind)
    lost, lost_plan = two.job, two.plan()
    held = two.take_over("held")
    held_plan = two.plan()
    runs = [(lost, lost_plan, (Settled.LOST,)), (held, held_plan, (Settled.DONE, Settled.DEFERRED))]
    for job, plan, expected in reversed(runs) if late else runs:
        assert two.settle(job, plan) in expected
    assert dump(two.connection) == rows
    assert asked_for(two.connection, two.job.id) == follow_ups


@EVERY_KIND
def test_a_plan_that_is_made_again_from_the_same_state_is_the_same_plan(kind: str, copy: Any, once: Any) -> None:
    rows, _ = once(kind)
    two = copy(kind)
    two.plan()
    assert dump(two.connection) == dump(copy(kind).connection), "handling writes nothing before it settles"
    two.settle(two.job, two.plan())
    assert dump(two.connection) == rows
