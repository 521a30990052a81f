"""How much of the machine is taken: a decision from a sample, the settings and the owner's word."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import PowerIntent
from agent.states import PowerCause, PowerMode
from agent.supervisor.power import Decision, PowerPolicy
from agent.system.power import Signals

SETTINGS = PowerIntent()
GB = 1_000_000_000
MAINS = Signals(on_battery=False, battery=1.0, available_bytes=8 * GB, cpu_others=0.4)
IDLE = replace(MAINS, cpu_others=0.02)
ON_BATTERY = replace(MAINS, on_battery=True, battery=0.91)
LOW = replace(MAINS, on_battery=True, battery=0.63)
SHORT = replace(MAINS, available_bytes=310_000_000)
BUSY = replace(MAINS, cpu_others=0.83)
NOTHING_TOLD = Signals()


def decide(signals: Signals, **changes: object) -> Decision:
    return PowerPolicy().decide(signals, SETTINGS, 0.0, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signals", "mode", "reason", "workers"),
    [
        (IDLE, PowerMode.AGGRESSIVE, "", None),
        (MAINS, PowerMode.NORMAL, "", None),
        (NOTHING_TOLD, PowerMode.NORMAL, "", None),
        (Signals(cpu_others=0.0), PowerMode.NORMAL, "", None),
        (Signals(on_battery=None, battery=0.1), PowerMode.NORMAL, "", None),
        (ON_BATTERY, PowerMode.THROTTLED, "on battery, 91 %", 1),
        (Signals(on_battery=True), PowerMode.THROTTLED, "on battery", 1),
        (replace(LOW, battery=0.8), PowerMode.THROTTLED, "on battery, 80 %", 1),
        (LOW, PowerMode.PAUSED, "on battery, 63 % (below 80 %)", 1),
        (replace(LOW, battery=0.799), PowerMode.PAUSED, "on battery, 79 % (below 80 %)", 1),
        (replace(LOW, on_battery=False), PowerMode.NORMAL, "", None),
        (SHORT, PowerMode.PAUSED, "memory is short: 310 MB available", 1),
        (BUSY, PowerMode.THROTTLED, "other programs keep the processor busy (83 %)", 1),
    ],
)
def test_what_a_machine_allows(signals: Signals, mode: PowerMode, reason: str, workers: int | None) -> None:
    found = decide(signals)
    assert (found.mode, found.reason, found.workers) == (mode, reason, workers)


def test_first_come_the_owner_then_the_battery_then_memory_then_the_processor() -> None:
    all_at_once = replace(LOW, available_bytes=1, cpu_others=1.0)
    assert decide(all_at_once, is_paused=True).cause is PowerCause.OWNER
    assert decide(all_at_once, is_paused=True, in_spite_of=None).cause is PowerCause.OWNER
    assert decide(all_at_once, in_spite_of=None).mode is PowerMode.NORMAL
    assert decide(all_at_once).cause is PowerCause.BATTERY_LOW
    assert decide(replace(all_at_once, on_battery=False)).cause is PowerCause.MEMORY
    assert decide(replace(all_at_once, on_battery=False, available_bytes=GB)).cause is PowerCause.CPU


def test_the_owners_pause_is_not_the_policys() -> None:
    found = decide(LOW, is_paused=True)
    assert (found.mode, found.holds, found.row, found.workers) == (PowerMode.PAUSED, False, None, None)
    assert decide(LOW).holds


def test_an_override_spares_what_it_names_and_nothing_else() -> None:
    both = replace(LOW, available_bytes=1)
    spared = frozenset({PowerCause.BATTERY_LOW})
    found = decide(both, in_spite_of=spared)
    assert (found.mode, found.cause) == (PowerMode.PAUSED, PowerCause.MEMORY)
    assert found.present == {PowerCause.BATTERY_LOW, PowerCause.MEMORY}
    assert decide(LOW, in_spite_of=spared).mode is PowerMode.NORMAL
    assert decide(LOW, in_spite_of=frozenset({PowerCause.BATTERY})).mode is PowerMode.PAUSED, "it was about more charge"


def test_switched_off_it_is_always_normal() -> None:
    off = replace(SETTINGS, enabled=False)
    policy = PowerPolicy()
    for signals in (LOW, SHORT, BUSY, IDLE):
        assert policy.decide(signals, off, 0.0) == Decision()
    assert policy.decide(LOW, off, 0.0, is_paused=True).cause is PowerCause.OWNER


def test_mains_and_battery_count_at_once() -> None:
    policy = PowerPolicy()
    modes = [policy.decide(each, SETTINGS, at / 10).mode for at, each in enumerate([MAINS, LOW, MAINS, ON_BATTERY])]
    assert modes == [PowerMode.NORMAL, PowerMode.PAUSED, PowerMode.NORMAL, PowerMode.THROTTLED]


def test_a_battery_that_jumps_by_a_percent_at_its_floor_does_not_flicker() -> None:
    policy = PowerPolicy()
    found = [
        policy.decide(replace(LOW, battery=level), SETTINGS, 0.0).holds for level in (0.80, 0.79, 0.80, 0.81, 0.82)
    ]
    assert found == [False, True, True, True, False]


def test_a_full_battery_ends_a_pause_whatever_the_floor() -> None:
    policy, highest = PowerPolicy(), replace(SETTINGS, battery_floor=1.0)
    assert policy.decide(replace(LOW, battery=0.99), highest, 0.0).holds
    assert not policy.decide(replace(LOW, battery=1.0), highest, 0.0).holds


@pytest.mark.parametrize(
    ("pressed", "eased", "relieved", "mode"),
    [
        (SHORT, replace(MAINS, available_bytes=510_000_000), replace(MAINS, available_bytes=630_000_000), "paused"),
        (BUSY, replace(MAINS, cpu_others=0.7), replace(MAINS, cpu_others=0.55), "throttled"),
        (IDLE, replace(MAINS, cpu_others=0.3), replace(MAINS, cpu_others=0.5), "aggressive"),
    ],
)
def test_leaving_takes_more_than_entering(pressed: Signals, eased: Signals, relieved: Signals, mode: str) -> None:
    policy, later = PowerPolicy(), SETTINGS.dwell_seconds + 1
    assert policy.decide(pressed, SETTINGS, 0.0).mode == mode
    assert policy.decide(eased, SETTINGS, later).mode == mode
    assert policy.decide(relieved, SETTINGS, 2 * later).mode is PowerMode.NORMAL
    assert policy.decide(eased, SETTINGS, 3 * later).mode is PowerMode.NORMAL, "nor is it entered again by so little"


@pytest.mark.parametrize("pressed", [SHORT, BUSY])
def test_pressure_stays_for_its_dwell(pressed: Signals) -> None:
    policy, dwell = PowerPolicy(), SETTINGS.dwell_seconds
    held = policy.decide(pressed, SETTINGS, 0.0).mode
    assert policy.decide(MAINS, SETTINGS, dwell - 0.1).mode is held
    assert policy.decide(MAINS, SETTINGS, dwell).mode is PowerMode.NORMAL


def test_what_is_unknown_ends_a_pressure_too() -> None:
    policy = PowerPolicy()
    assert policy.decide(BUSY, SETTINGS, 0.0).mode is PowerMode.THROTTLED
    assert policy.decide(NOTHING_TOLD, SETTINGS, SETTINGS.dwell_seconds).mode is PowerMode.NORMAL


NOISE = st.builds(
    Signals,
    on_battery=st.just(False),
    battery=st.just(1.0),
    available_bytes=st.none() | st.integers(0, GB),
    cpu_others=st.none() | st.floats(0, 1),
)


@given(st.lists(st.tuples(st.floats(0.1, 90.0), NOISE), min_size=2, max_size=60), st.floats(1.0, 200.0))
def test_no_noise_changes_the_mode_faster_than_the_dwell(noise: list[tuple[float, Signals]], dwell: float) -> None:
    policy, settings, now = PowerPolicy(), replace(SETTINGS, dwell_seconds=dwell), 0.0
    changes: list[float] = []
    held: PowerMode | None = None
    for step, signals in noise:
        now += step
        mode = policy.decide(signals, settings, now).mode
        if mode is not held:
            held = mode
            changes.append(now)
    assert all(later - earlier >= dwell for earlier, later in pairwise(changes))


@given(NOISE, st.sampled_from([True, False, None]), st.none() | st.floats(0, 1), st.booleans())
def test_every_restriction_has_a_reason_and_everything_else_has_none(
    noise: Signals, on_battery: bool | None, battery: float | None, is_paused: bool
) -> None:
    found = decide(replace(noise, on_battery=on_battery, battery=battery), is_paused=is_paused)
    is_restricted = found.mode in (PowerMode.THROTTLED, PowerMode.PAUSED)
    assert is_restricted == bool(found.reason) == (found.cause is not None)
    assert (found.row is not None) == (is_restricted and not is_paused)
    if not is_paused:
        assert decide(replace(noise, on_battery=on_battery, battery=battery), in_spite_of=None).row is None
