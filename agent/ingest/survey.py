"""A first look at a path, before it becomes a source: what kind it is, and how much is there.

Nothing is stored. Counting reads what scanning would read, so it can take a while on a large mailbox.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent.config import Intent, SourceIntent
from agent.errors import UsageFault
from agent.ingest.headers import looks_like_mail
from agent.ingest.readers.eml import is_mail_name
from agent.ingest.readers.folder import is_text_name
from agent.ingest.readers.irc import is_log, is_log_name
from agent.ingest.readers.mbox import is_mailbox
from agent.ingest.readers.protocol import FileSeen, Found, Hidden, SourceMissing
from agent.ingest.readers.registry import reader_for, with_limit
from agent.ingest.readers.walk import File, open_file, walk
from agent.ingest.unread import NotRead

_PEEK = 8 * 1024
_TELL_EVERY = 100  # items
_ENOUGH = 200  # files looked into before the kind is decided


@dataclass(frozen=True, slots=True)
class Survey:
    """What a source would bring: how many items, and the files that cannot be read, with the reason."""

    kind: str
    items: int
    unreadable: tuple[NotRead, ...]


def detect(path: Path) -> str:
    """Return the kind of source that a path is. Raises ``UsageFault`` where it is not there or nothing in it is known.

    A folder is what most of its readable files are; a folder without any is a folder of notes to come.
    """
    if not path.exists():
        raise UsageFault("there is no such file or folder", str(path))
    if path.is_dir():
        if all((path / name).is_dir() for name in ("cur", "new", "tmp")):
            return "maildir"
        return _detect_folder(path)
    if not path.is_file():
        raise UsageFault("this is neither a file nor a folder", str(path), "name a file or a folder to read")
    found = _kind_of_file(path.name, _peek(path))
    if found is None:
        raise UsageFault("this file is of no kind that can be read", str(path), "name one with --kind")
    return found


def _detect_folder(path: Path) -> str:
    kinds: Counter[str] = Counter()
    looked = 0
    source = SourceIntent("survey", "folder", "survey", (str(path),))
    try:
        for file in walk(source, lambda name: True):
            if not isinstance(file, File) or file.barred is not None:
                continue
            found = _kind_of_file(os.path.basename(file.path), _peek(Path(file.path)))
            if found is not None:
                kinds[found] += 1
            looked += 1
            if looked >= _ENOUGH:
                break
    except SourceMissing as error:
        raise UsageFault("the folder cannot be read", error.detail) from error
    if not kinds:
        return "folder"
    return min(kinds, key=lambda kind: (-kinds[kind], kind != "folder", kind))


def _kind_of_file(name: str, beginning: bytes) -> str | None:
    if name.lower().endswith((".mbox", ".mbx")) or is_mailbox(beginning):
        return "mbox"
    if is_mail_name(name):
        return "eml"
    if is_log_name(name) and is_log(beginning):
        return "irc"
    if is_text_name(name):
        return "folder"
    return "eml" if looks_like_mail(beginning) else None


def _peek(path: Path) -> bytes:
    try:
        with open_file(os.path.realpath(path)) as stream:
            return stream.read(_PEEK)
    except OSError:
        return b""


def survey(
    path: Path,
    kind: str = "auto",
    *,
    include: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    hidden: bool = False,
    intent: Intent | None = None,
    counted: Callable[[int], None] = lambda count: None,
) -> Survey:
    """Return what a path would bring as a source of a kind (``auto``: detected). Raises ``UsageFault``. Blocks.

    ``intent`` says how large a file may be. ``counted`` is called now and then with how many items were found so far.
    """
    if kind == "auto":
        kind = detect(path)
    source = SourceIntent("survey", kind, "survey", (str(path),), exclude=exclude, include=include, hidden=hidden)
    source = with_limit(source, intent or Intent())
    keys: set[str] = set()
    unreadable: list[NotRead] = []
    try:
        for event in reader_for(kind).scan(source, {}):
            if isinstance(event, Found):
                keys.add(event.item_key)
                if len(keys) % _TELL_EVERY == 0:
                    counted(len(keys))
            elif isinstance(event, FileSeen) and event.stamp.state == "unreadable":
                unreadable.append(NotRead(event.path, event.stamp.reason or ""))
            elif isinstance(event, Hidden):
                unreadable.append(NotRead(event.path, event.reason))
    except SourceMissing as error:
        raise UsageFault(error.title, error.detail) from error
    return Survey(kind, len(keys), tuple(unreadable))
