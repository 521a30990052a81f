"""The tray's own process: it draws what the supervisor says, and does what the owner clicks.

It sleeps until a message, a click or a panel wakes it, and looks at the memory by itself only while that grows. It has
its own crashes: the agent works without it (plex-mpv-shim 39).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent import crash
from agent.clock import SYSTEM_CLOCK, Clock
from agent.desktop.tray.backend import NoTray, Seen, Sight, Way, choose, look_around, open_backend
from agent.desktop.tray.clicks import Clicks, Outside
from agent.desktop.tray.looking import STARTING, Looking
from agent.desktop.tray.menu import Facts, Key, show
from agent.states import AgentState
from agent.system.companion import EXIT_IMPOSSIBLE, CompanionArgs, CompanionLine, Say

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from agent.desktop.folder_dialog import Folder
    from agent.desktop.tray.backend import Backend
    from agent.paths import Paths

LOOK_AGAIN_S = 2.0
"""While the memory grows."""
TROUBLE_SHOWN_S = 60.0
"""So long the state line says what came of a click, unless another comes."""
THREADS = 4

_log = logging.getLogger("sapwood.tray")


class Tray:
    """One icon and what stands behind it. All of it runs in one loop's thread, but what blocks."""

    def __init__(
        self,
        backend: Backend,
        looking: Looking,
        clicks: Clicks,
        say: Callable[..., object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._backend = backend
        self._looking = looking
        self._clicks = clicks
        self._say = say
        self._clock = clock
        self._facts = Facts(STARTING)
        self._has_looked = False
        self._sight: Sight | None = None
        self._said: dict[str, Any] | None = None
        self._ended: asyncio.Future[int] | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tray")
        self._is_looking = False
        self._must_look_again = False
        self._again: asyncio.TimerHandle | None = None
        self._forgive: asyncio.TimerHandle | None = None
        self._under_way: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Show the icon until it is told to end; return the exit code. Raises ``NoTray`` before anything is shown."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            # The panel and the memory are both asked at once: neither waits for the other.
            self.look()
            await self._backend.start(self._shown(), self.clicked, self.look, self._sees)
            return await self._ended
        finally:
            self._backend.close()
            for handle in (self._again, self._forgive):
                if handle is not None:
                    handle.cancel()

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the supervisor in."""
        if message["say"] == Say.STOP:
            self._end(0)
        elif message["say"] == Say.STATE:
            self._said = message
            self.look()

    def _sees(self, sight: Sight) -> None:
        self._sight = sight
        if sight.seen is not Seen.SHOWN:
            _log.info("no icon is shown: %s", sight.reason)
        self._tell_sight()
        if sight.seen is Seen.DEAD:
            self._end(EXIT_IMPOSSIBLE)

    def _tell_sight(self) -> None:
        """Say whether the icon is seen; it serves from the moment that it shows what the memory tells."""
        if self._sight is None or (self._sight.seen is Seen.SHOWN and not self._has_looked):
            return
        if self._sight.seen is Seen.SHOWN:
            self._say(Say.UP, detail=self._backend.name)
        else:
            self._say(Say.IMPOSSIBLE, reason=self._sight.reason)

    def _end(self, code: int) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(code)

    # -- what is shown ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look at the memory and draw what has changed. Returns at once; many calls become one look."""
        if self._is_looking:
            self._must_look_again = True
            return
        self._is_looking = True
        self._go(self._look_and_draw())

    async def _look_and_draw(self) -> None:
        try:
            while True:
                self._must_look_again = False
                found = await self._in_thread(self._look)
                self._facts = replace(found, trouble=self._facts.trouble)
                self._draw()
                if not self._has_looked:
                    self._has_looked = True
                    self._tell_sight()
                if not self._must_look_again:
                    return
        finally:
            self._is_looking = False
            self._plan()

    def _look(self) -> Facts:
        return self._looking.look(self._said)

    def _shown(self) -> Any:
        return show(self._facts, self._clock.now_ms())

    def _draw(self) -> None:
        self._backend.show(self._shown())

    def _plan(self) -> None:
        """Look again by itself only while it grows."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if self._facts.glance.state is AgentState.GROWING:
            self._again = asyncio.get_running_loop().call_later(LOOK_AGAIN_S, self.look)

    # -- what is clicked ----------------------------------------------------------------------------------------------

    def clicked(self, key: str) -> None:
        """Begin to do what an entry says. Returns at once; while it is under way another click on it does nothing."""
        if key in self._under_way:
            return
        self._under_way.add(key)
        self._go(self._do(key))

    async def _do(self, key: str) -> None:
        try:
            trouble = await self._in_thread(self._clicks.do, key)
        finally:
            self._under_way.discard(key)
        self._complain(trouble)
        if key != Key.QUIT:
            self.look()

    def _complain(self, trouble: str) -> None:
        if self._forgive is not None:
            self._forgive.cancel()
            self._forgive = None
        if self._facts.trouble != trouble:
            self._facts = replace(self._facts, trouble=trouble)
            self._draw()
        if trouble:
            self._forgive = asyncio.get_running_loop().call_later(TROUBLE_SHOWN_S, self._complain, "")

    async def _in_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def _go(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("the tray could not draw", exc_info=task.exception())


class Mailbox:
    """The supervisor's messages, read by a thread of its own: pipes of Windows cannot be waited for by a loop.

    Its end is the end of this process, at once and whatever the loop does.
    """

    def __init__(self, line: CompanionLine) -> None:
        self._line = line
        self._lock = threading.Lock()
        self._deliver: Callable[[dict[str, Any]], object] | None = None
        self._kept: list[dict[str, Any]] = []
        threading.Thread(target=self._read, name="life line", daemon=True).start()

    def deliver_to(self, deliver: Callable[[dict[str, Any]], object]) -> None:
        """Hand messages to this from now on, those that came before it too."""
        with self._lock:
            self._deliver, kept = deliver, self._kept
            self._kept = []
        for message in kept:
            deliver(message)

    def _read(self) -> None:
        while True:
            message = self._line.receive()
            if message is None:
                os._exit(0)  # the supervisor is gone, and nothing here is worth a moment more
            with self._lock:
                deliver = self._deliver
                if deliver is None:
                    self._kept.append(message)
            if deliver is not None:
                with suppress(RuntimeError):  # the loop has ended, and so will this process
                    deliver(message)


def tray_main(args: CompanionArgs, connection: Connection) -> int:
    """Run the tray of an agent as the whole of this process; return its exit code."""
    from agent.logs import start_logging

    start_logging(args.paths, "tray", args.log_level)
    line = CompanionLine(connection)
    mailbox = Mailbox(line)
    choice = choose(look_around())
    reason = choice.reason
    for way in choice.ways:
        try:
            return _serve(args, way, line, mailbox)
        except NoTray as problem:
            reason = str(problem)
            _log.info("%s: %s", way, reason)
    line.send(Say.IMPOSSIBLE, reason=reason)
    return EXIT_IMPOSSIBLE


def _serve(args: CompanionArgs, way: Way, line: CompanionLine, mailbox: Mailbox) -> int:
    backend = open_backend(way)
    tray = Tray(backend, Looking(args.paths), Clicks(args.paths, _outside(args)), line.send)
    result: list[int | NoTray] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(crash.in_loop)
        mailbox.deliver_to(lambda message: loop.call_soon_threadsafe(tray.hear, message))
        try:
            result.append(await tray.run())
        except NoTray as problem:
            result.append(problem)

    if way is Way.SNI:
        asyncio.run(run())
    else:
        # These libraries want the main thread for themselves.
        beside = threading.Thread(target=asyncio.run, args=(run(),), name="tray loop")
        beside.start()
        backend.occupy()
        beside.join()
    (ended,) = result or [EXIT_IMPOSSIBLE]
    if isinstance(ended, NoTray):
        raise ended
    return ended


def _outside(args: CompanionArgs) -> Outside:
    # What is behind them is loaded at the first click: a tray that nobody clicks stays small.
    def open_page(paths: Paths, place: str) -> None:
        from agent.actions.opening import open_page

        open_page(paths, place)

    def open_folder(folder: str) -> None:
        from agent.launch import open_outside

        open_outside(folder)

    def ask_for_folder() -> Folder:
        from agent.desktop import folder_dialog

        return folder_dialog.ask_for_folder()

    def tell(key: str, title: str, body: str) -> None:
        # Showing one takes seconds where the desktop is slow, and the menu's state line should not wait for it.
        threading.Thread(target=_notify, args=(args.paths, key, title, body), name="notification", daemon=True).start()

    return Outside(open_page, open_folder, ask_for_folder, tell)


def _notify(paths: Paths, key: str, title: str, body: str) -> None:
    from agent.config import load_intent
    from agent.errors import ConfigBroken
    from agent.system.notifications import SystemNotifier

    with suppress(ConfigBroken):
        if not load_intent(paths).intent.desktop.notifications:
            return
    SystemNotifier().show(key, title, body)
