from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.db import Connection, Database
from agent.paths import Paths
from agent.queue import (
    NewJob,
    Registry,
    bootstrap,
    enqueue,
    mark_done,
    mend_clock,
    park_unreadable,
    purge_retired_jobs,
    reclaim_worker,
    recover_stale_locks,
    release_running_locks,
    running_workers,
)
from tests.queue.conftest import ME, OTHER, Queue


def test_an_ended_lease_is_given_back_with_its_attempt(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    queue.clock.advance(299.999)
    assert recover_stale_locks(queue.connection, queue.now) == 0
    queue.clock.advance(0.001)
    assert recover_stale_locks(queue.connection, queue.now) == 1
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["crashes"]) == ("ready", 0, 1)
    assert row["locked_by"] is row["lease_token"] is row["locked_until_ms"] is None


def test_a_running_row_without_a_lease_end_is_stale(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    queue.change(job_id, locked_until_ms=None)
    assert recover_stale_locks(queue.connection, queue.now) == 1


def test_three_crashes_park_a_job_visibly(queue: Queue) -> None:
    job_id = queue.add()
    for crash in range(1, 4):
        assert queue.status(job_id) == "ready"
        queue.take()
        queue.clock.advance(301)
        assert recover_stale_locks(queue.connection, queue.now) == 1
        assert queue.row(job_id)["crashes"] == crash
    row = queue.row(job_id)
    assert (row["status"], row["failure_class"], row["failure_reason"]) == ("failed", "unrecoverable", "crash_loop")
    assert row["attempts"] == 0
    assert row["last_error"]
    assert row["completed_at_ms"] == queue.now
    assert queue.claim() is None


def test_the_crash_limit_is_the_owners(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    queue.clock.advance(301)
    recover_stale_locks(queue.connection, queue.now, crash_limit=1)
    assert queue.status(job_id) == "failed"


def test_a_parked_crash_loop_leaves_a_fresh_row_to_whoever_enqueued_meanwhile(queue: Queue) -> None:
    queue.add(NewJob("seal", '{"n":1}', "key"))
    queue.take()
    enqueue(queue.connection, NewJob("seal", '{"n":2}', "key"), queue.now)
    reclaim_worker(queue.connection, ME, 1, ordered=False, now_ms=queue.now, crash_limit=1)
    assert queue.statuses() == ["failed", "ready"]
    assert queue.take().payload_json == '{"n":2}'


def test_a_death_counts_only_against_the_row_being_handled(queue: Queue) -> None:
    ids = [queue.add() for _ in range(4)]
    jobs = [queue.take(ME), queue.take(ME), queue.take(ME), queue.take(OTHER)]
    found = reclaim_worker(queue.connection, ME, jobs[1].id, ordered=False, now_ms=queue.now)
    assert (found.ready, found.parked) == ((ids[1], ids[0], ids[2]), ())
    assert [queue.row(each)["crashes"] for each in ids] == [0, 1, 0, 0]
    assert [queue.row(each)["attempts"] for each in ids] == [0, 0, 0, 1]
    assert queue.statuses() == ["ready", "ready", "ready", "running"]


def test_a_death_that_the_supervisor_ordered_counts_against_nothing(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    assert len(reclaim_worker(queue.connection, ME, job_id, ordered=True, now_ms=queue.now)) == 1
    row = queue.row(job_id)
    assert (row["status"], row["crashes"], row["attempts"]) == ("ready", 0, 0)


def test_a_death_between_jobs_counts_against_nothing(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    reclaim_worker(queue.connection, ME, None, ordered=False, now_ms=queue.now)
    assert queue.row(job_id)["crashes"] == 0


def test_the_third_death_parks_the_row_and_frees_its_batch_mates(queue: Queue) -> None:
    bad, good = queue.add(), queue.add()
    queue.change(bad, crashes=2)
    jobs = [queue.take(), queue.take()]
    found = reclaim_worker(queue.connection, ME, bad, ordered=False, now_ms=queue.now, why="it ate the memory")
    assert (found.parked, found.ready) == ((bad,), (good,))
    assert queue.row(bad)["last_error"] == "it ate the memory"
    assert len(jobs) == 2


def test_a_row_recovered_keeps_its_place_in_the_line(queue: Queue) -> None:
    first = queue.add()
    queue.clock.advance(1)
    queue.add()
    queue.take()
    reclaim_worker(queue.connection, ME, first, ordered=False, now_ms=queue.now)
    assert queue.take().id == first


def test_release_gives_back_own_leases_only_and_burns_nothing(queue: Queue) -> None:
    mine, kept, others = queue.add(), queue.add(), queue.add()
    assert [queue.take(ME).id, queue.take(ME).id, queue.take(OTHER).id] == [mine, kept, others]
    assert release_running_locks(queue.connection, [ME], queue.now, keep=[kept]) == 1
    assert queue.statuses() == ["ready", "running", "running"]
    row = queue.row(mine)
    assert (row["attempts"], row["crashes"]) == (0, 0)
    assert release_running_locks(queue.connection, ["nobody"], queue.now) == 0


def test_graceful_stops_never_wear_a_job_out(queue: Queue) -> None:
    # Five shutdowns burnt a job's attempts elsewhere.
    job_id = queue.add()
    for _ in range(12):
        queue.take()
        assert release_running_locks(queue.connection, [ME], queue.now) == 1
    row = queue.row(job_id)
    assert (row["status"], row["attempts"], row["crashes"]) == ("ready", 0, 0)


def test_release_gives_up_soon_where_the_database_is_held(queue: Queue, second: Connection, paths: Paths) -> None:
    import apsw

    queue.add()
    queue.take()
    stopping = Database(paths.database, paths.write_turn, busy_timeout_ms=30)
    with second.write(), pytest.raises(apsw.BusyError):
        release_running_locks(stopping.connection, [ME], queue.now)
    assert release_running_locks(stopping.connection, [ME], queue.now) == 1
    stopping.close()


def test_running_workers_are_those_that_hold_leases(queue: Queue) -> None:
    queue.add(), queue.add(), queue.add()
    queue.take(ME), queue.take(OTHER), queue.take(OTHER)
    assert running_workers(queue.connection) == sorted([ME, OTHER])


def test_retired_jobs_are_purged_whatever_their_status(queue: Queue) -> None:
    ids = [queue.add() for _ in range(4)]
    queue.change(ids[0], kind="topic_route")
    queue.change(ids[1], kind="digest_daily", status="failed")
    queue.change(ids[2], kind="digest_daily", status="done")
    assert purge_retired_jobs(queue.connection) == 3
    assert purge_retired_jobs(queue.connection) == 0
    assert queue.statuses() == ["ready"]


def test_rows_that_cannot_be_read_are_parked_once_and_visibly(queue: Queue) -> None:
    unknown, status, absurd, sound, retired = (queue.add() for _ in range(5))
    queue.change(unknown, kind="from_the_future")
    queue.change(status, status="blocked")
    queue.change(absurd, available_at_ms=2**62)
    queue.change(retired, kind="topic_route")
    assert park_unreadable(queue.connection, queue.registry, queue.now) == 3
    for job_id in (unknown, status, absurd):
        row = queue.row(job_id)
        assert (row["status"], row["failure_class"], row["failure_reason"]) == ("failed", "unrecoverable", "unreadable")
        assert row["last_error"]
    assert (queue.status(sound), queue.status(retired)) == ("ready", "ready")
    assert park_unreadable(queue.connection, queue.registry, queue.now) == 0


def test_kinds_of_the_seed_are_no_strangers_to_a_small_registry(queue: Queue) -> None:
    queue.add(NewJob.seal("t", 0))
    assert park_unreadable(queue.connection, Registry(), queue.now) == 0


def test_a_row_of_an_unknown_kind_is_never_handed_out(queue: Queue) -> None:
    job_id = queue.add()
    queue.change(job_id, kind="from_the_future")
    for _ in range(3):
        assert queue.claim() is None
        queue.clock.advance(301)
        assert recover_stale_locks(queue.connection, queue.now) == 0
    assert queue.status(job_id) == "ready"


def test_after_the_clock_was_set_back_work_goes_on(queue: Queue) -> None:
    due, delayed = queue.add(), queue.add(NewJob("seal", "{}", "d", available_at_ms=queue.now + 60_000))
    queue.clock.set_wall(queue.now - 86_400_000)
    honest = queue.add(NewJob("seal", "{}", "h", available_at_ms=queue.now + 7_200_000))
    assert queue.claim() is None
    assert mend_clock(queue.connection, queue.now) == 2
    assert queue.take().id == due
    assert queue.row(delayed)["available_at_ms"] == queue.now + 60_000
    assert queue.row(honest)["available_at_ms"] == queue.now + 7_200_000
    assert mend_clock(queue.connection, queue.now) == 0


def test_a_backoff_from_before_the_clock_was_set_back_keeps_its_length(queue: Queue) -> None:
    from agent.queue import mark_failed_typed

    job_id = queue.add()
    queue.clock.advance(86_400)
    mark_failed_typed(queue.connection, queue.take(), "no", None, queue.now)
    queue.clock.set_wall(queue.now - 80_000_000)
    assert mend_clock(queue.connection, queue.now) == 1
    assert queue.row(job_id)["available_at_ms"] == queue.now + 60_000


def test_an_absurd_lease_end_is_mended_to_a_whole_lease(queue: Queue) -> None:
    job_id = queue.add()
    queue.take()
    queue.clock.set_wall(queue.now - 10_000_000)
    assert recover_stale_locks(queue.connection, queue.now) == 0
    assert mend_clock(queue.connection, queue.now) == 1
    assert queue.row(job_id)["locked_until_ms"] == queue.now + 300_000
    queue.clock.advance(300)
    assert recover_stale_locks(queue.connection, queue.now) == 1


def test_bootstrap_returns_what_was_purged_and_recovered(queue: Queue) -> None:
    retired, stale = queue.add(), queue.add()
    queue.change(retired, kind="digest_daily")
    queue.take()
    queue.clock.advance(301)
    assert bootstrap(queue.connection, queue.now, registry=queue.registry) == (1, 1)
    assert bootstrap(queue.connection, queue.now, registry=queue.registry) == (0, 0)
    assert queue.row(stale)["status"] == "ready"


def test_an_idle_tick_writes_nothing(queue: Queue, changes: Callable[[], int], second: Connection) -> None:
    from agent.config import Intent
    from agent.queue import enqueue_flush_stale, prune, self_heal, settle_superseded, sweep

    queue.add(NewJob("seal", "{}", "later", available_at_ms=queue.now + 60_000))
    mark = queue.add()
    mark_done(queue.connection, queue.take(), queue.now)
    enqueue_flush_stale(queue.connection, queue.now)
    queue.take(OTHER)
    changes()
    with second.write():
        # Whatever wanted to write would run into this writer.
        queue.connection.raw.set_busy_timeout(0)
        for _ in range(3):
            queue.clock.advance(15)
            bootstrap(queue.connection, queue.now, registry=queue.registry)
            self_heal(queue.connection, queue.now)
            prune(queue.connection, queue.now, keep_ms=1_000_000, keep_rows=10)
            settle_superseded(queue.connection, queue.now)
            enqueue_flush_stale(queue.connection, queue.now)
            sweep(queue.connection, queue.registry, Intent(), queue.now)
            reclaim_worker(queue.connection, "nobody", mark, ordered=False, now_ms=queue.now)
            release_running_locks(queue.connection, ["nobody"], queue.now)
    assert changes() == 0
