"""A pause is a deadline in the memory that workers obey."""

from __future__ import annotations

import pytest

from agent.actions.home import Home
from agent.actions.pausing import pause, read_paused, resume
from agent.actions.times import FOREVER_MS
from agent.clock import FakeClock
from agent.errors import UsageFault
from agent.worker.capacity import Capacity


def test_pause_holds_workers_until_its_end(home: Home, clock: FakeClock) -> None:
    capacity = Capacity(home.connection, clock)
    assert capacity.allowed("seal")
    found = pause(home, "1h")
    assert found.paused_until_ms == clock.now_ms() + 3_600_000
    clock.advance(1)
    assert not capacity.allowed("seal")
    clock.advance(3_600)
    assert capacity.allowed("seal")
    assert read_paused(home.connection, clock.now_ms()).paused_until_ms is None


def test_resume_ends_a_pause_without_an_end(home: Home, clock: FakeClock) -> None:
    found = pause(home)
    assert found.indefinite
    assert found.paused_until_ms == FOREVER_MS
    clock.advance(10**8)
    assert read_paused(home.connection, clock.now_ms()).indefinite
    assert resume(home).paused_until_ms is None
    assert read_paused(home.connection, clock.now_ms()).paused_until_ms is None


def test_a_later_pause_replaces_the_earlier(home: Home, clock: FakeClock) -> None:
    pause(home)
    pause(home, "30m")
    assert read_paused(home.connection, clock.now_ms()).paused_until_ms == clock.now_ms() + 1_800_000


def test_pause_that_cannot_be_read_changes_nothing(home: Home, clock: FakeClock) -> None:
    with pytest.raises(UsageFault):
        pause(home, "a while")
    assert read_paused(home.connection, clock.now_ms()).paused_until_ms is None


def test_pause_wakes_the_workers(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.queue.wake import WakeSocket, register_worker

    socket = WakeSocket()
    try:
        register_worker(home.connection, "worker", socket.port, home.clock.now_ms())
        resume(home)
        import select

        assert select.select([socket], [], [], 5)[0]
    finally:
        socket.close()
