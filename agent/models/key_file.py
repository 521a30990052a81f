"""``keys.json`` beside ``config.toml``: keys in plain text, for a machine without a keyring, by its owner's consent.

The consent is the file itself: only ``sapwood key set NAME --in-file`` makes it. It is refused where anybody else could
read it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from agent.config_edit import write_atomically
from agent.errors import AgentFault
from agent.paths import Paths

LARGEST_BYTES = 1_000_000


@dataclass(frozen=True)
class KeyFile:
    """What the file holds. ``problem`` says why it is not used, and ``hint`` how to mend that."""

    path: Path
    keys: dict[str, str] = field(default_factory=dict, repr=False)
    problem: str = ""
    hint: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its keys, sorted."""
        return tuple(sorted(self.keys))


def read_key_file(paths: Paths) -> KeyFile:
    """Return what ``keys.json`` holds: nothing where there is none. Never raises."""
    path = paths.config_dir / "keys.json"
    try:
        # Another's file behind a link, or a pipe that blocks whoever opens it, is no key file.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return KeyFile(path)
    except OSError as error:
        return KeyFile(path, problem=f"{path}: {error.strerror}", hint=f"remove {path} and set the keys again")
    try:
        problem, hint = _refusal(path, os.fstat(descriptor))
        if problem:
            return KeyFile(path, problem=problem, hint=hint)
        found = json.loads(os.read(descriptor, LARGEST_BYTES))
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise ValueError("no object of strings")
    except (OSError, ValueError, RecursionError):
        # What the parser says may quote the text.
        return KeyFile(path, problem=f"{path} cannot be read as keys", hint=f"remove {path} and set the keys again")
    finally:
        os.close(descriptor)
    return KeyFile(path, found)


def write_key_file(paths: Paths, keys: dict[str, str]) -> None:
    """Store these keys and no others, mode 0600, its folder closed to others; without keys the file is removed.

    The caller holds the lock. Raises ``OSError``, and ``AgentFault`` where what stands there now is refused.
    """
    path = paths.config_dir / "keys.json"
    if not keys:
        path.unlink(missing_ok=True)
        return
    if sys.platform != "win32":
        os.chmod(paths.config_dir, stat.S_IMODE(os.stat(paths.config_dir).st_mode) & 0o700)
    held = read_key_file(paths)
    if held.problem:
        raise AgentFault("the key file is not used", held.problem, held.hint)
    write_atomically(path, json.dumps(keys, indent=1, sort_keys=True) + "\n", 0o600)


def _refusal(path: Path, found: os.stat_result) -> tuple[str, str]:
    if not stat.S_ISREG(found.st_mode):
        return f"{path} is no plain file", f"remove {path} and set the keys again"
    if sys.platform == "win32":
        # The owner's profile folder is closed to others there; modes say nothing.
        return "", ""
    if found.st_uid != os.geteuid():
        return f"{path} belongs to somebody else", f"remove {path} and set the keys again"
    if found.st_mode & 0o077:
        return (
            f"{path} can be read by others (mode {stat.S_IMODE(found.st_mode):o})",
            f"its keys may have been seen: chmod 600 {path}, and better make new keys at the provider",
        )
    try:
        folder = os.stat(path.parent)
    except OSError as error:
        return f"{path.parent}: {error.strerror}", f"chmod 700 {path.parent}"
    if folder.st_uid != os.geteuid() or folder.st_mode & 0o022:
        return f"others can put another file in the place of {path}", f"chmod 700 {path.parent}"
    return "", ""
