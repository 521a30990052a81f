"""HTML made harmless for a parser: written anew from its tags, at a cost that grows with its length alone.

A parser that follows the standard takes the square of the depth of what nests without end, of options without a list,
of formatting that every paragraph opens again. None of that carries words. Tags are written anew with the few
attributes that are looked at, so that what was counted here is what is parsed there.
"""

from __future__ import annotations

import re
from collections import Counter

MAX_DEPTH = 400
MARK = "data-line"
"""The attribute that says in which line of the source an element began."""

_NAME = re.compile(r"(/?)([a-zA-Z][a-zA-Z0-9]*(?::[a-zA-Z0-9]+)?)")
_ATTRIBUTE = re.compile(r"([a-zA-Z][\w:.\-]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+)))?")
_KEPT_ATTRIBUTES = frozenset(
    [
        "href",
        "alt",
        "class",
        "id",
        "role",
        "hidden",
        "style",
        "aria-hidden",
        "name",
        "content",
        "property",
        "start",
        "rel",
        "border",
    ]
)
_FORMATTING = frozenset(
    [
        "b",
        "big",
        "em",
        "font",
        "i",
        "nobr",
        "s",
        "small",
        "strike",
        "strong",
        "tt",
        "u",
        "code",
        "span",
        "abbr",
        "kbd",
        "var",
        "samp",
        "mark",
        "ins",
        "del",
        "wbr",
    ]
)
# With what they hold: nothing in them is shown, or it is no text.
_SKIPPED = frozenset(
    [
        "script",
        "style",
        "select",
        "datalist",
        "template",
        "textarea",
        "svg",
        "iframe",
        "object",
        "noembed",
        "noframes",
        "xmp",
        "applet",
        "canvas",
    ]
)
_UNWANTED = frozenset(
    ["option", "optgroup", "plaintext", "frameset", "frame", "listing", "keygen", "param", "rt", "rp", "rb", "rtc"]
)
_VOID = frozenset(["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track"])
# That the next one of them begins says that they end.
_IMPLIED = frozenset(
    ["p", "li", "dt", "dd", "tr", "td", "th", "tbody", "thead", "tfoot", "colgroup", "caption", "html", "head", "body"]
)
_CLOSING = {name: re.compile(rf"</{name}\b[^>]*>", re.IGNORECASE) for name in (*_SKIPPED, "title")}
_MAX_VALUE = 4096  # characters of an attribute that are looked at for its end, or kept


def tame(html: str, *, lines: bool = False) -> str:
    """Return HTML with the same words and structure that costs a parser no more than its length. Pure; never raises.

    ``lines``: each element that is kept says in which line it began (``MARK``).
    """
    at = html.rfind("-->") + 1
    html = html[:at] + html[at:].replace("<!--", "&lt;!--")
    # What never ends is no markup.
    broken = html.find("<", html.rfind(">") + 1)
    if broken >= 0:
        html = html[:broken] + html[broken:].replace("<", "&lt;")
    return "".join(_Tamer(html, lines).pieces())


class _Tamer:
    def __init__(self, html: str, lines: bool) -> None:
        self.html = html
        self.lines = lines
        self.open_tags: Counter[str] = Counter()
        self.depth = 0
        self.endless: set[str] = set()  # of what no end follows any more
        self.line = 1
        self.counted = 0

    def pieces(self) -> list[str]:
        html = self.html
        out: list[str] = []
        at = 0
        while (begin := html.find("<", at)) >= 0:
            out.append(html[at:begin])
            match = _NAME.match(html, begin + 1)
            if match is not None:
                at = self._tag(begin, match, out)
            elif html.startswith("<!--", begin):
                at = html.index("-->", begin) + 3
            elif html.startswith(("<!", "<?"), begin):
                at = html.index(">", begin) + 1
            else:
                out.append("&lt;")
                at = begin + 1
        out.append(html[at:])
        return out

    def _tag(self, begin: int, match: re.Match[str], out: list[str]) -> int:
        """Take one tag; return where the source goes on behind it."""
        html, name = self.html, match[2].lower()
        end = _end_of_tag(html, match.end())
        if name in _FORMATTING or name in _UNWANTED:
            return end
        if name in _CLOSING:
            if match[1] or name in self.endless:
                return end
            closing = _CLOSING[name].search(html, end)
            if closing is None:
                self.endless.add(name)
                return end
            if name == "title":
                inner = html[end : closing.start()].replace("<", "&lt;")
                out.append(f"<title>{inner}</title>")
            return closing.end()
        if match[1]:
            if name not in _VOID:
                if name not in _IMPLIED:
                    if not self.open_tags[name]:
                        return end
                    self.open_tags[name] -= 1
                    self.depth -= 1
                out.append(f"</{name}>")
            elif name == "br":
                out.append("<br>")
            return end
        if name not in _VOID and name not in _IMPLIED:
            if self.depth >= MAX_DEPTH:
                return end
            self.open_tags[name] += 1
            self.depth += 1
        out.append(f"<{name}{self._attributes(begin, match.end(), end)}>")
        return end

    def _attributes(self, begin: int, first: int, end: int) -> str:
        kept: dict[str, str] = {}
        if end - first > 2:
            for match in _ATTRIBUTE.finditer(self.html, first, end - 1):
                name = match[1].lower()
                if name in _KEPT_ATTRIBUTES and name not in kept:
                    kept[name] = (match[2] or match[3] or match[4] or "")[:_MAX_VALUE]
        if self.lines:
            self.line += self.html.count("\n", self.counted, begin)
            self.counted = begin
            kept[MARK] = str(self.line)
        return "".join(
            f' {name}="{value.replace(chr(34), "&quot;").replace("<", "&lt;").replace(">", "&gt;")}"'
            for name, value in kept.items()
        )


def _end_of_tag(html: str, at: int) -> int:
    """Return where a tag ends (there is a ">" behind it), also if a value in quotes holds that sign."""
    end = html.find(">", at)
    if end < 0:
        return len(html)
    for quote in ('"', "'"):
        opened = html.find(quote, at, end)
        if opened >= 0 and html[opened - 1] == "=" and html.count(quote, at, end) % 2:
            closed = html.find(quote, end, end + _MAX_VALUE)
            following = html.find(">", closed, closed + _MAX_VALUE) if closed >= 0 else -1
            return following + 1 if following >= 0 else end + 1
    return end + 1
