"""The policy at work: sampled when somebody waits for it, written when it changes for a worker, silent at rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agent.config import Intent, ModelsIntent, PowerIntent
from agent.db import Connection
from agent.db.power_row import ALL_THERE_IS, parse_override, put_override_tx, read_override, read_power
from agent.paths import paths_under
from agent.profile_intent import ProfileIntent
from agent.states import PowerCause, PowerMode
from agent.supervisor.looking import QueueLook
from agent.supervisor.power_watch import PowerWatch
from agent.supervisor.result import SupervisorArgs
from agent.system.power import FakePower, Signals

MAINS = Signals(on_battery=False, battery=1.0, available_bytes=8_000_000_000, cpu_others=0.4)
LOW = replace(MAINS, on_battery=True, battery=0.63)
ON_BATTERY = replace(MAINS, on_battery=True, battery=0.91)
BUSY = replace(MAINS, cpu_others=0.9)
MACHINE = FakePower(MAINS)


def machine() -> FakePower:
    return MACHINE


@dataclass
class Bench:
    """A watch with a database and a machine that a test moves. ``turn`` is a turn of the supervisor's loop."""

    connection: Connection
    watch: PowerWatch
    intent: Intent = field(default_factory=Intent)
    now: float = 1_000.0
    is_held: bool = False
    is_resting: bool = False
    paused_until_ms: int | None = None
    pushes: int = 0

    def turn(self, signals: Signals | None = None, seconds: float = 30.0) -> PowerMode:
        MACHINE.now = MACHINE.now if signals is None else signals
        self.now += seconds
        look = QueueLook(
            is_held=self.is_held,
            paused_until_ms=self.paused_until_ms,
            power=read_power(self.connection),
            power_override=read_override(self.connection),
        )
        self.watch.look(look, self.intent, self.now, is_resting=self.is_resting)
        if self.watch.owes():
            self.watch.push(self.connection)
            self.pushes += 1
        return self.watch.decision.mode

    def resume(self) -> None:
        with self.connection.write():
            put_override_tx(self.connection, None)

    @property
    def stored(self) -> PowerCause | None:
        row = read_power(self.connection)
        return None if row is None else row.cause


def args(*, once: bool = False) -> SupervisorArgs:
    return SupervisorArgs(paths_under(Path("home")), "", (), once=once, power_signals=f"{__name__}:machine")


@pytest.fixture
def bench(connection: Connection) -> Bench:
    MACHINE.now, MACHINE.samples = MAINS, 0
    return Bench(connection, PowerWatch(args()))


def test_workers_are_told_once_and_told_when_it_is_over(bench: Bench) -> None:
    bench.turn()
    assert (bench.stored, bench.pushes) == (None, 0), "nothing is written where nothing is restricted"
    for level in (0.63, 0.62, 0.61):
        bench.turn(replace(LOW, battery=level))
        assert bench.stored is PowerCause.BATTERY_LOW
    assert bench.pushes == 1, "a percent less is no news"
    bench.turn(MAINS)
    assert (bench.stored, bench.pushes) == (None, 2)


def test_at_rest_others_come_and_go_without_a_byte(bench: Bench) -> None:
    bench.is_resting = True
    before = bench.connection.value("PRAGMA data_version"), bench.connection.raw.total_changes()
    for _ in range(20):
        assert bench.turn(BUSY, 61) is PowerMode.THROTTLED
        assert bench.turn(MAINS, 61) is PowerMode.NORMAL
    assert bench.pushes == 0
    assert before == (bench.connection.value("PRAGMA data_version"), bench.connection.raw.total_changes())


def test_work_that_begins_finds_the_state_of_the_moment(bench: Bench) -> None:
    bench.is_resting = True
    bench.turn()
    bench.turn(seconds=61)
    bench.is_resting = False
    bench.turn(BUSY, 5)
    assert bench.stored is PowerCause.CPU, "not that of the last tick"


def test_the_first_job_after_the_plug_was_pulled_is_held_already(bench: Bench) -> None:
    bench.is_resting = True
    bench.turn(LOW)
    assert bench.stored is PowerCause.BATTERY_LOW


def test_at_rest_no_moment_is_asked_for(bench: Bench) -> None:
    bench.is_resting = True
    bench.turn()
    assert bench.watch.next_moment() is None
    bench.is_held = True
    bench.turn(LOW)
    assert bench.watch.next_moment() == bench.now + 30, "rows wait for the mains"
    bench.is_held, bench.is_resting = False, False
    bench.turn()
    assert bench.watch.next_moment() == bench.now + 30


def test_between_two_samples_the_machine_is_left_alone(bench: Bench) -> None:
    bench.turn()
    for _ in range(100):
        bench.turn(seconds=0.25)
    assert MACHINE.samples == 1
    bench.turn(seconds=5)
    assert MACHINE.samples == 2


def test_resume_beats_the_policy_until_the_cause_is_gone(bench: Bench) -> None:
    bench.turn(LOW)
    bench.resume()
    assert bench.turn(seconds=2) is PowerMode.NORMAL
    assert (bench.stored, read_override(bench.connection)) == (None, "battery_low")
    assert bench.turn(replace(LOW, battery=0.4)) is PowerMode.NORMAL
    bench.turn(MAINS)
    assert read_override(bench.connection) is None, "mains: what was said about the battery is over"
    assert bench.turn(LOW) is PowerMode.PAUSED


def test_resume_is_about_what_there_was_and_not_about_what_comes(bench: Bench) -> None:
    bench.turn(ON_BATTERY)
    bench.resume()
    assert bench.turn(seconds=2) is PowerMode.NORMAL
    assert bench.turn(LOW) is PowerMode.PAUSED, "below the floor is another matter"
    assert read_override(bench.connection) is None


def test_resume_outlives_the_supervisor(bench: Bench) -> None:
    bench.turn(LOW)
    bench.resume()
    bench.turn(seconds=2)
    bench.watch = PowerWatch(args())
    assert bench.turn(LOW) is PowerMode.NORMAL


def test_resume_where_nothing_is_restricted_leaves_no_trace(bench: Bench) -> None:
    bench.turn()
    bench.resume()
    bench.turn(seconds=2)
    assert read_override(bench.connection) is None


def test_the_owners_pause_writes_nothing_of_the_policys(bench: Bench) -> None:
    bench.paused_until_ms = 1
    assert bench.turn(LOW) is PowerMode.PAUSED
    assert (bench.stored, bench.pushes, bench.watch.decision.workers) == (None, 0, None)
    bench.paused_until_ms = None
    bench.turn(seconds=0.1)
    assert bench.stored is PowerCause.BATTERY_LOW


def test_run_once_is_never_held_and_clears_what_an_agent_left(bench: Bench) -> None:
    bench.turn(LOW)
    bench.watch = PowerWatch(args(once=True))
    assert bench.turn(LOW) is PowerMode.NORMAL
    assert bench.stored is None
    assert MACHINE.samples == 1


def test_switched_off_nothing_is_sampled_and_what_was_said_is_taken_back(bench: Bench) -> None:
    bench.turn(LOW)
    bench.intent = Intent(power=PowerIntent(enabled=False))
    assert bench.turn(LOW) is PowerMode.NORMAL
    assert (bench.stored, MACHINE.samples, bench.watch.next_moment()) == (None, 1, None)


def test_a_model_server_of_this_machine_that_works_for_us_is_no_stranger(bench: Bench) -> None:
    box = ProfileIntent("box", "ollama", "small:1b")
    far = ProfileIntent("far", "openai", "large", consent="api.openai.com")
    bench.intent = Intent(models=ModelsIntent(active="box"), profiles=(box, far))
    bench.turn()
    for _ in range(3):
        assert bench.turn(BUSY, 61) is PowerMode.NORMAL
    bench.intent = replace(bench.intent, models=ModelsIntent(active="far"))
    assert bench.turn(BUSY, 61) is PowerMode.THROTTLED


def test_status_says_what_is_held_and_what_goes_on_in_spite_of_it(bench: Bench) -> None:
    bench.is_held = True
    bench.turn(LOW)
    assert bench.watch.view() == {
        "mode": "paused",
        "cause": "battery_low",
        "reason": "on battery, 63 % (below 80 %)",
        "held": True,
        "in_spite_of": [],
    }
    bench.resume()
    bench.turn(seconds=2)
    assert bench.watch.view()["in_spite_of"] == ["battery_low"]


def test_rows_of_another_version_restrict_nothing(connection: Connection) -> None:
    for text in ("", "{", "[]", '{"mode": "asleep"}', '{"mode": "paused", "cause": "weather", "reason": ""}'):
        with connection.write():
            connection.run("INSERT OR REPLACE INTO mem_tree_state (key, value) VALUES ('power', ?)", (text,))
        assert read_power(connection) is None
    assert parse_override("battery,weather") == {PowerCause.BATTERY}
    assert parse_override(None) == parse_override(ALL_THERE_IS) == frozenset()
