"""Trays as processes of their own, as the supervisor starts them, on buses of their own."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.paths import Paths
from agent.system.companion import CompanionArgs, CompanionLine, Say
from agent.system.entry import enter
from tests.desktop.panel import Bus, Panel, private_bus

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

ON_A_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "XDG_CURRENT_DESKTOP", "XDG_RUNTIME_DIR")
TRAY = "agent.desktop.tray.process:tray_main"


class Tray:
    """A tray process and the supervisor's end of its line."""

    def __init__(self, paths: Paths, target: str) -> None:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self.line = CompanionLine(ours)
        args = CompanionArgs(paths, "tray", os.getpid())
        self.began = time.monotonic()
        self.process: BaseProcess = context.Process(target=enter, args=(target, os.getpid(), args, theirs))
        self.process.start()
        theirs.close()
        self.heard: list[dict[str, Any]] = []

    def hear(self, word: Say, timeout_s: float = 10.0) -> dict[str, Any]:
        """Wait until it says this word and return the message."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            if self.line.poll(0.05):
                message = self.line.receive()
                assert message is not None, f"it has ended instead of saying {word}"
                self.heard.append(message)
                if message["say"] == word:
                    return message
        pytest.fail(f"it did not say {word}, but {self.heard}")

    def say(self, word: Say, **more: Any) -> None:
        assert self.line.send(word, **more)

    def end(self, timeout_s: float = 5.0) -> int | None:
        self.process.join(timeout_s)
        assert self.process.exitcode is not None, "it did not end"
        return self.process.exitcode

    def close(self) -> None:
        with suppress(OSError):
            self.line.close()
        self.process.join(2)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(5)
        self.process.close()


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    """A login with a bus and nothing on it: no display, no panel."""
    for name in ON_A_DESKTOP:
        monkeypatch.delenv(name, raising=False)
    # A socket's path takes no more than a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="sapwood-bus-"))
    try:
        with private_bus(folder) as bus:
            monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", bus.address)
            yield bus
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def start_panel(desktop: Bus) -> Iterator[Callable[..., Panel]]:
    panels: list[Panel] = []

    def start(*names: str, has_host: bool = True) -> Panel:
        panels.append(Panel(desktop.address, has_host=has_host).start(*names))
        return panels[-1]

    yield start
    for panel in panels:
        panel.stop()


@pytest.fixture
def start_tray(paths: Paths) -> Iterator[Callable[..., Tray]]:
    trays: list[Tray] = []

    def start(target: str = TRAY) -> Tray:
        trays.append(Tray(paths, target))
        return trays[-1]

    yield start
    for tray in trays:
        tray.close()
