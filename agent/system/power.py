"""What the power policy is decided from: battery, memory, and how busy others keep the processor.

A machine that does not tell something (a container, a virtual machine, a desktop without a battery) gives ``None`` for
it, and ``None`` restricts nothing.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

SHORTEST_S = 0.05
"""Processor times come in steps of ten milliseconds or so: over less than this they say nothing."""
_SUPPLIES = Path("/sys/class/power_supply")
_NOT_BUSY = ("idle", "iowait", "steal")
_COUNTED_TWICE = ("guest", "guest_nice")

T = TypeVar("T")


@dataclass(frozen=True)
class Signals:
    """One sample. ``battery`` 0 … 1; ``cpu_others``: the share 0 … 1 of all processors that others used since the last
    sample, ``cpu_own`` our own share.
    """

    on_battery: bool | None = None
    battery: float | None = None
    available_bytes: int | None = None
    cpu_others: float | None = None
    cpu_own: float | None = None


class PowerSignals(Protocol):
    """Samples the machine."""

    def sample(self) -> Signals:
        """Return the machine as it is now. Never raises; takes a few milliseconds."""
        ...


@dataclass
class FakePower:
    """What a test says."""

    now: Signals = field(default_factory=Signals)
    samples: int = 0

    def sample(self) -> Signals:
        self.samples += 1
        return self.now


@dataclass(frozen=True)
class CpuReading:
    """Seconds of processor time: in use on the whole machine, used or not, and used by us."""

    busy_s: float
    total_s: float
    own_s: float


class SystemPower:
    """The machine's own figures, for the process that asks and everything below it."""

    def __init__(self) -> None:
        self._own = OwnTime()
        self._last: CpuReading | None = None
        self._last_at = 0.0
        self._shares: tuple[float, float] | None = None

    def sample(self) -> Signals:
        on_battery, battery = _unless_it_fails(read_battery) or (None, None)
        self._measure()
        others, own = self._shares or (None, None)
        return Signals(on_battery, battery, _unless_it_fails(_available_bytes), others, own)

    def _measure(self) -> None:
        at, last = time.monotonic(), self._last
        if last is not None and at - self._last_at < SHORTEST_S:
            return
        reading = _unless_it_fails(self.read_cpu)
        self._last, self._last_at = reading, at
        self._shares = None if reading is None or last is None else shares(last, reading)

    def read_cpu(self) -> CpuReading:
        """Return the processor times up to now."""
        import psutil  # type: ignore[import-untyped,unused-ignore]

        # Ours first: what we use in between counts as others', never the other way round.
        own_s = self._own.read()
        times = psutil.cpu_times()._asdict()
        total_s = sum(seconds for name, seconds in times.items() if name not in _COUNTED_TWICE)
        return CpuReading(total_s - sum(times.get(name, 0.0) for name in _NOT_BUSY), total_s, own_s)


def shares(before: CpuReading, after: CpuReading) -> tuple[float, float] | None:
    """Return what others and what we used of all processors between two readings (0 … 1), ``None`` for no time."""
    total = after.total_s - before.total_s
    if total <= 0:
        return None
    own = max(after.own_s - before.own_s, 0.0)
    others = max(after.busy_s - before.busy_s - own, 0.0)
    return min(others / total, 1.0), min(own / total, 1.0)


class OwnTime:
    """The processor time of this process and of all below it, also of those that are gone."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, float], float] = {}
        self._gone_s = 0.0

    def read(self) -> float:
        """Return the seconds used since the start. Walks the table of processes."""
        import psutil  # type: ignore[import-untyped,unused-ignore]

        spent = os.times()
        # Where the system hands the time of a process that ended to its parent, that is where it is found.
        used = spent.user + spent.system + spent.children_user + spent.children_system
        live: dict[tuple[int, float], float] = {}
        for child in psutil.Process().children(recursive=True):
            try:
                live[child.pid, child.create_time()] = _used_s(child.cpu_times())
            except (psutil.Error, OSError):
                continue
        if sys.platform == "win32":
            self._gone_s += sum(seconds for key, seconds in self._seen.items() if key not in live)
            self._seen = live
        return used + sum(live.values()) + self._gone_s


def _used_s(times: Any) -> float:
    below = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return float(times.user + times.system + below)


def _available_bytes() -> int:
    import psutil  # type: ignore[import-untyped,unused-ignore]

    return int(psutil.virtual_memory().available)


def read_battery() -> tuple[bool | None, float | None]:
    """Return whether the machine runs on battery, and how full that is (0 … 1); ``None`` for what is not told."""
    if sys.platform == "linux":
        return read_linux_supplies(_SUPPLIES)
    import psutil  # type: ignore[import-untyped,unused-ignore]

    found = psutil.sensors_battery()
    if found is None:
        return None, None
    plugged = found.power_plugged
    return None if plugged is None else not plugged, _clamped(found.percent / 100)


def read_linux_supplies(folder: Path) -> tuple[bool | None, float | None]:
    """Return the same from a folder like ``/sys/class/power_supply``.

    psutil takes the battery of a wireless mouse for the machine's own; the kernel says ``Device`` of those.
    """
    levels, states, mains = [], set(), []
    for supply in sorted(folder.iterdir()) if folder.is_dir() else ():
        if _word(supply / "scope") == "Device":
            continue
        kind = _word(supply / "type")
        if kind == "Battery":
            states.add(_word(supply / "status"))
            level = _word(supply / "capacity")
            if level.isdigit():
                levels.append(_clamped(int(level) / 100))
        elif kind in ("Mains", "USB", "Wireless"):
            mains.append(_word(supply / "online"))
    if not states:
        return None, None
    level_now = sum(levels) / len(levels) if levels else None
    if any(word not in ("", "0") for word in mains):
        return False, level_now
    if "Discharging" in states:
        return True, level_now
    if states & {"Charging", "Full", "Not charging"}:
        return False, level_now
    return (True if "0" in mains else None), level_now


def _word(file: Path) -> str:
    try:
        return file.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _clamped(share: float) -> float:
    return min(max(float(share), 0.0), 1.0)


def _unless_it_fails(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except Exception:
        # Whatever a sensor, a driver or a sandbox answers: it is not told, and that restricts nothing.
        return None
