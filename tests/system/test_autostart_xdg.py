"""The login entry on Linux, read by the tools that desktops read it with."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.system.autostart import GONE, Start, program_argv, read_back, repair
from agent.system.autostart_xdg import FILE, XdgEntry, autostart_folder, exec_value, exec_words

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these entries are of Linux")

GENERATOR = "/usr/lib/systemd/user-generators/systemd-xdg-autostart-generator"
COMMON = (
    "plain",
    "with space",
    "naïve Ünïcode 雪",
    "it's; a & b | c > d",
    "~tilde # star* (x)?",
    "= equals [x]",
)
RARE = ('a "quoted" one', "100% sure", "%U and %%", "costs $HOME or `id`", r"back\slash \n \\ end")
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def tool(name: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here: `apt-get install {package}`")
    return found


def program_in(folder: Path) -> Path:
    """Make a program that writes its arguments into a file beside it, one a line."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "sapwood"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "${0%/*}/draft"\nmv "${0%/*}/draft" "${0%/*}/ran"\n')
    program.chmod(0o755)
    return program


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def entry(config: Path) -> XdgEntry:
    return XdgEntry(config / "autostart")


@pytest.mark.parametrize("name", COMMON + RARE)
def test_the_entry_is_valid_and_reads_back_the_same(name: str, tmp_path: Path, entry: XdgEntry) -> None:
    validate = tool("desktop-file-validate", "desktop-file-utils")
    program, home = program_in(tmp_path / name), tmp_path / "home" / name
    entry.write(Start.of_home((str(program),), home))
    ran = subprocess.run([validate, entry.path], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    found = entry.read()
    assert found is not None
    assert found.start.argv == (str(program), "run", "--at-login", "--home", str(home))
    assert read_back(entry, home).enabled is ("%" not in name)
    assert bool(read_back(entry, home).problem) is (name in RARE)


@pytest.mark.parametrize("name", COMMON + RARE)
def test_glib_starts_the_program_with_its_words(
    name: str, tmp_path: Path, entry: XdgEntry, wait_until: Callable[..., None]
) -> None:
    gio = tool("gio", "libglib2.0-bin")
    program, home = program_in(tmp_path / name.replace("%", "")), tmp_path / "home" / name
    entry.write(Start.of_home((str(program),), home))
    environ = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    subprocess.run([gio, "launch", entry.path], env=environ, timeout=30, check=True)
    ran = program.parent / "ran"
    wait_until(ran.exists)
    assert ran.read_text().splitlines() == ["run", "--at-login", "--home", str(home)]


@pytest.mark.parametrize("name", COMMON)
def test_a_desktop_that_starts_entries_itself_would_start_it(
    name: str, tmp_path: Path, config: Path, entry: XdgEntry
) -> None:
    dex = tool("dex", "dex")
    program = program_in(tmp_path / name)
    entry.write(Start.of_home((str(program),), tmp_path / "home"))
    environ = {**os.environ, "XDG_CONFIG_HOME": str(config), "XDG_CONFIG_DIRS": str(tmp_path / "none")}
    asked = [dex, "-a", "-d", "-e", "XFCE"]
    said = subprocess.run(asked, env=environ, capture_output=True, text=True, timeout=30, check=True)
    assert f"Executing command: {program} run --at-login --home {tmp_path / 'home'}\n" in said.stdout


def unit_of(config: Path, folder: Path) -> str:
    """Return the unit that systemd makes of the entry, empty where it makes none."""
    if not os.path.exists(GENERATOR):
        pytest.skip("systemd is not here: `apt-get install systemd`")
    out = folder / "out"
    out.mkdir(exist_ok=True)
    environ = {**os.environ, "XDG_CONFIG_HOME": str(config), "XDG_CONFIG_DIRS": str(folder / "none")}
    subprocess.run([GENERATOR, out, out, out], env=environ, capture_output=True, timeout=30, check=True)
    unit = out / "app-sapwood@autostart.service"
    return unit.read_text("utf-8") if unit.exists() else ""


@pytest.mark.parametrize("name", COMMON)
def test_systemd_makes_a_unit_that_starts_the_program(name: str, tmp_path: Path, config: Path, entry: XdgEntry) -> None:
    program = program_in(tmp_path / name)
    entry.write(Start.of_home((str(program),), tmp_path / "home" / name))
    started = next(line for line in unit_of(config, tmp_path).splitlines() if line.startswith("ExecStart=:"))
    argv = [str(program), "run", "--at-login", "--home", str(tmp_path / "home" / name)]
    # Units are quoted as a shell would; nothing in these names is special to both in different ways.
    assert shlex.split(started.removeprefix("ExecStart=:")) == argv


def test_switched_off_in_the_settings_is_off_for_systemd_and_for_us(
    tmp_path: Path, config: Path, entry: XdgEntry
) -> None:
    for key in ("Hidden=true", "X-GNOME-Autostart-enabled=false"):
        entry.write(Start.of_home((str(program_in(tmp_path)),), None))
        file = Path(entry.path)
        name = key.partition("=")[0]
        lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{name}=")]
        file.write_text("\n".join([*lines, key]) + "\n")
        found = read_back(entry, None)
        assert not found.enabled
        assert not found.is_broken
        if key == "Hidden=true":
            assert unit_of(config, tmp_path) == ""
        assert found.problem == f"it is switched off in the system's settings ({key})"
        assert not repair(entry, ("/elsewhere/sapwood",), None)
        assert file.read_text().endswith(f"{key}\n")
        entry.write(Start.of_home((str(program_in(tmp_path)),), None))
        assert read_back(entry, None).enabled, "whoever switches it on here means it"


@given(st.lists(WORDS, min_size=1))
def test_any_words_come_back_from_an_exec_line(argv: list[str]) -> None:
    line = exec_value(argv)
    assert "\n" not in line
    assert exec_words(line) == tuple(argv)


def test_the_program_moved_and_the_entry_is_mended_with_all_else_that_its_owner_set(
    tmp_path: Path, entry: XdgEntry
) -> None:
    old, new = tmp_path / "1" / "sapwood", program_in(tmp_path / "2")
    entry.write(Start.of_home((str(old),), None))
    file = Path(entry.path)
    text = file.read_text().replace("--at-login", "--at-login --headless") + "X-KDE-autostart-phase=2\n"
    file.write_text(text + "\n[Desktop Action Other]\nName=Other\nExec=other\n")
    assert read_back(entry, None).problem == f"{GONE}: {old}"
    assert repair(entry, (str(new),), None)
    assert read_back(entry, None).enabled
    mended = file.read_text()
    assert f"Exec={new} run --at-login --headless\n" in mended
    assert "X-KDE-autostart-phase=2\n" in mended
    assert "Exec=other\n" in mended
    assert not repair(entry, ("/elsewhere/sapwood",), None), "what is there is left alone"


def test_an_entry_that_is_the_owners_own_is_not_changed(tmp_path: Path, entry: XdgEntry) -> None:
    entry.write(Start((str(tmp_path / "gone"),), ("run", "--headless")))
    before = Path(entry.path).read_bytes()
    assert not repair(entry, (str(program_in(tmp_path)),), None)
    assert Path(entry.path).read_bytes() == before


def test_broken_entries_are_told_and_left_alone(entry: XdgEntry) -> None:
    file = Path(entry.path)
    file.parent.mkdir(parents=True)
    file.write_text("[Desktop Entry]\nType=Application\n")
    assert "no Exec" in read_back(entry, None).problem
    file.write_text('[Desktop Entry]\nExec="never closed\n')
    assert "not closed" in read_back(entry, None).problem
    file.write_text("[Desktop Entry]\nHidden=true\n")
    assert read_back(entry, None).problem == "", "that is how a deleted entry looks"


def test_the_folder_is_the_one_of_the_specification(tmp_path: Path) -> None:
    assert autostart_folder({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "autostart"
    assert autostart_folder({"XDG_CONFIG_HOME": "relative"}) == Path.home() / ".config" / "autostart"


def test_the_file_appears_whole_and_its_folder_is_private(entry: XdgEntry) -> None:
    entry.write(Start.of_home(("/x/sapwood",), None))
    folder = Path(entry.path).parent
    assert os.listdir(folder) == [FILE]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert entry.remove()
    assert not entry.remove()


def test_an_appimage_is_named_by_its_file_and_not_by_its_mount(tmp_path: Path) -> None:
    image = str(tmp_path / "Sapwood.AppImage")
    inside = {"APPIMAGE": image, "APPDIR": "/tmp/.mount_SapwooX"}
    program = "/tmp/.mount_SapwooX/usr/bin/sapwood"
    assert program_argv(inside, frozen=True, executable=program) == (image,)
    # A terminal that is an AppImage hands its variables to all that is started in it.
    assert program_argv(inside, frozen=True, executable="/opt/sapwood/sapwood") == ("/opt/sapwood/sapwood",)
    assert program_argv({}, frozen=True, executable="/opt/sapwood/sapwood") == ("/opt/sapwood/sapwood",)


def test_an_installed_program_is_named_by_its_script(tmp_path: Path) -> None:
    script = program_in(tmp_path / "bin")
    assert program_argv({}, frozen=False, executable=str(script.with_name("python3"))) == (str(script),)
    found = program_argv({}, frozen=False)
    assert os.path.isabs(found[0])
    assert os.access(found[0], os.X_OK)
