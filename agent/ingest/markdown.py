"""Text to blocks: headings, paragraphs, lists and fences of Markdown and its relatives, with their lines.

Only what decides where a text may be cut is looked at; the text itself is never changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from agent.ingest.canonical import HEADING_SEPARATOR, Block, BlockKind
from agent.ingest.front_matter import read_front_matter

MAX_HEADING = 160
_MAX_COMMENT = 400  # lines

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*")
_ORG = re.compile(r"(\*{1,8})[ \t]+(.+?)[ \t]*")
_ADOC = re.compile(r"(={1,6})[ \t]+(.+?)[ \t]*")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•]|\(?\d{1,4}[.)]|[a-zA-Z][.)])[ \t]+\S")
_ADORNMENT = re.compile(r"([=\-~^\"'`*+#.:_<>])\1{2,}[ \t]*")
_NAME_DATE = re.compile(r"(?<!\d)((?:19|20)\d{2})-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])(?!\d)")
_MARKUP = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}|\[([^\]]*)\]\([^)]*\)")
_ROLE = re.compile(r":[\w.+:\-]+:`([^`]*)`")
_WIKILINK = re.compile(r"!?\[\[([^\[\]|#]*)(?:#([^\[\]|]*))?(?:\|([^\[\]]*))?\]\]")
_SPECIAL = frozenset("#`~=-\"'^*+.:_<>%")


class Markup(Enum):
    """Which relative of Markdown a file is written in."""

    MARKDOWN = "markdown"
    PLAIN = "plain"
    RST = "rst"
    ORG = "org"
    ASCIIDOC = "asciidoc"


def markup_of(name: str) -> Markup:
    """Return the markup that a file's name stands for."""
    lower = name.lower()
    if lower.endswith((".rst", ".rest", ".rst.txt")):
        return Markup.RST
    if lower.endswith(".org"):
        return Markup.ORG
    if lower.endswith((".adoc", ".asciidoc")):
        return Markup.ASCIIDOC
    if lower.endswith((".md", ".markdown", ".mdown", ".mkd", ".mdx")):
        return Markup.MARKDOWN
    return Markup.PLAIN


@dataclass(frozen=True, slots=True)
class Outline:
    """The blocks of a text, and the title, the author and the date it gives itself (UTC ms).

    ``blank`` are lines, counted from 0, that are no part of the text: front matter that says nothing but these.
    """

    blocks: list[Block]
    title: str | None
    time_ms: int | None
    author: str | None = None
    blank: tuple[int, ...] = ()


def read_outline(lines: Sequence[str], markup: Markup = Markup.MARKDOWN) -> Outline:
    """Return the blocks of a text in order; they hold every line that is not blank, but for ``Outline.blank``. Pure."""
    return _Reader(lines, markup).read()


def date_in_name(name: str) -> int | None:
    """Return the date in a file's name (``2024-05-01``, ``20240501``) as UTC ms at noon, or ``None``.

    Noon, because the name says no zone: at noon UTC it is the same calendar day nearly everywhere.
    """
    match = _NAME_DATE.search(name)
    if match is None:
        return None
    try:
        return noon_ms(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def noon_ms(year: int, month: int, day: int) -> int:
    """Return noon UTC of a day in ms. Raises ``ValueError`` for a day that does not exist."""
    return int(datetime(year, month, day, 12, tzinfo=UTC).timestamp() * 1000)


class _Reader:
    def __init__(self, lines: Sequence[str], markup: Markup) -> None:
        self.lines = lines
        self.markup = markup
        self.blocks: list[Block] = []
        self.title: str | None = None
        self.first_heading: str | None = None
        self.time_ms: int | None = None
        self.stack: list[tuple[int, str]] = []
        self.path: str | None = None
        self.section = ""
        self.adornments: list[str] = []
        self.author: str | None = None
        self.blank: tuple[int, ...] = ()
        self.not_closed: dict[str, int] = {}  # the beginning of a comment → up to this line none of it ends
        self.never_closed: dict[str, int] = {}  # a fence's letter → from this length on nothing closes it any more

    def read(self) -> Outline:
        lines, total = self.lines, len(self.lines)
        at = self._front_matter()
        begin = -1  # first line of the paragraph being gathered
        while at < total:
            line = lines[at]
            text = line.strip()
            if not text:
                if begin >= 0:
                    self._close(begin, at)
                    begin = -1
                at += 1
                continue
            if text[0] in _SPECIAL:
                taken = self._special(at, line, text, begin)
                if taken:
                    at = taken
                    begin = -1
                    continue
            if begin < 0:
                begin = at
            at += 1
        if begin >= 0:
            self._close(begin, total)
        return Outline(self.blocks, self.title or self.first_heading, self.time_ms, self.author, self.blank)

    def _special(self, at: int, line: str, text: str, begin: int) -> int:
        """Return the line after the heading or fence that begins (or ends) here, or 0 where there is none."""
        fence = _FENCE.match(line)
        if fence is not None and self.markup is not Markup.RST:
            end = self._fence_end(at, fence[1])
            if end:
                if begin >= 0:
                    self._close(begin, at)
                self._add(BlockKind.CODE, at, end)
            return end
        if text[0] in "<%" and self.markup is Markup.MARKDOWN and (end := self._comment_end(at, text)):
            if begin >= 0:
                self._close(begin, at)
            self._add(BlockKind.PARAGRAPH, at, end)
            return end
        heading = self._marked_heading(line)
        if heading is not None:
            if begin >= 0:
                self._close(begin, at)
            self._heading(at, at + 1, *heading)
            return at + 1
        if _ADORNMENT.fullmatch(text):
            return self._adorned(at, text, begin)
        return 0

    def _marked_heading(self, line: str) -> tuple[int, str] | None:
        pattern = _ATX
        if self.markup is Markup.ORG:
            pattern = _ORG
        elif self.markup is Markup.ASCIIDOC:
            pattern = _ADOC
        elif self.markup is Markup.RST:
            return None
        match = pattern.fullmatch(line)
        if match is None or not match[2]:
            return None
        return len(match[1]), match[2]

    def _adorned(self, at: int, text: str, begin: int) -> int:
        lines, mark = self.lines, text[0]
        free = self.markup in (Markup.RST, Markup.PLAIN)
        if begin == at - 1 >= 0:  # a title with a line under it
            title = lines[begin].strip()
            long_enough = len(text) >= (len(title) if free else 3)
            under = free or (mark in "=-" and title[0] not in ">|")  # a rule or a row of a table ends a quotation
            if under and long_enough and not _LIST_ITEM.match(lines[begin]):
                level = self._level(mark) if self.markup is Markup.RST else (1 if mark == "=" else 2)
                self._heading(begin, at + 1, level, title)
                return at + 1
        elif free and begin < 0 and at + 2 < len(lines) and lines[at + 2].strip() == text:
            title = lines[at + 1].strip()
            if title and len(title) <= len(text):
                level = self._level(mark * 2) if self.markup is Markup.RST else (1 if mark in "=#*" else 2)
                self._heading(at, at + 3, level, title)
                return at + 3
        return 0

    def _level(self, mark: str) -> int:
        # reStructuredText gives its marks no rank of their own: the first one seen is the highest.
        if mark not in self.adornments:
            self.adornments.append(mark)
        return min(6, self.adornments.index(mark) + 1)

    def _fence_end(self, at: int, mark: str) -> int:
        """Return the line after a fence that begins here, or 0 where it is a stray mark in a paragraph."""
        lines = self.lines
        end = len(lines) if len(mark) >= self.never_closed.get(mark[0], len(mark) + 1) else at + 1
        while end < len(lines):
            text = lines[end].strip()
            if text.startswith(mark) and not text.strip(mark[0]):
                end += 1
                break
            end += 1
        else:
            self.never_closed[mark[0]] = min(len(mark), self.never_closed.get(mark[0], len(mark)))
            # Never closed: a stray mark must not swallow the rest of the document's structure.
            if len(lines) - at > 400:
                return 0
        return end

    def _comment_end(self, at: int, text: str) -> int:
        """Return the line after a comment that begins here and goes on below, or 0: what is in it is no heading."""
        mark, closing = ("<!--", "-->") if text[0] == "<" else ("%%", "%%")
        if not text.startswith(mark) or closing in text[len(mark) :]:
            return 0
        stop = min(len(self.lines), at + _MAX_COMMENT)
        for end in range(max(at + 1, self.not_closed.get(mark, 0)), stop):
            if closing in self.lines[end]:
                return end + 1
        self.not_closed[mark] = max(stop, self.not_closed.get(mark, 0))
        return 0

    def _close(self, begin: int, end: int) -> None:
        first = self.lines[begin]
        kind = BlockKind.LIST if _LIST_ITEM.match(first) else BlockKind.PARAGRAPH
        if first.lstrip().startswith(("|", "+-")):
            kind = BlockKind.CODE  # a table: cut between its rows or not at all
        self._add(kind, begin, end)

    def _add(self, kind: BlockKind, begin: int, end: int, level: int = 0) -> None:
        self.blocks.append(Block(kind, begin + 1, end, level, self.path, self.section))

    def _heading(self, begin: int, end: int, level: int, text: str) -> None:
        # A line without an end is no title, and looking for markup in it takes the square of its length.
        text = _WIKILINK.sub(_shown, _ROLE.sub(r"\1", text[: 4 * MAX_HEADING]))
        plain = _MARKUP.sub(lambda match: match[1] or "", text).strip() or text
        plain = plain.replace(HEADING_SEPARATOR, " ")[:MAX_HEADING]
        while self.stack and self.stack[-1][0] >= level:
            self.stack.pop()
        self.stack.append((level, plain))
        self.path = HEADING_SEPARATOR.join(title for _, title in self.stack)
        self.section = "\x1f".join(title for depth, title in self.stack if depth <= 2)
        if self.first_heading is None and len(self.blocks) <= 3:
            self.first_heading = plain
        self._add(BlockKind.HEADING, begin, end, level)

    def _front_matter(self) -> int:
        found = read_front_matter(self.lines)
        if found is None:
            return 0
        self.title = found.title[:MAX_HEADING] if found.title else None
        self.time_ms, self.author = found.time_ms, found.author
        kept = set(found.kept)
        self.blank = tuple(at for at in range(found.end) if at not in kept)
        begin = -1
        for at in range(found.end):
            if at in kept and begin < 0:
                begin = at
            elif at not in kept and begin >= 0:
                self._add(BlockKind.LIST, begin, at)
                begin = -1
        return found.end


def _shown(link: re.Match[str]) -> str:
    """Return what a wikilink shows: its own words, or the note's name and the heading in it."""
    if link[3]:
        return link[3].strip()
    return " ".join(part.strip() for part in (link[1], link[2] or "") if part.strip())
