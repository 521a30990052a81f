"""Rows that wait for a model that cannot be had are no work: no further worker, no look at the gate for their sake."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.clock import FakeClock
from agent.config import Intent, ModelsIntent
from agent.db import Connection
from agent.paths import Paths
from agent.profile_intent import ProfileIntent
from agent.queue import enqueue
from agent.queue.holds import HoldRow, put_hold_tx
from agent.queue.registry import JobSpec, Registry
from agent.queue.types import NewJob, Plan
from agent.states import Hold, JobKind
from agent.supervisor.gatewatch import GateWatch
from agent.supervisor.held import claimable_kinds
from agent.supervisor.looking import look_at_queue
from agent.supervisor.result import SupervisorArgs

BOX = ProfileIntent("box", "ollama", "small:1b")
FAR = ProfileIntent("far", "openai", "large", consent="api.openai.com")
ASKED: list[bool] = []


def watch_gate(paths: Paths, intent: Intent, is_due: Callable[[], bool], wake: Callable[[], None]) -> float | None:
    ASKED.append(is_due())
    return 0.05 if ASKED[-1] else None


class Storage:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def attempt(self, what: str, act: Callable[[Connection], object], now: float) -> object:
        return act(self._connection)


def handle(context: object, job: object) -> Plan:
    return Plan()


REGISTRY = Registry.of(
    [
        JobSpec(JobKind.SEAL, handle, llm_bound=True),
        JobSpec(JobKind.REEMBED_BACKFILL, handle, llm_bound=True),
        JobSpec(JobKind.APPEND_BUFFER, handle),
    ]
)


def active(profile: ProfileIntent) -> Intent:
    return Intent(models=ModelsIntent(active=profile.name), profiles=(profile,))


@pytest.fixture
def held(connection: Connection, clock: FakeClock) -> Connection:
    with connection.write():
        until_ms = clock.now_ms() + 60_000
        put_hold_tx(connection, HoldRow("box", Hold.UNREACHABLE, "it is out", until_ms), clock.now_ms())
    return connection


def test_held_rows_call_for_no_further_worker(held: Connection, clock: FakeClock) -> None:
    for number in range(9):
        enqueue(held, NewJob(JobKind.SEAL, "{}", f"seal:{number}"), clock.now_ms())
    enqueue(held, NewJob(JobKind.APPEND_BUFFER, "{}", "append"), clock.now_ms())
    allowed = claimable_kinds(held, REGISTRY, active(BOX), clock.now_ms())
    look = look_at_queue(held, REGISTRY, clock.now_ms(), limit=5, free_permits=lambda: 1, allowed=allowed)
    assert look.claimable.now == 1

    clock.sleep(61)
    allowed = claimable_kinds(held, REGISTRY, active(BOX), clock.now_ms())
    look = look_at_queue(held, REGISTRY, clock.now_ms(), limit=5, free_permits=lambda: 1, allowed=allowed)
    assert look.claimable.now == 2, "one permit, and the row that needs none"


def test_the_gate_is_not_watched_for_held_rows(held: Connection, clock: FakeClock, paths: Paths) -> None:
    ASKED.clear()
    enqueue(held, NewJob(JobKind.SEAL, "{}", "seal:0"), clock.now_ms())
    watch = GateWatch(SupervisorArgs(paths, "-", (), gate_hook=f"{__name__}:watch_gate"), REGISTRY)

    def look() -> None:
        watch.look(
            Storage(held),  # type: ignore[arg-type]
            active(BOX),
            0.0,
            clock.now_ms(),
            has_hands=True,
            allowed=lambda connection: claimable_kinds(connection, REGISTRY, active(BOX), clock.now_ms()),
        )

    look()
    assert (ASKED, watch.again_at) == ([False], None)
    clock.sleep(61)
    look()
    assert (ASKED, watch.again_at) == ([False, True], 0.05)


@pytest.mark.parametrize(
    ("profile", "is_barred", "kinds"),
    [
        (BOX, False, {"append_buffer", "reembed_backfill"}),
        (BOX, True, {"append_buffer", "reembed_backfill"}),
        (FAR, False, {"append_buffer", "reembed_backfill", "seal"}),
        (FAR, True, {"append_buffer", "reembed_backfill"}),
        (ProfileIntent("box", "ollama", "a", "b", 8), False, {"append_buffer"}),
    ],
)
def test_what_may_be_claimed_is_what_the_active_profile_has_nothing_to_do_with(
    held: Connection, clock: FakeClock, profile: ProfileIntent, is_barred: bool, kinds: set[str]
) -> None:
    allowed = claimable_kinds(held, REGISTRY, active(profile), clock.now_ms(), is_barred=is_barred)
    assert {kind for kind in REGISTRY.specs if allowed is None or allowed(kind)} == kinds


def test_with_the_built_in_profile_nothing_is_held(held: Connection, clock: FakeClock) -> None:
    assert claimable_kinds(held, REGISTRY, Intent(), clock.now_ms(), is_barred=True) is None
