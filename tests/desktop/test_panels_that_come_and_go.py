"""The icon on a bus, in this process: what it says of panels that are late, leave, or show nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from agent.actions.glance import Glance
from agent.desktop.tray.backend import NoTray, Seen, Sight
from agent.desktop.tray.menu import Facts, show
from agent.desktop.tray.sni import SniBackend
from agent.states import AgentState
from tests.desktop.panel import Bus, Panel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="StatusNotifierItems are of Linux")

PATIENCE_S = 0.3
IDLE = show(Facts(Glance(AgentState.IDLE, "x", "x", None, "builtin", (), None)), 0)


async def start(address: str) -> tuple[SniBackend, asyncio.Queue[Sight]]:
    backend, sights = SniBackend(address, patience_s=PATIENCE_S), asyncio.Queue[Sight]()
    await backend.start(IDLE, lambda key: None, lambda: None, sights.put_nowait)
    return backend, sights


async def next_of(sights: asyncio.Queue[Sight]) -> Seen:
    return (await asyncio.wait_for(sights.get(), 10)).seen


def test_a_late_panel_is_waited_for(desktop: Bus, start_panel: Callable[..., Panel]) -> None:
    async def run() -> None:
        backend, sights = await start(desktop.address)
        assert await next_of(sights) is Seen.WAITING
        panel = await asyncio.to_thread(start_panel)
        assert await next_of(sights) is Seen.SHOWN
        await asyncio.to_thread(panel.stop)
        assert await next_of(sights) is Seen.WAITING
        await asyncio.to_thread(start_panel)
        assert await next_of(sights) is Seen.SHOWN
        backend.close()

    asyncio.run(run())


def test_a_panel_that_is_back_in_time_is_no_news(desktop: Bus, start_panel: Callable[..., Panel]) -> None:
    async def run() -> None:
        backend, sights = await start(desktop.address)
        first = await asyncio.to_thread(start_panel)
        assert await next_of(sights) is Seen.SHOWN
        backend._patience_s = 30
        await asyncio.to_thread(first.stop)
        second = await asyncio.to_thread(start_panel)
        while not second.watcher.registered:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(second.item)
        assert sights.empty()
        backend.close()

    asyncio.run(run())


def test_a_list_of_icons_that_nobody_shows_is_no_panel(desktop: Bus, start_panel: Callable[..., Panel]) -> None:
    async def run() -> None:
        panel = await asyncio.to_thread(lambda: start_panel(has_host=False))
        backend, sights = await start(desktop.address)
        assert await next_of(sights) is Seen.WAITING
        panel.bring_a_host()
        assert await next_of(sights) is Seen.SHOWN
        assert len(panel.watcher.registered) == 1, "one icon is one icon"
        backend.close()

    asyncio.run(run())


def test_a_bus_that_ends_is_the_end_and_none_is_no_tray(desktop: Bus, start_panel: Callable[..., Panel]) -> None:
    async def run() -> None:
        await asyncio.to_thread(start_panel)
        backend, sights = await start(desktop.address)
        assert await next_of(sights) is Seen.SHOWN
        await asyncio.to_thread(desktop.stop)
        assert await next_of(sights) is Seen.DEAD
        backend.show(IDLE)
        backend.close()
        with pytest.raises(NoTray):
            await start(desktop.address)

    asyncio.run(run())
