"""How much of the machine the agent takes: decided from a sample, the settings and the owner's word. Pure.

The order: the owner's pause, the owner's override, the battery and its floor, memory, and the processor as far as
others use it. Mains power, battery and the owner's word count at once. Memory and processor are a *pressure* with
thresholds for entering and leaving, which changes once in a dwell at most: what flickers costs more than it spares
(openhuman, by reading: its own inference counted as pressure and paused itself).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from agent.db.power_row import PowerRow
from agent.states import PowerCause, PowerMode

if TYPE_CHECKING:
    from agent.config import PowerIntent
    from agent.system.power import Signals

MEMORY_LEFT_AT = 1.25
"""Memory is short until so many times the threshold is available."""
CPU_LEFT_AT = 0.8
"""The processor is busy until others use less than so much of the threshold."""
CALM_AT, CALM_LEFT_AT = 0.3, 0.5
"""Nobody else needs the machine: the same, the other way round."""
FLOOR_LEFT_AT = 0.015
"""A battery that was below the floor must rise above it by so much, two steps of a percent: some jump between two."""
WORKERS_HELD_BACK = 1


class Pressure(IntEnum):
    """What memory and processor add up to."""

    CALM = 0
    NONE = 1
    CPU = 2
    MEMORY = 3


@dataclass(frozen=True)
class Decision:
    """What is allowed now, why, and in words (``""`` where nothing is restricted).

    ``present``: every cause that there is, also those that the owner said to work on in spite of.
    """

    mode: PowerMode = PowerMode.NORMAL
    cause: PowerCause | None = None
    reason: str = ""
    present: frozenset[PowerCause] = frozenset()

    @property
    def workers(self) -> int | None:
        """How many workers there may be at most, ``None`` for as many as the owner set."""
        return None if self.row is None else WORKERS_HELD_BACK

    @property
    def holds(self) -> bool:
        """Whether the policy holds what loads the machine."""
        return self.mode is PowerMode.PAUSED and self.cause is not PowerCause.OWNER

    @property
    def row(self) -> PowerRow | None:
        """What workers are told; of the owner's pause they know by its own row."""
        if self.cause is None or self.cause is PowerCause.OWNER:
            return None
        return PowerRow(self.mode, self.cause, self.reason)


class PowerPolicy:
    """Remembers the pressure and since when. Times are monotonic seconds, handed in."""

    def __init__(self) -> None:
        self._pressure: Pressure | None = None
        self._since = 0.0
        self._was_low = False

    def decide(
        self,
        signals: Signals,
        settings: PowerIntent,
        now: float,
        *,
        is_paused: bool = False,
        in_spite_of: frozenset[PowerCause] | None = frozenset(),
    ) -> Decision:
        """Return what a sample means. ``in_spite_of``: the owner's override, ``None`` for all that there is."""
        if not settings.enabled:
            self._pressure, self._was_low = None, False
            return _by_owner(frozenset()) if is_paused else Decision()
        found = self._causes(signals, settings, now)
        present = frozenset(found)
        if is_paused:
            return _by_owner(present)
        spared = present if in_spite_of is None else in_spite_of
        for cause, (mode, reason) in found.items():
            if cause not in spared:
                return Decision(mode, cause, reason, present)
        is_calm = self._pressure is Pressure.CALM and signals.on_battery is False
        return Decision(PowerMode.AGGRESSIVE if is_calm else PowerMode.NORMAL, present=present)

    def _causes(self, signals: Signals, settings: PowerIntent, now: float) -> dict[PowerCause, tuple[PowerMode, str]]:
        """Return the causes that there are, what counts most first."""
        found: dict[PowerCause, tuple[PowerMode, str]] = {}
        self._note_floor(signals, settings)
        if signals.on_battery:
            words = "on battery" if signals.battery is None else f"on battery, {_percent(signals.battery)}"
            if self._was_low:
                words = f"{words} (below {_percent(settings.battery_floor)})"
                found[PowerCause.BATTERY_LOW] = (PowerMode.PAUSED, words)
            else:
                found[PowerCause.BATTERY] = (PowerMode.THROTTLED, words)
        self._note_pressure(signals, settings, now)
        if self._pressure is Pressure.MEMORY:
            words = "memory is short"
            if signals.available_bytes is not None:
                words = f"{words}: {signals.available_bytes // 1_000_000:,} MB available"
            found[PowerCause.MEMORY] = (PowerMode.PAUSED, words)
        elif self._pressure is Pressure.CPU:
            words = "other programs keep the processor busy"
            if signals.cpu_others is not None:
                words = f"{words} ({_percent(signals.cpu_others)})"
            found[PowerCause.CPU] = (PowerMode.THROTTLED, words)
        return found

    def _note_floor(self, signals: Signals, settings: PowerIntent) -> None:
        if not signals.on_battery or signals.battery is None:
            self._was_low = False
            return
        band = FLOOR_LEFT_AT if self._was_low else 0.0
        self._was_low = signals.battery < min(settings.battery_floor + band, 1.0)

    def _note_pressure(self, signals: Signals, settings: PowerIntent, now: float) -> None:
        wanted = _pressure(signals, settings, self._pressure)
        if wanted is self._pressure:
            return
        if self._pressure is None or now - self._since >= settings.dwell_seconds:
            self._pressure, self._since = wanted, now


def _pressure(signals: Signals, settings: PowerIntent, held: Pressure | None) -> Pressure:
    """Return what a sample asks for; it takes more to change a pressure than to keep it."""
    available, others = signals.available_bytes, signals.cpu_others
    if available is not None:
        short_at = settings.memory_bytes * (MEMORY_LEFT_AT if held is Pressure.MEMORY else 1.0)
        if available < short_at:
            return Pressure.MEMORY
    if others is None:
        return Pressure.NONE
    if others >= settings.cpu_busy * (CPU_LEFT_AT if held is Pressure.CPU else 1.0):
        return Pressure.CPU
    calm_at = settings.cpu_busy * (CALM_LEFT_AT if held is Pressure.CALM else CALM_AT)
    return Pressure.CALM if others < calm_at else Pressure.NONE


def _by_owner(present: frozenset[PowerCause]) -> Decision:
    return Decision(PowerMode.PAUSED, PowerCause.OWNER, "paused by its owner", present)


def _percent(share: float) -> str:
    # Cut, not rounded: 79.6 % below a floor of 80 must not read as 80 %.
    return f"{int(share * 100 + 1e-6)} %"
