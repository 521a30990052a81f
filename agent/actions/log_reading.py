"""Reading the logs of all processes as one, from their ends: the last lines, and what comes after them.

Needs neither memory nor settings. What is no line of ours (a crash dump, half a line) is passed on as it is, beside the
line that it followed.
"""

from __future__ import annotations

import heapq
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from agent.paths import Paths

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LINES = 50
BLOCK_BYTES = 64 * 1024
# A longer line is nobody's; it is handed on in pieces, so that no file can fill the memory.
LINE_BYTES = 256 * 1024
# Lines below the one they belong to (the places an error went through) are indented; more than this are cut off it.
BELOW_LINES = 400
FOLLOW_EVERY_S = 0.25

_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d:\d\d|Z)) (?P<level>[A-Z]+) pid=(?P<pid>\d+) "
    r"(?P<process>\S+) (?:job=(?P<job>\d+) kind=(?P<kind>\S+) )?(?P<logger>[\w.]+): (?P<text>.*)",
    re.DOTALL,
)
_FILE = re.compile(r"(?P<name>.+\.log)(?:\.(?P<age>\d+))?")


@dataclass(frozen=True)
class Line:
    """One entry. Of what is no line of ours only ``file`` and ``text`` are known; ``raw`` is how it stands there."""

    file: str
    raw: str
    text: str
    time: str | None = None  # ISO 8601 with offset
    level: str | None = None
    process: str | None = None
    pid: int | None = None
    job: int | None = None
    kind: str | None = None
    logger: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "raw"}


@dataclass(frozen=True)
class Lines:
    """The last lines of all logs together, the oldest first, and where the logs are."""

    folder: Path
    lines: tuple[Line, ...]
    files: int

    def as_json(self) -> dict[str, Any]:
        return {"folder": str(self.folder), "lines": list(self.lines)}


def last_lines(paths: Paths, count: int = LINES, level: str | None = None) -> Lines:
    """Return the last ``count`` lines of all logs by time, of ``level`` and above where one is given.

    Reads the files from their ends, so it takes as long as the lines returned need. Lines that are not ours have no
    level and are never left out. A folder that is missing has no lines. Raises ``OSError`` for one that is locked.
    """
    chains = _chains(paths.log_dir)
    streams = [_backwards(files, level) for files in chains.values()]
    newest = heapq.merge(*streams, key=lambda stamped: stamped[0], reverse=True)
    found = [line for _, line in islice(newest, count)]
    return Lines(paths.log_dir, tuple(reversed(found)), sum(map(len, chains.values())))


def _chains(folder: Path) -> dict[str, list[Path]]:
    """Return the files of each log, the newest first: ``x.log``, ``x.log.1``, …"""
    found: dict[str, list[tuple[int, Path]]] = {}
    try:
        entries = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for path in entries:
        match = _FILE.fullmatch(path.name)
        if match and path.is_file():
            found.setdefault(match["name"], []).append((int(match["age"] or 0), path))
    return {name: [path for _, path in sorted(files)] for name, files in found.items()}


def _backwards(files: Iterable[Path], level: str | None) -> Iterator[tuple[float, Line]]:
    """Yield the entries of one log from the last to the first, each with the moment that it is filed under."""
    below: list[str] = []
    strange: list[Line] = []
    for path in files:
        # What no line of ours stands before, a crash dump that is a file of its own, is as old as its file.
        age = _age(path)
        for raw in _lines_from_end(path):
            if raw.startswith("    ") and len(below) < BELOW_LINES:
                below.append(raw)
                continue
            line = parsed(path.name, "\n".join([raw, *reversed(below)]))
            below = []
            if line.time is None:
                # Filed under the moment of the line before it, which is still to come.
                strange.append(line)
                if len(strange) < BELOW_LINES and sum(len(each.raw) for each in strange) < LINE_BYTES:
                    continue
            moment = _moment(line.time) if line.time is not None else age
            yield from ((moment, each) for each in strange)
            strange = []
            if line.time is not None and _counts(line, level):
                yield moment, line
        if below:
            strange.append(parsed(path.name, "\n".join(reversed(below))))
            below = []
        yield from ((age, each) for each in strange)
        strange = []


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _counts(line: Line, level: str | None) -> bool:
    if level is None or line.level not in LEVELS:
        return True
    return LEVELS.index(line.level) >= LEVELS.index(level.upper())


def _lines_from_end(path: Path) -> Iterator[str]:
    """Yield the lines of a file from the last to the first; a file that vanishes meanwhile just ends."""
    try:
        with path.open("rb") as stream:
            at = stream.seek(0, os.SEEK_END)
            held = b""
            while at > 0:
                step = min(BLOCK_BYTES, at)
                at -= step
                stream.seek(at)
                held = stream.read(step) + held
                first, *lines = held.split(b"\n")
                yield from (_text(each) for each in reversed(lines) if each)
                held = first
                if len(held) > LINE_BYTES:
                    yield _text(held)
                    held = b""
            if held:
                yield _text(held)
    except OSError:
        return


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").rstrip("\r")


def parsed(file: str, raw: str) -> Line:
    """Return one entry, with the lines below it, as what it says."""
    match = _LINE.fullmatch(raw)
    if match is None or _moment(match["time"]) == 0.0:
        return Line(file, raw, raw)
    return Line(
        file,
        raw,
        match["text"],
        time=match["time"],
        level=match["level"],
        process=match["process"],
        pid=int(match["pid"]),
        job=int(match["job"]) if match["job"] else None,
        kind=match["kind"],
        logger=match["logger"],
    )


def _moment(time_text: str | None) -> float:
    try:
        return datetime.fromisoformat(time_text or "").astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


@dataclass(frozen=True)
class _Mark:
    """How far a log was read: which file, told by its inode, and how many bytes of it; and which files there were."""

    inode: int
    offset: int
    seen: frozenset[int]


class Follower:
    """What comes into the logs after it was made. Rotation, new logs and files that are emptied lose no line.

    No file is held open between two looks: on Windows that would keep the writer from rotating it.
    """

    def __init__(self, paths: Paths, level: str | None = None) -> None:
        self._folder = paths.log_dir
        self._level = level
        self._marks: dict[str, _Mark] = {}
        for name, files in self._look().items():
            self._marks[name] = _Mark(files[0][1], files[0][2], _inodes(files))

    def _look(self) -> dict[str, list[tuple[Path, int, int]]]:
        found: dict[str, list[tuple[Path, int, int]]] = {}
        for name, files in _chains(self._folder).items():
            for path in files:
                try:
                    stat = path.stat()
                except OSError:
                    continue
                found.setdefault(name, []).append((path, stat.st_ino, stat.st_size))
        return found

    def new_lines(self) -> list[Line]:
        """Return what came since the last call, by time."""
        entries: list[tuple[float, Line]] = []
        for name, files in self._look().items():
            came: list[str] = []
            mark = self._marks.get(name)
            known = next((at for at, (_, inode, _) in enumerate(files) if mark and inode == mark.inode), None)
            for at, (path, inode, size) in reversed(list(enumerate(files))):
                if known is not None and at > known:
                    continue
                # The one that was read last is gone: what was older then is not news now.
                if known is None and mark is not None and path.name != name and inode in mark.seen:
                    continue
                start = mark.offset if mark is not None and at == known and mark.offset <= size else 0
                # Only the newest one is still being written, so only its last line may be half a line.
                read = _whole_lines(path, start, size, unfinished=at == 0)
                came.extend(read[0])
                if at == 0:
                    self._marks[name] = _Mark(inode, read[1], _inodes(files))
            entries.extend(self._entries(files[0][0].name, came))
        entries.sort(key=lambda stamped: stamped[0])
        return [line for _, line in entries]

    def _entries(self, file: str, came: Iterable[str]) -> Iterator[tuple[float, Line]]:
        moment = time.time()
        held: Line | None = None
        for raw in came:
            if raw.startswith("    ") and held is not None:
                held = replace(held, raw=f"{held.raw}\n{raw}", text=f"{held.text}\n{raw}")
                continue
            if held is not None and _counts(held, self._level):
                yield moment, held
            held = parsed(file, raw)
            moment = _moment(held.time) or moment
        if held is not None and _counts(held, self._level):
            yield moment, held


def _inodes(files: Iterable[tuple[Path, int, int]]) -> frozenset[int]:
    return frozenset(inode for _, inode, _ in files)


def _whole_lines(path: Path, start: int, size: int, *, unfinished: bool) -> tuple[list[str], int]:
    """Return the lines from ``start`` on and where they end."""
    if size <= start:
        return [], start
    try:
        with path.open("rb") as stream:
            stream.seek(start)
            data = stream.read(size - start)
    except OSError:
        return [], start
    end = data.rfind(b"\n") + 1
    if not unfinished or len(data) - end > LINE_BYTES:
        end = len(data)
    return [_text(each) for each in data[:end].split(b"\n") if each], start + end


def follow(
    paths: Paths, count: int = LINES, level: str | None = None, *, sleep: Callable[[float], object] = time.sleep
) -> Iterator[Line]:
    """Yield the last ``count`` lines and then every new one, for ever; blocks while none comes."""
    follower = Follower(paths, level)
    shown = last_lines(paths, count, level).lines
    yield from shown
    # What was written between the two looks is in both.
    twice = {line.raw for line in shown}
    while True:
        yield from (line for line in follower.new_lines() if line.raw not in twice)
        twice = set()
        sleep(FOLLOW_EVERY_S)
