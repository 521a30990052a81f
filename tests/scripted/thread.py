"""The server in a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.scripted.behaviour import BEHAVIOURS, Behaviour
from tests.scripted.protocols import ServedModel
from tests.scripted.record import Call
from tests.scripted.server import CALLS, Server

MODELS = (ServedModel("scripted-chat"), ServedModel("scripted-embed", 512))
"""What it has unless a test says otherwise: a chat model and an embedding model of 64 dimensions."""


class Serving:
    """A server that runs. All methods may be called from any thread."""

    def __init__(self, host: str, models: Iterable[ServedModel], log: Path | None) -> None:
        self.host = host
        self.port = 0
        self._models, self._log = models, log
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="scripted", daemon=True)
        self._server: Server | None = None

    @property
    def address(self) -> str:
        """``http://host:port``: the ``base_url`` for Ollama and Anthropic."""
        return f"http://{self.host}:{self.port}"

    def base_url(self, provider: str) -> str:
        """Return the ``base_url`` of a profile of a provider."""
        return f"{self.address}/v1" if provider == "openai" else self.address

    def use(self, behaviour: Behaviour | str, model: str = "", where: Iterable[str] = CALLS) -> None:
        """Behave so from now on, for one model or for all; ``where``: also for lists (``server.EVERYTHING``)."""
        self._do(lambda it: it.script.use(_named(behaviour), model, where))

    def queue(self, *behaviours: Behaviour | str) -> None:
        """Behave so for the next calls, one each, before what ``use`` said."""
        self._do(lambda it: it.script.queued.extend(map(_named, behaviours)))

    def release(self) -> None:
        """Answer those calls that are held, and all later ones at once."""
        self._do(lambda it: it.released.set())

    def hold(self) -> None:
        """Let ``held`` hold again after a ``release``."""
        self._do(lambda it: it.released.clear())

    def calls(self, kind: str = "") -> list[Call]:
        """Return the calls so far, in order; of one kind, or of all."""
        assert self._server is not None
        return [call for call in self._server.record.calls() if not kind or call.kind == kind]

    @property
    def in_flight(self) -> int:
        assert self._server is not None
        return self._server.record.in_flight

    @property
    def most(self) -> int:
        """The most calls that were ever in flight at once."""
        assert self._server is not None
        return self._server.record.most

    def clear(self) -> None:
        """Forget the calls that are over."""
        assert self._server is not None
        self._server.record.clear()

    def wait_for(self, condition: Callable[[list[Call]], object], deadline_s: float = 10.0) -> list[Call]:
        """Return the calls once a condition about them holds; raises ``TimeoutError``. No polling."""
        assert self._server is not None
        record = self._server.record
        with record.change:
            if not record.change.wait_for(lambda: condition(record.calls()), deadline_s):
                raise TimeoutError(f"not in {deadline_s} s; {len(record.calls())} calls")
            return record.calls()

    def go_away(self) -> None:
        """End every connection and refuse new ones, as a server that was stopped."""
        assert self._server is not None
        self._run(self._server.shut())

    def come_back(self) -> None:
        """Listen on the same port again."""
        assert self._server is not None
        self._run(self._server.listen(self.host, self.port))

    def start(self) -> None:
        self._thread.start()

        async def begin() -> None:
            self._server = Server(self._models, self._log)
            self.port = await self._server.listen(self.host, 0)

        self._run(begin())

    def stop(self) -> None:
        if self._server is not None:
            self.go_away()
            self._server.record.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.run_until_complete(_drained())
        self._loop.close()

    def _do(self, work: Callable[[Server], object]) -> None:
        async def do() -> None:
            assert self._server is not None
            work(self._server)

        self._run(do())

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)


async def _drained() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    await asyncio.sleep(0)


def _named(behaviour: Behaviour | str) -> Behaviour:
    return BEHAVIOURS[behaviour] if isinstance(behaviour, str) else behaviour


@contextmanager
def serving(
    host: str = "127.0.0.1", models: Iterable[ServedModel] = MODELS, log: Path | None = None
) -> Iterator[Serving]:
    """Yield a server in a thread of this process, on a free port."""
    server = Serving(host, models, log)
    server.start()
    try:
        yield server
    finally:
        server.stop()
