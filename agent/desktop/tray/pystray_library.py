"""What of pystray is used, and how work gets into the thread that its icon runs in.

Windows and macOS want an icon to be touched by one thread alone, and pystray leaves that to its caller (pystray 60).
Its GTK icons hand each change over to GTK's loop themselves.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from agent.desktop.tray.backend import Way

Work = Callable[[], object]


class Library(Protocol):
    """The library with the one back end that was chosen."""

    Icon: Any
    Menu: Any
    MenuItem: Any

    def hand_over(self, icon: Any, work: Work) -> None:
        """Have this done in the icon's thread as soon as it can be; returns at once."""
        ...


def load_library(way: Way) -> Library:
    """Return pystray with the back end that was chosen, and no other: it would fall back to its xorg.

    Raises whatever its libraries raise.
    """
    os.environ["PYSTRAY_BACKEND"] = str(way)
    import pystray  # type: ignore[import-untyped,unused-ignore]

    if way is Way.WIN32:
        return _Windows(pystray)
    if way is Way.DARWIN:
        return _MacOs(pystray)
    return _Gtk(pystray)


class _Gtk:
    def __init__(self, library: Any) -> None:
        self.Icon, self.Menu, self.MenuItem = library.Icon, library.Menu, library.MenuItem

    def hand_over(self, icon: Any, work: Work) -> None:
        work()


class _MacOs:
    def __init__(self, library: Any) -> None:
        self.Menu, self.MenuItem = library.Menu, library.MenuItem

        class TemplateIcon(library.Icon):  # type: ignore[misc]
            """Inked by the system, for light and dark bars."""

            def _assert_image(self) -> None:
                super()._assert_image()
                if self._icon_image is not None:
                    self._icon_image.setTemplate_(True)

        self.Icon = TemplateIcon

    def hand_over(self, icon: Any, work: Work) -> None:
        from PyObjCTools import AppHelper  # type: ignore[import-not-found,import-untyped,unused-ignore]

        AppHelper.callAfter(work)


class _Windows:
    def __init__(self, library: Any) -> None:
        self.Menu, self.MenuItem = library.Menu, library.MenuItem
        from pystray._util import win32  # type: ignore[import-untyped,unused-ignore]

        self.Icon = one_thread_icon(library.Icon, win32)

    def hand_over(self, icon: Any, work: Work) -> None:
        icon.hand_over(work)


def one_thread_icon(icon_class: Any, win32: Any) -> Any:
    """Return pystray's icon for Windows, changed only in its own thread and never while its menu is open (59)."""
    wanted = win32.WM_USER + 20

    class OneThreadIcon(icon_class):  # type: ignore[misc]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            self._work: deque[Work] = deque()
            self._menu_is_open = False
            self._message_handlers[wanted] = self._on_work

        def hand_over(self, work: Work) -> None:
            self._work.append(work)
            if self._hwnd is not None:
                win32.PostMessage(self._hwnd, wanted, 0, 0)

        def _on_work(self, first: Any, second: Any) -> None:
            while self._work and not self._menu_is_open:
                self._work.popleft()()

        def _on_notify(self, first: Any, second: Any) -> None:
            self._menu_is_open = True
            try:
                super()._on_notify(first, second)
            finally:
                self._menu_is_open = False
                self._on_work(first, second)

    return OneThreadIcon
