"""Plain chat logs: ``[10:13] <nick> text`` and its relatives, one item a conversation and UTC day.

The day of a line comes from the line, from a "day changed" line before it, or from the file's name; past midnight it
goes on by itself. Logs say no zone: their times are taken as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import IO, TYPE_CHECKING

from agent.ingest.canonical import DAY_MS
from agent.ingest.canonicalize import Turn, canonicalize_chat, day_name
from agent.ingest.charsets import decode_text
from agent.ingest.markdown import date_in_name
from agent.ingest.readers.folder import limit_of
from agent.ingest.readers.growth import Mark, grown_from, sign
from agent.ingest.readers.protocol import (
    Event,
    FileSeen,
    Found,
    Moved,
    Part,
    Resume,
    Stamp,
    Unreadable,
    checked,
    hash_of_parts,
)
from agent.ingest.readers.walk import File, locate, open_file, read_span, too_large, walk_changed
from agent.states import SourceKind

if TYPE_CHECKING:
    from agent.config import SourceIntent
    from agent.ingest.canonical import CanonicalItem

SUFFIXES = (".txt", ".log", ".irc", ".text", ".weechatlog")
_MAX_LINE = 64 * 1024

_TIME = re.compile(
    rb"\s*[\[(]?(?:(\d{4})-(\d\d)-(\d\d)[T ]+)?(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])]?[ \t]+"
)
_SAID = re.compile(r"<[ @+%&~!]?([^<>\s]{1,64})>[ \t]?(.*)", re.DOTALL)
_TABBED = re.compile(r"[@+%&~!]?([^\s\t]{1,64})\t(.*)", re.DOTALL)
_ACTION = re.compile(r"\*[ \t]+([^\s*]{1,64})(?:[ \t]+(.*))?", re.DOTALL)
_DAY_CHANGED = re.compile(rb"(?i)[-*=\s]*(?:day changed|log opened|begin logging at|session start:)[ \t]*(.*)")
_MONTH_DAY = re.compile(
    r"(?:[A-Za-z]{3,9},? )?([A-Za-z]{3})[a-z]* +(\d{1,2})(?:,| [\d:]+)? +(\d{4})|(\d{1,2}) ([A-Za-z]{3})[a-z]* (\d{4})"
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DATE_PART = re.compile(r"(?<!\d)(?:19|20)\d{2}-?\d{2}-?\d{2}(?!\d)")
_CHANNEL = re.compile(r"#+[\w\-]+")


def is_log_name(name: str) -> bool:
    """Return whether a file of this name may be a chat log."""
    return name.lower().endswith(SUFFIXES)


def is_log(beginning: bytes) -> bool:
    """Return whether a file's beginning is a chat log's: most of its lines have a time and somebody who speaks."""
    lines = [line for line in beginning.split(b"\n")[:60] if line.strip()]
    lines = lines[:-1] if len(lines) > 20 else lines
    said = sum(1 for line in lines if (time := _TIME.match(line)) and _speaks(line[time.end() :]))
    return said >= 2 and said * 2 >= len(lines)


def _speaks(rest: bytes) -> bool:
    text = rest.decode("utf-8", "replace")
    return _SAID.match(text) is not None or _TABBED.match(text) is not None


def conversation_of(key: str) -> str:
    """Return the conversation that a log's path stands for: its folder and the channel in its name.

    What follows a date in the name only numbers the parts of a day, so such files belong together.
    """
    folder, _, name = key.rpartition("/")
    stem = name
    while stem.lower().endswith(SUFFIXES):
        stem = stem.rpartition(".")[0]
    date = _DATE_PART.search(stem)
    channel = _CHANNEL.search(stem if date is None else f"{stem[: date.start()]} {stem[date.end() :]}")
    label = channel[0] if channel is not None else stem if date is None else stem[: date.start()]
    label = label.strip(" ._-")
    return "/".join(part for part in (folder, label) if part)


class _Span:
    """Lines of one day that stand together in a file."""

    __slots__ = ("day_ms", "digest", "length", "line", "offset")

    def __init__(self, day_ms: int | None, offset: int, line: int) -> None:
        self.day_ms = day_ms
        self.offset = offset
        self.line = line
        self.length = 0
        self.digest = blake2b(digest_size=16)


def split_days(stream: IO[bytes], first_day_ms: int | None, offset: int = 0, line: int = 1) -> Iterator[_Span]:
    """Yield the days of a log in its order, from a byte on that begins a day, with the number of its line. Streams."""
    day_ms = first_day_ms
    clock = -1
    stream.seek(offset)
    span = _Span(day_ms, offset, line)
    timed = False  # whether the span holds a line with a time
    number = line - 1
    while row := stream.readline(_MAX_LINE):
        number += 1
        here = day_ms
        time = _TIME.match(row)
        if time is not None:
            minutes = int(time[4]) * 60 + int(time[5])
            if time[1] is not None:
                here = _midnight(int(time[1]), int(time[2]), int(time[3])) or here
            elif day_ms is not None and clock - minutes > 12 * 60:
                here = day_ms + DAY_MS
            clock = minutes
        elif (changed := _DAY_CHANGED.match(row)) is not None:
            announced = _announced(changed[1])
            if announced is not None:
                here, clock = announced, -1
        if here != day_ms:
            if span.length and (timed or span.day_ms is not None):
                yield span
                span = _Span(here, offset, number)
            else:
                span.day_ms = here  # the log's own opening lines belong to its first day
            day_ms = here
            timed = False
        timed = timed or time is not None
        span.digest.update(row)
        span.length += len(row)
        offset += len(row)
    if span.length:
        yield span


def _midnight(year: int, month: int, day: int) -> int | None:
    if not 1970 <= year < 2100:
        return None  # absurd, as in a mail; and a day past the last year there is could not be written
    try:
        return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def _announced(text: bytes) -> int | None:
    match = _MONTH_DAY.search(text.decode("utf-8", "replace"))
    if match is None:
        return None
    month = (match[1] or match[5]).lower()
    if month not in _MONTHS:
        return None
    return _midnight(int(match[3] or match[6]), _MONTHS.index(month) + 1, int(match[2] or match[4]))


class IrcReader:
    """Reader of a chat log, or of a folder of them."""

    kind = "irc"
    source_kind = SourceKind.CHAT

    def scan(self, source: SourceIntent, known: Mapping[str, Stamp], resume: Resume | None = None) -> Iterator[Event]:
        del resume
        for file in walk_changed(source, known, is_log_name):
            if not isinstance(file, File):
                yield file
                continue
            try:
                yield from self._scan_file(file, known.get(file.key))
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                yield FileSeen(file.key, file.stamp.unreadable(reason, now_only=True))

    def _scan_file(self, file: File, old: Stamp | None) -> Iterator[Event]:
        conversation = conversation_of(file.key)
        with open_file(file.path) as stream:
            mark = grown_from(stream, old, file.stamp)
            if mark is None:
                stream.seek(0)
                beginning = stream.read(8192)
                if not is_log(beginning):
                    reason = "the file is empty" if not beginning.strip() else "not a chat log"
                    yield FileSeen(file.key, replace(file.stamp, state="unreadable", reason=reason))
                    return
                noon = date_in_name(file.key.rpartition("/")[2])
                days = split_days(stream, None if noon is None else noon - noon % DAY_MS)
            else:
                # The last day may have grown: it is one item, and it is read from its beginning.
                line, day = mark.note.split(",")
                days = split_days(stream, int(day) if day else None, mark.entry, int(line))
            span: _Span | None = None
            for span in days:
                part = {
                    **file.place,
                    "hash": span.digest.hexdigest(),
                    "offset": span.offset,
                    "length": span.length,
                    "line": span.line,
                    "day": span.day_ms,
                }
                day = day_name(span.day_ms) or "undated"
                key = f"{conversation}/{day}" if conversation else day
                title = f"{conversation} {day}".strip()
                yield Found(key, self.source_kind, part, span.day_ms, title)
            stamp = file.stamp
            if span is not None:
                note = f"{span.line},{'' if span.day_ms is None else span.day_ms}"
                stamp = replace(stamp, tail_hash=sign(stream, Mark(span.offset + span.length, span.offset, note)))
        grown = mark is not None and mark.entry > 0
        yield FileSeen(file.key, stamp, whole=not grown, grown=grown)

    def read(self, source: SourceIntent, item_key: str, parts: Sequence[Part]) -> CanonicalItem:
        found = []
        kept: list[Part] = []
        moved: Moved | None = None
        limit = limit_of(source)
        for part in sorted(parts, key=lambda part: (part["path"], part["offset"])):
            if (reason := too_large(int(part["length"]), limit, "limits.document_bytes")) is not None:
                raise Unreadable(reason)
            try:
                data = checked(read_span(locate(source, part), part), part)
            except Moved as error:
                moved = error
                continue
            kept.append(part)
            found.append((read_turns(decode_text(data), part["day"], int(part["line"])), {"path": part["path"]}))
        if not found and moved is not None:
            raise moved
        return canonicalize_chat(
            found,
            item_key=item_key,
            conversation=conversation_of(str(parts[0]["path"])),
            day_ms=parts[0]["day"],
            content_hash=hash_of_parts(kept),
        )


def read_turns(lines: str, day_ms: int | None, first_line: int = 1) -> list[Turn]:
    """Return the turns of one day's lines, their text as it stands there. What is nobody's turn is kept as an event."""
    turns: list[Turn] = []
    for number, raw in enumerate(lines.replace("\r\n", "\n").split("\n"), first_line):
        line = raw.rstrip()
        if not line.strip():
            continue
        time = _TIME.match(line.encode("utf-8", "replace"))
        rest = line if time is None else line.encode("utf-8", "replace")[time.end() :].decode("utf-8", "replace")
        time_ms, shown = _moment(time, day_ms)
        said = _SAID.match(rest) or (_TABBED.match(rest) if time is not None else None)
        action = None if said is not None else _ACTION.fullmatch(rest)
        if said is not None:
            tabbed = said.re is _TABBED
            text = f"{shown}<{said[1]}> {said[2]}".rstrip() if tabbed else line.strip()
            turns.append(Turn(text, time_ms, said[1], number, said=said[2].strip()))
        elif action is not None and time is not None:
            turns.append(Turn(line.strip(), time_ms, action[1], number, said=f"* {action[2] or ''}"))
        else:
            turns.append(Turn(line.strip(), time_ms, None, number, event=True))
    return turns


def _moment(time: re.Match[bytes] | None, day_ms: int | None) -> tuple[int | None, str]:
    if time is None:
        return None, ""
    hour, minute, second = int(time[4]), int(time[5]), time[6]
    shown = f"[{hour:02d}:{minute:02d}" + (f":{second.decode()}" if second is not None else "") + "] "
    if day_ms is None:
        return None, shown
    return day_ms + ((hour * 60 + minute) * 60 + int(second or 0)) * 1000, shown
