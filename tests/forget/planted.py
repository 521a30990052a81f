"""A home with a word planted in notes, mail and chat, and where that word may be found afterwards."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

from agent.actions.home import Home, open_home
from agent.actions.remembering import remember
from agent.actions.sources import add
from agent.ingest.push import ChatContent, ChatMessage, push_item
from agent.paths import Paths
from agent.queue import LocalContext, Registry, drain_until_idle
from agent.tree.flush import close_all_tails

MARKER = "Zanzibarquux"
"""A word that nothing else says; it is also looked for without its beginning, which an index may keep apart."""

WORDS = [
    *("harbour", "lamp", "orchard", "meadow", "kettle", "ladder", "window", "copper", "candle", "winter", "bridge"),
    *("river", "letter", "garden", "stone", "market", "signal", "valley", "pocket", "silver", "engine", "planet"),
]


def prose(seed: int, sentences: int = 12) -> str:
    """Return sentences that belong to one seed."""
    dice = random.Random(seed)
    made = (" ".join(dice.choice(WORDS) for _ in range(dice.randrange(7, 14))) for _ in range(sentences))
    return " ".join(f"{line.capitalize()} {seed}." for line in made)


def plant(root: Path, notes: int = 24, mails: int = 24) -> None:
    """Write notes, a mailbox and a chat, some of them with the marker."""
    folder = root / "notes"
    for number in range(notes):
        path = folder / f"part{number % 3}" / f"note-{number:02}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(prose(number * 100 + part) for part in range(6)))
    body = [prose(5_000 + part, 16) for part in range(8)]
    body[3] = f"{body[3]} On Sunday {MARKER} will bring the key of the boat house. {prose(77)}"
    (folder / "in-text.md").write_text("\n\n".join(body))
    (folder / "in-title.md").write_text(f"# The {MARKER} papers\n\n{prose(6_000)}\n")
    (folder / f"{MARKER.lower()}-file.md").write_text(prose(6_100))
    (folder / "in-front.md").write_text(f"---\ntitle: About {MARKER}\ntags: [a]\n---\n\n{prose(6_200)}\n")
    (folder / "in-heading.md").write_text(
        f"# Diary\n\n{prose(6_300, 30)}\n\n## With {MARKER}\n\n{prose(6_301, 30)}\n\n## Alone\n\n{prose(6_302, 30)}\n"
    )
    with (root / "post.mbox").open("wb") as box:
        for number in range(mails):
            _put(box, number, f"About the {WORDS[number % 20]}", "anna@mail.example", prose(number + 9_000))
        _put(box, 90, "A plain subject", "anna@mail.example", f"{prose(9_100)} {MARKER} called again. {prose(9_101)}")
        _put(box, 91, f"News of {MARKER}", "anna@mail.example", prose(9_200))
        _put(box, 92, "From somebody", f'"{MARKER} Smith" <smith@mail.example>', prose(9_300))
        _put(box, 93, "Another plain subject", "bruno@mail.example", f"{prose(9_400)}\n\n> {MARKER} called again.\n")
    lines = [f"[10:{at // 60:02}:{at % 60:02}] <anna> {prose(at, 1)}" for at in range(60)]
    lines[30] = f"[10:00:30] <bruno> did you hear what {MARKER} said about the old market yesterday?"
    (root / "chat").mkdir()
    (root / "chat" / "2025-06-14.txt").write_text("\n".join(lines) + "\n")


def _put(box: object, number: int, subject: str, sender: str, body: str) -> None:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, "club@mail.example", subject
    mail["Date"] = f"{number % 27 + 1:02} Jun 2025 10:00:00 +0000"
    mail["Message-ID"] = f"<m{number}@mail.example>"
    mail.set_content(body)
    box.write(b"From x Sat Jun 14 10:00:00 2025\n" + mail.as_bytes() + b"\n")  # type: ignore[attr-defined]


def name_sources(paths: Paths, root: Path) -> None:
    """Add the planted sources, and put the marker into the inbox too."""
    with open_home(paths) as home:
        add(home, [str(root / "notes")])
        add(home, [str(root / "post.mbox")], name="post")
        add(home, [str(root / "chat")], kind="irc", name="chat")
    with open_home(paths) as home:
        remember(home, f"The door code of {MARKER} is in the blue book.")
        remember(home, f"{prose(8_000)}\n\nAsk {MARKER} about the boat.\n\n{prose(8_001)}", title="To do")
        turns = tuple(
            ChatMessage("ines", f"{prose(at, 1)}", 1_750_000_000_000 + at * 1000, str(at)) for at in range(12)
        )
        said = ChatMessage("ines", f"I met {MARKER} at the harbour this morning, all well.", 1_750_000_020_000, "99")
        pushed = push_item(paths, "pushed", ChatContent((*turns, said), "club"))
        from agent.config_edit import add_source

        add_source(paths, pushed.source)


def grow(paths: Paths) -> None:
    """Grow all of it in this process."""
    from agent.worker.kinds import KIND_NAMES

    with open_home(paths) as home:
        registry = Registry.load(KIND_NAMES)
        for source in home.intent.sources:
            from agent.queue.types import NewJob

            home.enqueue(NewJob.sync_source(source.id))
        context = LocalContext(home.connection, home.clock, home.intent, paths)
        drain_until_idle(context, registry, flush=close_all_tails)


def run_agent_once(root: Path) -> subprocess.CompletedProcess[str]:
    """Grow it by the real command."""
    return subprocess.run(
        [sys.executable, "-m", "agent.cli.main", "run", "--once", "--workers", "2"],
        env={**os.environ, "SAPWOOD_HOME": str(root)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@dataclass(frozen=True)
class Place:
    """A file that has the marker in it, and how."""

    path: str
    form: str


def needles(marker: str = MARKER) -> Iterator[tuple[str, bytes]]:
    """Yield the forms that the marker's bytes may have: as written, folded, and without its first letters."""
    for text in {marker, marker.lower(), marker.upper(), marker[3:], marker.lower()[4:]}:
        yield text, text.encode()
        yield f"{text} in UTF-16", text.encode("utf-16-le")


def found_in(folders: Sequence[Path], marker: str = MARKER) -> list[Place]:
    """Return every file under the folders that has the marker in its bytes or its name."""
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            for form, needle in needles(marker):
                if needle in data or form in path.name:
                    found.append(Place(path.name, form))
    return found


def places(home: Home) -> list[Place]:
    """Return where the marker is in a home: its database and side files, logs, ledger, inbox, run files."""
    paths = home.paths
    return found_in([paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir])
