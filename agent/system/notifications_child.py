"""``sapwood _notify``: the child that asks the session bus to show a notification, and is ended where that blocks.

One line of JSON on stdin; exit 0 where the notification service took it, else 1 without a word.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from agent.system.parent import die_with_parent
from agent.system.streams import ensure_streams

_OVERDUE_S = 1.0
_SHOWN_MS = -1  # as long as the desktop finds right


def serve() -> int:
    """Show what stdin says and return the exit code."""
    ensure_streams()
    try:
        said: dict[str, Any] = json.loads(sys.stdin.readline())
        title, body, limit_s = str(said["title"]), str(said["body"]), float(said["limit_s"])
        parent = int(said["parent"])
    except (ValueError, KeyError, TypeError):
        print("this is how sapwood shows a notification; there is nothing in it for you", file=sys.stderr)  # noqa: T201
        return 2
    overdue = threading.Timer(limit_s + _OVERDUE_S, os._exit, (1,))
    overdue.daemon = True
    overdue.start()
    die_with_parent(parent)
    try:
        notify(title, body, limit_s)
    except Exception:
        # No bus, no service, one that fails to start, one that says no: nobody is there to be told.
        os._exit(1)
    os._exit(0)


def notify(title: str, body: str, limit_s: float) -> None:
    """Ask the notification service of the session bus; blocks for ``limit_s`` at most and raises what goes wrong."""
    from jeepney import DBusAddress, MessageType, new_method_call  # type: ignore[import-untyped,unused-ignore]
    from jeepney.io.blocking import open_dbus_connection  # type: ignore[import-untyped,unused-ignore]

    service = DBusAddress(
        "/org/freedesktop/Notifications", "org.freedesktop.Notifications", "org.freedesktop.Notifications"
    )
    hints = {"desktop-entry": ("s", "sapwood"), "urgency": ("y", 1)}
    call = new_method_call(
        service, "Notify", "susssasa{sv}i", ("Sapwood", 0, "sapwood", title, body, [], hints, _SHOWN_MS)
    )
    with open_dbus_connection(bus_address()) as connection:
        reply = connection.send_and_get_reply(call, timeout=limit_s)
        if reply.header.message_type is not MessageType.method_return:
            raise OSError("the notification service refused")


def bus_address() -> str:
    """Return the address of the session bus; where none is named, the usual place in the runtime directory.

    Raises ``OSError`` where there is none. Nothing starts a bus of its own: nobody would look at it.
    """
    named = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if named:
        return named
    place = os.path.join(os.environ.get("XDG_RUNTIME_DIR", ""), "bus")
    if os.path.isabs(place) and os.path.exists(place):
        return f"unix:path={place}"
    raise OSError("there is no session bus")
