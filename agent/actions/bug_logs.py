"""Logs and crash dumps for a report: the newest first within a bound, every line masked.

A line of ours keeps its time, level, process, job and logger; its words go through the masking. Of a stack only what is
of the program or of a library that it uses is shown.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.actions.bug_words import is_word
from agent.actions.log_reading import parsed
from agent.crash import SUFFIX, dumps

if TYPE_CHECKING:
    from agent.actions.bug_masking import Masker
    from agent.paths import Paths

LOG_BYTES = 2_500_000
FILE_BYTES = 600_000
LEAST_BYTES = 10_000
"""With less room than this, what is left of a log says nothing."""
DUMP_BYTES = 64_000
DUMPS = 20
LAST_ERRORS = 40

_LOG_NAME = re.compile(r"([A-Za-z]+(?:-\d{1,8})?)\.log(?:\.(\d{1,2}))?")
_FRAME = re.compile(r'(\s*)File "([^"]*)", line (\d{1,7}|\?\?\?) in (\S+)')
_PLACE = re.compile(r"(\s*)([\w.-]+\.py):(\d{1,7}) (\S+)")
_LIBRARIES = (
    "anthropic anyio apsw dbus-fast filelock httpcore httpx jinja2 keyring mcp msgspec ollama openai pillow "
    "platformdirs psutil pydantic pystray python-multipart selectolax sse-starlette starlette tomlkit uvicorn "
    "watchfiles"
)


@dataclass(frozen=True)
class MaskedFile:
    """A log or a dump as it goes into the report. ``cut``: a log's end, a dump's beginning."""

    name: str
    text: str
    cut: bool


def masked_dumps(paths: Paths, masker: Masker) -> Iterator[MaskedFile]:
    """Yield the crash dumps, the newest first."""
    for number, dump in enumerate(dumps(paths.log_dir)[:DUMPS], 1):
        text, cut = _read_start(dump.path, DUMP_BYTES)
        role = dump.process if all(map(is_word, re.findall(r"\w+", dump.process))) else "other"
        yield MaskedFile(f"crashes/{number:02}-{role}.txt", "".join(_masked_lines(text, masker)), cut)


def masked_logs(paths: Paths, masker: Masker) -> Iterator[MaskedFile]:
    """Yield the logs by name, as many of the newest as there is room for."""
    room = LOG_BYTES
    chosen = []
    for _, name, path in sorted(logs_there(paths), key=lambda each: (-each[0], each[1])):
        if room < LEAST_BYTES:
            break
        text, cut = _read_end(path, min(FILE_BYTES, room))
        room -= len(text.encode())
        chosen.append((name, text, cut))
    for name, text, cut in sorted(chosen):
        yield MaskedFile(f"logs/{name}", "".join(_masked_lines(text, masker)), cut)


def logs_there(paths: Paths) -> list[tuple[int, str, Path]]:
    """Return the logs with something in them: when each was written last (ns), what it is called here, where it is."""
    found: list[tuple[int, str, Path]] = []
    try:
        entries = list(os.scandir(paths.log_dir))
    except OSError:
        return []
    strange = 0
    for entry in sorted(entries, key=lambda each: each.name):
        if entry.name.endswith(SUFFIX) or ".log" not in entry.name:
            continue
        try:
            # A link could lead anywhere.
            info = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if not stat.S_ISREG(info.st_mode) or not info.st_size:
            continue
        match = _LOG_NAME.fullmatch(entry.name)
        if match is not None and is_word(match[1].partition("-")[0]):
            name = entry.name
        else:
            strange += 1
            name = f"other-{strange}.log"
        found.append((info.st_mtime_ns, name, Path(entry.path)))
    return found


def last_errors(files: list[MaskedFile]) -> list[str]:
    """Return the newest lines of warnings and errors in masked logs, the oldest of them first."""
    found = []
    for file in files:
        for raw in file.text.split("\n"):
            line = parsed(file.name, raw)
            if line.time is not None and line.level in ("WARNING", "ERROR", "CRITICAL"):
                found.append((line.time, raw))
    return [raw for _, raw in sorted(found)[-LAST_ERRORS:]]


def _read_start(path: Path, limit: int) -> tuple[str, bool]:
    # Of a dump the beginning counts: which fault it was, and the thread that met it.
    try:
        with path.open("rb") as stream:
            data = stream.read(limit + 1)
    except OSError as error:
        return f"this file could not be read: {error.strerror}\n", False
    cut = len(data) > limit
    if cut:
        data = data[:limit].rpartition(b"\n")[0]
    return data.decode("utf-8", "replace"), cut


def _read_end(path: Path, limit: int) -> tuple[str, bool]:
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - limit))
            data = stream.read(limit)
    except OSError as error:
        return f"this file could not be read: {error.strerror}\n", False
    cut = size > limit
    if cut:
        # Half a line could be half a secret, whose beginning tells what it is.
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace"), cut


def _masked_lines(text: str, masker: Masker) -> Iterator[str]:
    for raw in text.replace("\r\n", "\n").split("\n"):
        if raw.strip():
            yield masked_line(raw, masker) + "\n"


def masked_line(raw: str, masker: Masker) -> str:
    """Return one line of a log or of a dump, masked."""
    line = parsed("", raw)
    if line.time is not None:
        job = f"job={line.job} kind={masker.text(line.kind or '')} " if line.job is not None else ""
        return (
            f"{line.time} {line.level if is_word(line.level or '') else 'OTHER'} pid={line.pid} "
            f"{masker.text(line.process or '')} {job}{masker.text(line.logger or '')}: {masker.text(line.text)}"
        )
    frame = _FRAME.fullmatch(raw)
    if frame is not None:
        indent, file, number, function = frame.groups()
        shown = _shown_path(file)
        return f'{indent}File "{shown or "[…]"}", line {number} in {_shown_function(function)}'
    place = _PLACE.fullmatch(raw)
    if place is not None:
        indent, file, number, function = place.groups()
        name = file if _is_ours(file) else "[…]"
        return f"{indent}{name}:{number} {_shown_function(function)}"
    indent = raw[: len(raw) - len(raw.lstrip())].replace("\t", "    ")
    return indent[:12] + masker.text(raw)


def _shown_function(name: str) -> str:
    inner = name.strip("<>").replace(".", "_")
    return name if inner.isidentifier() and inner.isascii() and is_word(inner) else "[…]"


def _is_ours(base: str) -> bool:
    stem = base.removesuffix(".py")
    return (stem.isidentifier() and is_word(stem)) or base in _library_files()


def _shown_path(file: str) -> str | None:
    """Return a path within the program, Python or a library of ours; ``None`` for any other file."""
    normal = file.replace("\\", "/")
    for root, name in _roots():
        if normal.startswith(f"{root}/"):
            tail = normal[len(root) + 1 :]
            # A file that is really there, so that nobody's words are taken for one.
            if os.path.isfile(file):
                return f"{name}/{tail}"
    parts = normal.split("/")
    if "agent" in parts:
        # A frozen build's files are nowhere on the disk.
        tail_parts = parts[len(parts) - parts[::-1].index("agent") - 1 :]
        if all(is_word(run) for part in tail_parts for run in re.findall(r"\w+", part)):
            return "/".join(tail_parts)
    return None


@functools.cache
def _roots() -> tuple[tuple[str, str], ...]:
    import sysconfig

    import agent

    package = Path(agent.__file__ or "").parent
    found = {str(package): "agent"}
    for name, mark in (("platlib", "site-packages"), ("purelib", "site-packages"), ("stdlib", "python")):
        path = sysconfig.get_path(name)
        if path:
            found.setdefault(path, mark)
    bundle = getattr(sys, "_MEIPASS", None)
    if bundle:
        found[str(bundle)] = "bundle"
    # The longest first: site-packages stands inside Python's own folder.
    return tuple(
        sorted(((root.replace("\\", "/"), mark) for root, mark in found.items()), key=lambda each: -len(each[0]))
    )


@functools.cache
def _library_files() -> frozenset[str]:
    from importlib import metadata

    found = {f"{name}.py" for name in sys.stdlib_module_names}
    for library in _LIBRARIES.split():
        try:
            found.update(Path(str(file)).name for file in metadata.files(library) or () if str(file).endswith(".py"))
        except metadata.PackageNotFoundError:
            continue
    return frozenset(found)
