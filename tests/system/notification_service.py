"""A notification service of a test's own on a session bus, written against the protocol alone."""
# Without annotations from the future: the library reads them, and takes "None" for a type.

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from dbus_fast import DBusError
from dbus_fast.aio import MessageBus
from dbus_fast.annotations import DBusInt32, DBusSignature, DBusStr
from dbus_fast.service import ServiceInterface, dbus_method

NAME = "org.freedesktop.Notifications"
Texts = Annotated[list[str], DBusSignature("as")]
Hints = Annotated[dict[str, Any], DBusSignature("a{sv}")]
Number = Annotated[int, DBusSignature("u")]


class Service(ServiceInterface):
    """Keeps what it is asked to show. ``refuses``: it says no; ``hangs``: it never answers."""

    def __init__(self, *, refuses: bool = False, hangs: bool = False) -> None:
        super().__init__(NAME)
        self.shown: list[tuple[str, str, str]] = []
        self._refuses = refuses
        self._hangs = hangs

    @dbus_method("Notify")
    async def notify(
        self,
        app: DBusStr,
        replaces: Number,
        icon: DBusStr,
        title: DBusStr,
        body: DBusStr,
        actions: Texts,
        hints: Hints,
        expires: DBusInt32,
    ) -> Number:
        self.shown.append((app, title, body))
        if self._hangs:
            await asyncio.sleep(3600)
        if self._refuses:
            raise DBusError("org.freedesktop.DBus.Error.LimitsExceeded", "enough of you")
        return 1


@contextmanager
def serving(address: str, service: Service) -> Iterator[Service]:
    """Have a service answer on a bus."""
    loop = asyncio.new_event_loop()
    is_up, task = threading.Event(), None

    async def serve() -> None:
        nonlocal task
        task = asyncio.current_task()
        bus = await MessageBus(bus_address=address).connect()
        try:
            bus.export("/org/freedesktop/Notifications", service)
            await bus.request_name(NAME)
            is_up.set()
            await asyncio.Event().wait()
        finally:
            bus.disconnect()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except asyncio.CancelledError:
            for each in asyncio.all_tasks(loop):
                each.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert is_up.wait(10)
        yield service
    finally:
        if task is not None:
            loop.call_soon_threadsafe(task.cancel)
        thread.join(10)
