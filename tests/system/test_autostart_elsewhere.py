"""The login entries of macOS and Windows, against files and a registry in memory, and the rules that all share."""

from __future__ import annotations

import os
import plistlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.system.autostart import GONE, FakeEntry, Found, LoginEntry, Start, program_argv, read_back, repair
from agent.system.autostart_launch_agent import LABEL, LaunchAgentEntry, is_listed_off
from agent.system.autostart_registry import (
    APPROVED_KEY,
    LONGEST_COMMAND,
    RUN_KEY,
    FakeValues,
    RegistryEntry,
    command_line,
    command_words,
)
from agent.system.autostart_xdg import XdgEntry

LETTERS = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs"])) | st.text(st.sampled_from(' "\\é'))
PROGRAMS = st.text(st.sampled_from(" \\aé:%"), min_size=1)
HERE = os.path.abspath(sys.executable)


class FakeSwitches:
    def __init__(self) -> None:
        self.off: set[str] = set()

    def is_off(self, label: str) -> bool:
        return label in self.off

    def switch_on(self, label: str) -> None:
        self.off.discard(label)


@pytest.fixture
def switches() -> FakeSwitches:
    return FakeSwitches()


@pytest.fixture
def values() -> FakeValues:
    return FakeValues()


@pytest.fixture(params=["xdg", "launch agent", "registry", "fake"])
def entry(request: pytest.FixtureRequest, tmp_path: Path, switches: FakeSwitches, values: FakeValues) -> LoginEntry:
    made: dict[str, LoginEntry] = {
        "xdg": XdgEntry(tmp_path / "autostart"),
        "launch agent": LaunchAgentEntry(tmp_path / "LaunchAgents", switches),
        "registry": RegistryEntry(values),
        "fake": FakeEntry(),
    }
    return made[request.param]


# -- what all of them keep ---------------------------------------------------------------------------------------------


def test_it_is_off_until_it_is_asked_for_and_off_again_without_a_trace(entry: LoginEntry) -> None:
    assert entry.read() is None
    assert not read_back(entry, None).enabled
    entry.write(Start.of_home((HERE, "-m", "agent.cli.main"), None))
    found = entry.read()
    assert found is not None
    assert found.start.argv == (HERE, "-m", "agent.cli.main", "run", "--at-login")
    assert read_back(entry, None).enabled
    assert entry.remove()
    assert entry.read() is None
    assert not entry.remove()


def test_a_moved_program_is_told_and_mended_at_the_start(entry: LoginEntry, tmp_path: Path) -> None:
    gone = str(tmp_path / "old" / "sapwood")
    entry.write(Start.of_home((gone,), None))
    assert read_back(entry, None).problem == f"{GONE}: {gone}"
    assert not read_back(entry, None).enabled
    assert read_back(entry, None).is_broken
    assert repair(entry, (HERE,), None)
    assert read_back(entry, None).enabled
    assert not repair(entry, ("/another/sapwood",), None), "a program that is there stays named"


def test_an_entry_that_its_owner_took_away_is_not_made_again(entry: LoginEntry) -> None:
    entry.write(Start.of_home((HERE,), None))
    entry.remove()
    assert not repair(entry, (HERE,), None)
    assert entry.read() is None


def test_an_entry_of_another_memory_is_neither_ours_nor_mended(entry: LoginEntry, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    entry.write(Start.of_home((str(tmp_path / "gone"),), other))
    for home in (None, tmp_path / "mine"):
        assert not read_back(entry, home).enabled
        assert str(other) in read_back(entry, home).problem
        assert not repair(entry, (HERE,), home)
    assert repair(entry, (HERE,), other)


def test_a_home_that_moved_with_its_program_is_mended_with_it(entry: LoginEntry, tmp_path: Path) -> None:
    entry.write(Start.of_home((str(tmp_path / "stick 1" / "sapwood"),), tmp_path / "stick 1" / "home"))
    assert repair(entry, (HERE,), tmp_path / "stick 2" / "home")
    assert read_back(entry, tmp_path / "stick 2" / "home").enabled


# -- macOS -------------------------------------------------------------------------------------------------------------


def test_the_launch_agent_runs_at_the_login_and_is_not_kept_alive(tmp_path: Path, switches: FakeSwitches) -> None:
    entry = LaunchAgentEntry(tmp_path, switches)
    argv = (
        "/Applications/Sapwood & Söhne <2>.app/Contents/MacOS/sapwood",
        "run",
        "--at-login",
        "--home",
        '/a "b"/$c %',
    )
    entry.write(Start.parse(argv))
    held = plistlib.loads(Path(entry.path).read_bytes())
    assert Path(entry.path).name == f"{LABEL}.plist"
    assert held["ProgramArguments"] == list(argv)
    assert held["RunAtLoad"] is True
    assert held["ProcessType"] == "Background"
    assert "KeepAlive" not in held
    found = entry.read()
    assert found is not None
    assert found.start.argv == argv


def test_switched_off_on_macos_is_read_back_and_stays_through_a_repair(tmp_path: Path, switches: FakeSwitches) -> None:
    entry = LaunchAgentEntry(tmp_path, switches)
    entry.write(Start.of_home((str(tmp_path / "gone"),), None))
    switches.off.add(LABEL)
    assert "launchctl" in read_back(entry, None).problem
    assert repair(entry, (HERE,), None)
    assert not read_back(entry, None).enabled
    entry.write(Start.of_home((HERE,), None))
    assert read_back(entry, None).enabled
    held = {**plistlib.loads(Path(entry.path).read_bytes()), "Disabled": True}
    Path(entry.path).write_bytes(plistlib.dumps(held))
    assert "Disabled" in read_back(entry, None).problem


@pytest.mark.parametrize("content", [b"", b"<plist>", b"bplist00garbage", plistlib.dumps({"Label": LABEL})])
def test_a_broken_launch_agent_is_told(content: bytes, tmp_path: Path, switches: FakeSwitches) -> None:
    entry = LaunchAgentEntry(tmp_path, switches)
    Path(entry.path).write_bytes(content)
    assert "cannot be understood" in read_back(entry, None).problem


def test_what_launchd_lists_is_understood() -> None:
    new = 'disabled services = {\n\t\t"org.sapwood.agent" => disabled\n\t\t"org.other" => enabled\n\t}\n'
    old = 'disabled services = {\n\t"org.sapwood.agent" => true\n\t"org.other" => false\n}\n'
    for listing in (new, old):
        assert is_listed_off(listing, LABEL)
        assert not is_listed_off(listing, "org.other")
        assert not is_listed_off(listing, "org.sapwood")
    assert not is_listed_off("", LABEL)


# -- Windows -----------------------------------------------------------------------------------------------------------


def test_the_run_value_names_the_program_in_quotes(values: FakeValues) -> None:
    entry = RegistryEntry(values)
    entry.write(Start.of_home((r"C:\Program Files\Sapwood\sapwood.exe",), Path("D:\\My Memory")))
    assert values.held == {
        (RUN_KEY, "Sapwood"): r'"C:\Program Files\Sapwood\sapwood.exe" run --at-login --home "D:\My Memory"'
    }


def test_switched_off_in_task_manager_is_read_back_and_survives_a_repair(values: FakeValues, tmp_path: Path) -> None:
    entry = RegistryEntry(values)
    entry.write(Start.of_home((str(tmp_path / "gone"),), None))
    values.held[APPROVED_KEY, "Sapwood"] = bytes([3, 0, 0, 0]) + bytes(8)
    assert "startup apps" in read_back(entry, None).problem
    assert repair(entry, (HERE,), None)
    assert not read_back(entry, None).enabled
    values.held[APPROVED_KEY, "Sapwood"] = bytes([2, 0, 0, 0]) + bytes(8)
    assert read_back(entry, None).enabled
    values.held[APPROVED_KEY, "Sapwood"] = bytes([7])
    entry.write(Start.of_home((HERE,), None))
    assert read_back(entry, None).enabled, "whoever switches it on here means it"
    entry.remove()
    assert values.held == {}


def test_the_login_starts_the_program_without_a_console(tmp_path: Path) -> None:
    program = tmp_path / "sapwood.exe"
    assert program_argv({}, frozen=True, executable=str(program)) == (str(program),)
    (tmp_path / "sapwoodw.exe").write_bytes(b"")
    assert program_argv({}, frozen=True, executable=str(program)) == (str(tmp_path / "sapwoodw.exe"),)


def test_a_command_that_windows_would_not_start_is_refused(values: FakeValues) -> None:
    entry = RegistryEntry(values)
    with pytest.raises(ValueError, match=str(LONGEST_COMMAND)):
        entry.write(Start.of_home(("C:\\" + "x" * LONGEST_COMMAND,), None))
    assert values.held == {}


@given(PROGRAMS, st.lists(LETTERS))
def test_any_words_come_back_from_a_command_line(program: str, rest: list[str]) -> None:
    line = command_line([program, *rest])
    assert command_words(line) == (program, *rest)
    # The same rules as those of the standard library, but for the program's quotes.
    assert command_words(subprocess.list2cmdline([program, *rest])) == (program, *rest)


def test_a_value_that_is_no_command_is_told(values: FakeValues) -> None:
    for value in (b"\1\2", "", "   "):
        values.held[RUN_KEY, "Sapwood"] = value
        assert "cannot be understood" in read_back(RegistryEntry(values), None).problem


def test_found_entries_say_where_a_system_disagrees() -> None:
    entry = FakeEntry()
    entry.found = Found(Start.of_home((HERE,), None), doubt="not everywhere")
    assert read_back(entry, None).enabled
    assert read_back(entry, None).problem == "not everywhere"
