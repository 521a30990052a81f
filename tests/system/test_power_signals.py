"""What the machine tells of itself: battery, memory, and how much of its processors is used by others than us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from agent.system import power
from agent.system.power import CpuReading, FakePower, OwnTime, Signals, SystemPower, read_linux_supplies, shares

BURN = "while True: sum(range(10_000))"


def supply(folder: Path, name: str, **words: str) -> None:
    (folder / name).mkdir()
    for file, word in words.items():
        (folder / name / file).write_text(f"{word}\n")


def battery(folder: Path, status: str, capacity: str = "63", name: str = "BAT0", **words: str) -> None:
    supply(folder, name, type="Battery", status=status, capacity=capacity, **words)


def test_a_laptop_on_battery_and_on_mains(tmp_path: Path) -> None:
    battery(tmp_path, "Discharging")
    supply(tmp_path, "AC", type="Mains", online="0")
    assert read_linux_supplies(tmp_path) == (True, 0.63)
    (tmp_path / "AC" / "online").write_text("1\n")
    assert read_linux_supplies(tmp_path) == (False, 0.63)


@pytest.mark.parametrize(
    ("status", "on_battery"), [("Discharging", True), ("Charging", False), ("Full", False), ("Unknown", None)]
)
def test_without_a_plug_the_battery_itself_tells(tmp_path: Path, status: str, on_battery: bool | None) -> None:
    battery(tmp_path, status)
    assert read_linux_supplies(tmp_path) == (on_battery, 0.63)


def test_two_batteries_count_as_their_mean(tmp_path: Path) -> None:
    battery(tmp_path, "Unknown", "100")
    battery(tmp_path, "Discharging", "20", name="BAT1")
    assert read_linux_supplies(tmp_path) == (True, 0.6)


def test_the_battery_of_a_mouse_is_not_the_machines(tmp_path: Path) -> None:
    battery(tmp_path, "Discharging", "5", name="hidpp_battery_0", scope="Device")
    assert read_linux_supplies(tmp_path) == (None, None)


def test_a_machine_without_a_battery_tells_nothing(tmp_path: Path) -> None:
    assert read_linux_supplies(tmp_path / "missing") == (None, None)
    supply(tmp_path, "AC", type="Mains", online="1")
    assert read_linux_supplies(tmp_path) == (None, None)


def test_a_sensor_that_fails_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("no such sensor")

    monkeypatch.setattr(power, "read_battery", fail)
    monkeypatch.setattr(power, "_available_bytes", fail)
    monkeypatch.setattr(SystemPower, "read_cpu", lambda _: fail())
    assert SystemPower().sample() == Signals()


def test_a_real_machine_tells_its_memory_and_from_the_second_sample_its_processors() -> None:
    real = SystemPower()
    first = real.sample()
    assert first.available_bytes is not None
    assert first.available_bytes > 1_000_000
    assert first.cpu_others is None
    time.sleep(2 * power.SHORTEST_S)
    second = real.sample()
    assert second.cpu_others is not None
    assert second.cpu_own is not None
    assert 0 <= second.cpu_others <= 1
    assert real.sample().cpu_others == second.cpu_others, "so soon there is nothing new to tell"


def test_shares_are_of_the_whole_machine() -> None:
    before = CpuReading(busy_s=100.0, total_s=1000.0, own_s=10.0)
    assert shares(before, CpuReading(115.0, 1020.0, 20.0)) == (0.25, 0.5)
    assert shares(before, before) is None
    assert shares(before, CpuReading(105.0, 1020.0, 20.0)) == (0.0, 0.5), "steps of the clocks make nothing negative"
    assert shares(before, CpuReading(100.0, 1010.0, 4.0)) == (0.0, 0.0)


def test_a_fake_says_what_it_is_told() -> None:
    fake = FakePower(Signals(on_battery=True))
    assert fake.sample().on_battery
    assert fake.samples == 1


@pytest.fixture
def foreign() -> Iterator[psutil.Process]:
    """A busy process that nobody here is a parent of."""
    child = f"subprocess.Popen([sys.executable, '-c', {BURN!r}], stdin=-3, stdout=-3, stderr=-3)"
    code = f"import subprocess, sys; print({child}.pid)"
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
    process = psutil.Process(pid)
    yield process
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def used(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


@pytest.mark.skipif(sys.platform == "win32", reason="a process whose parent ended is found otherwise there")
def test_children_are_ours_alive_or_gone_and_strangers_are_not(
    foreign: psutil.Process, wait_until: Callable[..., None]
) -> None:
    own = OwnTime()
    before, stranger = own.read(), used(foreign.pid)
    with subprocess.Popen([sys.executable, "-c", BURN]) as child:
        wait_until(lambda: used(child.pid) > 0.4 and used(foreign.pid) > stranger + 0.4, 30, "half a second of work")
        lower, found, upper = used(child.pid), own.read() - before, used(child.pid)
        assert lower - 0.03 <= found <= upper + (time.process_time() + 0.03)
        child.terminate()
    assert not psutil.pid_exists(child.pid)
    gone = own.read() - before
    assert gone >= found - 0.03, "what it used has not gone with it"
    assert gone < found + used(foreign.pid) - stranger, "and the stranger's is not in it"


def test_reading_costs_little() -> None:
    real = SystemPower()
    real.sample()
    began = time.process_time()
    for _ in range(5):
        real.read_cpu()
    assert (time.process_time() - began) / 5 < 0.06, "every thirty seconds: 0.2 % of a processor at the very most"
    assert os.times().user >= 0
