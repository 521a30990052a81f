"""``sapwood demo``: the whole thing on shipped samples in a home that is thrown away."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from agent.actions.home import Home, open_home
from agent.errors import AgentFault
from agent.paths import Paths, paths_under

if TYPE_CHECKING:
    from agent.actions.memory import SourceOutline
    from agent.recall.search import SearchResult
    from agent.recall.show import Shown

WORKERS = 3
HOME_PREFIX = "sapwood-demo-"
SAMPLES: tuple[tuple[str, str], ...] = (("notes", "folder"), ("club-mail.mbox", "mbox"), ("club-chat", "irc"))
QUESTIONS = ("where is the spare key of the greenhouse", "permission for the hydrant in the drought")
HITS = 3

Follow = Callable[[Paths], AbstractContextManager[object]]


@dataclass(frozen=True)
class Grown:
    """What a demo's home holds once it has grown; read it while the home is there."""

    home: Home
    added: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class DemoResult:
    """What was shown, for programs."""

    added: dict[str, int]
    seconds: float
    outlines: tuple[SourceOutline, ...]
    path: tuple[Shown, ...]
    searches: dict[str, SearchResult]

    def as_json(self) -> dict[str, Any]:
        return {
            "added": self.added,
            "seconds": self.seconds,
            "path": [shown.node.node_id for shown in self.path],
            "searches": {question: found.as_json() for question, found in self.searches.items()},
        }


@contextmanager
def throwaway_home() -> Iterator[tuple[Paths, Path]]:
    """Make a home, with a copy of the samples beside it, and remove both at the end, whatever ends it."""
    folder = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
    try:
        with _terminated_like_interrupted():
            with as_file(files("agent.actions").joinpath("samples")) as samples:
                shutil.copytree(samples, folder / "samples")
            yield paths_under(folder / "home").make(), folder / "samples"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM and SIGHUP leave through the same door as Ctrl-C, so that the home is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    names = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, leave) for number in names}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def grown_home(
    say: Callable[[str], None],
    *,
    workers: int | None = None,
    follow: Follow = lambda _: nullcontext(),
    debug: bool = False,
) -> Iterator[Grown]:
    """Add the samples to a throw-away home, grow them with the processes of ``run``, and hold the home open.

    ``say`` is told what happens, ``follow`` may watch the memory while it grows. Raises ``KeyboardInterrupt`` where
    the owner ended it, ``AgentFault`` where it did not grow; nothing is left behind either way.
    """
    from agent.actions.running import run_agent
    from agent.actions.sources import add

    with throwaway_home() as (paths, samples):
        added = {}
        with open_home(paths) as home:
            for name, kind in SAMPLES:
                found = add(home, [str(samples / name)], kind=kind)
                added[found.source_id] = found.items
                say(f"added {found.source_id} ({found.kind}): {found.items} items")
            begun = home.clock.monotonic()
        with follow(paths):
            ran = run_agent(paths, once=True, workers=WORKERS if workers is None else workers, debug=debug)
        if ran.ended == "stopped":
            # By a signal: nobody else knows this home.
            raise KeyboardInterrupt
        if ran.ended != "finished":
            raise AgentFault("the demo did not grow", ran.words, "run `sapwood doctor`; with --debug it says more")
        with open_home(paths) as home:
            yield Grown(home, added, home.clock.monotonic() - begun)


def look_around(grown: Grown) -> DemoResult:
    """Return what a demo shows: the trees, the path from one leaf to its root, two searches."""
    from agent.actions.memory import outlines, search, show

    home = grown.home
    searches = {question: search(home, question, limit=HITS) for question in QUESTIONS}
    return DemoResult(
        added=dict(grown.added),
        seconds=round(grown.seconds, 1),
        outlines=outlines(home, depth=3, breadth=3),
        path=tuple(show(home, node, depth=0) for node in _path_up(home)),
        searches=searches,
    )


def _path_up(home: Home) -> list[str]:
    """Return the ids from one document's leaf up to the root: of the deepest leaf, the first in order."""
    from agent.actions.memory import show

    rows = home.connection.all(
        """
        SELECT c.chunk_id
          FROM mem_tree_trees AS t
          JOIN mem_tree_items AS i ON i.source_id = t.source_id AND i.item_key = t.item_key
          JOIN mem_tree_chunks AS c ON c.item_seq = i.item_seq
         WHERE t.kind = 'document'
           AND c.lifecycle = 'sealed'
         ORDER BY t.max_level DESC, t.tree_id, c.order_key
         LIMIT 1
        """
    )
    if not rows:
        raise AgentFault("the demo has no document", "", "please report this")
    leaf = str(rows[0][0])
    return [leaf, *(parent.node_id for parent in show(home, leaf, depth=0).parents)]
