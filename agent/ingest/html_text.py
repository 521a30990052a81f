"""HTML to text with its structure kept as Markdown: headings, lists, tables, code, what links show and lead to.

Used for the HTML of mails (all that is there) and, through ``html_document.py``, for pages (their main content).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from typing import TYPE_CHECKING

from agent.ingest.html_tame import MARK, tame

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_MARKUP_LIKE = re.compile(r"(?:#{1,6}[ \t]|[=\-~`]{3,}|%%)")
_MAX_PREFIX = 40  # characters; what is nested deeper stays at that depth
_ADDRESS = ("http://", "https://", "mailto:")

_PARAGRAPHS = frozenset(
    ["p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "pre", "dl", "figure", "hr"]
)
_BLOCKS = _PARAGRAPHS | frozenset(
    [
        "address",
        "article",
        "aside",
        "center",
        "dd",
        "div",
        "dt",
        "fieldset",
        "footer",
        "form",
        "header",
        "li",
        "main",
        "nav",
        "section",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "body",
        "html",
        "caption",
        "details",
        "summary",
        "figcaption",
        "legend",
        "hgroup",
        "menu",
        "search",
        "dialog",
    ]
)
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_NOT_TEXT = frozenset(["head", "title", "meta", "link", "base", "audio", "video"])

Drops = Callable[["LexborNode", str, "dict[str, str | None]"], bool]
"""Says of an element, by its tag and its attributes, that it is no part of the content."""


def html_to_text(html: str) -> str:
    """Return the readable text of an HTML body: blocks on lines of their own, list items marked, targets of links that
    the text does not show in brackets. Never raises.
    """
    tree = parse(html)
    root = tree.body or tree.root
    if root is None:
        return _tidy(unescape(html))
    return _tidy("\n".join(Writer(plain=True).write(root)))


def parse(html: str, *, lines: bool = False) -> LexborHTMLParser:
    """Return the tree of an HTML text, whatever it holds (``html_tame.py``). Blocks for about 0.2 s a megabyte."""
    from selectolax.lexbor import LexborHTMLParser

    return LexborHTMLParser(tame(html, lines=lines))


def _tidy(text: str) -> str:
    lines = (_SPACE.sub(" ", line).strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


@dataclass(slots=True)
class _Open:
    """An element whose end is still to come."""

    tag: str
    number: int = 0  # of the next item, in a numbered list
    target: str | None = None
    shown: int = 0  # where what a link shows begins in the line
    is_data: bool = False  # of a table: rows and cells, not a layout
    has_head: bool = False
    cells: int = 0
    prefix: str = ""  # what the lines in it began with before it


@dataclass(slots=True)
class Writer:
    """One element written out. ``spans`` says, for each line, from which to which line of the source it comes.

    ``plain``: no fences, no quotation marks, no tables drawn (a mail's own conventions); otherwise Markdown.
    """

    plain: bool = False
    drops: Drops | None = None
    out: list[str] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    _line: list[str] = field(default_factory=list)
    _width: int = 0
    _stack: list[_Open] = field(default_factory=list)
    _prefix: str = ""
    _marker: str = ""  # of a list item that has no text yet
    _blank: str | None = None
    _source: int = 1
    _began: int = 1
    _ended: int = 1
    _cells: int = 0  # how many cells of drawn tables are open
    _pre: int = 0
    _heading: bool = False

    def write(self, root: LexborNode) -> list[str]:
        """Return the lines of an element and all below it."""
        node = root
        depth = 0
        while True:
            if self._enter(node) and (child := node.child) is not None:
                node = child
                depth += 1
                continue
            while depth and node.next is None:
                parent = node.parent
                assert parent is not None
                node = parent
                depth -= 1
                self._leave()
            following = node.next if depth else None
            if following is None:
                break
            node = following
        while self._stack:
            self._leave()
        self._end_line()
        return self.out

    # -- elements -----------------------------------------------------------------------------------------------------

    def _enter(self, node: LexborNode) -> bool:
        """Take the beginning of a node; return whether to go into it."""
        tag = node.tag or ""
        if tag == "-text":
            self._text(node.text_content or "")
            return False
        if tag.startswith(("-", "!")) or tag in _NOT_TEXT:
            return False
        attributes = node.attributes
        line = attributes.get(MARK)
        if line is not None and tag != "br":
            self._source = int(line)
        if self.drops is not None and self.drops(node, tag, attributes):
            return False
        if tag == "br":
            self._break(1)
        elif tag == "img":
            if attributes.get("alt"):
                self._text(f" {attributes['alt']} ")
        elif node.child is None:
            if tag in _BLOCKS:
                self._break(2 if tag in _PARAGRAPHS else 1)
        else:
            self._stack.append(self._open(node, tag, attributes))
            return True
        return False

    def _open(self, node: LexborNode, tag: str, attributes: dict[str, str | None]) -> _Open:
        opened = _Open(tag, prefix=self._prefix)
        if tag == "li":
            self._item()
        elif tag in ("td", "th"):
            self._cell(tag)
        elif tag in _BLOCKS:
            self._break(2 if tag in _PARAGRAPHS else 1)
        if tag in _HEADINGS and not self._cells:
            self._marker += "#" * int(tag[1]) + " "
            self._heading = True
        elif tag == "a":
            target = attributes.get("href") or ""
            opened.target = target if target.startswith(_ADDRESS) else None
            opened.shown = len(self._line)
        elif tag == "ol":
            start = attributes.get("start") or "1"
            opened.number = int(start) if start.isdecimal() and len(start) < 7 else 1
        elif tag == "pre":
            self._begin_code()
        elif tag == "table" and not self.plain:
            opened.is_data = not self._cells and is_data_table(node)
        elif tag == "blockquote" and not self.plain and not self._cells:
            self._indent("> ")
        elif tag == "tr" and self._in_data_table():
            self._marker = "| "
            self._cells += 1
        return opened

    def _leave(self) -> None:
        closed = self._stack.pop()
        tag = closed.tag
        if tag == "a" and closed.target is not None:
            self._link(closed)
        elif tag == "pre":
            self._end_code()
        elif tag == "tr" and self._cells and self._in_data_table():
            self._end_row(closed)
        if tag in _BLOCKS and tag != "li":
            self._break(2 if tag in _PARAGRAPHS else 1)
        if tag in _HEADINGS:
            self._heading = False
        if tag in ("li", "blockquote", "dd"):
            self._break(1)
            self._prefix = closed.prefix
            self._marker = ""

    def _item(self) -> None:
        self._break(1)
        marker = "- "
        for opened in reversed(self._stack):
            if opened.tag in ("ul", "menu"):
                break
            if opened.tag == "ol":
                marker = f"{opened.number}. "
                opened.number += 1
                break
        if self._cells or self._heading:
            return
        self._marker = self._prefix + marker if not self._marker else self._marker + marker
        self._indent(" " * len(marker))

    def _indent(self, prefix: str) -> None:
        if len(self._prefix) < _MAX_PREFIX:
            self._prefix += prefix

    def _link(self, closed: _Open) -> None:
        target = (closed.target or "").removeprefix("mailto:")
        shown = _SPACE.sub(" ", "".join(self._line[closed.shown :])).strip()
        is_address = shown in target and any(sign in shown for sign in "./@")
        if shown and target.rstrip("/") not in shown and not is_address:
            self._text(f" ({target})")

    # -- tables -------------------------------------------------------------------------------------------------------

    def _in_data_table(self) -> bool:
        for opened in reversed(self._stack):
            if opened.tag == "table":
                return opened.is_data
        return False

    def _cell(self, tag: str) -> None:
        row = next((opened for opened in reversed(self._stack) if opened.tag == "tr"), None)
        if not self._cells or row is None:
            if self.plain:
                self._text(" ")
            else:
                self._break(1)
            return
        row.has_head |= tag == "th"
        row.cells += 1
        if row.cells > 1:
            self._emit(" |")
        self._text(" ")

    def _end_row(self, row: _Open) -> None:
        self._cells -= 1
        if self._line:
            self._emit(" |")
        self._break(1)
        table = next(opened for opened in reversed(self._stack) if opened.tag == "table")
        if row.has_head and not table.has_head and row.cells:
            table.has_head = True
            self._emit(f"|{' --- |' * row.cells}")
            self._break(1)

    # -- code ---------------------------------------------------------------------------------------------------------

    def _begin_code(self) -> None:
        self._pre += 1
        if self._pre == 1 and not self.plain and not self._cells:
            self._emit("```")
            self._break(1)

    def _end_code(self) -> None:
        self._pre -= 1
        if self._pre == 0 and not self.plain and not self._cells:
            self._end_line()
            if self.out and self.out[-1].strip() == "```":
                self.out.pop()
                self.spans.pop()
                return
            self._emit("```")

    def _code(self, text: str) -> None:
        for number, row in enumerate(text.replace("\r\n", "\n").split("\n")):
            if number:
                self._end_line(keep_blank=True)
                self._source += 1
                self._began = self._source
            if row:
                # A fence in it would end it.
                self._emit(row.replace("```", "'''") if not self.plain else row)

    # -- lines --------------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> None:
        if self._pre and not self._cells:
            self._code(text)
            return
        # Where the source stands before, behind and after the words.
        words = text.strip(" \t\r\n\f")
        begin = text.find(words) if words else len(text)
        before, within = text.count("\n", 0, begin), words.count("\n")
        after = text.count("\n") - before - within
        text = _SPACE.sub(" ", text)
        if not self._line or self._line[-1].endswith(" "):
            text = text.lstrip(" ")
        self._source += before
        if not text:
            return
        if not self._line and not self._marker and not self.plain and _MARKUP_LIKE.match(text):
            text = f"\\{text}"
        self._emit(text)
        self._source += within
        if words:
            self._ended = self._source
        self._source += after

    def _emit(self, text: str) -> None:
        if not self._line:
            self._began = self._ended = self._source
        self._line.append(text)

    def _break(self, strength: int) -> None:
        """End the line; with 2, leave a blank one before the next. In a cell or a heading it is a space."""
        if self._cells or (self._heading and self._line):
            if self._line and not self._line[-1].endswith(" "):
                self._line.append(" ")
            return
        self._end_line()
        # The blank line belongs to the outer one of the two that it parts.
        if strength == 2 and not self._marker and (self._blank is None or len(self._prefix) < len(self._blank)):
            self._blank = self._prefix

    def _end_line(self, *, keep_blank: bool = False) -> None:
        if not self._line:
            if keep_blank:
                self.out.append(self._prefix.rstrip())
                self.spans.append((self._source, self._source))
            return
        text = "".join(self._line).rstrip()
        self._line.clear()
        if self._marker:
            # A list's marker holds what stands before it already.
            text = self._prefix + self._marker + text if self._marker[0] in "#|" else self._marker + text
            self._marker = ""
        else:
            text = self._prefix + text
        if self._blank is not None and self.out and self.out[-1].strip():
            self.out.append(self._blank.rstrip())
            self.spans.append((self._began, self._began))
        self._blank = None
        self.out.append(text)
        self.spans.append((self._began, max(self._began, self._ended)))


def is_data_table(table: LexborNode) -> bool:
    """Return whether a table holds data: rows of several short cells. What only lays a page out is none."""
    if table.css_first("td table, th table, h1, h2, h3, ul, ol, pre, form") is not None:
        return False
    rows = table.css("tr")
    if table.css_first("th") is not None:
        return True
    return len(rows) >= 2 and all(len(row.css("td")) >= 2 for row in rows[:20])
