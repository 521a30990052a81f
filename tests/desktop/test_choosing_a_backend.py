"""Which way of showing an icon is taken where."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.desktop.tray import backend as room
from agent.desktop.tray.backend import Choice, Desktop, NoTray, Way, bus_address, choose, look_around, open_backend
from agent.desktop.tray.pictures import Look
from agent.desktop.tray.sni import look_for, no_panel_words


@pytest.mark.parametrize("has_display", [True, False])
def test_linux_takes_the_bus_with_or_without_a_display_and_gtk_second(has_display: bool) -> None:
    full = Desktop("linux", has_bus=True, has_dbus_library=True, has_gi=True, has_display=has_display)
    assert choose(full).ways == ((Way.SNI, Way.APPINDICATOR) if has_display else (Way.SNI,))


def test_gtk_serves_where_the_bus_library_is_missing() -> None:
    assert choose(Desktop("linux", has_bus=True, has_gi=True, has_display=True)).ways == (Way.APPINDICATOR,)


def test_what_cannot_be_shown_has_a_reason() -> None:
    for desktop, word in (
        (Desktop("linux", has_dbus_library=True, has_gi=True, has_display=True), "no session bus"),
        (Desktop("linux", has_bus=True), "dbus-fast"),
    ):
        found = choose(desktop)
        assert found.ways == ()
        assert word in found.reason


def test_windows_and_macos_have_their_own() -> None:
    assert choose(Desktop("win32")) == Choice((Way.WIN32,))
    assert choose(Desktop("darwin")) == Choice((Way.DARWIN,))


def test_the_deaf_icon_of_xorg_is_no_way_at_all() -> None:
    assert not [way for way in Way if "xorg" in way or way == "gtk"]


def test_the_bus_is_found_where_systemd_has_it(tmp_path: Path) -> None:
    assert bus_address({}) == ""
    assert bus_address({"XDG_RUNTIME_DIR": str(tmp_path)}) == ""
    (tmp_path / "bus").touch()
    assert bus_address({"XDG_RUNTIME_DIR": str(tmp_path)}) == f"unix:path={tmp_path}/bus"
    assert bus_address({"XDG_RUNTIME_DIR": str(tmp_path), "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}) == "unix:path=/x"


def test_looking_around_sees_what_is_there() -> None:
    found = look_around({"DISPLAY": ":1", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x"}, "linux")
    assert (found.has_display, found.has_bus, found.has_dbus_library) == (True, True, True)
    assert not look_around({}, "linux").has_display
    assert look_around({"WAYLAND_DISPLAY": "wayland-0"}, "linux").has_display


def test_a_library_that_fails_in_its_own_way_is_no_tray_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoDisplay(Exception):
        pass

    def fail(way: Way) -> None:
        raise NoDisplay

    monkeypatch.setattr("agent.desktop.tray.pystray_backend.load_library", fail)
    with pytest.raises(NoTray, match="NoDisplay"):
        open_backend(Way.APPINDICATOR)
    assert room.NoTray is NoTray


@pytest.mark.parametrize(
    ("scheme", "desktop", "look"),
    [
        (1, "KDE", Look.DARK),
        (2, "KDE", Look.LIGHT),
        (0, "KDE", Look.DARK),
        (None, "XFCE", Look.DARK),
        (2, "ubuntu:GNOME", Look.DARK),
        (None, "", Look.DARK),
    ],
)
def test_the_icon_is_inked_for_the_panel(scheme: int | None, desktop: str, look: Look) -> None:
    assert look_for(scheme, {"XDG_CURRENT_DESKTOP": desktop}) is look


def test_a_desktop_without_a_place_for_icons_is_told_what_helps() -> None:
    assert "AppIndicator" in no_panel_words({"XDG_CURRENT_DESKTOP": "ubuntu:GNOME"})
    for desktop in ("sway", ""):
        assert "no panel on this desktop" in no_panel_words({"XDG_CURRENT_DESKTOP": desktop})
