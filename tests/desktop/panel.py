"""A session bus of a test's own and a panel on it: the watcher that icons register with, and one who clicks.

The panel is written against the protocols alone (org.kde.StatusNotifierWatcher, com.canonical.dbusmenu); nothing of the
tray's own code is in it.
"""
# Without annotations from the future: the library reads them, and takes "None" for a type.

import asyncio
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pytest
from dbus_fast import Message, MessageType, PropertyAccess, Variant
from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusBool, DBusInt32, DBusSignature, DBusStr
from dbus_fast.service import ServiceInterface, dbus_method, dbus_property, dbus_signal

WATCHER = "org.kde.StatusNotifierWatcher"
ITEM = "org.kde.StatusNotifierItem"
ITEM_PATH = "/StatusNotifierItem"
MENU = "com.canonical.dbusmenu"
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
Result = TypeVar("Result")


class Bus:
    """A bus that nothing is started on by itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"unix:path={folder / 'bus'}"

    def start(self) -> None:
        config = self._folder / "bus.conf"
        config.write_text(CONFIG.format(socket=self._folder / "bus"))
        (self._folder / "bus").unlink(missing_ok=True)
        self._process = subprocess.Popen(
            ["dbus-daemon", f"--config-file={config}", "--nofork", "--nopidfile", "--print-address=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline()

    def stop(self) -> None:
        if self._process is not None:
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process.kill()
            self._process.wait(10)
            self._process = None


@contextmanager
def private_bus(folder: Path) -> Iterator[Bus]:
    if shutil.which("dbus-daemon") is None:
        pytest.skip("no session bus to be had here: apt-get install dbus")
    # A socket's path takes no more than a hundred bytes.
    bus = Bus(folder)
    bus.start()
    try:
        yield bus
    finally:
        bus.stop()


class WatcherInterface(ServiceInterface):
    def __init__(self, *, has_host: bool) -> None:
        super().__init__(WATCHER)
        self.has_host = has_host
        self.registered: list[tuple[str, float]] = []

    @dbus_method("RegisterStatusNotifierItem")
    def register_item(self, service: DBusStr) -> None:
        self.registered.append((service, time.monotonic()))

    @dbus_method("RegisterStatusNotifierHost")
    def register_host(self, service: DBusStr) -> None:
        pass

    @dbus_property(PropertyAccess.READ, "IsStatusNotifierHostRegistered")
    def is_host_registered(self) -> DBusBool:
        return self.has_host

    @dbus_property(PropertyAccess.READ, "RegisteredStatusNotifierItems")
    def items(self) -> Annotated[list[str], DBusSignature("as")]:
        return [service for service, _ in self.registered]

    @dbus_property(PropertyAccess.READ, "ProtocolVersion")
    def protocol_version(self) -> DBusInt32:
        return 0

    @dbus_signal("StatusNotifierHostRegistered")
    def host_registered(self) -> None:
        pass


class NotificationsInterface(ServiceInterface):
    def __init__(self) -> None:
        super().__init__("org.freedesktop.Notifications")
        self.shown: list[tuple[str, str]] = []

    @dbus_method("Notify")
    def notify(
        self,
        app: DBusStr,
        replaces: Annotated[int, DBusSignature("u")],
        icon: DBusStr,
        summary: DBusStr,
        body: DBusStr,
        actions: Annotated[list[str], DBusSignature("as")],
        hints: Annotated[dict[str, Variant], DBusSignature("a{sv}")],
        expires: DBusInt32,
    ) -> Annotated[int, DBusSignature("u")]:
        self.shown.append((summary, body))
        return len(self.shown)

    @dbus_method("GetServerInformation")
    def information(self) -> Annotated[list[str], DBusSignature("ssss")]:
        return ["a test's", "nobody", "1", "1.2"]

    @dbus_method("GetCapabilities")
    def capabilities(self) -> Annotated[list[str], DBusSignature("as")]:
        return ["body"]


@dataclass(frozen=True)
class Line:
    """One entry as a panel reads it."""

    number: int
    properties: dict[str, Any]
    below: tuple["Line", ...] = ()

    @property
    def label(self) -> str:
        return str(self.properties.get("label", "")).replace("__", "_")


@dataclass
class Heard:
    """Signals of an icon, by name."""

    signals: list[tuple[str, list[Any]]] = field(default_factory=list)

    def named(self, name: str) -> list[list[Any]]:
        return [body for member, body in self.signals if member == name]


class Panel:
    """A panel, its loop in a thread of its own; what it is asked for blocks for some seconds at most."""

    def __init__(self, address: str, *, has_host: bool = True) -> None:
        self._address = address
        self.watcher = WatcherInterface(has_host=has_host)
        self.notifications = NotificationsInterface()
        self.heard = Heard()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._bus: MessageBus | None = None

    def start(self, *names: str) -> "Panel":
        """Own these names (the watcher's where none is given)."""
        self._do(self._start(names or (WATCHER,)))
        return self

    async def _start(self, names: tuple[str, ...]) -> None:
        self._bus = await MessageBus(bus_address=self._address).connect()
        self._bus.export("/StatusNotifierWatcher", self.watcher)
        self._bus.export("/org/freedesktop/Notifications", self.notifications)
        self._bus.add_message_handler(self._hear)
        for interface in (ITEM, MENU):
            rule = f"type='signal',interface='{interface}'"
            await self._bus.call(
                Message(
                    "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", "AddMatch",
                    signature="s", body=[rule],
                )
            )  # fmt: skip
        for name in names:
            await self._bus.request_name(name)

    def _hear(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL and message.interface in (ITEM, MENU):
            self.heard.signals.append((message.member or "", message.body))

    def stop(self) -> None:
        """Leave the bus; another panel may come."""
        if self._loop.is_closed():
            return
        self._do(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _leave(self) -> None:
        if self._bus is not None:
            bus, self._bus = self._bus, None
            bus.disconnect()
            with suppress(Exception):
                await asyncio.wait_for(bus.wait_for_disconnect(), 5)

    def bring_a_host(self) -> None:
        self.watcher.has_host = True
        self._loop.call_soon_threadsafe(self.watcher.host_registered)

    # -- asking -------------------------------------------------------------------------------------------------------

    @property
    def service(self) -> str:
        """The icon that registered last."""
        return self.watcher.registered[-1][0]

    def call(self, path: str, interface: str, member: str, kind: str = "", *body: Any) -> list[Any]:
        return self._do(self._call(path, interface, member, kind, list(body)))

    async def _call(self, path: str, interface: str, member: str, kind: str, body: list[Any]) -> list[Any]:
        assert self._bus is not None
        message = Message(self.service, path, interface, member, signature=kind, body=body)
        reply = await asyncio.wait_for(self._bus.call(message), 5)
        assert reply is not None
        assert reply.message_type is not MessageType.ERROR, reply.body
        return reply.body

    def _do(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def item(self) -> dict[str, Any]:
        (found,) = self.call(ITEM_PATH, "org.freedesktop.DBus.Properties", "GetAll", "s", ITEM)
        return {name: value.value for name, value in found.items()}

    def menu(self) -> tuple[Line, ...]:
        """The menu as it is now."""
        _, root = self.call(self.item()["Menu"], MENU, "GetLayout", "iias", 0, -1, [])
        return self._line(root).below

    def _line(self, layout: Any) -> Line:
        number, properties, below = layout
        return Line(
            number,
            {name: value.value for name, value in properties.items()},
            tuple(self._line(each.value) for each in below),
        )

    def lines(self) -> list[Line]:
        """All entries, those of submenus too."""

        def flat(lines: tuple[Line, ...]) -> list[Line]:
            return [each for line in lines for each in (line, *flat(line.below))]

        return flat(self.menu())

    def labels(self) -> list[str]:
        return [line.label for line in self.lines() if line.label]

    def find(self, label: str) -> Line:
        found = [line for line in self.lines() if line.label.startswith(label)]
        assert found, f"no {label!r} in {self.labels()}"
        return found[0]

    def forget_signals(self) -> None:
        """Take in all that was sent so far, and forget it."""
        self.item()
        self.heard.signals.clear()

    def click(self, label: str) -> None:
        self.call(self.item()["Menu"], MENU, "Event", "isvu", self.find(label).number, "clicked", Variant("s", ""), 0)

    def about_to_show(self) -> None:
        self.call(self.item()["Menu"], MENU, "AboutToShow", "i", 0)


Wait = Callable[..., None]
