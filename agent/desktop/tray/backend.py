"""What every way of showing an icon has in common, and which one is taken on which desktop.

On Linux an icon is a StatusNotifierItem, straight over D-Bus: no GTK, no X, Wayland or not. pystray's appindicator
comes second, where there is no D-Bus library but GTK's own bindings; its xorg icon has no menu and never hears a click
(pystray 174, 109), so it is taken nowhere. Windows and macOS have pystray's.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from agent.desktop.tray.menu import Shown

Clicked = Callable[[str], None]
"""Called with the key of the entry; must not block."""
Refresh = Callable[[], None]
"""The menu is about to be shown: what it says should be looked at anew. Must not block."""


class Seen(StrEnum):
    """Whether the icon is where its owner sees it."""

    SHOWN = "shown"
    WAITING = "waiting"  # no panel for now; it is shown as soon as there is one
    DEAD = "dead"  # nothing more can come of it


@dataclass(frozen=True)
class Sight:
    """Whether the icon is seen, and a reason where it is not."""

    seen: Seen
    reason: str = ""


class NoTray(Exception):
    """There can be no icon here; its words are the reason."""


class Backend(Protocol):
    """One way of showing an icon. All calls but ``occupy`` come from the loop's thread and return at once."""

    name: str

    async def start(self, shown: Shown, clicked: Clicked, refresh: Refresh, seen: Callable[[Sight], None]) -> None:
        """Show the icon; ``seen`` is told what comes of it, now and later. Raises ``NoTray``."""
        ...

    def show(self, shown: Shown) -> None:
        """Show another state."""
        ...

    def close(self) -> None:
        """Take the icon away."""
        ...

    def occupy(self) -> bool:
        """Run what needs this process's main thread, until closed; return ``False`` at once where nothing does."""
        ...


class Way(StrEnum):
    """The ways there are."""

    SNI = "StatusNotifierItem"
    APPINDICATOR = "appindicator"
    WIN32 = "win32"
    DARWIN = "darwin"


@dataclass(frozen=True)
class Desktop:
    """What the choice depends on."""

    platform: str
    has_bus: bool = False
    has_dbus_library: bool = False
    has_gi: bool = False
    has_display: bool = False


@dataclass(frozen=True)
class Choice:
    """The ways to try, the best first; without any, ``reason`` says why."""

    ways: tuple[Way, ...]
    reason: str = ""


def choose(desktop: Desktop) -> Choice:
    """Return how an icon can be shown on a desktop. Pure."""
    if desktop.platform == "win32":
        return Choice((Way.WIN32,))
    if desktop.platform == "darwin":
        return Choice((Way.DARWIN,))
    if not desktop.has_bus:
        return Choice((), "there is no session bus: this is no desktop login")
    ways = []
    if desktop.has_dbus_library:
        ways.append(Way.SNI)
    if desktop.has_gi and desktop.has_display:
        ways.append(Way.APPINDICATOR)
    if not ways:
        return Choice((), "neither dbus-fast nor the bindings of GTK are installed")
    return Choice(tuple(ways))


def look_around(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Desktop:
    """Return what this desktop has; imports nothing of it."""
    environ = os.environ if environ is None else environ
    return Desktop(
        platform,
        has_bus=bool(bus_address(environ)),
        has_dbus_library=importlib.util.find_spec("dbus_fast") is not None,
        has_gi=importlib.util.find_spec("gi") is not None,
        has_display=bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")),
    )


def bus_address(environ: Mapping[str, str]) -> str:
    """Return where the session bus is; ``""`` where there is none. Looks at one file name."""
    given = environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if given:
        return given
    # systemd's user sessions have it there, and not every program that starts us says so.
    place = os.path.join(environ.get("XDG_RUNTIME_DIR") or "/nowhere", "bus")
    return f"unix:path={place}" if os.path.exists(place) else ""


def open_backend(way: Way, environ: Mapping[str, str] | None = None) -> Backend:
    """Return a back end, its libraries imported. Raises ``NoTray`` where these cannot be had."""
    try:
        if way is Way.SNI:
            from agent.desktop.tray.sni import SniBackend

            return SniBackend(bus_address(os.environ if environ is None else environ))
        from agent.desktop.tray.pystray_backend import PystrayBackend

        return PystrayBackend(way)
    except Exception as error:
        # pystray raises what its libraries raise: no display is no ImportError there.
        raise NoTray(f"{way} cannot be used here: {type(error).__name__}") from error
