"""Changing the owner's intent: atomically, under a lock, keeping the owner's comments and the last good copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent.config import Intent, SourceIntent, load_intent, parse_intent
from agent.errors import AgentFault, ConfigBroken, UsageFault
from agent.paths import Paths


def edit_intent(paths: Paths, change: Callable[[Any], None]) -> Intent:
    """Let ``change`` edit the TOML document (tomlkit), check the result, store it and return the new intent.

    Raises ``ConfigBroken`` where the file is broken before or after. Blocks while another process edits.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    with _locked(paths):
        try:
            text = paths.config_file.read_text("utf-8")
        except FileNotFoundError:
            text = ""
        try:
            document = tomlkit.parse(text)
        except TOMLKitError as error:
            raise ConfigBroken(
                "config.toml cannot be read",
                str(error),
                "mend it first with `sapwood config edit`; nothing was changed",
            ) from error
        change(document)
        changed = tomlkit.dumps(document)
        parse_intent(changed)
        write_atomically(_where(paths.config_file), changed)
        write_atomically(paths.last_good_config, changed)
    return load_intent(paths).intent


def replace_intent(paths: Paths, text: str, *, was: str) -> Intent:
    """Put a whole new text in the place of ``was``, sound or not, and return the intent in it.

    Raises ``ConfigBroken`` for a text that cannot be read, ``AgentFault`` where the file is no longer ``was``; nothing
    was changed then. Blocks while another process edits.
    """
    with _locked(paths):
        found = parse_intent(text)
        held = paths.config_file.read_text("utf-8", errors="replace") if paths.config_file.exists() else ""
        if held != was:
            raise AgentFault(
                "config.toml was changed by another program meanwhile",
                "nothing was written over it",
                "look at what it says now, then change it again",
            )
        write_atomically(_where(paths.config_file), text)
        write_atomically(paths.last_good_config, text)
    return found


def keep_last_good(paths: Paths) -> bool:
    """Keep a copy of a sound ``config.toml`` that its owner wrote by hand; return whether one was written.

    Writes nothing where the copy is the same, and never raises: a disk that is full costs the copy, nothing else.
    """
    with suppress(OSError, UnicodeDecodeError, ConfigBroken):
        text = paths.config_file.read_text("utf-8")
        parse_intent(text)
        held = paths.last_good_config.read_text("utf-8") if paths.last_good_config.exists() else None
        if text != held:
            write_atomically(paths.last_good_config, text)
            return True
    return False


def add_source(paths: Paths, source: SourceIntent) -> Intent:
    """Add a source to the intent. Raises ``UsageFault`` where its id is taken."""
    import tomlkit

    def change(document: Any) -> None:
        listed = document.get("sources")
        if not listed:
            # `sources = []` takes no tables behind it.
            document.pop("sources", None)
            listed = document["sources"] = tomlkit.aot()
        if any(entry.get("id") == source.id for entry in listed):
            raise UsageFault("a source with this id exists", source.id, "give it another name with --name")
        table = tomlkit.table() if isinstance(listed, tomlkit.items.AoT) else tomlkit.inline_table()
        table.add("id", source.id)
        table.add("kind", source.kind)
        table.add("name", source.name)
        table.add("paths", list(source.paths))
        if source.private:
            table.add("private", True)
        for key, patterns in (("exclude", source.exclude), ("include", source.include)):
            if patterns:
                table.add(key, list(patterns))
        if source.hidden:
            table.add("hidden", True)
        if source.max_bytes is not None:
            table.add("max_bytes", source.max_bytes)
        listed.append(table)

    return edit_intent(paths, change)


def remove_source(paths: Paths, source_id: str) -> bool:
    """Take a source out of the intent; return whether it was there. Raises ``ConfigBroken``."""
    removed: list[str] = []

    def change(document: Any) -> None:
        listed = document.get("sources", [])
        for at in reversed(range(len(listed))):
            if listed[at].get("id") == source_id:
                removed.append(source_id)
                del listed[at]
        if not listed:
            document.pop("sources", None)

    edit_intent(paths, change)
    return bool(removed)


def _where(config_file: Path) -> Path:
    # An owner may keep it elsewhere, with their other settings, and have a link here.
    return config_file.resolve() if config_file.is_symlink() else config_file


@contextmanager
def _locked(paths: Paths) -> Iterator[None]:
    from filelock import FileLock

    paths.config_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with FileLock(paths.config_dir / "config.lock", timeout=10):
        yield


def write_atomically(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace a file's content: temporary file, fsync, replace, fsync of the folder. Raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    # What lies there already is of a process that was killed, or laid out by somebody else, as a file of theirs or a
    # link: never written into, since keys and tokens go this way.
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable where the system offers that (not on Windows)."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
