"""`sapwood autostart`, and the start at login as the other faces of the agent call it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.actions.autostart import autostart_status, home_of, repair_autostart, set_autostart
from agent.errors import AgentFault
from agent.paths import Paths, find_paths, paths_under
from agent.system.autostart import FakeEntry, Found, Start
from tests.cli.agents import said
from tests.cli.conftest import Sapwood

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="these entries are of Linux")


@on_linux
def test_it_is_off_until_it_is_switched_on_and_is_read_back_from_the_system(sapwood: Sapwood, tmp_path: Path) -> None:
    found = sapwood("autostart", "status", "--json").document
    assert found["enabled"] is False
    assert found["mechanism"] == "xdg-autostart"
    file = Path(found["path"])
    assert file == tmp_path / "xdg" / "autostart" / "sapwood.desktop"
    assert not file.exists(), "looking leaves nothing behind"
    assert sapwood("autostart", "on", "--json").document["enabled"] is True
    assert f"--home {tmp_path / 'home'}\n" in file.read_text()
    ran = sapwood("autostart")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "start at login is on")
    file.unlink()
    assert sapwood("autostart", "status", "--json").document["enabled"] is False, "the system alone says what is"
    assert sapwood("autostart", "off").code == 0


@on_linux
def test_where_it_cannot_be_written_it_says_so(sapwood: Sapwood, tmp_path: Path) -> None:
    (tmp_path / "xdg").write_text("a file where the folder belongs")
    ran = sapwood("autostart", "on")
    assert ran.code == 1
    assert "could not be switched on" in ran.err
    assert "list of startup programs" in " ".join(ran.err.split())


def test_another_memory_that_starts_at_login_is_not_pushed_out(tmp_path: Path, paths: Paths) -> None:
    entry, other = FakeEntry(), paths_under(tmp_path / "other").make()
    assert set_autostart(True, other, entry).enabled
    assert not autostart_status(paths, entry).enabled
    with pytest.raises(AgentFault) as raised:
        set_autostart(True, paths, entry)
    assert str(tmp_path / "other") in raised.value.hint
    assert not set_autostart(False, paths, entry).enabled
    assert autostart_status(other, entry).enabled
    for folder in ("config", "data", "logs", "run"):
        (tmp_path / "other" / folder).rmdir()
    (tmp_path / "other").rmdir()
    assert set_autostart(True, paths, entry).enabled, "one that is gone makes room"


def test_what_the_system_refuses_is_told_and_stops_no_start(paths: Paths) -> None:
    entry = FakeEntry()
    entry.fault = PermissionError(13, "Permission denied")
    assert autostart_status(paths, entry).problem == "the entry cannot be read: Permission denied"
    assert not repair_autostart(paths, entry)
    for on in (True, False):
        with pytest.raises(AgentFault) as raised:
            set_autostart(on, paths, entry)
        assert "Permission denied" in raised.value.detail


def test_the_start_of_the_agent_mends_an_entry_and_makes_none(paths: Paths, tmp_path: Path) -> None:
    entry = FakeEntry()
    assert not repair_autostart(paths, entry)
    assert entry.changes == 0
    entry.found = Found(Start.of_home((str(tmp_path / "gone"),), home_of(paths)), disabled="switched off")
    assert repair_autostart(paths, entry)
    assert entry.found.disabled == "switched off"
    assert os.path.exists(entry.found.start.program[0])


def test_the_usual_places_are_no_home_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert home_of(find_paths({})) is None
    assert home_of(paths_under(tmp_path)) == tmp_path
    monkeypatch.delenv("SAPWOOD_HOME")
    assert home_of() is None


def test_the_login_starts_the_agent_of_the_home_that_its_entry_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sapwood: Sapwood
) -> None:
    from agent.actions import running
    from agent.actions.running import Ran

    started: list[Paths] = []

    def run_agent(paths: Paths, **_options: object) -> Ran:
        started.append(paths)
        return Ran("stopped", "", 0, 0)

    monkeypatch.setattr(running, "run_agent", run_agent)
    home = tmp_path / "stick with space"
    ran = sapwood("run", "--at-login", "--home", str(home))
    assert (ran.code, ran.out, ran.err) == (0, "", ""), "nobody looks at it"
    assert started == [paths_under(home)]
    assert (home / "run" / "login").exists()


@on_linux
def test_the_doctor_says_that_an_entry_points_to_nothing(sapwood: Sapwood, tmp_path: Path) -> None:
    def check() -> dict[str, object]:
        found = sapwood("doctor", "--json").document["checks"]
        return next(each for each in found if each["name"] == "start at login")

    assert check()["ok"] is True
    assert sapwood("autostart", "on").code == 0
    assert (check()["ok"], check()["detail"]) == (True, "on")
    file = tmp_path / "xdg" / "autostart" / "sapwood.desktop"
    file.write_text(re.sub(r"Exec=\S+", "Exec=/gone/sapwood", file.read_text()))
    assert check()["ok"] is False
    assert "`sapwood autostart on`" in str(check()["remedy"])
    file.write_text(file.read_text().replace("enabled=true", "enabled=false"))
    assert check()["ok"] is True, "whoever switched it off knows"


@on_linux
@pytest.mark.slow
def test_what_the_login_starts_is_the_agent_of_this_home(
    sapwood: Sapwood, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    gio = shutil.which("gio")
    if gio is None:
        pytest.skip("gio is not here: `apt-get install libglib2.0-bin`")
    monkeypatch.setenv("SAPWOOD_HOME", str(tmp_path / "a stick"))
    path = sapwood("autostart", "on", "--json").document["path"]
    paths = paths_under(tmp_path / "a stick")
    environ = {name: value for name, value in os.environ.items() if name != "SAPWOOD_HOME"}
    environ["DBUS_SESSION_BUS_ADDRESS"] = "disabled:"
    subprocess.run([gio, "launch", path], env=environ, timeout=30, check=True)
    try:
        wait_until(lambda: said(paths).get("state") == "idle", 30, "an agent")
        assert (paths.runtime_dir / "login").exists(), "it knows that the login has just begun"
    finally:
        assert sapwood("stop", "--wait").code == 0
