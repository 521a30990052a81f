"""Whether what a model wrote stands on what it was given: names, numbers and dates.

The rules are those by which the built-in models find names, and the habits of scripts: where capitals mark names, a
word with one must stand in the material; German writes every noun with one, so there only names known as such count,
and runs of unknown ones. Words are compared without regard to case and to the ends that languages put to them. What a
rule cannot decide passes: an ordinary word is no invention.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.models.answers import ENTITY_KINDS, OTHER_KINDS, Named
from agent.models.builtin.rules.chinese import chinese_names
from agent.models.builtin.rules.forms import forms
from agent.models.builtin.rules.latin import latin_names
from agent.models.builtin.rules.names import ADJECTIVES, COMMON, HONORIFICS, LINKS, PARTICLES
from agent.models.builtin.rules.words import listed
from agent.models.builtin.terms import STOP
from agent.models.language import language_of
from agent.models.protocol import Entity

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(rf"(?:(?![{_UNSPACED}])[^\W_])+(?:['’.-](?:(?![{_UNSPACED}])[^\W_])+)*")
_PART = re.compile(r"['’.-]")
_NUMBER = re.compile(r"\d+(?:[.,:'/\u00a0\u202f-]\d+)*")
_DIGITS = re.compile(r"\d+")
_GROUPED = re.compile(r"(\d{1,3}(?:[.,'\u00a0\u202f]\d{3})+)(?:[.,](\d+))?")
_ORDINAL = re.compile(r"\d{1,2}(?=(?:st|nd|rd|th|er|[.º])(?!\w))")
_BEGINNING = frozenset('.!?…:;"“”„«»()[]\n>*•|–—¿¡#。！？：；「」『』')
_SMALL_COUNT = 12  # "two mails", "three of them": what a summary counts itself

# What languages put behind a word, a name too.
_ENDS = ("'s", "’s", "s", "es", "n", "en", "ns", "er", "ern", "in", "innen", "an", "ian")
_INFLECTED = re.compile("[\u0370-\u052f]")  # Greek and Cyrillic: the ends are many, the beginnings stay
_BEGINS_WITH = 3
_STRICT = frozenset({"English", "Spanish", "French", "Italian", "Portuguese", "Dutch", "Greek"})
_KNOWN_SHORT = listed("am pm ok tv pdf url id it ad bc ce eu usb cd dvd pc cv ps ceo cto hr q1 q2 q3 q4")
_ORDINARY = COMMON | HONORIFICS | ADJECTIVES | PARTICLES | LINKS | STOP | _KNOWN_SHORT

_LONGEST_NAME = 80  # characters
_MOST_ENTITIES = 64


class Material:
    """What was sent, ready to be compared with."""

    def __init__(self, text: str) -> None:
        self.text = unicodedata.normalize("NFC", text)
        self.folded = self.text.casefold()
        self._words: set[str] = set()
        for word in _words(self.folded):
            self._words.add(word)
            self._words.update(part for part in _PART.split(word) if part)
        inflected = [word for word in self._words if _INFLECTED.search(word) is not None]
        self._beginnings = {word[:size] for word in inflected for size in range(_BEGINS_WITH, len(word) + 1)}
        self._numbers = {_number(found) for found in _DIGITS.findall(self.text)}
        self._numbers.update(_joined(found) for found in _NUMBER.findall(self.text))
        dates = [found.group() for found in _ORDINAL.finditer(self.text)]
        dates += [self.text[form.start : form.end] for form in forms(self.text) if form.kind == "date"]
        self._in_dates = {_number(found) for date in dates for found in _DIGITS.findall(date)}

    def has_word(self, word: str) -> bool:
        """Return whether a word stands in the material, in whatever case and with whatever common end."""
        low = word.casefold()
        if low in self._words:
            return True
        for end in _ENDS:
            if low.endswith(end) and len(low) - len(end) >= _BEGINS_WITH and low[: -len(end)] in self._words:
                return True
            if len(low) >= _BEGINS_WITH and low + end in self._words:
                return True
        if _INFLECTED.search(low) is not None:
            return len(low) > _BEGINS_WITH and low[: max(_BEGINS_WITH, len(low) - 2)] in self._beginnings
        parts = [part for part in _PART.split(low) if part]
        return len(parts) > 1 and all(len(part) == 1 or self.has_word(part) for part in parts)

    def has_compound(self, word: str) -> bool:
        """Return whether a word is put together from words of the material ("Pumpenbudget"), or begins with one."""
        low = word.casefold()
        return any(low[:size] in self._words for size in range(4, len(low)))

    def has_number(self, number: str) -> bool:
        """Return whether a number stands in the material, however its digits are grouped."""
        if _joined(number) in self._numbers:
            return True
        return all(_number(part) in self._numbers for part in _DIGITS.findall(number))

    def has_date_number(self, number: str) -> bool:
        """Return whether the numbers of a date stand in dates of the material: a year or a day is no other's."""
        return all(_number(part) in self._in_dates for part in _DIGITS.findall(number))


def invented(summary: str, material: Material) -> str:
    """Return the rule that a summary breaks: ``unknown_name``, ``unknown_number``, or "" where it stands on all."""
    text = unicodedata.normalize("NFC", summary)
    if any(True for _ in _unknown_names(text, material)):
        return "unknown_name"
    if any(True for _ in _unknown_numbers(text, material)):
        return "unknown_number"
    return ""


def _unknown_names(text: str, material: Material) -> Iterator[str]:
    language = language_of(text)
    for _, start, end in latin_names(text):
        if not _stands(text[start:end], material):
            yield text[start:end]
    if language == "Chinese":
        for kind, start, end in chinese_names(text):
            if kind == "person" and text[start:end] not in material.text:
                yield text[start:end]
    yield from _capitals(text, material, strict=language in _STRICT or _INFLECTED.search(text) is not None)


def _stands(name: str, material: Material) -> bool:
    words = _words(name)
    return all(
        word.casefold() in _ORDINARY or not _is_capital(word) or len(word) == 1 or material.has_word(word)
        for word in words
    )


def _capitals(text: str, material: Material, *, strict: bool) -> Iterator[str]:
    """Yield words with a capital that are in the middle of a sentence and nowhere in the material.

    Not ``strict``: nouns may have a capital, so one alone says nothing, and two in a row are a name.
    """
    unknown = 0
    end = 0
    for found in _WORD.finditer(text):
        word = found[0]
        follows = text[end : found.start()] in (" ", "\u00a0")
        end = found.end()
        low = word.casefold()
        if not _is_capital(word) or len(word) == 1 or low in _ORDINARY or material.has_word(word):
            unknown = 0
            continue
        if not strict and material.has_compound(word):
            unknown = 0
            continue
        begins = _begins(text, found.start())
        unknown = unknown + 1 if follows and unknown else 1
        if (strict and not begins) or unknown > 1:
            yield word


def _begins(text: str, start: int) -> bool:
    before = text[max(0, start - 6) : start].rstrip(" \u00a0\t'‘’-")
    return not before or before[-1] in _BEGINNING


def _is_capital(word: str) -> bool:
    return word[0].isupper() or (len(word) > 1 and any(char.isupper() for char in word))


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _unknown_numbers(text: str, material: Material) -> Iterator[str]:
    known = [(form.kind, form.start, form.end) for form in forms(text) if form.kind in ("date", "amount")]
    for found in _NUMBER.finditer(text):
        number = found[0]
        kind = next((kind for kind, start, end in known if start <= found.start() < end), "")
        if kind == "date" and not material.has_date_number(number):
            yield number
        counted = not kind and number.isdigit() and int(number) <= _SMALL_COUNT
        if not counted and not material.has_number(number):
            yield number


def _number(digits: str) -> str:
    # Digits of any script, without leading zeros: "04" is "4".
    return "".join(str(unicodedata.digit(char, 0)) for char in digits).lstrip("0") or "0"


def _joined(number: str) -> str:
    """Return a number without what groups its thousands: "4,200.50" is "4200.50"."""
    grouped = _GROUPED.fullmatch(number)
    if grouped is None:
        return number.replace(",", ".")
    whole = _number("".join(_DIGITS.findall(grouped[1])))
    return whole if grouped[2] is None else f"{whole}.{grouped[2]}"


@dataclass(frozen=True)
class Located:
    """Entities that stand in a text, and the rule that was broken where too many of those named do not."""

    entities: tuple[Entity, ...]
    problem: str = ""


def locate(named: Iterable[Named], text: str, taken: Iterable[Entity]) -> Located:
    """Return those of the named things that stand in a text, as they stand there, in its order.

    Case does not matter, diacritics do. ``taken`` are finds by form (addresses, dates): what lies within one is none.
    More than half of other kinds breaks ``kind``; more than half that stand nowhere breaks ``not_in_text``.
    """
    asked = [each for each in named if each.kind not in OTHER_KINDS]
    known = [each for each in asked if each.kind in ENTITY_KINDS]
    if 2 * (len(asked) - len(known)) > len(asked):
        return Located((), "kind")
    spans = [span for each in taken for span in _spans(each.surface, text)]
    found: dict[str, Entity] = {}
    strange = 0
    for each in known:
        name = " ".join(unicodedata.normalize("NFC", each.name).split())
        places = _spans(name, text) if 1 < len(name) <= _LONGEST_NAME and any(map(str.isalnum, name)) else []
        if not places:
            strange += 1
            continue
        places = [place for place in places if not any(start < place[1] and place[0] < end for start, end in spans)]
        if places:
            start, end = places[0]
            # One thing has one kind: what was said first counts.
            low = name.casefold()
            found.setdefault(low, Entity(each.kind, low, text[start:end], start, len(places)))
    if 2 * strange > len(known):
        return Located((), "not_in_text")
    return Located(tuple(sorted(found.values(), key=lambda entity: entity.start))[:_MOST_ENTITIES])


def _spans(name: str, text: str) -> list[tuple[int, int]]:
    words = [re.escape(word) for word in name.split()]
    if not words:
        return []
    # A name begins where a word does; behind it a language may put an end, so only short ones end where a word does.
    before = r"(?<![^\W_])" if _WORD.match(name) is not None else ""
    after = r"(?![^\W_])" if before and len(name) < 4 else ""
    if name[-1] in "." or re.search(rf"[{_UNSPACED}]", name):
        before = after = ""
    try:
        return [found.span() for found in re.finditer(before + r"\s+".join(words) + after, text, re.IGNORECASE)]
    except re.error:  # pragma: no cover - every word is escaped
        return []
