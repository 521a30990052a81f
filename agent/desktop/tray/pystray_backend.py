"""The icon by pystray: Windows, macOS, and GTK's appindicator on Linux where there is no D-Bus library.

Its loop wants the main thread, so ours runs beside it. Only one thread changes the icon (pystray 60): the loop's own
where the library hands work over, else ours.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.desktop.tray.backend import NoTray, Seen, Sight, Way
from agent.desktop.tray.menu import NAME, Entry, Key, Mark
from agent.desktop.tray.pictures import Look, pixels

if TYPE_CHECKING:
    from agent.desktop.tray.backend import Clicked, Refresh
    from agent.desktop.tray.menu import Shown
    from agent.desktop.tray.pictures import Picture

TOOLTIP_LENGTH = 120
"""Windows takes 128 and pystray does not cut."""


class PystrayBackend:
    """One icon of pystray's. Raises what its libraries raise where it cannot be had."""

    def __init__(self, way: Way, library: Any = None) -> None:
        self.name = str(way)
        self._way = way
        self._library = _load(way) if library is None else library
        self._icon: Any = None
        self._shown: Shown | None = None
        self._clicked: Clicked = lambda key: None
        self._seen: Callable[[Sight], object] = lambda sight: None
        self._is_ready = threading.Event()
        self._may_run = threading.Event()
        self._is_closed = False

    async def start(self, shown: Shown, clicked: Clicked, refresh: Refresh, seen: Callable[[Sight], None]) -> None:
        import asyncio

        loop = asyncio.get_running_loop()
        self._shown = shown

        def pass_on(key: str) -> None:
            # Its menu calls from its own thread.
            loop.call_soon_threadsafe(clicked, key)

        self._clicked = pass_on
        try:
            self._icon = self._library.Icon(
                "sapwood", self._image(shown.picture), _short(shown.tooltip), self._menu(shown.entries)
            )
        except Exception as error:
            self._may_run.set()
            raise NoTray(f"{self._way} cannot be used here: {type(error).__name__}") from error
        self._seen = lambda sight: loop.call_soon_threadsafe(seen, sight)
        self._may_run.set()

    def show(self, shown: Shown) -> None:
        before, self._shown = self._shown, shown
        if self._icon is None or self._is_closed or before == shown:
            return
        if before is None or before.picture is not shown.picture:
            self._icon.icon = self._image(shown.picture)
        if before is None or before.tooltip != shown.tooltip:
            self._icon.title = _short(shown.tooltip)
        if before is None or before.entries != shown.entries:
            self._icon.menu = self._menu(shown.entries)

    def close(self) -> None:
        self._is_closed = True
        self._may_run.set()
        if self._icon is not None:
            self._icon.stop()

    def occupy(self) -> bool:
        self._may_run.wait()
        if self._icon is None or self._is_closed:
            return True
        try:
            self._icon.run(self._set_up)
        except Exception as error:
            # The notification service failed to start, and the library takes that for its own end (plex-mpv-shim 39).
            self._seen(Sight(Seen.DEAD, f"{self._way} ended: {type(error).__name__}"))
            return True
        if not self._is_closed:
            self._seen(Sight(Seen.DEAD, f"{self._way} ended"))
        return True

    def _set_up(self, icon: Any) -> None:
        icon.visible = True
        self._seen(Sight(Seen.SHOWN))

    def _image(self, picture: Picture) -> Any:
        from PIL import Image

        found = pixels(self._look(), picture)[0]
        return Image.frombytes("RGBA", (found.size, found.size), found.rgba)

    def _look(self) -> Look:
        if self._way is Way.DARWIN:
            return Look.TEMPLATE
        return Look.LIGHT if self._way is Way.WIN32 and _windows_is_light() else Look.DARK

    def _menu(self, entries: tuple[Entry, ...]) -> Any:
        return self._library.Menu(*(self._item(entry) for entry in entries))

    def _item(self, entry: Entry) -> Any:
        if entry.is_separator:
            return self._library.Menu.SEPARATOR
        if entry.below:
            return self._library.MenuItem(entry.label, self._menu(entry.below), enabled=entry.is_enabled)

        def act(icon: Any, item: Any) -> None:
            self._clicked(entry.key)

        def is_checked(item: Any) -> bool:
            return entry.is_marked

        return self._library.MenuItem(
            entry.label.replace("&", "&&") if self._way is Way.WIN32 else entry.label,
            act,
            checked=None if entry.mark is Mark.NONE else is_checked,
            radio=entry.mark is Mark.RADIO,
            default=entry.key == Key.OPEN,
            enabled=entry.is_enabled,
        )


def _load(way: Way) -> Any:
    """Return pystray with the back end that was chosen, and no other: it would fall back to its xorg."""
    os.environ["PYSTRAY_BACKEND"] = str(way)
    import pystray  # type: ignore[import-untyped,unused-ignore]

    return _with_template(pystray) if way is Way.DARWIN else pystray


def _with_template(library: Any) -> Any:
    """Return pystray for macOS whose icon is inked by the system, for light and dark bars."""

    class TemplateIcon(library.Icon):  # type: ignore[misc]
        def _assert_image(self) -> None:
            super()._assert_image()
            if self._icon_image is not None:
                self._icon_image.setTemplate_(True)

    class Library:
        Icon = TemplateIcon
        Menu = library.Menu
        MenuItem = library.MenuItem

    return Library


def _short(text: str) -> str:
    text = text or NAME
    return text if len(text) <= TOOLTIP_LENGTH else f"{text[: TOOLTIP_LENGTH - 1]}…"


def _windows_is_light() -> bool:
    if sys.platform == "win32":
        import winreg

        place = r"Software\Microsoft\Windows\CurrentVersion\Themes\Personalize"
        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, place) as key:
                return bool(winreg.QueryValueEx(key, "SystemUsesLightTheme")[0])
        except OSError:
            return False
    return False
