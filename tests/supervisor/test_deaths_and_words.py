"""What an exit means for slot and row, and the words for what the agent is doing."""

from __future__ import annotations

from typing import Any

import pytest

from agent.queue.worker_args import EXIT_CORRUPT, EXIT_LEASE, EXIT_ORPHANED, EXIT_RECYCLE, EXIT_STOPPED
from agent.states import AgentState
from agent.supervisor.children import Child, judge
from agent.supervisor.slots import Exit, Slot
from agent.supervisor.status import Facts, state_of


class _Line:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_bytes(self, buf: bytes, /) -> None:
        self.sent.append(buf)

    def close(self) -> None:
        return


def _child(**changes: Any) -> Child:
    child = Child(Slot(0, lambda: 0.0), "w", process=None, life_line=_Line(), pid=1, started_at=0.0)  # type: ignore[arg-type]
    for name, value in changes.items():
        setattr(child, name, value)
    return child


@pytest.mark.parametrize(
    ("changes", "code", "handled", "how", "crash"),
    [
        ({}, -9, True, Exit.FAILURE, True),
        ({}, -11, False, Exit.FAILURE, True),
        ({}, 1, True, Exit.FAILURE, True),
        ({}, EXIT_STOPPED, False, Exit.FAILURE, True),
        ({}, EXIT_ORPHANED, True, Exit.FAILURE, True),
        ({}, EXIT_RECYCLE, False, Exit.FRESH, False),
        ({}, EXIT_LEASE, True, Exit.FAILURE, False),
        ({}, EXIT_CORRUPT, True, Exit.FAILURE, False),
        ({"ended_for": Exit.ORDERED}, -9, True, Exit.ORDERED, False),
        ({"ended_for": Exit.FRESH}, 0, False, Exit.FRESH, False),
        ({"over_limit": "too long"}, -9, True, Exit.FRESH, True),
        ({"over_limit": "too much"}, -9, False, Exit.FAILURE, True),
        ({"over_limit": "too long", "ended_for": Exit.ORDERED}, -9, True, Exit.FRESH, True),
    ],
)
def test_what_an_exit_means(changes: dict[str, Any], code: int, handled: bool, how: Exit, crash: bool) -> None:
    death = judge(_child(**changes), code, handled_a_job=handled)
    assert (death.how, death.counts_as_crash) == (how, crash)
    assert death.corrupt == (code == EXIT_CORRUPT)


def test_worker_is_told_to_stop_once() -> None:
    child = _child()
    child.slot.started()
    child.tell_to_stop(Exit.FRESH, 5.0)
    child.tell_to_stop(Exit.ORDERED, 9.0)
    assert isinstance(child.life_line, _Line)
    assert (child.life_line.sent, child.told_at, child.ended_for) == ([b"stop"], 5.0, Exit.ORDERED)


@pytest.mark.parametrize(
    ("facts", "state", "says"),
    [
        (Facts(), AgentState.IDLE, ""),
        (Facts(is_resting=False), AgentState.GROWING, ""),
        (Facts(is_prepared=False), AgentState.STARTING, ""),
        (Facts(paused_until_ms=1_700_000_000_000), AgentState.PAUSED, "until 2023-11-14"),
        (Facts(given_up=1, last_failure="signal 11"), AgentState.ATTENTION, "signal 11"),
        (Facts(config_problem="line 3"), AgentState.ATTENTION, "line 3"),
        (Facts(problem="no space", given_up=1, is_prepared=False), AgentState.ERROR, "no space"),
        (Facts(is_stopping=True, is_resting=False), AgentState.STOPPED, "ending"),
    ],
)
def test_what_needs_the_owner_comes_first(facts: Facts, state: AgentState, says: str) -> None:
    found, reason = state_of(facts)
    assert found is state
    assert says in reason
