"""The text of an HTML mail: a small extractor on the standard library's tolerant parser.

It serves mails that have no plain part; the reader for HTML files is another thing and comes later.
"""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

MAX_PARSED = 4 * 1024 * 1024  # characters; beyond it tags are cut out by a pattern, for the parser is slow

_SKIPPED = frozenset({"script", "style", "head", "title", "template", "noscript", "svg"})
_BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "center",
        "dd",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figure",
        "footer",
        "form",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "header",
        "hr",
        "li",
        "main",
        "nav",
        "ol",
        "p",
        "pre",
        "section",
        "table",
        "tbody",
        "tfoot",
        "thead",
        "tr",
        "ul",
        "body",
        "html",
        "caption",
    }
)
_PARAGRAPHS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "pre", "dl"})
_SPACE = re.compile(r"[ \t\r\n\f\u00a0]+")
_BLANK_LINES = re.compile(r"\n{3,}")
_CUT_OUT = re.compile(r"(?is)<(script|style|head|title)\b.*?</\1\s*>|<!--.*?-->")
_TAG = re.compile(r"<[^<>]*>")
_BREAK = re.compile(r"(?i)<(?:br|/?p|/?div|/?tr|/?li|/?h[1-6])\b[^<>]*>")


def html_to_text(html: str) -> str:
    """Return the readable text of an HTML body: blocks on lines of their own, list items marked, targets of links that
    the text does not show in brackets. Never raises.
    """
    if len(html) > MAX_PARSED:
        return _rough(html)
    # What never ends is no markup: the parser would look for its end again at each "<" of it.
    at = html.rfind("-->") + 1
    html = html[:at] + html[at:].replace("<!--", "&lt;!--")
    broken = html.find("<", html.rfind(">") + 1)
    tail = "" if broken < 0 else html[broken:]
    parser = _Extractor()
    try:
        parser.feed(html[: len(html) - len(tail)])
        parser.close()
        if tail:
            parser.handle_data(unescape(tail))
    except (AssertionError, ValueError, RecursionError):
        # CPython's parser asserts on some broken declarations.
        return _rough(html)
    return _tidy("".join(parser.out))


def _rough(html: str) -> str:
    return _tidy(unescape(_TAG.sub(" ", _BREAK.sub("\n", _CUT_OUT.sub(" ", html)))))


def _tidy(text: str) -> str:
    lines = (_SPACE.sub(" ", line).strip() for line in text.split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


class _Extractor(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._skip: list[str] = []
        self._pre = 0
        self._target: str | None = None
        self._linked: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SKIPPED:
            self._skip.append(tag)
        elif tag == "body":
            self._skip.clear()  # a head that was never closed must not swallow the body
        if self._skip:
            return
        if tag == "br":
            self.out.append("\n")
        elif tag == "li":
            self.out.append("\n- ")
        elif tag in ("td", "th"):
            self.out.append(" ")
        elif tag in _BLOCKS:
            self.out.append("\n\n" if tag in _PARAGRAPHS else "\n")
            if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
                self.out.append("#" * int(tag[1]) + " ")
        elif tag == "a":
            target = dict(attrs).get("href") or ""
            self._target = target if target.startswith(("http://", "https://", "mailto:")) else None
            self._linked = []
        elif tag == "img":
            text = dict(attrs).get("alt")
            if text:
                self.out.append(f" {text} ")
        if tag == "pre":
            self._pre += 1

    def handle_endtag(self, tag: str) -> None:
        if self._skip:
            if tag in self._skip:
                del self._skip[self._skip.index(tag) :]
            return
        if tag == "a" and self._target is not None:
            shown = _SPACE.sub(" ", "".join(self._linked)).strip()
            target = self._target.removeprefix("mailto:")
            if shown and target.rstrip("/") not in shown and shown not in target:
                self.out.append(f" ({target})")
            self._target = None
        elif tag in _BLOCKS and tag != "li":
            self.out.append("\n\n" if tag in _PARAGRAPHS else "\n")
        if tag == "pre":
            self._pre = max(0, self._pre - 1)

    def handle_data(self, data: str) -> None:
        if self._skip:
            return
        if not self._pre:
            data = _SPACE.sub(" ", data)
        self.out.append(data)
        if self._target is not None:
            self._linked.append(data)
