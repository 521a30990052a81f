"""Notifications reach the desktop where there is one; where there is none, or a broken one, nobody notices."""

from __future__ import annotations

import base64
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from agent.actions.home import open_home
from agent.actions.sources import add
from agent.paths import paths_under
from agent.system.notifications import SystemNotifier, apple_script, asked_of, power_shell
from tests.cli.agents import running_agent
from tests.desktop.panel import Bus, private_bus

if sys.platform == "linux":
    from tests.system.notification_service import Service, serving

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the bus is of Linux")
ODD = 'Quotes " and \' and \\ and `$(id)`; "naïve" 雪\nsecond <b>line</b>\x1b[2J & more'
TAMED = 'Quotes " and \' and \\ and `$(id)`; "naïve" 雪 second b line /b [2J more'


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    with private_bus(tmp_path) as bus:
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus.address)
        yield bus


@on_linux
def test_the_notification_service_gets_title_and_body(bus: Bus) -> None:
    with serving(bus.address, Service()) as service:
        assert SystemNotifier().show("model", "Sapwood waits", ODD)
    assert service.shown == [("Sapwood", "Sapwood waits", TAMED)]


@on_linux
def test_a_bus_at_its_usual_place_is_found_without_its_address(
    bus: Bus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with serving(bus.address, Service()) as service:
        assert SystemNotifier().show("model", "t", "b")
    assert len(service.shown) == 1


@on_linux
def test_a_service_that_refuses_shows_nothing(bus: Bus) -> None:
    with serving(bus.address, Service(refuses=True)):
        assert not SystemNotifier().show("model", "t", "b")


@on_linux
def test_no_notification_service_is_no_trouble(bus: Bus) -> None:
    assert not SystemNotifier().show("model", "t", "b")


@on_linux
def test_a_service_that_never_answers_costs_some_seconds_and_leaves_nothing(bus: Bus) -> None:
    before = {child.pid for child in psutil.Process().children()}
    began = time.monotonic()
    with serving(bus.address, Service(hangs=True)):
        assert not SystemNotifier().show("model", "t", "b")
    assert time.monotonic() - began < 10
    assert {child.pid for child in psutil.Process().children()} <= before


@on_linux
@pytest.mark.parametrize("address", ["", "unix:path=/nonexistent/bus", "nonsense", "disabled:", "tcp:host=127.0.0.1"])
def test_no_bus_or_a_dead_one_is_no_trouble(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert not SystemNotifier().show("model", "t", "b")
    assert capfd.readouterr() == ("", "")


@on_linux
def test_a_bus_that_accepts_and_says_nothing_costs_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={tmp_path / 'silent'}")
        began = time.monotonic()
        assert not SystemNotifier().show("model", "t", "b")
        assert time.monotonic() - began < 10


@on_linux
def test_nothing_that_is_said_stands_in_an_argument() -> None:
    for platform in ("linux", "darwin", "win32"):
        asked = asked_of(platform, "quince title", "marrow body")
        assert not re.search("quince|marrow", " ".join(asked.argv))
        assert asked.limit_s <= 20


def test_the_child_tells_whoever_types_its_name_that_it_is_none_of_theirs() -> None:
    argv = [sys.executable, "-m", "agent.cli.main", "_notify"]
    for text in ("", "{}", '{"title": 1}', "[]"):
        ran = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=30, check=False)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "nothing in it for you" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_a_text_cannot_leave_its_quotes_on_macos() -> None:
    script = apple_script('a " b', 'c \\" & (do shell script "id")')
    assert script == 'display notification "c \\\\\\" & (do shell script \\"id\\")" with title "a \\" b"\n'
    # What AppleScript would read: the quoted strings, and nothing else in between.
    assert re.sub(r'"(?:[^"\\]|\\.)*"', "S", script) == "display notification S with title S\n"
    assert "\n" not in asked_of("darwin", ODD, ODD).text.removesuffix("\n")


def test_a_text_cannot_leave_its_quotes_on_windows() -> None:
    script = power_shell("title", ODD)
    held = re.findall(r"FromBase64String\('([A-Za-z0-9+/=]*)'\)", script)
    assert [base64.b64decode(each).decode() for each in held] == ["title", ODD]
    assert "Quotes" not in script
    assert script.isascii(), "its stdin is read in the console's code page"


@on_linux
@pytest.mark.slow
def test_the_agent_tells_of_its_first_memory_once(
    tmp_path: Path, bus: Bus, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAPWOOD_DESKTOP__NOTIFICATIONS", "true")
    monkeypatch.setenv("SAPWOOD_SUPERVISOR__TICK_IDLE_SECONDS", "1")
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "one.md").write_text("# Quinces\n\nThe quinces by the wall want sun and little else.\n")
    home = paths_under(tmp_path / "home").make()
    with open_home(home) as opened:
        add(opened, [str(notes)])
    with serving(bus.address, Service()) as service, running_agent(home, wait_until, "--headless"):
        wait_until(lambda: service.shown, 90, "a notification")
    assert [title for _, title, _ in service.shown] == ["Your first memory has grown"]
    assert "quince" not in json.dumps(service.shown).lower()
