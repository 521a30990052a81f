from __future__ import annotations

from agent.queue import NewJob, enqueue_flush_stale, prune
from tests.queue.conftest import Queue

DAY_MS = 86_400_000


def done_rows(queue: Queue, count: int, completed_at_ms: int, kind: str = "sync_source") -> None:
    with queue.connection.write():
        queue.connection.many(
            """
            INSERT INTO mem_tree_jobs (kind, payload_json, status, max_attempts, available_at_ms, created_at_ms,
                                       completed_at_ms)
            VALUES (?, '{}', 'done', 5, 0, 0, ?)
            """,
            [(kind, completed_at_ms)] * count,
        )


def left(queue: Queue) -> int:
    return len(queue.statuses())


def test_old_done_rows_go_and_younger_ones_stay(queue: Queue) -> None:
    done_rows(queue, 5, queue.now - DAY_MS - 1)
    done_rows(queue, 3, queue.now - DAY_MS, "seal")
    assert prune(queue.connection, queue.now, keep_ms=DAY_MS, keep_rows=100) == 5
    assert left(queue) == 3


def test_beyond_the_rows_to_keep_the_oldest_of_all_kinds_go(queue: Queue) -> None:
    done_rows(queue, 4, queue.now - 30, "seal")
    done_rows(queue, 4, queue.now - 20)
    done_rows(queue, 4, queue.now - 10, "seal")
    assert prune(queue.connection, queue.now, keep_ms=DAY_MS, keep_rows=5) == 7
    ages = [row[0] for row in queue.connection.all("SELECT completed_at_ms FROM mem_tree_jobs ORDER BY 1")]
    assert [queue.now - at for at in ages] == [20, 10, 10, 10, 10]


def test_pruning_goes_in_short_transactions_and_stops_in_between(queue: Queue) -> None:
    done_rows(queue, 50, 0)
    commits: list[int] = []
    queue.connection.raw.set_wal_hook(lambda *_: commits.append(1) or 0)
    assert prune(queue.connection, queue.now, keep_ms=1, keep_rows=0, batch_rows=10, max_batches=3) == 30
    assert len(commits) == 3
    assert prune(queue.connection, queue.now, keep_ms=1, keep_rows=0, batch_rows=10) == 20


def test_what_is_not_over_is_never_pruned(queue: Queue) -> None:
    ready, running, failed = queue.add(), queue.add(), queue.add()
    queue.change(running, status="running")
    queue.change(failed, status="failed", completed_at_ms=0)
    queue.clock.advance(10 * 86_400)
    assert prune(queue.connection, queue.now, keep_ms=1, keep_rows=0) == 0
    assert left(queue) == 3
    assert ready


def test_the_newest_cancelled_row_of_a_key_stays_and_older_ones_go(queue: Queue) -> None:
    ids = []
    for _ in range(3):
        ids.append(queue.add(NewJob("seal", "{}", "k")))
        queue.change(ids[-1], status="cancelled", completed_at_ms=0)
    assert prune(queue.connection, queue.now, keep_ms=1, keep_rows=0) == 2
    assert [row[0] for row in queue.connection.all("SELECT id FROM mem_tree_jobs")] == [ids[-1]]


def test_a_block_has_one_flush_in_whatever_status(queue: Queue) -> None:
    first = enqueue_flush_stale(queue.connection, queue.now)
    assert first is not None
    for status in ("ready", "running", "done", "failed", "cancelled"):
        queue.change(first, status=status)
        assert enqueue_flush_stale(queue.connection, queue.now) is None
    queue.clock.advance(3 * 3_600)
    assert enqueue_flush_stale(queue.connection, queue.now) is not None


def test_at_most_eight_flushes_a_day(queue: Queue) -> None:
    queue.clock.set_wall(1_772_582_400_000)  # midnight UTC
    made = 0
    for _ in range(24 * 4):
        found = enqueue_flush_stale(queue.connection, queue.now)
        if found is not None:
            made += 1
            queue.change(found, status="done", completed_at_ms=queue.now)
        queue.clock.advance(900)
    assert made == 8


def test_pruning_does_not_forget_that_this_block_had_its_flush(queue: Queue) -> None:
    found = enqueue_flush_stale(queue.connection, queue.now)
    assert found is not None
    queue.change(found, status="done", completed_at_ms=queue.now)
    prune(queue.connection, queue.now, keep_ms=0, keep_rows=0)
    assert enqueue_flush_stale(queue.connection, queue.now) is None
