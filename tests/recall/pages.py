"""Debian's HTML documentation of Python as a folder of Markdown: real text without a download of ours."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

INSTALL = "apt-get install python3-doc"
HOME = Path("/usr/share/doc")

_BLOCKS = frozenset(
    ["p", "div", "section", "dl", "dt", "dd", "ul", "ol", "li", "table", "tr", "pre", "blockquote", "aside", "br"]
)
_SILENT = frozenset(["script", "style", "nav", "head", "title"])
_VOID = frozenset(["br", "img", "input", "link", "meta", "hr", "source", "col", "wbr"])
_SPACE = re.compile(r"[ \t\r\f\v\n\xa0]+")


class _Markdown(HTMLParser):
    """The text of a page's main part: headings as Markdown, blocks as paragraphs, code as it stands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[str] = []
        self._piece: list[str] = []
        self._open: list[tuple[str, bool]] = []  # tag, whether what it holds is left out
        self._main_at: int | None = None
        self._prefix = ""
        self._code = 0

    @property
    def _left_out(self) -> bool:
        return self._main_at is None or any(silent for _, silent in self._open)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag in _BLOCKS or tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
            self._end_block()
        if tag in _VOID:
            return
        # ¶ beside each heading, and what leads to other pages
        silent = tag in _SILENT or "headerlink" in (given.get("class") or "")
        self._open.append((tag, silent))
        if given.get("role") == "main":
            self._main_at = len(self._open)
        if tag == "pre":
            self._code += 1
        if len(tag) == 2 and tag[0] == "h" and tag[1].isdigit():
            self._prefix = "#" * int(tag[1]) + " "
        elif tag == "li":
            self._prefix = "- "
        elif tag in ("td", "th"):
            self._piece.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID or tag not in [name for name, _ in self._open]:
            return
        if tag in _BLOCKS or (len(tag) == 2 and tag[0] == "h" and tag[1].isdigit()):
            self._end_block()
        while self._open:
            closed, _ = self._open.pop()
            if self._main_at is not None and len(self._open) < self._main_at:
                self._main_at = None
            if closed == "pre":
                self._code -= 1
            if closed == tag:
                return

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._piece.append(data)

    def _end_block(self) -> None:
        text = "".join(self._piece)
        self._piece = []
        if self._code:
            text = text.strip("\n")
            block = "```\n" + text + "\n```" if text.strip() else ""
        else:
            text = _SPACE.sub(" ", text).strip()
            block = self._prefix + text if text else ""
        if block:
            self.blocks.append(block)
            self._prefix = ""


def markdown_of(html: str) -> str:
    """Return the main part of a page of Sphinx's HTML as Markdown."""
    parser = _Markdown()
    parser.feed(html)
    parser.close()
    parser._end_block()
    return "\n\n".join(parser.blocks) + "\n"


def find_html() -> Path | None:
    """Return the folder of python3-doc's HTML, or ``None`` where the package is not installed."""
    homes = sorted(HOME.glob("python3*/html/library/shutil.html"))
    return homes[0].parent.parent.resolve() if homes else None


def write_pages(html: Path, folder: Path) -> int:
    """Write each page but the letters of the index and the empty search form; return how many there are."""
    count = 0
    for page in sorted(html.rglob("*.html")):
        name = page.relative_to(html)
        if name.name.startswith("genindex-") or name.name == "search.html":
            continue
        target = (folder / name).with_suffix(".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(markdown_of(page.read_text("utf-8")), "utf-8")
        count += 1
    return count
