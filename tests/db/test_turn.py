import multiprocessing
import time
from pathlib import Path

from agent.db.turn import WriteTurn


def test_a_turn_is_one_writers_at_a_time(tmp_path: Path) -> None:
    first, second = WriteTurn(tmp_path / "turn"), WriteTurn(tmp_path / "turn")
    assert first.take()
    assert not second.take(patience_s=0.01)
    first.give()
    assert second.take(patience_s=0.01)
    second.give()


def test_a_turn_that_cannot_be_had_stops_no_write(tmp_path: Path) -> None:
    assert not WriteTurn(tmp_path / "missing" / "turn").take()


def _hold(path: str, held) -> None:
    assert WriteTurn(Path(path)).take()
    held.set()
    time.sleep(60)


def test_a_holder_that_dies_frees_its_turn_and_one_that_hangs_is_waited_for_half_a_second(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held = spawn.Event()
    holder = spawn.Process(target=_hold, args=(str(tmp_path / "turn"), held))
    holder.start()
    assert held.wait(30)
    turn = WriteTurn(tmp_path / "turn")
    began = time.monotonic()
    assert not turn.take()
    assert 0.4 < time.monotonic() - began < 5
    holder.kill()
    holder.join(10)
    assert turn.take()
    turn.give()
