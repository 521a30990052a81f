"""A page as a document: its main content without what stands around it on every page, and what it says of itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from agent.ingest.charsets import decode_text, known_codec, normalise_line_ends
from agent.ingest.html_tame import MARK
from agent.ingest.html_text import Drops, Writer, html_to_text, parse
from agent.ingest.markdown import noon_ms

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

SUFFIXES = (".html", ".htm", ".xhtml", ".xht")
_TOO_LITTLE = 200  # characters; a main element with less is not where the text is
_A_LINE = 20
_MAX_TITLE = 160

_CHARSET = re.compile(
    rb"<meta[^>]{0,400}?charset\s*=\s*[\"']?\s*([\w.:\-]{2,40})|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:\-]{2,40})",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\s+")

_AROUND = frozenset(["nav", "footer", "aside", "form", "dialog", "button", "input", "select", "menu", "audio", "video"])
_AROUND_ROLES = frozenset(
    [
        "navigation",
        "banner",
        "contentinfo",
        "complementary",
        "search",
        "dialog",
        "alertdialog",
        "menu",
        "menubar",
        "toolbar",
        "tablist",
    ]
)
_AROUND_WORDS = frozenset(
    [
        "sidebar",
        "sphinxsidebar",
        "footer",
        "site-footer",
        "site-header",
        "navbar",
        "nav",
        "navigation",
        "breadcrumb",
        "breadcrumbs",
        "menu",
        "skip-link",
        "skiplink",
        "headerlink",
        "toc",
        "table-of-contents",
        "noprint",
        "mw-editsection",
        "advertisement",
        "share-buttons",
        "social-share",
    ]
)
_COOKIES = re.compile(
    r"(?:cookies?|consent|gdpr)[-_]?(?:banner|bar|notice|popup|modal|dialog|overlay|wall|message|box|prompt|disclaimer"
    r"|consent|law|info|alert|container|manager)s?|(?:onetrust|cybotcookiebot|didomi|usercentrics|osano|qc-cmp|truste)"
    r"[\w\-]*|cc-(?:window|banner)|cookieconsent|cookieconsent[-_]\w+|sp_message_container\w*",
    re.IGNORECASE,
)
_SAID_APART = re.compile(
    r"admonition|footnote|note|topic|callout|warning|tip|important|caution|epigraph", re.IGNORECASE
)
_HIDDEN_STYLE = re.compile(r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_CONTAINERS = frozenset(["html", "body", "main", "article"])
_DATES = (
    'meta[property="article:published_time"]',
    'meta[name="date"]',
    'meta[name="dcterms.created"]',
    'meta[name="dc.date"]',
    'meta[name="DC.date"]',
)


@dataclass(frozen=True, slots=True)
class Page:
    """A page's main content as Markdown. ``spans``: from which to which line of the file each of its lines comes."""

    text: str
    spans: tuple[tuple[int, int], ...]
    title: str | None
    author: str | None
    time_ms: int | None


def is_html_name(name: str) -> bool:
    """Return whether a file of this name is a page."""
    return name.lower().endswith(SUFFIXES)


def decode_html(data: bytes) -> str | None:
    """Return the bytes of a page as text: by their mark, what they declare, or what they look like.

    ``None`` where they are no text.
    """
    if b"\0" in data and not data.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return None
    match = _CHARSET.search(data, 0, 4096)
    declared = None if match is None else (match[1] or match[2]).decode("ascii", "replace")
    if declared is not None and (known_codec(declared) or "").startswith(("utf-16", "utf-32")):
        declared = "utf-8"  # it could be read as ASCII up to here
    return decode_text(data, declared)


def read_page(html: str) -> Page:
    """Return a page as a document. Never raises on content; blocks for about 0.4 s a megabyte."""
    html = normalise_line_ends(html)
    tree = parse(html, lines=True)
    body = tree.body
    if body is None:
        lines = html_to_text(html).split("\n")
        return Page("\n".join(lines), tuple((1, 1) for _ in lines), None, None, None)
    root = _main_of(tree)
    writer = _write(root or body)
    if root is not None and not _says_something(writer.out):
        whole = _write(body)
        if sum(map(len, whole.out)) > 3 * sum(map(len, writer.out)):
            root, writer = None, whole
    return Page(
        "\n".join(writer.out),
        tuple(writer.spans),
        _title_of(tree, root or body, writer.out),
        _meta(tree, ('meta[name="author"]', 'meta[name="dc.creator"]', 'meta[name="DC.creator"]')),
        _time_of(tree),
    )


def _says_something(lines: Sequence[str]) -> bool:
    """Whether a main element is where the text is: a line under a heading may be all of it."""
    size = sum(map(len, lines))
    return size >= _TOO_LITTLE or (size >= _A_LINE and any(line.startswith("#") for line in lines))


def _main_of(tree: LexborHTMLParser) -> LexborNode | None:
    for pattern in ("main, [role=main]", "article"):
        found = [node for node in tree.css(pattern) if not _is_inside(node)]
        shown = [node for node in found if not _is_hidden(node.attributes)]
        if len(shown) == 1:
            return shown[0]
        if shown:
            return None  # a list of them: what they are in is the content
    return None


def _is_inside(node: LexborNode) -> bool:
    """Whether something that may be the main content is around a node."""
    above = node.parent
    while above is not None and above.is_element_node:
        if above.tag in ("main", "article") or above.attributes.get("role") == "main":
            return True
        above = above.parent
    return False


def _write(root: LexborNode) -> Writer:
    writer = Writer(drops=_drops(root))
    writer.write(root)
    return writer


def _drops(root: LexborNode) -> Drops:
    in_content = root.tag != "body"
    first = root.mem_id

    def drops(node: LexborNode, tag: str, attributes: dict[str, str | None]) -> bool:
        if tag in _CONTAINERS or node.mem_id == first:
            return _is_hidden(attributes) and node.mem_id != first
        plain = len(attributes) <= (MARK in attributes)
        if plain and tag not in _AROUND and tag != "header":
            return False
        names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
        if tag == "form":
            return _is_small(node, root)
        if tag == "aside" and in_content and _SAID_APART.search(names):
            return False
        if tag == "header":
            return not in_content and not names.strip().startswith("title-block") and not _is_inside(node)
        if tag in _AROUND or _is_hidden(attributes) or (attributes.get("role") or "") in _AROUND_ROLES:
            return not (tag == "footer" and _SAID_APART.search(names))
        return any(word.lower() in _AROUND_WORDS or _COOKIES.fullmatch(word) for word in names.split())

    return drops


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    if "hidden" in attributes or attributes.get("aria-hidden") == "true":
        return True
    style = attributes.get("style")
    return bool(style) and _HIDDEN_STYLE.search(style or "") is not None


def _is_small(form: LexborNode, root: LexborNode) -> bool:
    """Whether a form only asks for something. Some pages are one form from top to bottom."""
    if form.css_first("main, article, h1, h2, [role=main]") is not None:
        return False
    return 2 * len(form.text(separator=" ")) < len(root.text(separator=" "))


def _title_of(tree: LexborHTMLParser, root: LexborNode, lines: Sequence[str]) -> str | None:
    """Return the title: the main heading of the content, or what the window shows."""
    heading = root.css_first("h1")
    said = _heading_text(heading) if heading is not None else ""
    # Beyond the content, the largest heading is the name of the site.
    if said and any(line.endswith(f"# {said}") for line in lines):
        return said[:_MAX_TITLE]
    declared = tree.css_first("title")
    title = _words(declared.text()) if declared is not None else ""
    return (title or said)[:_MAX_TITLE] or None


def _heading_text(heading: LexborNode) -> str:
    return _words(" ".join(Writer(drops=_drops(heading)).write(heading)).lstrip("# "))


def _words(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def _meta(tree: LexborHTMLParser, patterns: tuple[str, ...]) -> str | None:
    for pattern in patterns:
        node = tree.css_first(pattern)
        content = _words(node.attributes.get("content") or "") if node is not None else ""
        if content:
            return content[:_MAX_TITLE]
    return None


def _time_of(tree: LexborHTMLParser) -> int | None:
    said = _meta(tree, _DATES)
    if said is None:
        return None
    try:
        found = datetime.fromisoformat(said)
    except ValueError:
        return None
    if not 1970 <= found.year < 2100:
        return None
    if len(said) <= 10:
        return noon_ms(found.year, found.month, found.day)
    from datetime import UTC

    return int((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
