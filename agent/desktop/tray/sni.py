"""The icon as a StatusNotifierItem, its menu as com.canonical.dbusmenu: both straight over D-Bus.

It needs no GTK, no X and no DISPLAY. A panel may be late at login or start anew: whoever owns the watcher's name is
told of the icon, whenever that is (ActivityWatch/aw-qt 97). What the two interfaces say stands in ``sni_interfaces``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dbus_fast import Message, MessageFlag, MessageType, Variant
from dbus_fast.aio import MessageBus

from agent.desktop.tray.backend import NoTray, Seen, Sight
from agent.desktop.tray.pictures import Look
from agent.desktop.tray.sni_interfaces import ITEM_PATH, MENU_PATH, MenuInterface, NotifierItem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.desktop.tray.backend import Clicked, Refresh
    from agent.desktop.tray.menu import Shown

WATCHER = "org.kde.StatusNotifierWatcher"
WATCHER_PATH = "/StatusNotifierWatcher"
PORTAL = "org.freedesktop.portal.Desktop"
PORTAL_PATH = "/org/freedesktop/portal/desktop"
APPEARANCE = "org.freedesktop.appearance"
BUS = "org.freedesktop.DBus"
PATIENCE_S = 5.0
"""A panel that is not there by then is not taken to be coming; its place is kept all the same."""
_PREFER_DARK, _PREFER_LIGHT = 1, 2

_log = logging.getLogger("sapwood.tray")


def look_for(scheme: int | None, environ: Mapping[str, str]) -> Look:
    """Return what the icon is inked for: ``scheme`` is what the portal says, ``None`` where there is none. Pure.

    GNOME's panel is dark whatever is preferred for windows, and most panels are; the halo helps where this is wrong.
    """
    if "gnome" in environ.get("XDG_CURRENT_DESKTOP", "").lower():
        return Look.DARK
    return Look.LIGHT if scheme == _PREFER_LIGHT else Look.DARK


def no_panel_words(environ: Mapping[str, str]) -> str:
    """Return what an owner is told of a desktop without a place for icons, and what helps there. Pure."""
    if "gnome" in environ.get("XDG_CURRENT_DESKTOP", "").lower():
        return (
            "no panel shows icons of programs: on GNOME the extension AppIndicator Support does, once it is switched on"
        )
    return "no panel on this desktop shows icons of programs; it is shown as soon as one does"


class SniBackend:
    """One icon on one session bus."""

    name = "StatusNotifierItem"

    def __init__(self, address: str, *, patience_s: float = PATIENCE_S) -> None:
        self._address = address
        self._patience_s = patience_s
        self._bus: MessageBus | None = None
        self._service = f"org.kde.StatusNotifierItem-{os.getpid()}-1"
        self._seen: Callable[[Sight], None] = lambda sight: None
        self._sight: Sight | None = None
        self._late: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def start(self, shown: Shown, clicked: Clicked, refresh: Refresh, seen: Callable[[Sight], None]) -> None:
        self._seen = seen
        self._menu = MenuInterface(shown.entries, clicked, refresh)
        self._item = NotifierItem(shown, look_for(None, os.environ), clicked)
        try:
            async with asyncio.timeout(self._patience_s):
                bus = self._bus = await MessageBus(bus_address=self._address).connect()
                bus.export(MENU_PATH, self._menu)
                bus.export(ITEM_PATH, self._item)
                bus.add_message_handler(self._hear)
                await self._match(f"sender='{BUS}',member='NameOwnerChanged',arg0='{WATCHER}'")
                await self._match(f"interface='{WATCHER}',path='{WATCHER_PATH}'")
                await bus.request_name(self._service)
        except Exception as error:
            raise NoTray(f"the session bus cannot be used: {type(error).__name__}") from error
        self._go(self._until_the_bus_ends(bus))
        self._expect_a_panel()
        self._go(self._register())
        self._go(self._follow_the_theme())

    def show(self, shown: Shown) -> None:
        if self._bus is not None and not self._is_closed:
            self._item.show(shown)
            self._menu.show(shown.entries)

    def close(self) -> None:
        self._is_closed = True
        self._stop_waiting()
        for task in tuple(self._tasks):
            task.cancel()
        if self._bus is not None:
            self._bus.disconnect()

    def occupy(self) -> bool:
        return False

    # -- the panel ----------------------------------------------------------------------------------------------------

    async def _register(self) -> None:
        """Tell the watcher of the icon, where there is one, and whether anybody shows what it watches."""
        reply = await self._call(WATCHER, WATCHER_PATH, WATCHER, "RegisterStatusNotifierItem", "s", [self._service])
        if reply is None or reply.message_type is not MessageType.METHOD_RETURN:
            return  # none yet: its coming is heard
        await self._look_for_a_host()

    async def _look_for_a_host(self) -> None:
        host = await self._call(
            WATCHER, WATCHER_PATH, f"{BUS}.Properties", "Get", "ss", [WATCHER, "IsStatusNotifierHostRegistered"]
        )
        if host is not None and host.message_type is MessageType.METHOD_RETURN and host.body[0].value is False:
            return  # the desktop keeps a list of icons, and no panel shows it
        self._stop_waiting()
        self._tell(Sight(Seen.SHOWN))

    def _hear(self, message: Message) -> None:
        if message.message_type is not MessageType.SIGNAL:
            return
        if message.member == "NameOwnerChanged" and message.body[0] == WATCHER:
            if message.body[2]:
                self._go(self._register())
            else:
                self._expect_a_panel()
        elif message.interface == WATCHER and message.member == "StatusNotifierHostRegistered":
            self._go(self._look_for_a_host())
        elif message.member == "SettingChanged" and message.body[:2] == [APPEARANCE, "color-scheme"]:
            self._ink(message.body[2].value)

    def _expect_a_panel(self) -> None:
        """Say that there is none unless one comes in time."""
        self._stop_waiting()
        no_panel = Sight(Seen.WAITING, no_panel_words(os.environ))
        self._late = asyncio.get_running_loop().call_later(self._patience_s, self._tell, no_panel)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _tell(self, sight: Sight) -> None:
        if sight != self._sight and not self._is_closed:
            self._sight = sight
            self._seen(sight)

    async def _until_the_bus_ends(self, bus: MessageBus) -> None:
        with contextlib.suppress(Exception):  # how it ended says nothing that helps
            await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        self._stop_waiting()
        self._tell(Sight(Seen.DEAD, "the session bus has ended"))

    # -- light and dark -----------------------------------------------------------------------------------------------

    async def _follow_the_theme(self) -> None:
        await self._match(f"interface='org.freedesktop.portal.Settings',path='{PORTAL_PATH}',arg0='{APPEARANCE}'")
        reply = await self._call(
            PORTAL, PORTAL_PATH, "org.freedesktop.portal.Settings", "Read", "ss", [APPEARANCE, "color-scheme"]
        )
        if reply is not None and reply.message_type is MessageType.METHOD_RETURN:
            found = reply.body[0]
            while isinstance(found, Variant):
                found = found.value
            self._ink(found)

    def _ink(self, scheme: object) -> None:
        self._item.ink(look_for(scheme if isinstance(scheme, int) else None, os.environ))

    # -- the bus ------------------------------------------------------------------------------------------------------

    async def _match(self, rule: str) -> None:
        await self._call(BUS, "/org/freedesktop/DBus", BUS, "AddMatch", "s", [rule])

    async def _call(
        self, to: str, path: str, interface: str, member: str, kind: str, body: list[Any]
    ) -> Message | None:
        """Return the answer, an error too; starts nobody who does not run. ``None`` where nobody answers in time."""
        assert self._bus is not None
        message = Message(to, path, interface, member, flags=MessageFlag.NO_AUTOSTART, signature=kind, body=body)
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._bus.call(message)
        except (TimeoutError, OSError, EOFError):
            return None

    def _go(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("the tray's talk with the panel failed", exc_info=task.exception())
