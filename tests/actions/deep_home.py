"""A home with everything in it: notes, mails, a chat, pushed items, something unreadable; grown job by job or whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.actions.doctor import Check, doctor
from agent.actions.home import Home, open_home
from agent.actions.sources import add
from agent.config_edit import add_source
from agent.ingest.push import push_item
from agent.ingest.readers.inbox import DocumentContent
from agent.paths import Paths, paths_under
from agent.queue import LocalContext, Registry, drain_until_idle, run_once
from agent.tree.flush import close_all_tails, unfinished
from agent.worker.kinds import KIND_NAMES
from tests.generated.mailbox import write_exports
from tests.generated.vault import write_vault

SEED = 5
CHAT = "".join(
    f"2024-03-{day:02d} {hour:02d}:{minute:02d} <{name}> {words}\n"
    for day in range(1, 6)
    for hour in (9, 15)
    for minute, (name, words) in enumerate(
        [
            ("anna", f"shall we plant the beans on day {day} at {hour}?"),
            ("ben", "the soil is still cold, better wait a week"),
            ("anna", "then the peas first, they do not mind the frost"),
            ("cora", f"I bring {day + hour} trays of seedlings and the long rake"),
            ("ben", "good, and somebody must mend the water pump"),
        ]
    )
)


def make_sources(folder: Path, *, notes: int = 24, mails: int = 60) -> None:
    """Write the sources below a folder."""
    write_vault(folder / "notes", notes, SEED)
    (folder / "notes" / "long.md").write_text(
        "# Long\n\n" + "\n\n".join(f"## Part {n}\n\n" + f"The {n}th bed holds beans and peas. " * 40 for n in range(18))
    )
    (folder / "notes" / "broken.md").write_bytes(b"\x00\x01binary\x00" * 40)
    (folder / "mail").mkdir()
    write_exports(folder / "mail", mails, SEED, exports=1)
    (folder / "chat").mkdir()
    (folder / "chat" / "#garden.log").write_text(CHAT)


def name_sources(paths: Paths, folder: Path) -> None:
    """Put the sources into the intent, and an item into the inbox."""
    with open_home(paths) as home:
        add(home, [str(folder / "notes")], kind="folder", name="notes")
        add(home, [str(file) for file in sorted((folder / "mail").iterdir())], kind="mbox", name="mail")
        add(home, [str(folder / "chat")], kind="irc", name="chat")
    with open_home(paths) as home:
        push(home, "The spare key hangs behind the rain barrel, left of the door.")


def push(home: Home, text: str) -> None:
    """Hand an item to the inbox, as ``remember`` does."""
    pushed = push_item(home.paths, "remembered", DocumentContent(text, title="Remembered"))
    if home.intent.source(pushed.source.id) is None:
        add_source(home.paths, pushed.source)
    for job in pushed.jobs:
        home.enqueue(job)


def context_of(home: Home) -> LocalContext:
    """Return what handlers run in, in this process."""
    return LocalContext(home.connection, home.clock, home.intent, home.paths)


def grow(paths: Paths) -> None:
    """Grow everything to its end."""
    with open_home(paths) as home:
        drain_until_idle(context_of(home), Registry.load(KIND_NAMES), flush=close_all_tails)
        assert not unfinished(home.connection)


def grow_stepwise(home: Home, every: int) -> Iterator[int]:
    """Run what is due, yielding after each ``every`` claims, and at the end."""
    registry, context = Registry.load(KIND_NAMES), context_of(home)
    step = 0
    while run_once(home.connection, registry, context):
        step += 1
        if step % every == 0:
            yield step
    yield step


@contextmanager
def home_in(folder: Path, **sizes: int) -> Iterator[Paths]:
    """Make a home with named sources that nothing has been read of."""
    paths = paths_under(folder / "home").make()
    os.makedirs(folder / "sources", exist_ok=True)
    make_sources(folder / "sources", **sizes)
    name_sources(paths, folder / "sources")
    yield paths


def faults(paths: Paths) -> list[Check]:
    """Return what the deep doctor finds wrong."""
    return [check for check in doctor(paths, deep=True).checks if not check.ok]
