"""The gate in one process: the seed's nouns and who steps back for whom."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.clock import FakeClock
from agent.errors import AgentFault
from agent.gate import (
    DEFAULT_LLM_PERMITS,
    INTERACTIVE_POLL_S,
    UNSEEN_POLL_S,
    GateBusy,
    LlmGate,
    refuse_network_folder,
    serve_waiting,
)


def test_default_llm_permits_is_one(tmp_path: Path) -> None:
    assert DEFAULT_LLM_PERMITS == 1
    gate = LlmGate(tmp_path, "local")
    assert gate.permits == 1
    with gate.acquire():
        assert gate.try_acquire() is None


@pytest.mark.parametrize(("asked", "given"), [(0, 1), (-3, 1), (1, 1), (4, 4)])
def test_permits_are_clamped_to_at_least_one(tmp_path: Path, asked: int, given: int) -> None:
    gate = LlmGate(tmp_path, "local", asked)
    held = [gate.try_acquire() for _ in range(given + 2)]
    assert [permit is not None for permit in held] == [True] * given + [False, False]


def test_a_permit_is_a_context_manager_and_release_is_idempotent(tmp_path: Path) -> None:
    told: list[str] = []
    gate = LlmGate(tmp_path, "local", 1, on_release=lambda: told.append("released"))
    permit = gate.acquire()
    with pytest.raises(KeyError), permit:
        raise KeyError
    assert not permit.is_held
    permit.release()
    permit.release()
    assert told == ["released"]
    second = gate.try_acquire()
    assert second is not None
    permit.release()
    assert gate.try_acquire() is None, "releasing the first again must not free the second"
    second.release()


def test_a_forgotten_permit_comes_back(tmp_path: Path) -> None:
    gate = LlmGate(tmp_path, "local", 1)
    gate.try_acquire()
    gc.collect()
    assert gate.try_acquire() is not None


def test_a_permit_may_be_released_by_another_thread(tmp_path: Path) -> None:
    gate = LlmGate(tmp_path, "local", 1)
    permit = gate.acquire()
    thread = threading.Thread(target=permit.release)
    thread.start()
    thread.join(5)
    assert gate.try_acquire() is not None


def test_resources_do_not_share_permits_even_with_names_alike(tmp_path: Path) -> None:
    gates = [LlmGate(tmp_path, name) for name in ("local", "openai:me", "openai/me", "OpenAI:me", "../local")]
    permits = [gate.try_acquire() for gate in gates]
    assert all(permit is not None for permit in permits)
    assert all(path.parent == tmp_path for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == len(gates)


def test_acquire_gives_up_after_its_time_and_holds_interest_while_it_waits(tmp_path: Path) -> None:
    clock = FakeClock()
    holder = LlmGate(tmp_path, "local", 1).acquire()
    gate = LlmGate(tmp_path, "local", 1, clock=clock)
    interested: list[bool] = []
    with pytest.raises(GateBusy):
        gate.acquire(0.05, check=lambda: interested.append(gate.is_interest_held()))
    assert sum(clock.slept) == pytest.approx(0.05, abs=1.5 * INTERACTIVE_POLL_S)
    assert set(clock.slept) == {INTERACTIVE_POLL_S}
    assert INTERACTIVE_POLL_S <= 0.005
    assert set(interested) == {True}
    assert not gate.is_interest_held()
    holder.release()


def test_acquire_stops_waiting_when_its_check_raises(tmp_path: Path) -> None:
    gate = LlmGate(tmp_path, "local", 1, clock=FakeClock())
    with gate.acquire():

        def check() -> None:
            raise InterruptedError

        with pytest.raises(InterruptedError):
            gate.acquire(check=check)
    assert not gate.is_interest_held()


def test_interest_makes_workers_step_back_and_lets_people_in(tmp_path: Path) -> None:
    told: list[str] = []
    gate = LlmGate(tmp_path, "local", 2, on_release=lambda: told.append("free"))
    with gate.interest():
        assert gate.try_acquire() is None
        with gate.interest():
            with gate.acquire():
                assert gate.is_interest_held()
            assert gate.try_acquire() is None
        assert gate.is_interest_held(), "the second person's end must not end the first one's interest"
        assert gate.try_acquire() is None
        told.clear()
    assert told == ["free"], "workers that stepped back are told at the end"
    assert gate.try_acquire() is not None


def test_looking_for_interest_is_not_interest(tmp_path: Path) -> None:
    gate = LlmGate(tmp_path, "local", 1)
    with gate.interest():
        pass
    wrong: list[bool] = []

    def look() -> None:
        wrong.extend(gate.is_interest_held() for _ in range(200))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(wrong) == 800
    assert not any(wrong)


def test_a_listener_that_fails_does_not_keep_the_permit(tmp_path: Path) -> None:
    def listener() -> None:
        raise OSError("the database is away")

    gate = LlmGate(tmp_path, "local", 1, on_release=listener)
    gate.acquire().release()
    assert gate.try_acquire() is not None


def test_serve_waiting_wakes_only_for_a_due_row_and_a_free_permit(tmp_path: Path) -> None:
    told: list[str] = []
    gate = LlmGate(tmp_path, "local", 1, on_release=lambda: told.append("released"))
    woken: list[str] = []
    due = SimpleNamespace(now=False)

    def serve() -> float | None:
        return serve_waiting(gate, lambda: due.now, lambda: woken.append("woken"))

    assert serve() is None, "nothing due: never look again by itself"
    due.now = True
    with gate.acquire():
        assert serve() == UNSEEN_POLL_S
        assert woken == []
    told.clear()
    with gate.interest():
        assert serve() == UNSEEN_POLL_S
        assert woken == []
    told.clear()
    assert serve() == UNSEEN_POLL_S == 0.05
    assert woken == ["woken"]
    assert told == [], "looking is not releasing"


@pytest.mark.parametrize(
    ("fstype", "opts", "refused"),
    [
        ("nfs4", "rw", True),
        ("cifs", "rw", True),
        ("fuse.sshfs", "rw", True),
        ("ntfs", "rw,remote", True),
        ("ext4", "rw", False),
        ("tmpfs", "rw", False),
        ("", "", False),
    ],
)
def test_network_folders_are_refused_where_they_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fstype: str, opts: str, refused: bool
) -> None:
    def partitions(all: bool) -> list[Any]:
        return [
            SimpleNamespace(mountpoint="/", fstype="ext4", opts="rw"),
            SimpleNamespace(mountpoint=str(tmp_path), fstype=fstype, opts=opts),
            SimpleNamespace(mountpoint=str(tmp_path) + "-other", fstype="nfs", opts="rw"),
        ]

    monkeypatch.setattr("psutil.disk_partitions", partitions)
    build: Callable[[], object] = lambda: LlmGate(tmp_path / "permits", "local")  # noqa: E731
    if refused:
        with pytest.raises(AgentFault, match="network"):
            build()
    else:
        build()
        refuse_network_folder(tmp_path)
