"""The housekeeping of a tick, and that it writes nothing when there is nothing to do."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ScheduleIntent, SourceIntent
from agent.db import Connection
from agent.db.connection import connect
from agent.db.text_index import add_text
from agent.paths import Paths
from agent.queue.claim import claim_next
from agent.queue.counts import count_jobs
from agent.queue.enqueue import enqueue
from agent.queue.registry import JobContext, JobSpec, Registry, SweepContext
from agent.queue.types import NOTHING_TO_DO, Job, NewJob, Plan
from agent.states import JobKind
from agent.supervisor.looking import look_at_queue
from agent.supervisor.rest import SHRINK_AFTER_S, Rest
from agent.supervisor.tick import Housekeeping, shrink_wal, tidy

SOURCES = tuple(SourceIntent(id=name, kind="folder", name=name, paths=("/nowhere",)) for name in ("notes", "mail"))
INTENT = Intent(sources=SOURCES, schedule=ScheduleIntent(sync_seconds=900))


def _nothing(context: JobContext, job: Job) -> Plan:
    return NOTHING_TO_DO


class Sweeps:
    """A sweep that counts how often it was asked and gives what it was told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.missing: list[NewJob] = []

    def __call__(self, context: SweepContext) -> Iterable[NewJob]:
        self.asked += 1
        return list(self.missing)


@pytest.fixture
def sweeps() -> Sweeps:
    return Sweeps()


@pytest.fixture
def registry(sweeps: Sweeps) -> Registry:
    kinds = (JobKind.SYNC_SOURCE, JobKind.FLUSH_STALE)
    return Registry.of([JobSpec("t_swept", _nothing, sweep=sweeps), *(JobSpec(kind, _nothing) for kind in kinds)])


def _kinds(connection: Connection) -> list[str]:
    return [row[0] for row in connection.all("SELECT kind FROM mem_tree_jobs ORDER BY id")]


def _settle_all(connection: Connection) -> None:
    with connection.write():
        connection.run("UPDATE mem_tree_jobs SET status = 'done', completed_at_ms = created_at_ms")


def test_tick_with_nothing_to_do_writes_nothing(
    connection: Connection, paths: Paths, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.start(connection, INTENT, clock.now_ms())
    housekeeping.tick(connection, INTENT, clock.now_ms())
    _settle_all(connection)
    other = connect(paths.database)
    before, changed = other.value("PRAGMA data_version"), connection.raw.total_changes()
    for _ in range(5):
        clock.advance(30)
        report = housekeeping.tick(connection, INTENT, clock.now_ms())
        assert not report.found_work
    assert other.value("PRAGMA data_version") == before
    assert connection.raw.total_changes() == changed
    other.close()


def test_every_source_is_looked_at_at_the_start_and_then_once_per_interval(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 2
    _settle_all(connection)
    clock.advance(899)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 0
    clock.advance(1)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 2
    _settle_all(connection)
    housekeeping.ask_all_sources()
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 2


def test_source_that_was_synced_meanwhile_is_not_due(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    _settle_all(connection)
    clock.advance(600)
    with connection.write():
        connection.run(
            "INSERT INTO mem_tree_sources (source_id, kind, last_sync_ms) VALUES ('mail', 'mbox', ?)", (clock.now_ms(),)
        )
    clock.advance(300)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 1
    newest = connection.value("SELECT dedupe_key FROM mem_tree_jobs ORDER BY id DESC LIMIT 1")
    assert newest == "sync:notes"


def test_clock_set_back_does_not_stop_the_syncs(connection: Connection, registry: Registry, clock: FakeClock) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    _settle_all(connection)
    clock.set_wall(clock.now_ms() - 365 * 24 * 3_600_000)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 2


def test_sweeps_run_again_only_after_somebody_wrote(
    connection: Connection, paths: Paths, registry: Registry, sweeps: Sweeps, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    assert sweeps.asked == 1
    clock.advance(30)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    assert sweeps.asked == 1

    other = connect(paths.database)
    enqueue(other, NewJob("t_swept", "{}", "elsewhere"), clock.now_ms())
    clock.advance(INTENT.sweep.interval_s)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    assert sweeps.asked == 2
    other.close()

    clock.advance(600)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    assert sweeps.asked == 3, "every ten minutes all the same"


def test_what_a_sweep_finds_is_enqueued_until_it_finds_nothing(
    connection: Connection, registry: Registry, sweeps: Sweeps, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    sweeps.missing = [NewJob("t_swept", "{}", "lost")]
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).swept == 1
    assert "t_swept" in _kinds(connection)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).swept == 0
    assert sweeps.asked == 1, "sweeps are bounded in time: sweep.interval_s"
    clock.advance(INTENT.sweep.interval_s)
    assert housekeeping.tick(connection, INTENT, clock.now_ms()).swept == 0
    assert sweeps.asked == 2, "what was just found may not have been all"


def test_no_lease_is_called_stale_while_leases_are_not_trusted(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    enqueue(connection, NewJob("t_swept", "{}", "held"), clock.now_ms())
    job = claim_next(connection, registry=registry, worker_id="w", now_ms=clock.now_ms())
    assert job is not None
    clock.advance(3600)
    assert housekeeping.tick(connection, INTENT, clock.now_ms(), trust_leases=False).recovered == 0
    assert housekeeping.tick(connection, INTENT, clock.now_ms(), trust_leases=True).recovered == 1


def test_nothing_scheduled_starts_before_catching_up(
    connection: Connection, registry: Registry, sweeps: Sweeps, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.tick(connection, INTENT, clock.now_ms(), catch_up=False)
    assert (_kinds(connection), sweeps.asked) == ([], 0)
    housekeeping.tick(connection, INTENT, clock.now_ms(), catch_up=True)
    assert JobKind.SYNC_SOURCE in _kinds(connection)


def test_flush_is_asked_for_once_per_block_of_three_hours(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    intent = Intent()
    clock.set_wall(clock.now_ms() - clock.now_ms() % (3 * 3_600_000))
    for _ in range(24 * 4):
        housekeeping.tick(connection, intent, clock.now_ms())
        _settle_all(connection)
        clock.advance(900)
    assert _kinds(connection).count(JobKind.FLUSH_STALE) == 8


def test_once_does_only_what_brings_the_end_nearer(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    with connection.write():
        connection.run(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
                                       failure_class, completed_at_ms)
            VALUES ('t_swept', '{}', 'failed', 5, 0, 0, 'transient', 0)
            """
        )
    Housekeeping(registry, once=True).tick(connection, Intent(), clock.now_ms())
    assert _kinds(connection) == ["t_swept"]
    assert connection.value("SELECT status FROM mem_tree_jobs") == "failed"
    Housekeeping(registry).tick(connection, Intent(), clock.now_ms())
    assert connection.value("SELECT status FROM mem_tree_jobs LIMIT 1") == "ready", "self-heal is the running agent's"


def test_retired_rows_are_purged_and_ended_leases_given_back_at_the_start(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    with connection.write():
        for kind, status in (("digest_daily", "ready"), ("t_swept", "running")):
            connection.run(
                """
                INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
                                           locked_until_ms)
                VALUES (?, '{}', ?, 5, 0, 0, 1)
                """,
                (kind, status),
            )
    Housekeeping(registry).start(connection, Intent(), clock.now_ms())
    assert connection.all("SELECT kind, status FROM mem_tree_jobs") == [("t_swept", "ready")]


def test_wal_is_cut_to_nothing_and_then_left_alone(connection: Connection, paths: Paths, clock: FakeClock) -> None:
    enqueue(connection, NewJob("t_swept", "{}", "x"), clock.now_ms())
    wal = paths.database.with_name("chunks.db-wal")
    assert wal.stat().st_size > 0
    assert shrink_wal(connection, paths.database)
    assert wal.stat().st_size == 0
    assert not shrink_wal(connection, paths.database)


def test_a_rest_merges_the_text_index_bit_by_bit_and_then_writes_nothing(
    connection: Connection, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.supervisor.tick.TIDY_S", 0.0)
    for node in range(1, 200):
        with connection.write():
            add_text(connection, node, None, None, " ".join(f"w{node * word % 997}" for word in range(60)))
    pieces = "SELECT count(DISTINCT segid) FROM mem_tree_text_idx"
    before = connection.value(pieces)
    wal = paths.database.with_name("chunks.db-wal")
    rest = Rest()
    rest.note(0.0, is_busy=False, is_left_over=False)
    assert not rest.is_to_shrink(SHRINK_AFTER_S - 0.1)
    looks = 0
    while rest.is_to_shrink(SHRINK_AFTER_S + looks):
        looks += 1
        if not tidy(connection, paths.database):
            rest.shrink_again()
    assert 1 < looks < 100
    assert connection.value(pieces) < before
    assert rest.shrink_at() is None
    assert wal.stat().st_size == 0
    assert tidy(connection, paths.database)
    assert wal.stat().st_size == 0


def test_a_source_whose_look_is_parked_is_not_asked_for_at_every_turn(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    housekeeping = Housekeeping(registry)
    housekeeping.tick(connection, INTENT, clock.now_ms())
    _settle_all(connection)
    with connection.write():
        connection.run(
            """
            UPDATE mem_tree_jobs SET status = 'failed', failure_class = 'unrecoverable', failure_reason = 'crash_loop'
             WHERE dedupe_key = 'sync:notes'
            """
        )
    for _ in range(3):
        clock.advance(900)
        assert housekeeping.tick(connection, INTENT, clock.now_ms()).synced == 1
        assert connection.value("SELECT count(*) FROM mem_tree_jobs WHERE dedupe_key = 'sync:notes'") == 1
        with connection.write():
            connection.run(
                "UPDATE mem_tree_jobs SET status = 'done', completed_at_ms = ? WHERE status = 'ready'",
                (clock.now_ms(),),
            )
    # A new start, and whoever asks for it, looks once more.
    assert Housekeeping(registry).tick(connection, INTENT, clock.now_ms()).synced == 2


def test_tick_takes_a_failure_that_was_made_good_out_of_the_counts(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    for status in ("failed", "done"):
        enqueue(connection, NewJob("t_swept", "{}", "mended"), clock.now_ms())
        with connection.write():
            connection.run(
                """
                UPDATE mem_tree_jobs SET status = ?, failure_class = 'unrecoverable', completed_at_ms = ?
                 WHERE status = 'ready'
                """,
                (status, clock.now_ms()),
            )
    assert count_jobs(connection, clock.now_ms()).failed == 1
    Housekeeping(registry).tick(connection, INTENT, clock.now_ms())
    assert count_jobs(connection, clock.now_ms()).failed == 0


def test_a_look_at_the_queue_costs_the_same_however_much_is_done(
    connection: Connection, registry: Registry, clock: FakeClock
) -> None:
    # Four times a second while there is work: a walk over what is done would be felt (openhuman 1062).
    def steps() -> int:
        taken = [0]

        def count() -> bool:
            taken[0] += 1
            return False

        connection.raw.set_progress_handler(count, 1)
        look_at_queue(connection, registry, clock.now_ms(), limit=5, free_permits=lambda: None)
        connection.raw.set_progress_handler(None, 0)
        return taken[0]

    def add_done(count: int) -> None:
        with connection.write():
            connection.many(
                """
                INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
                                           completed_at_ms)
                VALUES ('t_swept', '{}', 'done', 5, 0, 0, ?)
                """,
                [(number,) for number in range(count)],
            )

    add_done(1)
    alone = steps()
    add_done(2_000)
    assert steps() <= alone + 60
