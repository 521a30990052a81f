"""The icon by pystray: Windows, macOS, and GTK's appindicator on Linux where there is no D-Bus library.

Its loop wants the main thread, so ours runs beside it. One thread makes the icon and changes it, the one that it runs
in: two of them crash it (pystray 60). How work is handed over to that thread stands in ``pystray_library``.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agent.desktop.tray.backend import NoTray, Seen, Sight, Way
from agent.desktop.tray.menu import NAME, Entry, Key, Mark
from agent.desktop.tray.pictures import Look, pixels
from agent.desktop.tray.pystray_library import Library, load_library

if TYPE_CHECKING:
    from agent.desktop.tray.backend import Clicked, Refresh
    from agent.desktop.tray.menu import Shown
    from agent.desktop.tray.pictures import Picture

TOOLTIP_LENGTH = 120
"""Windows takes 128 and pystray does not cut."""


class PystrayBackend:
    """One icon of pystray's."""

    def __init__(self, way: Way, library: Library | None = None) -> None:
        self.name = str(way)
        self._way = way
        self._library = load_library(way) if library is None else library
        self._icon: Any = None
        self._shown: Shown | None = None
        self._clicked: Clicked = lambda key: None
        self._seen: Callable[[Sight], object] = lambda sight: None
        self._made: Callable[[Exception | None], object] = lambda error: None
        self._may_run = threading.Event()
        self._is_closed = False

    async def start(self, shown: Shown, clicked: Clicked, refresh: Refresh, seen: Callable[[Sight], None]) -> None:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[Exception | None] = loop.create_future()

        def from_its_thread(call: Callable[[Any], object]) -> Callable[[Any], object]:
            def pass_on(value: Any) -> None:
                with suppress(RuntimeError):  # our loop has ended, and so will this process
                    loop.call_soon_threadsafe(call, value)

            return pass_on

        self._shown = shown
        self._clicked = from_its_thread(clicked)  # type: ignore[assignment]
        self._seen, self._made = from_its_thread(seen), from_its_thread(made.set_result)
        self._may_run.set()
        error = await made
        if error is not None:
            raise NoTray(f"{self._way} cannot be used here: {type(error).__name__}") from error

    def show(self, shown: Shown) -> None:
        if self._icon is not None and not self._is_closed:
            self._library.hand_over(self._icon, lambda: self._change(shown))

    def close(self) -> None:
        self._is_closed = True
        self._may_run.set()
        if self._icon is not None:
            self._library.hand_over(self._icon, self._icon.stop)

    def occupy(self) -> bool:
        self._may_run.wait()
        if self._is_closed or self._shown is None:
            return True
        try:
            self._icon = self._library.Icon(
                "sapwood",
                self._image(self._shown.picture),
                _short(self._shown.tooltip),
                self._menu(self._shown.entries),
            )
        except Exception as error:
            self._made(error)
            return True
        self._made(None)
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
        if self._is_closed:
            icon.stop()  # it was closed before it ran, when there was nothing to stop yet
            return
        self._library.hand_over(icon, lambda: setattr(icon, "visible", True))
        self._seen(Sight(Seen.SHOWN))

    def _change(self, shown: Shown) -> None:
        """Show another state, in the icon's own thread: only what of it is new."""
        before, self._shown = self._shown, shown
        if before is None or self._is_closed:
            return
        if before.picture is not shown.picture:
            self._icon.icon = self._image(shown.picture)
        if before.tooltip != shown.tooltip:
            self._icon.title = _short(shown.tooltip)
        if before.entries != shown.entries:
            self._icon.menu = self._menu(shown.entries)

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
