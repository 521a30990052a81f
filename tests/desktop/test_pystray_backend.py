"""pystray's icon, with a library that only writes down what it was asked for; no window is needed for that."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.actions.glance import Glance, GlanceProfile
from agent.desktop.tray.backend import NoTray, Seen, Sight, Way
from agent.desktop.tray.menu import Facts, Shown, show
from agent.desktop.tray.pystray_backend import TOOLTIP_LENGTH, PystrayBackend
from agent.desktop.tray.pystray_library import one_thread_icon
from agent.states import AgentState

PROFILES = (GlanceProfile("builtin", "here", True), GlanceProfile("sky", "cloud", True))
IDLE = Glance(AgentState.IDLE, "x", "x", None, "sky", PROFILES, None)


def shown(found: Glance = IDLE) -> Shown:
    return show(Facts(found, starts_at_login=True), 0)


class Library:
    """What of pystray is used. ``fails`` is what running the icon raises."""

    def __init__(self, fails: Exception | None = None, refuses: Exception | None = None) -> None:
        library = self
        self.icons: list[Any] = []
        self.changes: list[str] = []
        self.strangers: list[str] = []

        class MenuItem:
            def __init__(self, text: str, action: Any, **more: Any) -> None:
                self.text, self.action, self.more = text, action, more

        class Menu:
            SEPARATOR = "-"

            def __init__(self, *items: Any) -> None:
                self.items = items

        class Icon:
            def __init__(self, name: str, icon: Any, title: str, menu: Any) -> None:
                if refuses is not None:
                    raise refuses
                self._work: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
                self._thread = threading.current_thread()
                self.visible = False
                library.icons.append(self)
                self.__dict__.update(name=name, icon=icon, title=title, menu=menu)

            def __setattr__(self, name: str, value: Any) -> None:
                if not name.startswith("_") and threading.current_thread() is not self._thread:
                    library.strangers.append(name)
                library.changes.append(name)
                self.__dict__[name] = value

            def run(self, set_up: Callable[[Any], None]) -> None:
                if fails is not None:
                    raise fails
                threading.Thread(target=set_up, args=(self,), daemon=True).start()
                while (work := self._work.get(timeout=10)) is not None:
                    work()

            def stop(self) -> None:
                self._work.put(None)

        self.Icon, self.Menu, self.MenuItem = Icon, Menu, MenuItem

    def hand_over(self, icon: Any, work: Callable[[], object]) -> None:
        icon._work.put(work)

    def settle(self) -> None:
        """Wait until all that was handed over is done."""
        done = threading.Event()
        self.hand_over(self.icons[0], done.set)
        assert done.wait(10)


def serve(library: Library, then: Callable[[PystrayBackend, Any], None], way: Way = Way.WIN32) -> list[Sight]:
    """Run an icon as the tray does: the library in this thread, the loop in another. Return what was seen."""
    backend, sights, clicked = PystrayBackend(way, library), list[Sight](), list[str]()

    async def run() -> None:
        seen = asyncio.Event()

        def see(sight: Sight) -> None:
            sights.append(sight)
            seen.set()

        try:
            await backend.start(shown(), clicked.append, lambda: None, see)
            await asyncio.wait_for(seen.wait(), 10)
            then(backend, library.icons[0])
            await asyncio.sleep(0)
        finally:
            backend.close()

    beside = threading.Thread(target=lambda: errors.extend(_error_of(run)), daemon=True)
    errors: list[BaseException] = []
    beside.start()
    assert backend.occupy()
    beside.join(10)
    if errors:
        raise errors[0]
    return sights


def _error_of(run: Callable[[], Any]) -> list[BaseException]:
    try:
        asyncio.run(run())
    except BaseException as error:
        return [error]
    return []


def test_the_menu_is_the_same_as_everywhere() -> None:
    def check(backend: PystrayBackend, icon: Any) -> None:
        texts = [item if isinstance(item, str) else item.text for item in icon.menu.items]
        assert texts == [
            "Idle: x", "-", "Open Sapwood", "-", "Pause", "Model", "Add folder…", "-", "Save bug report…", "Open logs",
            "Start at login", "-", "Quit Sapwood",
        ]  # fmt: skip
        models = icon.menu.items[5].action.items
        assert [(item.more["radio"], item.more["checked"](item)) for item in models] == [(True, False), (True, True)]
        assert icon.menu.items[0].more["enabled"] is False
        assert icon.menu.items[2].more["default"] is True
        assert icon.icon.size == (64, 64)

    assert serve(Library(), check) == [Sight(Seen.SHOWN)]


def test_only_what_changed_is_changed() -> None:
    library = Library()

    def check(backend: PystrayBackend, icon: Any) -> None:
        library.settle()
        library.changes.clear()
        backend.show(shown())
        library.settle()
        assert library.changes == []
        backend.show(shown(replace(IDLE, words="y")))
        library.settle()
        assert library.changes == ["title", "menu"]
        backend.show(shown(replace(IDLE, words="y", state=AgentState.ERROR, reason="z" * 500)))
        library.settle()
        assert library.changes == ["title", "menu", "icon", "title", "menu"]
        assert len(icon.title) <= TOOLTIP_LENGTH

    serve(library, check)
    assert library.strangers == [], "one thread makes and changes the icon"


def test_a_click_is_passed_to_the_loop() -> None:
    keys: list[str] = []

    def check(backend: PystrayBackend, icon: Any) -> None:
        backend._clicked = keys.append
        icon.menu.items[-1].action(icon, icon.menu.items[-1])
        icon.menu.items[4].action.items[0].action(icon, None)

    serve(Library(), check)
    assert keys == ["quit", "pause-hour"]


def test_a_notification_service_that_fails_ends_the_icon_and_hangs_nothing() -> None:
    (sight,) = serve(Library(fails=RuntimeError("GLib.GError")), lambda backend, icon: None)
    assert sight.seen is Seen.DEAD


def test_an_icon_that_is_refused_is_no_tray() -> None:
    with pytest.raises(NoTray):
        serve(Library(refuses=OSError()), lambda backend, icon: None)


def test_macos_gets_a_template() -> None:
    def check(backend: PystrayBackend, icon: Any) -> None:
        assert not any(icon.icon.convert("RGB").tobytes())

    serve(Library(), check, Way.DARWIN)


def test_windows_icon_is_changed_in_its_own_thread_and_not_under_an_open_menu() -> None:
    posted: list[int] = []
    done: list[str] = []

    class Win32:
        WM_USER = 0x400

        @staticmethod
        def PostMessage(window: int, message: int, first: int, second: int) -> None:  # noqa: N802
            posted.append(message)

    class Icon:
        def __init__(self) -> None:
            self._message_handlers: dict[int, Callable[[int, int], None]] = {}
            self._hwnd: int | None = None

        def _on_notify(self, first: int, second: int) -> None:
            # The menu is open: messages are dispatched meanwhile.
            icon.hand_over(lambda: done.append("menu"))
            self._message_handlers[posted[-1]](0, 0)
            done.append("closed")

    icon = one_thread_icon(Icon, Win32)()
    icon.hand_over(lambda: done.append("early"))
    assert (posted, done) == ([], []), "there is no window yet"
    icon._hwnd = 7
    icon.hand_over(lambda: done.append("icon"))
    assert done == []
    icon._message_handlers[posted[-1]](0, 0)
    assert done == ["early", "icon"]
    icon._on_notify(0, 0)
    assert done == ["early", "icon", "closed", "menu"]
