"""How soon what a program hands in over HTTP is found: through the real page's process, the agent at rest and busy.

Each push is one ``memory.ingest`` of a document with a word that stands nowhere else; it counts as found when
``memory.search`` for that word returns it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from agent.actions.gateway_address import read_token, running_gateway
from agent.actions.home import open_home
from agent.actions.opening import page_link
from agent.errors import SapwoodError
from agent.paths import Paths, paths_under
from agent.queue.counts import count_open
from agent.recall.levels import count_source
from agent.supervisor.control import call
from tests.bench.harness import Result, Setting, percentile
from tests.bench.waiting import poll, running_workers
from tests.generated.vault import write_vault
from tests.generated.words import made_up

PUSHES = 60
PUSHES_QUICK = 25
AT_ONCE = 100
THREADS = 20
NOTES = 6_000
PATIENCE_S = 60.0
WORKERS = "4"


def run(setting: Setting) -> Result:
    """Measure pushing at rest, beside four busy workers, and a hundred at once; hold them to their bars."""
    result = Result()
    pushes = PUSHES_QUICK if setting.quick else PUSHES
    with tempfile.TemporaryDirectory(prefix="sapwood-bench-") as folder:
        paths = paths_under(Path(folder) / "home").make()
        with _agent(paths):
            page_link(paths)
            with Program(paths) as program:
                program.push("rest", made_up(1))
                program.wait_for(made_up(1))
                acknowledged, found = _measure(program, "rest", 100, pushes)
                result.figures["pushed_to_found_idle_p50_ms"] = round(percentile(found, 0.5), 1)
                result.figures["pushed_to_found_idle_p95_ms"] = round(percentile(found, 0.95), 1)
                write_vault(Path(folder) / "vault", NOTES)
                _sapwood(paths, "add", str(Path(folder) / "vault"))
                poll(lambda: running_workers(paths) >= 4, "four busy workers", PATIENCE_S)
                acknowledged, found = _measure(program, "busy", 1_000, pushes)
                result.figures["acknowledged_p95_ms"] = round(percentile(acknowledged, 0.95), 1)
                result.figures["pushed_to_found_p50_ms"] = round(percentile(found, 0.5), 1)
                result.figures["pushed_to_found_p95_ms"] = round(percentile(found, 0.95), 1)
                result.figures["pushed_to_found_max_ms"] = round(max(found), 1)
                pushed_ms, read_ms, lost = _measure_at_once(paths, program)
                result.figures["at_once"] = AT_ONCE
                result.figures["at_once_acknowledged_ms"] = round(pushed_ms)
                result.figures["at_once_last_read_ms"] = round(read_ms)
                result.figures["lost"] = lost
                result.figures["ready_jobs_meanwhile"] = _ready(paths)
    result.hold("pushed_to_found_p95_ms", "<=", 1_000)
    result.hold("lost", "==", 0)
    return result


class Program:
    """A program of the owner's that speaks JSON-RPC to the page's process."""

    def __init__(self, paths: Paths) -> None:
        address, token = running_gateway(paths), read_token(paths)
        assert address is not None
        self._client = httpx.Client(
            base_url=address.origin, timeout=60.0, trust_env=False, headers={"Authorization": f"Bearer {token}"}
        )

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(self, method: str, **params: Any) -> Any:
        """Return what a method answers. Raises ``RuntimeError`` with what it says instead."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self._client.post("/rpc", json=request).json()
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def push(self, source: str, word: str) -> None:
        """Hand in a document with a word in it; it is on the disk when this returns."""
        text = f"The word of this note is {word}, and it stands nowhere else."
        self.call("memory.ingest", source_id=source, document={"text": text, "title": word, "key": word})

    def finds(self, word: str) -> bool:
        """Return whether a search for the word returns the note."""
        hits = self.call("memory.search", query=word, limit=3)["hits"]
        return any(word in hit["text"] for hit in hits)

    def wait_for(self, word: str) -> None:
        """Wait until the note is found. Raises ``TimeoutError``."""
        poll(lambda: self.finds(word), f"the note with {word}", PATIENCE_S)


def _measure(program: Program, source: str, first: int, pushes: int) -> tuple[list[float], list[float]]:
    """Return, in ms, how long each push took, and how long after it the note was found."""
    acknowledged, found = [], []
    for number in range(first, first + pushes):
        word = made_up(number)
        began = time.monotonic()
        program.push(source, word)
        kept = time.monotonic()
        program.wait_for(word)
        acknowledged.append((kept - began) * 1000)
        found.append((time.monotonic() - kept) * 1000)
    return acknowledged, found


def _measure_at_once(paths: Paths, program: Program) -> tuple[float, float, int]:
    """Push from many threads at once; return, in ms, when the last was acknowledged and how long after that all were
    read, and how many are never found.
    """
    words = [made_up(number) for number in range(5_000, 5_000 + AT_ONCE)]

    def push(some: list[str]) -> None:
        with Program(paths) as own:
            for word in some:
                own.push("crowd", word)

    threads = [threading.Thread(target=push, args=(words[at::THREADS],)) for at in range(THREADS)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = time.monotonic()
    with open_home(paths) as home:
        poll(lambda: count_source(home.connection, "crowd").items == AT_ONCE, "all of the crowd", PATIENCE_S)
    read = time.monotonic()
    lost = 0
    for word in words:
        try:
            program.wait_for(word)
        except TimeoutError:
            lost += 1
    return (kept - began) * 1000, (read - kept) * 1000, lost


def _ready(paths: Paths) -> int:
    with open_home(paths) as home:
        return count_open(home.connection, home.clock.now_ms()).ready


def _environ(paths: Paths) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SAPWOOD_")}
    return {**kept, "SAPWOOD_HOME": str(paths.config_dir.parent), "SAPWOOD_POWER__ENABLED": "false"}


def _sapwood(paths: Paths, *words: str) -> None:
    argv = [sys.executable, "-m", "agent.cli.main", *words]
    done = subprocess.run(argv, env=_environ(paths), capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"sapwood {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def _agent(paths: Paths) -> Iterator[None]:
    argv = [sys.executable, "-m", "agent.cli.main", "run", "--headless", "--workers", WORKERS]
    nowhere = subprocess.DEVNULL
    process = subprocess.Popen(argv, env=_environ(paths), stdin=nowhere, stdout=nowhere, stderr=nowhere)
    try:
        poll(lambda: running_workers(paths) > 0, "the agent", PATIENCE_S)
        yield
    finally:
        with suppress(SapwoodError):
            call(paths, "stop")
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
