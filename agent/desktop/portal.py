"""The desktop's own dialog for a folder: xdg-desktop-portal's FileChooser, over D-Bus. Linux alone."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from typing import Any

from agent.desktop.tray.backend import bus_address

PORTAL = "org.freedesktop.portal.Desktop"
PATH = "/org/freedesktop/portal/desktop"
CHOOSER = "org.freedesktop.portal.FileChooser"
BUS = "org.freedesktop.DBus"
FOLDERS_SINCE = 3
"""Earlier versions of the interface know files alone."""
_CHOSEN, _CANCELLED = 0, 1

_log = logging.getLogger("sapwood.tray")


def choose_folder(title: str, begin_s: float, answer_s: float) -> list[str] | None:
    """Return the URIs that the owner chose, none where they cancelled, ``None`` where no portal asked them.

    Blocks, on a loop and a connection of its own: ``begin_s`` at most until it is known whether there is a portal, and
    ``answer_s`` at most for the owner. Never raises.
    """
    address = bus_address(os.environ)
    if not address:
        return None
    try:
        return asyncio.run(_choose(address, title, begin_s, answer_s))
    except Exception as error:
        _log.info("the desktop's own dialog could not be shown: %s", type(error).__name__)
        return None


async def _choose(address: str, title: str, begin_s: float, answer_s: float) -> list[str] | None:
    from dbus_fast import Message, MessageType, Variant
    from dbus_fast.aio import MessageBus

    async with asyncio.timeout(begin_s):
        bus = await MessageBus(bus_address=address).connect()
    try:
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        token = f"sapwood{secrets.token_hex(8)}"
        sender = (bus.unique_name or "").removeprefix(":").replace(".", "_")
        request = f"{PATH}/request/{sender}/{token}"

        def hear(message: Message) -> None:
            is_ours = message.member == "Response" and message.path == request
            if is_ours and message.message_type is MessageType.SIGNAL and not answer.done():
                answer.set_result(message.body)

        async def call(to: str, path: str, interface: str, member: str, kind: str, body: list[Any]) -> Message:
            reply = await bus.call(Message(to, path, interface, member, signature=kind, body=body))
            if reply is None or reply.message_type is MessageType.ERROR:
                raise LookupError(member)
            return reply

        async with asyncio.timeout(begin_s):
            version = await call(PORTAL, PATH, f"{BUS}.Properties", "Get", "ss", [CHOOSER, "version"])
            if version.body[0].value < FOLDERS_SINCE:
                return None
            bus.add_message_handler(hear)
            rule = f"type='signal',interface='org.freedesktop.portal.Request',path='{request}'"
            await call(BUS, "/org/freedesktop/DBus", BUS, "AddMatch", "s", [rule])
            options = {"handle_token": Variant("s", token), "directory": Variant("b", True)}
            await call(PORTAL, PATH, CHOOSER, "OpenFile", "ssa{sv}", ["", title, options])
        try:
            async with asyncio.timeout(answer_s):
                code, results = await answer
        except TimeoutError:
            return []
        if code == _CHOSEN:
            found = results.get("uris")
            return [] if found is None else list(found.value)
        return [] if code == _CANCELLED else None
    finally:
        bus.disconnect()
