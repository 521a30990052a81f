"""What the tray does between panel, memory and clicks, with a panel and a memory that are none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from agent.actions.glance import Glance
from agent.clock import FakeClock
from agent.desktop.tray import process as room
from agent.desktop.tray.backend import Clicked, NoTray, Refresh, Seen, Sight
from agent.desktop.tray.looking import without_a_memory
from agent.desktop.tray.menu import Facts, Shown
from agent.desktop.tray.process import Tray
from agent.errors import DatabaseRefused
from agent.states import AgentState
from agent.system.companion import EXIT_IMPOSSIBLE, Say


def glance_of(state: AgentState, words: str = "x") -> Glance:
    return Glance(state, words, words, None, "builtin", (), None)


class Panel:
    name = "a test's"

    def __init__(self, refuses: bool = False) -> None:
        self.drawn: list[Shown] = []
        self.is_closed = False
        self._refuses = refuses

    async def start(self, shown: Shown, clicked: Clicked, refresh: Refresh, seen: Callable[[Sight], None]) -> None:
        if self._refuses:
            raise NoTray("no")
        self.drawn.append(shown)
        self.clicked, self.refresh, self.see = clicked, refresh, seen
        seen(Sight(Seen.SHOWN))

    def show(self, shown: Shown) -> None:
        self.drawn.append(shown)

    def close(self) -> None:
        self.is_closed = True

    def occupy(self) -> bool:
        return False

    @property
    def line(self) -> str:
        return self.drawn[-1].entries[0].label


class Memory:
    """What is looked at; ``held`` keeps a look waiting until it is set."""

    def __init__(self, state: AgentState = AgentState.IDLE) -> None:
        self.state = state
        self.looks: list[Any] = []
        self.held: threading.Event | None = None

    def look(self, said: Any) -> Facts:
        self.looks.append(said)
        if self.held is not None:
            assert self.held.wait(10)
        return Facts(glance_of(self.state, str(len(self.looks))))


class Hands:
    """What is clicked; ``held`` keeps a click under way until it is set."""

    def __init__(self, trouble: str = "") -> None:
        self.clicked: list[str] = []
        self.trouble = trouble
        self.held = threading.Event()
        self.held.set()

    def do(self, key: str) -> str:
        self.clicked.append(key)
        assert self.held.wait(10)
        return self.trouble


class Setting:
    def __init__(self, memory: Memory, hands: Hands, *, refuses: bool = False) -> None:
        self.panel, self.memory, self.hands = Panel(refuses), memory, hands
        self.said: list[tuple[Say, dict[str, Any]]] = []

    def run(self, then: Callable[[Tray], Awaitable[None]]) -> int:
        async def both() -> int:
            tray = Tray(
                self.panel,
                self.memory,  # type: ignore[arg-type]
                self.hands,  # type: ignore[arg-type]
                lambda word, **more: self.said.append((word, more)),
                FakeClock(),
            )
            running = asyncio.create_task(tray.run())
            while not self.said and not running.done():
                await asyncio.sleep(0.001)
            if not running.done():
                await then(tray)
                if not running.done():
                    tray.hear({"say": "stop"})
            return await running

        return asyncio.run(asyncio.wait_for(both(), 20))


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def test_it_says_that_it_serves_once_it_shows_what_the_memory_tells() -> None:
    setting = Setting(Memory(), Hands())

    async def check(tray: Tray) -> None:
        assert setting.panel.line == "Idle: 1"

    assert setting.run(check) == 0
    assert setting.said == [(Say.UP, {"detail": "a test's"})]
    assert setting.panel.is_closed


def test_it_looks_again_by_itself_only_while_the_memory_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LOOK_AGAIN_S", 0.01)
    setting = Setting(Memory(AgentState.GROWING), Hands())

    async def check(tray: Tray) -> None:
        await until(lambda: len(setting.memory.looks) > 5)
        setting.memory.state = AgentState.IDLE
        await until(lambda: setting.panel.line.startswith("Idle"))
        looks = len(setting.memory.looks)
        await asyncio.sleep(0.1)
        assert len(setting.memory.looks) == looks

    setting.run(check)


def test_what_the_agent_said_is_taken_along_and_many_words_become_few_looks() -> None:
    setting = Setting(Memory(), Hands())

    async def check(tray: Tray) -> None:
        setting.memory.held = threading.Event()
        tray.hear({"say": "state", "reason": "first"})
        await until(lambda: len(setting.memory.looks) == 2)
        for number in range(100):
            tray.hear({"say": "state", "reason": str(number)})
        tray.hear({"say": "a word of another version"})
        setting.memory.held.set()
        await until(lambda: len(setting.memory.looks) == 3)
        assert setting.memory.looks[-1]["reason"] == "99"
        await asyncio.sleep(0.05)
        assert len(setting.memory.looks) == 3

    setting.run(check)


def test_a_click_that_is_under_way_is_not_begun_again_and_the_panel_goes_on() -> None:
    setting = Setting(Memory(), Hands())

    async def check(tray: Tray) -> None:
        setting.hands.held.clear()
        for _ in range(3):
            setting.panel.clicked("add-folder")
        setting.panel.clicked("pause-hour")
        await until(lambda: len(setting.hands.clicked) == 2)
        tray.hear({"say": "state"})
        await until(lambda: len(setting.memory.looks) >= 2)
        setting.hands.held.set()
        await until(lambda: len(setting.memory.looks) >= 3)
        setting.panel.clicked("add-folder")
        await until(lambda: len(setting.hands.clicked) == 3)

    setting.run(check)
    assert sorted(setting.hands.clicked) == ["add-folder", "add-folder", "pause-hour"]


def test_trouble_stands_in_the_state_line_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "TROUBLE_SHOWN_S", 0.2)
    setting = Setting(Memory(), Hands(trouble="the page cannot be shown"))

    async def check(tray: Tray) -> None:
        setting.panel.clicked("open")
        await until(lambda: setting.panel.line == "the page cannot be shown")
        tray.hear({"say": "state"})
        await until(lambda: len(setting.memory.looks) >= 3)
        assert setting.panel.line == "the page cannot be shown", "news of the agent do not hide it"
        await until(lambda: setting.panel.line.startswith("Idle"))

    setting.run(check)


def test_a_panel_that_is_gone_is_said_and_one_that_never_comes_back_ends_it() -> None:
    setting = Setting(Memory(), Hands())

    async def check(tray: Tray) -> None:
        setting.panel.see(Sight(Seen.WAITING, "no panel"))
        setting.panel.see(Sight(Seen.SHOWN))
        setting.panel.see(Sight(Seen.DEAD, "the bus has ended"))

    assert setting.run(check) == EXIT_IMPOSSIBLE
    assert [word for word, _ in setting.said] == [Say.UP, Say.IMPOSSIBLE, Say.UP, Say.IMPOSSIBLE]
    assert setting.said[-1][1] == {"reason": "the bus has ended"}


def test_where_there_can_be_no_icon_nothing_is_left_open() -> None:
    setting = Setting(Memory(), Hands(), refuses=True)

    async def check(tray: Tray) -> None:
        raise AssertionError

    with pytest.raises(NoTray):
        setting.run(check)
    assert setting.panel.is_closed


def test_a_memory_that_cannot_be_read_is_an_error_with_the_agents_own_words_first() -> None:
    error = DatabaseRefused("the memory is of a newer version", "v9", "")
    found = without_a_memory(None, error, None)
    assert (found.state, found.reason) == (AgentState.ERROR, "the memory is of a newer version: v9")
    said = {"state": "attention", "reason": "the memory is damaged"}
    found = without_a_memory(said, error, glance_of(AgentState.IDLE))
    assert (found.state, found.reason) == (AgentState.ATTENTION, "the memory is damaged")
    assert without_a_memory({"state": "idle"}, OSError("/home/somebody"), None).reason == "the memory cannot be read"
