"""Asking for a folder: by the desktop's portal, by a program of it, or not at all."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from dbus_fast import Message, MessageType, Variant
from dbus_fast.aio import MessageBus

from agent.desktop import folder_dialog as room
from agent.desktop.folder_dialog import CANCELLED, NO_DIALOG, Came, Folder, ask_program, from_uris, program_for
from agent.desktop.portal import choose_folder
from tests.desktop.panel import Bus

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="portals are of Linux")


def has(*names: str) -> Callable[[str], str | None]:
    return lambda name: f"/bin/{name}" if name in names else None


def test_each_system_is_asked_by_its_own_program() -> None:
    display = {"DISPLAY": ":0"}
    both = has("zenity", "kdialog")
    for platform, environ, which, program in (
        ("linux", display, both, "/bin/zenity"),
        ("linux", {"WAYLAND_DISPLAY": "w"}, both, "/bin/zenity"),
        ("linux", {**display, "XDG_CURRENT_DESKTOP": "KDE"}, both, "/bin/kdialog"),
        ("linux", display, has("kdialog"), "/bin/kdialog"),
        ("darwin", {}, has(), "/usr/bin/osascript"),
        ("win32", {}, has("powershell.exe"), "/bin/powershell.exe"),
    ):
        argv = program_for(platform, environ, which)
        assert argv is not None
        assert argv[0] == program


def test_where_nothing_can_ask_there_is_no_dialog() -> None:
    assert program_for("linux", {"DISPLAY": ":0"}, has()) is None
    assert program_for("linux", {}, has("zenity", "kdialog")) is None
    assert program_for("win32", {}, has()) is None


@pytest.mark.parametrize(
    ("code", "said", "found"),
    [
        (0, "/home/a b/Notes\n", Folder(Came.CHOSEN, "/home/a b/Notes")),
        (0, "C:\\Users\\ä\\Notes", Folder(Came.CHOSEN, "C:\\Users\\ä\\Notes")),
        (0, "/ends with a space \n", Folder(Came.CHOSEN, "/ends with a space ")),
        (1, "", CANCELLED),
        (0, "", CANCELLED),
        (5, "", NO_DIALOG),
        (127, "not found", NO_DIALOG),
        (-11, "", NO_DIALOG),
    ],
)
def test_a_programs_answer_is_understood(code: int, said: str, found: Folder) -> None:
    assert ask_program(("x",), lambda argv: (code, said)) == found


def test_a_program_that_cannot_be_started_or_never_ends_is_no_crash() -> None:
    def missing(argv: Sequence[str]) -> tuple[int, str]:
        raise FileNotFoundError

    def endless(argv: Sequence[str]) -> tuple[int, str]:
        raise subprocess.TimeoutExpired("x", 1)

    assert ask_program(("x",), missing) == NO_DIALOG
    assert ask_program(("x",), endless) == CANCELLED


def test_uris_are_paths_again() -> None:
    assert from_uris(["file:///home/a%20b/%C3%A4%25"]) == Folder(Came.CHOSEN, "/home/a b/ä%")
    assert from_uris([]) == CANCELLED
    assert from_uris(["smb://host/share"]) == NO_DIALOG


class Portal:
    """A portal that answers each request with ``response``; ``version`` of its interface."""

    def __init__(self, address: str, response: tuple[int, dict[str, Any]] | None, version: int = 4) -> None:
        self.asked: list[list[Any]] = []
        self._response = response
        self._version = version
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._bus = asyncio.run_coroutine_threadsafe(self._start(address), self._loop).result(5)

    async def _start(self, address: str) -> MessageBus:
        bus = await MessageBus(bus_address=address).connect()
        bus.add_message_handler(self._handle)
        await bus.request_name("org.freedesktop.portal.Desktop")
        return bus

    def _handle(self, message: Message) -> Message | None:
        if message.message_type is not MessageType.METHOD_CALL:
            return None
        if message.member == "Get":
            return Message.new_method_return(message, "v", [Variant("u", self._version)])
        if message.member == "OpenFile":
            self.asked.append(message.body)
            token = message.body[2]["handle_token"].value
            sender = (message.sender or "").removeprefix(":").replace(".", "_")
            path = f"/org/freedesktop/portal/desktop/request/{sender}/{token}"
            if self._response is not None:
                self._bus.send(
                    Message.new_signal(
                        path, "org.freedesktop.portal.Request", "Response", "ua{sv}", list(self._response)
                    )
                )
            return Message.new_method_return(message, "o", [path])
        return None

    def stop(self) -> None:
        async def leave() -> None:
            self._bus.disconnect()
            await asyncio.wait_for(self._bus.wait_for_disconnect(), 5)

        asyncio.run_coroutine_threadsafe(leave(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


@pytest.fixture
def start_portal(desktop: Bus) -> Iterator[Callable[..., Portal]]:
    portals: list[Portal] = []

    def start(response: tuple[int, dict[str, Any]] | None, version: int = 4) -> Portal:
        portals.append(Portal(desktop.address, response, version))
        return portals[-1]

    yield start
    for portal in portals:
        portal.stop()


@on_linux
def test_the_portal_is_asked_for_a_folder_and_its_answer_taken(start_portal: Callable[..., Portal]) -> None:
    portal = start_portal((0, {"uris": Variant("as", ["file:///home/a/Notes"])}))
    assert room.ask_for_folder() == Folder(Came.CHOSEN, "/home/a/Notes")
    (asked,) = portal.asked
    assert asked[1] == room.TITLE
    assert asked[2]["directory"].value is True


@on_linux
@pytest.mark.parametrize(("code", "found"), [(1, []), (2, None)])
def test_a_cancelled_portal_is_a_no_and_a_failed_one_is_not(
    start_portal: Callable[..., Portal], code: int, found: list[str] | None
) -> None:
    start_portal((code, {}))
    assert choose_folder("t", 5, 5) == found


@on_linux
def test_a_portal_that_knows_no_folders_is_passed_over(start_portal: Callable[..., Portal]) -> None:
    portal = start_portal((0, {}), version=2)
    assert choose_folder("t", 5, 5) is None
    assert portal.asked == []


@on_linux
def test_a_dialog_that_is_forgotten_is_given_up(start_portal: Callable[..., Portal]) -> None:
    start_portal(None)
    assert choose_folder("t", 5, 0.1) == []


@on_linux
def test_without_a_portal_or_a_bus_there_is_no_dialog(desktop: Bus) -> None:
    assert choose_folder("t", 5, 5) is None
    assert room.ask_for_folder() == NO_DIALOG
    desktop.stop()
    assert choose_folder("t", 1, 5) is None
