"""Masking for a bug report: what this machine and its owner are called, and everything that is not ours to tell.

Three nets, one below the other. Patterns (keys, addresses of all kinds, numbers that reach somebody) and the names that
were found on this machine are replaced by what they were. Then every word that is not the program's own is taken out.
Last, the finished text is looked through once more for the names that were found; a line that holds one goes whole.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from agent.actions.bug_words import is_word
from agent.redact import redact

WORDS = "[…]"
REMOVED = "[a line was removed: it named something of yours]"
# What a name or a path is worth looking for from this length on.
SHORTEST_NAME = 2
# A text with so many words that are not ours, a fifth of all or more, is somebody's: only its beginning is kept.
STRANGE_WORDS = 3
TEXT_CHARS = 2_000

# Hosts that a profile may have and that tell nothing about who uses it.
VENDORS = (
    "api.openai.com api.anthropic.com openrouter.ai api.mistral.ai api.groq.com api.together.xyz api.deepseek.com "
    "generativelanguage.googleapis.com api.fireworks.ai api.perplexity.ai api.cohere.com api.x.ai huggingface.co "
    "ollama.com localhost"
)
_VENDORS = frozenset(VENDORS.split())

_URL = re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s'\"<>`]*", re.I)
_EMAIL = re.compile(r"[^\s<>\"'(),:;\[\]]{1,64}(?:@|%40)[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_MAC = re.compile(r"(?<![\w:-])(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}(?![\w:-])", re.I)
_IPV4 = re.compile(r"(?<!\d)(?<!\d\.)(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?:%\w{1,16})?(?![\w:])", re.I)
# An identifier: sixteen or more of hexadecimal, or the form of a UUID.
_ID = re.compile(r"(?<!\w)(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?=\d*[a-f])[0-9a-f]{12,64})(?!\w)", re.I)
_PHONE = re.compile(r"(?:(?<!\w)\+\d|(?<![\w.:+-])\(?0\d)[\d ()/-]{5,20}\d(?![\w:-])")
_NUMBER = re.compile(r"(?<!\w)\d{7,}(?!\w)")
# Nine digits or more in groups, as people write numbers that reach or name somebody; a date has eight.
_GROUPS = re.compile(
    r"(?<![\w.:+-])(?!\d{4}-\d\d-\d\d\b)(?=(?:\d[ /-]?){9})\d{2,6}(?:[ /-]\d{2,4}){1,5}(?![\w:-]|\.\d)"
)
# What is not seen may cut a name or a key into pieces that no pattern knows: marks of width zero, and every second byte
# of UTF-16; as themselves, and as programs quote them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
    r"|\\+(?:x(?:00|ad)|u(?:0000|00ad|200[b-f]|202[a-e]|206[0-9a-f]|feff))|%00|%e2%80%8[b-f]|%c2%ad",
    re.I,
)
_SPELT = re.compile(r"(?<!\w)[^\W\d](?:[^\w\n]{1,3}[^\W\d](?!\w)){3,}")
# What hangs together without a blank is one thing: a path, an address, a name with its ending.
_THING = re.compile(r"[^\s=,;()\[\]{}<>\"'`|]+")
_RUN = re.compile(r"\w+")
_EDGES = ".:!?-–—…*#&%+@/\\~^$"
_SHOWN = re.compile(r"[^\x20-\x7e…·→×–—’‘“”\n]")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:[+-]\d\d:\d\d|Z)?")
_MARKS = re.compile(r"\[(?:…|secret|e-mail|user|host|path|number|phone|IP|MAC|id|url|home)\]|(?:source|profile)-\d+|~")
_NEIGHBOURS = re.compile(r"\[…\](?:[^\w\n]{0,3}\[…\])+")
_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}|0\.0\.0\.0|::1?")


@dataclass
class Known:
    """What was found on this machine that tells who its owner is or what they keep. Kinds are words of the manifest."""

    homes: set[str] = field(default_factory=set)
    users: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)
    """What a source or a model profile is called or where it is, to what it is called here: ``source-1``."""
    others: set[str] = field(default_factory=set)
    """Names, addresses, titles and paths that are in no report in any form."""

    def add_sources(self, names: Iterable[str]) -> None:
        """Give a mark of its own to each source that has none: the settings name it no more."""
        for name in names:
            if name and name not in self.sources:
                self.sources[name] = f"source-{len(set(self.sources.values())) + 1}"

    def names(self) -> dict[str, tuple[str, str]]:
        """Return what is replaced: each name to its mark and the kind that is counted."""
        found: dict[str, tuple[str, str]] = {}
        for name in self.others:
            found[name] = (WORDS, "names and titles")
        for name in self.hosts:
            found[name] = ("[host]", "host names")
        for name in self.users:
            found[name] = ("[user]", "user names")
        for name, mark in self.sources.items():
            found[name] = (mark, "sources")
        for name in self.homes:
            found[name] = ("~", "home folders")
        return {name: how for name, how in found.items() if len(name.strip()) >= SHORTEST_NAME}


def is_common(name: str) -> bool:
    """Return whether a name is one word that the program itself uses, such as ``root``, ``work`` or ``notes``.

    To find it in a text says nothing, and to replace it everywhere would leave no sentence whole.
    """
    runs = _RUN.findall(name)
    return len(runs) == 1 and is_word(runs[0])


class Masker:
    """Masks texts of one report and counts what it masked by kind. The same text again costs nothing."""

    def __init__(self, known: Known) -> None:
        self.counts: Counter[str] = Counter()
        self._names = {name.casefold(): how for name, how in known.names().items()}
        # Of the others there may be thousands: the words of each are taken out anyway, and the last look knows them.
        replaced = [name for name, (mark, _) in self._names.items() if mark != WORDS]
        self._pattern = _any_of(name for name in replaced if not is_common(name))
        common = [name for name in replaced if self._names[name][0] != "~" and is_common(name)]
        self._common = _in_its_place(common)
        self._needles = _needles(self._names)
        self._cached = functools.lru_cache(50_000)(self._masked)

    def text(self, text: str) -> str:
        """Return a text without anything that is not ours to tell, on one line."""
        shown, counted = self._cached(text[:TEXT_CHARS])
        self.counts.update(dict(counted))
        return shown

    def taken(self) -> dict[str, int]:
        """Return what was masked since the last call, by kind in their order."""
        found = {kind: self.counts[kind] for kind in sorted(self.counts)}
        self.counts.clear()
        return found

    def mark(self, name: str) -> str:
        """Return what a source or a profile is called here."""
        return self._names.get(name.casefold(), (WORDS, ""))[0]

    def looked_through(self, text: str) -> str:
        """Return a finished file without the lines that hold a name that was found on this machine."""
        held = set(_RUN.findall(text.casefold()))
        needles = [needle for needle in self._needles if held.issuperset(needle)]
        if not needles:
            return text
        joined = re.compile("|".join(rf"(?<!\w){sep(needle)}(?!\w)" for needle in needles))
        lines = []
        for line in text.split("\n"):
            hit = joined.search(line.casefold())
            if hit is not None:
                self.counts["lines removed"] += 1
            lines.append(line if hit is None else REMOVED)
        return "\n".join(lines)

    def _masked(self, text: str) -> tuple[str, tuple[tuple[str, int], ...]]:
        counts: Counter[str] = Counter()
        text = " ".join(_UNSEEN.sub("", text).split())

        def put(kind: str, mark: str) -> Callable[[re.Match[str]], str]:
            def one(_match: re.Match[str]) -> str:
                counts[kind] += 1
                return mark

            return one

        def name(match: re.Match[str]) -> str:
            mark, kind = self._names.get(match[0].casefold(), (WORDS, "names and titles"))
            counts[kind] += 1
            return mark

        text = _URL.sub(lambda match: self._url(match[0], counts), text)
        text = _EMAIL.sub(put("e-mail addresses", "[e-mail]"), text)
        if self._pattern is not None:
            text = self._pattern.sub(name, text)
        if self._common is not None:
            text = self._common.sub(name, text)
        before = text
        text = redact(text)
        if text != before:
            counts["secrets"] += max(1, text.count("[secret]") - before.count("[secret]"))
        text = _MAC.sub(put("hardware addresses", "[MAC]"), text)
        text = _IPV4.sub(lambda match: self._address(match, counts), text)
        text = _IPV6.sub(lambda match: self._address(match, counts), text)
        text = _ID.sub(put("identifiers", "[id]"), text)
        text = _PHONE.sub(put("numbers", "[number]"), text)
        text = _GROUPS.sub(put("numbers", "[number]"), text)
        text = _NUMBER.sub(put("numbers", "[number]"), text)
        text = _SPELT.sub(put("words that are not the program's", WORDS), text)
        return self._own_words(text, counts), tuple(counts.items())

    def _url(self, url: str, counts: Counter[str]) -> str:
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            host, port = "", None
        counts["URLs"] += 1
        if host not in _VENDORS and not _LOOPBACK.fullmatch(host):
            return "[url]"
        shown = f"{url.partition(':')[0].lower()}://{host}" + (f":{port}" if port else "")
        return shown + ("/…" if parts.path.strip("/") or parts.query else "")

    def _address(self, match: re.Match[str], counts: Counter[str]) -> str:
        text = match[0]
        if _LOOPBACK.fullmatch(text) or text.strip(":") == "" or not _is_address(text):
            return text
        counts["IP addresses"] += 1
        return "[IP]"

    def _own_words(self, text: str, counts: Counter[str]) -> str:
        """Take out every word that is not the program's own; cut off what is mostly others' words."""
        strange = ours = 0
        pieces: list[str] = []
        at = 0
        for match in _THING.finditer(text):
            if _stands_in_mark(text, match):
                continue
            thing = match[0]
            inner = thing.strip(_EDGES)
            if not inner:
                continue
            # Marks that a replacement left within a path (`~/…`, `source-1/…`) are not judged.
            if _TIME.fullmatch(inner):
                ours += 1
                continue
            runs = _RUN.findall(_MARKS.sub(" ", _percent_free(inner)))
            if all(is_word(run) for run in runs):
                ours += 1
                continue
            strange += 1
            start = match.start() + thing.index(inner)
            pieces += (text[at:start], _kept_start(inner), WORDS)
            at = start + len(inner)
        pieces.append(text[at:])
        shown = _SHOWN.sub("?", "".join(pieces))
        if strange:
            counts["words that are not the program's"] += strange
        if strange >= STRANGE_WORDS and strange * 4 >= ours:
            # Their order and the small words between them would still be somebody's sentence.
            return shown[: shown.index(WORDS) + len(WORDS)]
        return _NEIGHBOURS.sub(WORDS, shown)


def _percent_free(thing: str) -> str:
    return unquote(thing) if "%" in thing else thing


def _kept_start(thing: str) -> str:
    mark = _MARKS.match(thing)
    return f"{mark[0]}/" if mark is not None else ""


def _stands_in_mark(text: str, match: re.Match[str]) -> bool:
    start, end = match.span()
    return start > 0 and _MARKS.fullmatch(text[start - 1 : end + 1]) is not None


def _is_address(text: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds any of the names, the longest first, as words, in spite of case."""
    found = sorted({name for name in names if name.strip()}, key=lambda name: (-len(name), name))
    if not found:
        return None
    return re.compile("|".join(f"(?<!\\w){re.escape(name)}(?!\\w)" for name in found), re.I)


def _in_its_place(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds a name that is a common word where nothing but a name can stand: a path, a key, quotes."""
    found = "|".join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))
    if not found:
        return None
    return re.compile(rf"(?:(?<=[/\\'\"@~])|(?<=source )|(?<=user )|(?<=sync:)|(?<=ingest:))(?:{found})(?![\w-])", re.I)


def _needles(names: dict[str, tuple[str, str]]) -> list[tuple[str, ...]]:
    """Return the names as the words they are made of, without those that are one common word."""
    found = {tuple(_RUN.findall(name)) for name in names if not is_common(name) and not _MARKS.fullmatch(name)}
    # One letter or two digits alone are in every text.
    return sorted(needle for needle in found if needle and sum(map(len, needle)) >= 3)


def sep(needle: tuple[str, ...]) -> str:
    """Return a pattern for words with anything that is no word between them, as slashes, blanks or escapes."""
    return r"[^\w\n]{1,4}".join(re.escape(word) for word in needle)
