from __future__ import annotations

import gc
import multiprocessing
import select
import threading
import warnings
from collections.abc import Iterator

import pytest

from agent.db import Connection
from agent.paths import Paths
from agent.queue import (
    Claim,
    NewJob,
    Plan,
    WakeSocket,
    enqueue,
    register_worker,
    settle_and_claim,
    unregister_all,
    unregister_workers,
    wake_workers,
)
from agent.queue.wake import MAX_DATAGRAMS, send_wake, wake_ports
from tests.queue.conftest import ME, Queue


@pytest.fixture
def sleeper(queue: Queue) -> Iterator[WakeSocket]:
    socket = WakeSocket()
    register_worker(queue.connection, ME, socket.port, queue.now)
    yield socket
    socket.close()


def is_awake(socket: WakeSocket, within_s: float = 2.0) -> bool:
    return bool(select.select([socket], [], [], within_s)[0])


def asleep(socket: WakeSocket) -> bool:
    return not is_awake(socket, 0.02)


def test_an_enqueue_wakes_the_workers(queue: Queue, sleeper: WakeSocket) -> None:
    assert asleep(sleeper)
    queue.add()
    assert is_awake(sleeper)
    sleeper.drain()
    assert asleep(sleeper)


def test_an_enqueue_that_adds_nothing_wakes_nobody(queue: Queue, sleeper: WakeSocket) -> None:
    queue.add(NewJob.seal("t", 0))
    sleeper.drain()
    enqueue(queue.connection, NewJob.seal("t", 0), queue.now)
    assert asleep(sleeper)


def test_follow_ups_wake_others_only_for_what_this_worker_does_not_take_itself(
    queue: Queue, sleeper: WakeSocket
) -> None:
    queue.add()
    job = queue.take()
    sleeper.drain()
    one = Plan(follow_ups=[NewJob.seal("t", 0)])
    _, jobs = settle_and_claim(queue.connection, [(job, one)], queue.now, Claim(queue.registry, ME))
    assert asleep(sleeper)
    two = Plan(follow_ups=[NewJob.seal("t", 1), NewJob.seal("t", 2)])
    settle_and_claim(queue.connection, [(jobs[0], two)], queue.now, Claim(queue.registry, ME))
    assert is_awake(sleeper)


def test_draining_never_blocks_and_takes_all_wake_ups(queue: Queue, sleeper: WakeSocket) -> None:
    sleeper.drain()
    for _ in range(100):
        wake_workers(queue.connection)
    assert is_awake(sleeper)
    sleeper.drain()
    assert asleep(sleeper)


def test_a_new_worker_is_noticed_at_once(queue: Queue, sleeper: WakeSocket) -> None:
    wake_workers(queue.connection)
    late = WakeSocket()
    register_worker(queue.connection, "late", late.port, queue.now)
    wake_workers(queue.connection)
    assert is_awake(late)
    late.close()


def test_a_dead_workers_port_hurts_nobody(queue: Queue, sleeper: WakeSocket) -> None:
    gone = WakeSocket()
    register_worker(queue.connection, "gone", gone.port, queue.now)
    gone.close()
    register_worker(queue.connection, "nonsense", 1 << 40, queue.now)
    for _ in range(5):
        wake_workers(queue.connection)
    assert is_awake(sleeper)
    unregister_workers(queue.connection, ["gone", "nonsense"])
    assert wake_ports(queue.connection) == [sleeper.port]


def test_every_worker_of_the_pool_is_woken_and_the_supervisor_with_them(queue: Queue) -> None:
    # Whoever is left out may be the only one that is idle.
    for number in range(4 + 1):
        register_worker(queue.connection, f"w{number}", 40_000 + number, queue.now)
    assert sorted(wake_ports(queue.connection)) == list(range(40_000, 40_005))


def test_datagrams_are_bounded_and_go_to_everybody_in_turn(queue: Queue) -> None:
    for number in range(40):
        register_worker(queue.connection, f"w{number}", 40_000 + number, queue.now)
    chosen = [wake_ports(queue.connection) for _ in range(200)]
    assert all(len(ports) == MAX_DATAGRAMS for ports in chosen)
    assert {port for ports in chosen for port in ports} == set(range(40_000, 40_040))


def test_a_worker_registers_once_and_a_supervisor_forgets_them_all(queue: Queue, sleeper: WakeSocket) -> None:
    register_worker(queue.connection, ME, 5, queue.now)
    assert queue.connection.all("SELECT worker_id, wake_port FROM mem_tree_workers") == [(ME, 5)]
    assert unregister_all(queue.connection) == 1
    assert unregister_all(queue.connection) == 0


def test_many_wake_ups_never_block_the_sender(queue: Queue, sleeper: WakeSocket) -> None:
    # Nobody drains: the receiver's buffer fills, and what does not fit is dropped.
    for _ in range(5_000):
        wake_workers(queue.connection)
    assert is_awake(sleeper)


def _enqueue_elsewhere(paths: Paths, now_ms: int) -> None:
    from agent.db import Database

    enqueue(Database(paths.database, paths.write_turn).connection, NewJob.seal("t", 0), now_ms)


def test_another_process_wakes_this_one(
    queue: Queue, sleeper: WakeSocket, paths: Paths, connection: Connection
) -> None:
    child = multiprocessing.get_context("spawn").Process(target=_enqueue_elsewhere, args=(paths, queue.now))
    child.start()
    assert is_awake(sleeper, 30)
    child.join(30)
    assert child.exitcode == 0
    assert queue.take().dedupe_key == "seal:t:0"


def test_a_thread_that_woke_somebody_leaves_no_socket_open(sleeper: WakeSocket) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        thread = threading.Thread(target=send_wake, args=([sleeper.port],))
        thread.start()
        thread.join()
        gc.collect()
    assert is_awake(sleeper)
    assert [str(each.message) for each in said] == []
