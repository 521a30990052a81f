"""Front matter of a note: what it says of itself before its text, in YAML (``---``) or TOML (``+++``).

Read line by line and tolerantly: a note whose front matter is broken is still a note. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

MAX_LINES = 200
_MAX_VALUE = 160

_ENTRY = {
    "---": re.compile(r"(?!-[ \t])([^\s:#'\"\[{][^:\n]{0,60}?|\"[^\"]{1,60}\"|'[^']{1,60}')[ \t]*:(?:[ \t]+(.*))?"),
    "+++": re.compile(r"([\w.\-]{1,60}|\"[^\"]{1,60}\")[ \t]*=[ \t]*(.*)"),
}
_BELOW = re.compile(r"[ \t]|-(?:[ \t]|$)|[\]}]|\"\"\"|'''")  # lines that go on with the entry before them
_ITEM = re.compile(r"[ \t]*-[ \t]+(?:name[ \t]*:[ \t]*)?(.+)")
_COMMENT = re.compile(r"(?<![ \t])[ \t]++#.*")
_QUOTED = re.compile(r"(?:\"((?:[^\"\\]|\\.)*+)\"|'((?:[^']|'')*+)')[ \t]*(?:#.*)?")
_TABLE = re.compile(r"\[\[?[^\[\]]+\]\]?[ \t]*(?:#.*)?")
_DATE = re.compile(
    r"(\d{4})[-/](\d{1,2})[-/](\d{1,2})(?:[T ]+(\d{1,2}):(\d{2})(?::(\d{2}))?(?:\.\d+)?[ ]*(Z|[+-]\d{2}:?\d{2})?)?"
)
_IDLE = re.compile(
    r"(?i)|true|false|yes|no|null|none|~|[\[\]{}]+|[\d.,:/\-]+|\d{4}-\d\d-\d\d[T ].*|[0-9a-f]{8}-?[0-9a-f\-]{8,}"
)

_TITLE = ("title",)
_DATES = ("date", "created", "createdat", "datecreated", "creationdate", "published", "publishedat", "pubdate")
_AUTHORS = ("author", "authors", "creator")
# Switches and numbers for a program; the words in them are nobody's.
_FOR_PROGRAMS = frozenset(
    [
        "updated",
        "updatedat",
        "modified",
        "lastmod",
        "lastmodified",
        "lastupdated",
        "mtime",
        "ctime",
        "id",
        "uid",
        "uuid",
        "guid",
        "slug",
        "permalink",
        "layout",
        "draft",
        "publish",
        "cssclass",
        "cssclasses",
        "weight",
        "toc",
        "math",
        "lang",
        "language",
        "template",
        "output",
        "outputs",
        "bibliography",
        "icon",
        "banner",
        "sticker",
        "order",
        "navorder",
        "sidebarposition",
        "sidebarlabel",
        "hidetitle",
        "kanbanplugin",
        "excalidrawplugin",
        "editor",
        "format",
        "redirectfrom",
        "color",
        "position",
        "comments",
    ]
)


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a note says of itself. ``end``: where its text begins; ``kept``: the lines with words worth finding.

    Lines are counted from 0. ``time_ms`` is UTC.
    """

    end: int
    kept: tuple[int, ...]
    title: str | None
    author: str | None
    time_ms: int | None


def read_front_matter(lines: Sequence[str]) -> FrontMatter | None:
    """Return the front matter that the lines of a note begin with, or ``None`` where they begin with text. Pure."""
    mark = lines[0].rstrip() if lines else ""
    if mark not in _ENTRY:
        return None
    end = _end(lines, mark)
    if end is None:
        return None
    kept: list[int] = []
    found: dict[str, str] = {}
    for name, begin, stop, value in _entries(lines, 1, end - 1, _ENTRY[mark]):
        found.setdefault(name, value)
        told = name in _TITLE or name in _DATES or name in _FOR_PROGRAMS
        if not told and _IDLE.fullmatch(value) is None:
            kept.extend(at for at in range(begin, stop) if lines[at].strip())
    return FrontMatter(
        end,
        tuple(kept),
        _first(found, _TITLE),
        _first(found, _AUTHORS),
        next((time_ms for name in _DATES if (time_ms := _time(found.get(name, ""))) is not None), None),
    )


def _end(lines: Sequence[str], mark: str) -> int | None:
    """Return the line behind the end, if what stands before it is nothing but entries."""
    entry = _ENTRY[mark]
    entries = 0
    for at in range(1, min(len(lines), MAX_LINES)):
        line = lines[at].rstrip()
        if line == mark or (line == "..." and mark == "---"):
            return at + 1 if entries else None
        if entry.fullmatch(line):
            entries += 1
        elif not line or line.lstrip().startswith("#") or (mark == "+++" and _TABLE.fullmatch(line)):
            continue
        elif not entries or (mark == "---" and not _BELOW.match(line)):
            return None  # a rule at the top of a text, and another further down
    return None


def _entries(lines: Sequence[str], begin: int, end: int, entry: re.Pattern[str]) -> list[tuple[str, int, int, str]]:
    """Return each entry: its name without case and marks, its lines, its value in words."""
    starts: list[tuple[int, re.Match[str] | None]] = []
    for at in range(begin, end):
        line = lines[at].rstrip()
        match = entry.fullmatch(line)
        # The name of a TOML table ends an entry, and is none.
        if match is not None or (entry is _ENTRY["+++"] and _TABLE.fullmatch(line)):
            starts.append((at, match))
    found = []
    for (at, match), (following, _) in zip(starts, [*starts[1:], (end, None)], strict=True):
        if match is not None:
            name = re.sub(r"[\s_\-\"']", "", match[1]).lower()
            found.append((name, at, following, _value(match[2] or "", lines[at + 1 : following])))
    return found


def _value(first: str, more: Sequence[str]) -> str:
    parts = [] if first.strip() in (">", "|", ">-", "|-", ">+", "|+", '"""', "'''") else [first]
    for line in more:
        if line.strip() and not line.lstrip().startswith("#") and not _TABLE.fullmatch(line.strip()):
            item = _ITEM.fullmatch(line.rstrip())
            parts.append(item[1] if item is not None else line)
    listed = len(parts) > 1 and not parts[0].strip()
    plain = [text for part in parts if (text := _scalar(part))]
    return (", " if listed else " ").join(plain)


def _scalar(text: str) -> str:
    text = text.strip()
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        said: str = quoted[1] if quoted[1] is not None else quoted[2].replace("''", "'")
        return said.replace('\\"', '"').strip()
    text = _COMMENT.sub("", text) if not text.startswith("#") else ""
    if text[:1] == "[" and text[-1:] == "]" and text[:2] != "[[":
        return ", ".join(_scalar(part) for part in text[1:-1].split(",") if part.strip())
    return text.strip("\"' \t")


def _first(found: dict[str, str], names: Sequence[str]) -> str | None:
    return next((value[:_MAX_VALUE] for name in names if (value := found.get(name))), None)


def _time(value: str) -> int | None:
    match = _DATE.match(value)
    if match is None:
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    try:
        if match[4] is None:
            # Noon, because a day says no zone: at noon UTC it is the same calendar day nearly everywhere.
            return int(datetime(year, month, day, 12, tzinfo=UTC).timestamp() * 1000)
        moment = datetime(year, month, day, int(match[4]), int(match[5]), int(match[6] or 0), tzinfo=UTC)
        zone = (match[7] or "Z").replace(":", "")
        away = 0 if zone == "Z" else (int(zone[1:3]) * 60 + int(zone[3:5])) * (-1 if zone[0] == "-" else 1)
        return int(moment.timestamp() * 1000) - away * 60_000
    except (ValueError, OverflowError):
        return None
