"""The first start's three questions: what to remember, which model, whether to start at login.

Here is what the questions show; the answers are the same functions that `add`, `model use` and `autostart` call.
Nothing of a suggested place is read by suggesting it: that it is there, and how large a mailbox is, is all that is
looked at. Where to look is told by two files of settings: the desktop's list of the owner's folders, and Thunderbird's
list of profiles.
"""

from __future__ import annotations

import configparser
import itertools
import json
import os
import re
import socket
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agent.actions.autostart import Autostart, autostart_status

if TYPE_CHECKING:
    from agent.actions.home import Home
    from agent.actions.models import Profiles, Used

OLLAMA = "ollama"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
OLLAMA_ADDRESS = "http://127.0.0.1:11434"
OLLAMA_LIMIT_S = 0.5
MOST_MAILBOXES = 6
MOST_ANSWERED = 1 << 20
NOTES = ("Notes", "notes", "Obsidian", "Obsidian Vault", "Zettelkasten")
NO_MAIL_TO_KEEP = frozenset(("Trash", "Junk", "Spam", "Drafts", "Templates", "Unsent Messages"))


@dataclass(frozen=True)
class Suggestion:
    """A place that its owner may want to be remembered, by its kind. That it is there is all that is known of it."""

    path: str
    kind: str
    """``folder`` or ``mbox``, as ``sapwood add --kind`` takes it."""
    title: str
    is_named: bool = False
    """Whether it is a source already, or lies in one."""


@dataclass(frozen=True)
class LocalServer:
    """Whether Ollama answers on this machine, and which models it has; asked within half a second."""

    answers: bool
    address: str = OLLAMA_ADDRESS
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Questions:
    """What the three questions show. ``is_first``: no source is named yet."""

    is_first: bool
    suggestions: tuple[Suggestion, ...]
    models: Profiles
    local_server: LocalServer
    autostart: Autostart


def questions(home: Home) -> Questions:
    """Return what the three questions show; blocks for about half a second. Reads nothing of what it suggests."""
    from agent.actions.models import profiles

    return Questions(
        not home.intent.sources,
        suggested_places(home),
        profiles(home),
        local_server(),
        autostart_status(home.paths),
    )


def count_items(home: Home, suggestion: Suggestion) -> int:
    """Return about how many items are in a place, because its owner asked: it blocks for listing or reading it.

    Raises ``UsageFault`` where it cannot be read.
    """
    from agent.ingest.survey import survey

    return survey(Path(suggestion.path), suggestion.kind, intent=home.intent).items


def use_local_model(home: Home, model: str) -> Used:
    """Have a model of this machine's Ollama make the summaries: by the profile that names it, or by a new one.

    Raises ``UsageFault`` for what cannot be a model's name.
    """
    from agent.actions.models import add_profile, use_model
    from agent.config import load_intent
    from agent.profile_intent import ProfileIntent

    for each in home.intent.profiles:
        if (each.provider, each.chat_model) == (OLLAMA, model) and each.host in LOOPBACK:
            return use_model(home, each.name)
    taken = {each.name for each in home.intent.profiles} | {each.name for each in home.intent.wrong_profiles}
    name = next(name for name in map(_nth_name, itertools.count(1)) if name not in taken)
    add_profile(home, ProfileIntent(name, "ollama", model))
    return use_model(replace(home, intent=load_intent(home.paths).intent), name)


def _nth_name(number: int) -> str:
    return OLLAMA if number == 1 else f"{OLLAMA}-{number}"


def suggested_places(home: Home, environ: Mapping[str, str] | None = None) -> tuple[Suggestion, ...]:
    """Return the places that are there: documents, notes, Thunderbird's mailboxes. Lists no folder of documents."""
    environ = os.environ if environ is None else environ
    named = [Path(path) for source in home.intent.sources for path in source.paths]
    found: dict[tuple[int, int], Suggestion] = {}
    for path, kind, title in (*_folders(environ), *_mailboxes(environ)):
        try:
            about = path.stat()
        except OSError:
            continue
        # The same place under two spellings is one.
        if stat.S_ISDIR(about.st_mode) or kind != "folder":
            is_named = any(path == each or path.is_relative_to(each) for each in named)
            found.setdefault((about.st_dev, about.st_ino), Suggestion(str(path), kind, title, is_named))
    return tuple(found.values())


def local_server(address: str = OLLAMA_ADDRESS, limit_s: float = OLLAMA_LIMIT_S) -> LocalServer:
    """Return whether Ollama answers on this machine. Blocks for half a second at most, and raises nothing."""
    parts = urlsplit(address)
    end = time.monotonic() + limit_s
    said = b""
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=limit_s) as stream:
            stream.sendall(b"GET /api/tags HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            while len(said) < MOST_ANSWERED:
                stream.settimeout(max(0.001, end - time.monotonic()))
                more = stream.recv(1 << 16)
                if not more:
                    break
                said += more
        head, _, body = said.partition(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            return LocalServer(False, address)
        listed = json.loads(body)["models"]
        return LocalServer(True, address, tuple(sorted(str(each["name"]) for each in listed)))
    except (OSError, ValueError, KeyError, TypeError):
        return LocalServer(False, address)


def _folders(environ: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    person = Path.home()
    documents = _documents_elsewhere(environ) or person / "Documents"
    for base in (person, documents):
        for name in NOTES:
            yield base / name, "folder", "notes"
    yield documents, "folder", "documents"


def _documents_elsewhere(environ: Mapping[str, str]) -> Path | None:
    """Return the folder of documents by its name in the owner's language, where a desktop on Linux says it."""
    if sys.platform in ("win32", "darwin"):
        return None
    try:
        text = (_config_home(environ) / "user-dirs.dirs").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    found = re.search(r'^XDG_DOCUMENTS_DIR="(\$HOME)?(/[^"]*)"', text, re.MULTILINE)
    if found is None:
        return None
    path = Path(found[2]) if found[1] is None else Path.home() / found[2].lstrip("/")
    # That is how the desktop says that there is none.
    return None if path == Path.home() else path


def _config_home(environ: Mapping[str, str]) -> Path:
    named = environ.get("XDG_CONFIG_HOME", "")
    return Path(named) if os.path.isabs(named) else Path.home() / ".config"


def _mailboxes(environ: Mapping[str, str]) -> Iterator[tuple[Path, str, str]]:
    """Return Thunderbird's largest mailboxes: files with an index beside them."""
    found: list[tuple[int, Path, str]] = []
    for profile in _thunderbird_profiles(environ):
        for account in (*_listed(profile / "Mail"), *_listed(profile / "ImapMail")):
            names = {path.name for path in _listed(account)}
            for name in names - NO_MAIL_TO_KEEP:
                path = account / name
                try:
                    size = path.stat().st_size if f"{name}.msf" in names and path.is_file() else 0
                except OSError:
                    continue
                if size:
                    found.append((-size, path, f"mail: {account.name}, {name}"))
    for _, path, title in sorted(found)[:MOST_MAILBOXES]:
        yield path, "mbox", title


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _thunderbird_profiles(environ: Mapping[str, str]) -> list[Path]:
    person = Path.home()
    if sys.platform == "win32":
        base = Path(environ.get("APPDATA") or person) / "Thunderbird"
    elif sys.platform == "darwin":
        base = person / "Library" / "Thunderbird"
    else:
        base = person / ".thunderbird"
    listed = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        listed.read(base / "profiles.ini", "utf-8")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return []
    found = []
    for name in listed.sections():
        path = listed[name].get("Path") if name.startswith("Profile") else None
        if path:
            found.append(base / path if listed[name].get("IsRelative", "1") == "1" else Path(path))
    return found
