"""Who has waited for the writers' turn goes before who has just had it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from agent.db import turn as turns
from agent.db.turn import WriteTurn


def test_a_writer_that_goes_on_and_on_lets_the_next_one_go_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "MANNERS_S", 10.0)
    monkeypatch.setattr(turns, "PATIENCE_S", 20.0)
    busy, waiting = WriteTurn(tmp_path / "turn"), WriteTurn(tmp_path / "turn")
    assert busy.take()
    order: list[str] = []

    def wait() -> None:
        assert waiting.take()
        order.append("the one that waited")
        waiting.give()

    thread = threading.Thread(target=wait)
    thread.start()
    next_lock = turns._Lock(tmp_path / "turn.next")
    next_lock.open()
    end = time.monotonic() + 10
    while next_lock.try_lock():
        next_lock.unlock()
        time.sleep(0.0005)
        assert time.monotonic() < end
    # The waiter says that it is next: giving and taking at once, which polling would always lose to, lets it go first.
    busy.give()
    assert busy.take()
    order.append("the busy one")
    busy.give()
    thread.join(10)
    assert order == ["the one that waited", "the busy one"]


def test_a_process_that_was_stopped_while_it_was_next_slows_nobody_for_long(tmp_path: Path) -> None:
    stopped = turns._Lock(tmp_path / "turn.next")
    stopped.open()
    assert stopped.try_lock()
    writer = WriteTurn(tmp_path / "turn")
    began = time.monotonic()
    assert writer.take()
    assert time.monotonic() - began >= turns.MANNERS_S
    writer.give()
    # Once it has waited in vain, it does not ask again for a while.
    assert writer._look_at - began > turns.PATIENCE_S
    began = time.monotonic()
    for _ in range(20):
        assert writer.take()
        writer.give()
    assert time.monotonic() - began < 20 * turns.MANNERS_S


def test_turns_close_and_open_again(tmp_path: Path) -> None:
    writer, other = WriteTurn(tmp_path / "turn"), WriteTurn(tmp_path / "turn")
    assert writer.take()
    writer.close()
    assert other.take(0.01)
    assert not writer.take(0.01)
    other.give()
    assert writer.take()
