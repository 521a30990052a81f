"""What this machine and its owner are called, as far as it can be found out: what a report must not say.

Every look stands alone: a broken ``config.toml`` is read as text, a missing folder has no names, and the memory adds
what it knows where it can be opened (``bug_memory``).
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from agent.actions.bug_masking import VENDORS, Known
from agent.actions.bug_words import is_word

if TYPE_CHECKING:
    from agent.config import Intent
    from agent.paths import Paths

CONFIG_BYTES = 1_000_000
INBOX_NAMES = 2_000
LONG_TITLE = 4
"""A title of so many words is looked for even where each of them is the program's own."""

_QUOTED = re.compile(r"\"((?:[^\"\\\n]|\\.){2,400})\"|'([^'\n]{2,400})'")
_SOURCE_LINE = re.compile(r"^\s*(?:id|name|paths|include|exclude)\s*=(.*)$", re.MULTILINE)
_ESCAPE = re.compile(r"\\(?:[uU](?:0000)?([0-9a-fA-F]{4})|(.))")
_HOST_IN_URL = re.compile(r"://(?:[^/\s\"'@]*@)?([^/\s\"':?#]+)")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")


def known_here(paths: Paths, intent: Intent | None, environ: Mapping[str, str] | None = None) -> Known:
    """Return the names of this machine, of its user and of what the settings name. Never raises."""
    environ = os.environ if environ is None else environ
    known = Known()
    _add_home(known, environ)
    for folder in (paths.config_dir, paths.data_dir, paths.log_dir, paths.runtime_dir):
        known.homes.add(str(folder))
    if environ.get("SAPWOOD_HOME"):
        known.homes.add(environ["SAPWOOD_HOME"])
    known.homes.discard("")
    _add_hosts(known, environ)
    if intent is not None:
        _add_intent(known, intent)
    for file in (paths.config_file, paths.last_good_config):
        _add_config_text(known, file)
    _add_inbox(known, paths.inbox)
    return known


def add_strange(known: Known, words: Iterable[str | None], *, title: bool = False) -> None:
    """Add what holds a word that is not the program's own; a ``title`` of several words in any case."""
    for word in words:
        if not word or len(word) > 400:
            continue
        runs = re.findall(r"\w+", word)
        if (title and len(runs) >= LONG_TITLE) or any(not is_word(run) for run in runs):
            known.others.add(word)


def _add_home(known: Known, environ: Mapping[str, str]) -> None:
    homes = {environ.get("HOME", ""), environ.get("USERPROFILE", "")}
    with contextlib.suppress(RuntimeError, OSError, KeyError):
        homes.add(os.path.expanduser("~"))
    users = {environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME", "SUDO_USER")}
    if sys.platform != "win32":
        import pwd

        with contextlib.suppress(KeyError, OSError):
            entry = pwd.getpwuid(os.getuid())
            homes.add(entry.pw_dir)
            users.add(entry.pw_name)
            full = entry.pw_gecos.partition(",")[0].strip()
            users.update({full, *(part for part in full.split() if len(part) > 2)})
    for home in sorted(homes - {"", "/", "~"}):
        known.homes.update({home, os.path.realpath(home)})
        # C:\Users\anna says the same as /home/anna: who is at home there.
        users.add(re.split(r"[\\/]", home.rstrip("\\/"))[-1])
    known.homes.discard("/")
    known.users.update(users - {"", "/"})


def _add_hosts(known: Known, environ: Mapping[str, str]) -> None:
    hosts = {environ.get(name, "") for name in ("HOSTNAME", "COMPUTERNAME", "USERDOMAIN", "LOGONSERVER")}
    with contextlib.suppress(OSError):
        hosts.add(socket.gethostname())
    hosts.add(platform.node())
    with contextlib.suppress(OSError, UnicodeDecodeError):
        hosts.add(Path("/etc/hostname").read_text("utf-8").strip())
    for host in sorted(host.strip("\\ ") for host in hosts):
        if not host or host.lower() == "localhost":
            continue
        known.hosts.add(host)
        # The domain as well: it is the name of a firm or of a family.
        first, _, domain = host.partition(".")
        known.hosts.update(part for part in (first, domain) if len(part) > 2)
    known.hosts -= {"localdomain", "local", "home", "lan"}


def _add_intent(known: Known, intent: Intent) -> None:
    for number, source in enumerate(intent.sources, 1):
        mark = f"source-{number}"
        for name in (source.id, source.name, *source.paths, *map(_expanded, source.paths)):
            known.sources[name] = mark
        known.sources.update({PurePath(path).name: mark for path in source.paths if PurePath(path).name})
        add_strange(known, (*source.include, *source.exclude))
    for number, profile in enumerate(intent.profiles, 1):
        known.sources[profile.name] = f"profile-{number}"
        if profile.host and profile.host not in VENDORS.split():
            known.hosts.add(profile.host)
        add_strange(known, (profile.key, profile.consent))
    known.hosts.update(host for host in intent.models.local_hosts if host)
    known.hosts -= {"localhost", "127.0.0.1", "::1", "0.0.0.0"}
    add_strange(known, (wrong.name for wrong in intent.wrong_profiles))


def _expanded(path: str) -> str:
    try:
        return os.path.realpath(os.path.expanduser(path))
    except (OSError, ValueError):
        return path


def _add_config_text(known: Known, file: Path) -> None:
    try:
        with file.open("rb") as stream:
            text = stream.read(CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return
    for line in _SOURCE_LINE.finditer(text):
        known.others.update(name for name in _quoted(line[1]) if name not in known.sources)
    add_strange(known, _quoted(text))
    add_strange(known, (match[1] for match in _HOST_IN_URL.finditer(text) if match[1] not in VENDORS.split()))
    known.others.update(match[0] for match in _EMAIL.finditer(text))


def _quoted(text: str) -> Iterator[str]:
    for match in _QUOTED.finditer(text):
        raw = match[1] if match[1] is not None else match[2]
        yield raw
        if "\\" in raw:
            # As TOML means it: "C:\\Users\\anna", "M\u00fcller".
            yield _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2], raw)


def _add_inbox(known: Known, inbox: Path) -> None:
    seen = 0
    with contextlib.suppress(OSError):
        for folder in sorted(os.scandir(inbox), key=lambda entry: entry.name):
            known.add_sources([folder.name])
            if not folder.is_dir(follow_symlinks=False):
                continue
            for entry in os.scandir(folder.path):
                seen += 1
                if seen > INBOX_NAMES:
                    return
                add_strange(known, (entry.name, PurePath(entry.name).stem))
