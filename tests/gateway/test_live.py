"""Live updates without a process: when it is looked at, who is told, and who is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent.gateway import events
from agent.gateway.events import STREAMS_AT_ONCE, WAITING_AT_ONCE, EventStream, Live
from agent.states import AgentState

Message = dict[str, Any]


class Listener:
    """A page that listens, or one that stopped reading."""

    def __init__(self, stream: EventStream) -> None:
        self.stream = stream
        self.got: list[bytes] = []
        self.reads = asyncio.Event()
        self.reads.set()
        self.gone = asyncio.Event()
        self.task = asyncio.create_task(stream({"type": "http"}, self._receive, self._send))

    async def _receive(self) -> Message:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self.reads.wait()
        if message.get("body"):
            self.got.append(message["body"])

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.got) < count:
                await asyncio.sleep(0)


class Agent:
    """What is looked at: how often it was, and what is seen."""

    def __init__(self) -> None:
        self.state = AgentState.IDLE
        self.figure = 0
        self.looks = 0
        self.fails = False

    async def look(self) -> Message:
        self.looks += 1
        if self.fails:
            raise RuntimeError
        return {"state": self.state, "figure": self.figure}


def run(test: Callable[[Agent, Live], Awaitable[None]]) -> None:
    async def begin() -> None:
        agent = Agent()
        live = Live(agent.look)
        async with asyncio.timeout(10):
            await test(agent, live)
        live.close()

    asyncio.run(begin())


def listen(live: Live) -> Listener:
    stream = live.open()
    assert isinstance(stream, EventStream)
    return Listener(stream)


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_nothing_is_looked_at_while_nobody_listens() -> None:
    async def test(agent: Agent, live: Live) -> None:
        for _ in range(5):
            live.changed()
            await turns()
        assert agent.looks == 0
        listener = listen(live)
        await listener.wait_for(1)
        listener.gone.set()
        await listener.task
        assert live.listeners == 0
        looks = agent.looks
        for _ in range(5):
            live.changed()
            await turns()
        assert agent.looks == looks

    run(test)


def test_what_has_not_changed_is_no_news() -> None:
    async def test(agent: Agent, live: Live) -> None:
        listener = listen(live)
        await listener.wait_for(1)
        for _ in range(5):
            live.changed()
            await turns()
        assert len(listener.got) == 1
        agent.figure = 7
        live.changed()
        await listener.wait_for(2)
        assert b'"figure": 7' in listener.got[1]
        assert listener.got[1].startswith(b"event: glance\ndata: ")
        assert listener.got[1].endswith(b"\n\n")

    run(test)


def test_figures_are_looked_at_by_themselves_while_it_grows_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LOOK_S", 0.01)

    async def test(agent: Agent, live: Live) -> None:
        agent.state = AgentState.GROWING
        listener = listen(live)
        for figure in range(1, 4):
            await listener.wait_for(figure)
            agent.figure = figure
        await listener.wait_for(4)
        agent.state = AgentState.IDLE
        await listener.wait_for(5)
        looks = agent.looks
        await asyncio.sleep(0.1)  # ten looks' time, in which there is to be none
        assert agent.looks == looks

    run(test)


def test_a_second_page_is_told_at_once() -> None:
    async def test(agent: Agent, live: Live) -> None:
        first = listen(live)
        await first.wait_for(1)
        second = listen(live)
        await second.wait_for(1)
        assert second.got == first.got

    run(test)


def test_a_reader_that_stands_still_is_dropped_and_the_others_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SEND_PATIENCE_S", 0.05)

    async def test(agent: Agent, live: Live) -> None:
        still, other = listen(live), listen(live)
        await still.wait_for(1)
        await other.wait_for(1)
        still.reads.clear()
        for count in range(2, WAITING_AT_ONCE + 4):
            agent.figure = count
            live.changed()
            await other.wait_for(count)
        await still.task
        assert live.listeners == 1
        assert not other.task.done()

    run(test)


def test_no_more_pages_listen_than_are_served() -> None:
    async def test(agent: Agent, live: Live) -> None:
        listeners = [listen(live) for _ in range(STREAMS_AT_ONCE)]
        for listener in listeners:
            await listener.wait_for(1)
        assert live.open().status_code == 503
        listeners[0].gone.set()
        await listeners[0].task
        await listen(live).wait_for(1)

    run(test)


def test_the_end_ends_every_stream() -> None:
    async def test(agent: Agent, live: Live) -> None:
        listener = listen(live)
        await listener.wait_for(1)
        live.close()
        await listener.task
        assert live.open().status_code == 503

    run(test)


def test_a_look_that_fails_is_tried_again_at_the_next_change() -> None:
    async def test(agent: Agent, live: Live) -> None:
        agent.fails = True
        listener = listen(live)
        await turns()
        assert agent.looks == 1
        agent.fails = False
        live.changed()
        await listener.wait_for(1)

    run(test)
