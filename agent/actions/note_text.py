"""What a note of an export is made of: names that every file system and Obsidian take, front matter, links, fences.

What the memory holds was written by others. It stands in fences, word for word, and in titles with everything taken
out of its force that Markdown, Obsidian, YAML or HTML would act on.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

SHORT = 12  # letters of an id that stand in names and anchors: 48 bits
NAME_BYTES = 120  # the longest name with id and ending stays under the 143 bytes of encrypted home folders
ALIAS_LENGTH = 100

_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])", re.I)
# Not in names: what Windows refuses, what ends a link in Obsidian, what Markdown would act on inside of one.
_UNNAMEABLE = re.compile(r"[<>:\"/\\|?*\[\]#^%`${}]+")
_INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\ufff9-\ufffb]"
)
_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|~$%^&!=])")
_LINKS = re.compile(r"(?<!^)\[{2,}|\]{2,}(?!$)")
_WIDE = str.maketrans({letter: chr(ord(letter) + 0xFEE0) for letter in "[]|<>`\\%$#^{}"})


def one_line(text: str) -> str:
    """Return a text on one line, without what cannot be seen."""
    return " ".join(_INVISIBLE.sub(" ", text).split())


def file_name(title: str, node_id: str) -> str:
    """Return the name (without ``.md``) of the note of a node: its title, and of its id what makes it the only one.

    The same title and id give the same name anywhere. It is taken by Windows, macOS and Linux, and by Obsidian in a
    link; letters of all scripts stay.
    """
    plain = _UNNAMEABLE.sub(" ", unicodedata.normalize("NFC", one_line(title)))
    plain = _cut(" ".join(plain.split()).lstrip(". "), NAME_BYTES - SHORT - 4)
    if _RESERVED.fullmatch(plain.partition(".")[0].strip()):
        plain = f"_{plain}"
    return f"{plain} {node_id[:SHORT]}".lstrip()


def _cut(text: str, limit: int) -> str:
    """Return as much of a text as fits so many bytes, without half a letter or a mark torn off its letter."""
    if len(text.encode()) <= limit:
        return text
    cut = text.encode()[:limit].decode("utf-8", "ignore")
    while cut and unicodedata.combining(text[len(cut)]):
        cut = cut[:-1]
    return cut.rstrip()


def folder_name(source_id: str, mark: str) -> str:
    """Return the name of a source's folder: its id where that is a plain one, else something like it with ``mark``."""
    if re.fullmatch(r"[a-z0-9][a-z0-9-]{0,60}", source_id) and not _RESERVED.fullmatch(source_id):
        return source_id
    plain = _UNNAMEABLE.sub(" ", unicodedata.normalize("NFC", one_line(source_id))).strip(". ")
    return f"{_cut(plain, 60)}-{mark[:SHORT]}".lstrip("-")


def inline(text: str) -> str:
    """Return a text on one line for the middle of a line of Markdown: it shows as it is and acts on nothing."""
    return _ACTIVE.sub(r"\\\1", one_line(text))


def link(name: str, label: str, anchor: str = "") -> str:
    """Return a wikilink to a note, or to one passage of it.

    A backslash would show in a label, so what could act there is made of wide letters instead.
    """
    shown = one_line(label).translate(_WIDE)
    if len(shown) > ALIAS_LENGTH:
        shown = shown[: ALIAS_LENGTH - 1].rstrip() + "…"
    place = f"#^{anchor}" if anchor else ""
    return f"[[{name}{place}|{shown}]]" if shown else f"[[{name}{place}]]"


def anchor(chunk_id: str) -> str:
    """Return what a passage is called within its note."""
    return f"p{chunk_id[:SHORT]}"


def fenced(text: str) -> str:
    """Return a text word for word in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    body = text.replace("\x00", "\ufffd")
    return f"{fence}text\n{body}\n{fence}"


def front_matter(values: Mapping[str, Any]) -> str:
    """Return YAML front matter; what is ``None`` is left out."""
    lines = [f"{name}: {_yaml(value)}" for name, value in values.items() if value is not None]
    return "\n".join(["---", *lines, "---"])


def _yaml(value: Any) -> str:
    # Strings of JSON are strings of YAML, but for what YAML takes for the end of a line or for no text at all. Obsidian
    # follows links in them.
    text = json.dumps(value, ensure_ascii=False)
    return _INVISIBLE.sub(_escaped, _LINKS.sub(lambda found: found[0].translate(_WIDE), text))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return "\\uFFFD" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04X}"


def place_words(path: str | None, locator: Mapping[str, Any] | None) -> str:
    """Return where a passage stands: the path with its lines, or with its byte in a mailbox."""
    places = (locator or {}).get("places")
    first = places[0] if isinstance(places, list) and places and isinstance(places[0], dict) else locator or {}
    if path is None:
        return ""
    if "line" in first:
        end = first.get("end_line", first["line"])
        return f"{path}, line {first['line']}" + (f" to {end}" if end != first["line"] else "")
    return f"{path}, byte {first['offset']}" if "offset" in first else path


def safe_path(relative: str) -> bool:
    """Return whether a path that a file of ours names stays inside its folder and is a note."""
    path = PurePosixPath(relative)
    inside = not path.is_absolute() and ".." not in path.parts and "\\" not in relative and ":" not in relative
    return inside and path.suffix == ".md" and len(path.parts) <= 3
