"""How names are known in scripts with capitals: by the words in them, and by what stands beside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from agent.models.builtin.rules.names import (
    ADJECTIVES,
    BEFORE_PERSON,
    CALLED,
    COMMON,
    DOUBTFUL_FIRST_NAMES,
    DOUBTFUL_PRODUCTS,
    FIRST_NAMES,
    GENERIC,
    GERMAN_PLACES,
    HONORIFICS,
    LINKS,
    LOWER_PLACE_HEADS,
    NO_PRODUCT,
    ORGANISATION_ENDS,
    ORGANISATION_HEADS,
    ORGANISATIONS,
    PARTICLES,
    PLACE_ENDS,
    PLACE_HEADS,
    PLACES,
    PRODUCTS,
    SPEECH,
    STREET_GERMAN,
    STREETS,
)
from agent.models.builtin.rules.words import listed

# Letters are named, not \w: in a text without spaces \w would take the neighbouring script for part of the name.
_C = "A-ZÀ-ÖØ-ÞĀĂĄĆČĎĐĒĖĘĚĞĢĪĮİĶĹĽŁŃŅŇŌŐŒŘŚŞŠŢŤŪŮŰŲŹŻŽ"
_L = "0-9A-Za-zÀ-ÖØ-öø-ɏ"
_POINTED = "".join(rf"|(?<=\b{word})\." for word in sorted(listed("Inc Ltd Corp Coop Co Dr Mr Mrs Ms Prof Sr Sra")))
_WORD = (
    rf"(?:[{_C}][{_L}]*(?:['’-][{_L}]+)*"
    rf"(?:\.js{_POINTED}|(?<=\b[{_C}])(?:\.[{_C}])+\.?|(?<=\b[{_C}])\.(?=[ ][{_C}]))?"
    rf"|[a-z]{{1,2}}[{_C}][{_L}]*|e\.[ ]?V\.?|plc\b)"
)
_NUMBER = r"\d+(?:\.\d+)*[a-z]?(?![\w%€$]|[.,:/-]\d)"
_LINK = "|".join(sorted(map(re.escape, LINKS), key=len, reverse=True))
_RUN = re.compile(
    rf"(?<![{_L}@#/._-]){_WORD}(?:[ \u00a0](?:(?:{_LINK})[ ]){{0,2}}(?:{_WORD}|{_NUMBER}))*(?![{_L}])",
)
_RUN_WORDS = 40  # a longer run is a table or a list; every word looks at those behind it
_TOKEN = re.compile(r"[^ \u00a0]+")
_BEFORE = re.compile(rf"([{_L}.]+)[ \u00a0]\Z")
_AFTER = re.compile(rf"[ \u00a0]([{_L}]+)")
_NAME_PART = re.compile(rf"(?:(?:Mc|Mac|Fitz|De|Di|La|Le|Van|[OD]['’])?[{_C}][a-zß-öø-ɏ'’]*|[{_C}]\.)\Z")
_POSSESSIVE = ("'s", "’s")
_CAMEL = re.compile(
    r"[ie][A-Z][a-z]{2,12}\Z"
    r"|[A-Z][a-z]+[A-Za-z]*(?:SQL|DB|OS|Hub|Lab|Office|Book|Pad|Phone|Tube|Mail|Cloud|Drive|Shop)\Z"
)
_MODEL = re.compile(r"[A-Z]{1,4}-?\d{1,4}[a-zA-Z]{0,2}\Z")
_SMALL_FORMS = listed("e.v. e.v plc")  # legal forms that begin with a small letter
_EDITIONS = listed("pro max mini plus ultra air carbon lite enterprise lts")
_SHORT_FORMS = listed("ag se kg ug eg sa sl ab as bv nv oy co spa pty plc")
_OF = listed("of for de del la los las für der des")
_SENTENCE_MARKS = frozenset('.!?…:;"“”„«»(\n[>*•|-–—¿¡#')
_GERMAN = re.compile(r"\b(?:und|der|die|das|ist|nicht|mit|von|für|im|ein|eine|auf|dem|den|aus|nach)\b")

_BEFORE_COUNTS = HONORIFICS | CALLED | LOWER_PLACE_HEADS
_KNOWN = FIRST_NAMES | DOUBTFUL_FIRST_NAMES | PLACES | GERMAN_PLACES | PRODUCTS | ORGANISATIONS

Name = tuple[str, int, int]


@dataclass(slots=True)
class _Word:
    text: str
    low: str
    start: int
    end: int
    capital: bool

    @property
    def number(self) -> bool:
        return self.text[0].isdigit()

    @property
    def titled(self) -> bool:
        """Whether it is written like a name: a capital, then small letters, or such parts with a hyphen."""
        return self.text[1:].islower() or all(map(_NAME_PART.match, self.text.split("-")))


def latin_names(text: str) -> Iterator[Name]:
    """Return (kind, start, end) of the names in a text, in its order; they do not overlap."""
    for run in _RUN.finditer(text):
        words = run[0]
        if " " not in words and "\u00a0" not in words and not _may_be_one(text, words, run.start()):
            continue
        found = list(_words(words, run.start()))
        for first in range(0, len(found), _RUN_WORDS):
            yield from _Run(text, found[first : first + _RUN_WORDS]).names()


def _may_be_one(text: str, word: str, start: int) -> bool:
    """Return whether a capitalised word on its own may be a name: most begin a sentence, or are a German noun."""
    low = word.lower()
    if low in _KNOWN or low[-2:] in _POSSESSIVE or low.endswith(STREET_GERMAN) or "-" in low or "." in low:
        return True
    if not word[1:].islower() and _CAMEL.match(word) is not None:
        return True
    return text[max(0, start - 16) : start].rstrip().rpartition(" ")[2].rpartition("\n")[2].lower() in _BEFORE_COUNTS


def _words(run: str, start: int) -> Iterator[_Word]:
    for found in _TOKEN.finditer(run):
        word = found[0]
        if word.endswith(_POSSESSIVE):
            word = word[:-2]
        place = start + found.start()
        yield _Word(word, word.lower(), place, place + len(word), not word.islower() and not word[0].isdigit())


class _Run:
    """A run of capitalised words with the small words between them: the place where names are looked for."""

    def __init__(self, text: str, words: list[_Word]) -> None:
        self._text = text
        self._words = words
        before = _BEFORE.search(text, max(0, words[0].start - 24), words[0].start)
        self._before = before[1].lower() if before else ""
        after = _AFTER.match(text, words[-1].end)
        self._after = after[1].lower() if after else ""
        self._initial = _begins_sentence(text, words[0].start)

    def names(self) -> Iterator[Name]:
        words = self._words
        if sum(1 for word in words if len(word.text) > 3 and word.text.isupper()) > 1:
            return  # a line in capitals: nothing in it can be told from a name
        taken = self._organisations_by_end()
        place = 0
        while place < len(words):
            found: Name | None = None
            if place in taken:
                found = ("organisation", place, taken[place])
            elif words[place].capital:
                found = self._at(place, min((start for start in taken if start > place), default=len(words)))
            if found is None:
                place += 1
                continue
            kind, start, place = found
            # "calle Olivares": the small word is part of a street's name, not of a river's.
            lead = len(self._before) + 1 if kind == "place" and start == 0 and self._before in STREETS else 0
            if kind:
                yield kind, words[start].start - lead, words[place - 1].end

    def _organisations_by_end(self) -> dict[int, int]:
        """Return where names of organisations begin that are known by their last word, each with where it ends."""
        words = self._words
        found: dict[int, int] = {}
        floor = 0
        for last, word in enumerate(words):
            if last == 0 or not ((word.capital and word.low in ORGANISATION_ENDS) or word.low in _SMALL_FORMS):
                continue
            if word.low in _SHORT_FORMS and not (word.text.isupper() or "." in word.text):
                continue
            first = self._first_of_organisation(floor, last)
            if first < last and not all(each.low in ADJECTIVES for each in words[first:last]):
                for start in [start for start, end in found.items() if end > first]:
                    del found[start]
                found[first] = self._extended(last, len(words)) if word.low in ORGANISATION_HEADS else last + 1
                floor = found[first] if word.low in _SHORT_FORMS else floor
        return found

    def _first_of_organisation(self, floor: int, last: int) -> int:
        words = self._words
        first = last
        while first > floor:
            ahead = words[first - 1]
            named = ahead.capital and ahead.low not in COMMON and ahead.low not in HONORIFICS
            if not named and not (ahead.low == "&" and first - 1 > floor):
                break
            first -= 1
        while first < last and (words[first].low in GENERIC or not words[first].capital):
            first += 1
        return first

    def _extended(self, place: int, stop: int) -> int:
        """Return where a name ends that goes on with "of …": the word after its last capitalised one."""
        words = self._words
        end = place + 1
        while end < stop:
            ahead = end
            while ahead < stop and words[ahead].low in _OF and not words[ahead].capital:
                ahead += 1
            if ahead >= stop or not words[ahead].capital:
                break
            if words[ahead].low in COMMON and words[ahead].text not in ("El", "La", "Los", "Las"):
                break
            end = ahead + 1
        return end

    def _at(self, place: int, stop: int) -> Name | None:
        """Return what begins at a word, as (kind, first word, word after the last); an empty kind skips words."""
        word = self._words[place]
        if word.low in HONORIFICS and word.low not in COMMON:
            return self._titled(place, stop)
        if place == 0 and self._before in HONORIFICS and word.low not in COMMON and word.titled:
            return "person", place, self._family(place, stop)
        return (
            self._organisation(place, stop)
            or self._full_person(place, stop)
            or self._place(place, stop)
            or self._product(place, stop)
            or self._single_person(place, stop)
            or self._guessed_person(place, stop)
        )

    def _titled(self, place: int, stop: int) -> Name:
        words = self._words
        first = place
        while first < stop and words[first].low in HONORIFICS:
            first += 1
        if first >= stop or not words[first].capital or words[first].low in COMMON or not words[first].titled:
            return "", place, first
        return "person", first, self._family(first, stop)

    def _family(self, first: int, stop: int) -> int:
        """Return where a person's name ends that begins at a word: at most two more words, particles before them."""
        words = self._words
        end = first + 1
        most = 2
        while most and end < stop:
            ahead = end
            while ahead < stop and words[ahead].low in PARTICLES and not words[ahead].capital:
                ahead += 1
            if ahead >= stop or not self._can_be_family(ahead, linked=ahead > end):
                break
            end = ahead + 1
            if not words[ahead].text.endswith("."):
                most -= 1
        while end > first + 1 and words[end - 1].text.endswith("."):
            end -= 1
        return end

    def _can_be_family(self, place: int, linked: bool) -> bool:
        word = self._words[place]
        if not word.capital or word.low in COMMON or word.low in HONORIFICS or word.low in ORGANISATION_HEADS:
            return False
        if linked and word.low in PLACES:
            return False
        return (word.titled or word.text.endswith(".")) and not any(char.isdigit() for char in word.text)

    def _organisation(self, place: int, stop: int) -> Name | None:
        words = self._words
        for length in (3, 2, 1):
            if place + length <= stop and self._phrase(place, length) in ORGANISATIONS:
                return "organisation", place, place + length
        if words[place].low not in ORGANISATION_HEADS:
            return None
        end = self._extended(place, stop)
        return ("organisation", place, end) if end > place + 1 else None

    def _phrase(self, place: int, length: int) -> str:
        return " ".join(word.low for word in self._words[place : place + length])

    def _full_person(self, place: int, stop: int) -> Name | None:
        word = self._words[place]
        sure = word.low in FIRST_NAMES or word.low.partition("-")[0] in FIRST_NAMES
        if not word.titled or not (sure or word.low in DOUBTFUL_FIRST_NAMES):
            return None
        end = self._family(place, stop)
        if end == place + 1 or (not sure and self._words[end - 1].low in PLACE_ENDS):
            return None
        return "person", place, end

    def _single_person(self, place: int, stop: int) -> Name | None:
        word = self._words[place]
        if not word.titled:
            return None
        if word.low in DOUBTFUL_FIRST_NAMES:
            return ("person", place, place + 1) if place == 0 and self._before in CALLED else None
        called = place > 0 and self._words[place - 1].low in CALLED
        if word.low in FIRST_NAMES and (called or self._stands_alone(place, stop)):
            return "person", place, place + 1
        return None

    def _stands_alone(self, place: int, stop: int) -> bool:
        words = self._words
        beside = [words[near] for near in (place - 1, place + 1) if 0 <= near < stop]
        return not any(word.capital and word.low not in COMMON for word in beside)

    def _place(self, place: int, stop: int) -> Name | None:
        words = self._words
        word = words[place]
        if place == 0 and self._before in LOWER_PLACE_HEADS and word.low not in COMMON:
            return "place", place, self._family(place, stop)
        for last in range(min(stop, place + 3) - 1, place, -1):
            capitals = all(each.capital for each in words[place : last + 1])
            if words[last].low in PLACE_ENDS and capitals and word.low not in COMMON and word.low not in ADJECTIVES:
                return "place", place, last + 1
        for length in (4, 3, 2):
            if place + length <= stop and self._phrase(place, length) in PLACES:
                return "place", place, place + length
        if word.low in PLACE_HEADS and place + 1 < stop and words[place + 1].capital:
            follows = words[place + 1].low
            return ("place", place, place + 2) if follows not in COMMON or follows == "mayor" else None
        street = word.low.endswith(STREET_GERMAN) and len(word.low) > 8
        german = word.low in GERMAN_PLACES and len(_GERMAN.findall(self._text)) * 60 > len(self._text)
        if word.low in PLACES or street or german:
            return "place", place, place + 1
        return None

    def _product(self, place: int, stop: int) -> Name | None:
        words = self._words
        known = next(
            (length for length in (3, 2, 1) if place + length <= stop and self._phrase(place, length) in PRODUCTS), 0
        )
        first = place + max(known, 1)
        end = first
        while end < stop and (words[end].number or words[end].low in _EDITIONS or _MODEL.match(words[end].text)):
            end += 1
        word = words[place]
        if known:
            # "Excel" or "Chrome" may be a word at the beginning of a sentence; with a version it is not.
            doubtful = known == 1 and end == first and word.low in DOUBTFUL_PRODUCTS
            shouted = word.text.isupper() and word.low in DOUBTFUL_PRODUCTS
            return None if shouted or (doubtful and (self._initial or place > 0)) else ("product", place, end)
        if word.low in NO_PRODUCT or word.low in COMMON or word.low in PLACES or word.low in ADJECTIVES:
            return None
        versioned = False
        if end > first and len(word.text) > 2 and not (word.text.isupper() and len(word.text) < 4):
            number = words[first].text  # "Foxglove 2.0"; or "Galaxy S24", but hardly at the beginning of a sentence
            versioned = 1 <= number.count(".") <= 2 or (
                _MODEL.match(number) is not None and not (self._initial and place == 0)
            )
        if versioned or (_CAMEL.match(word.text) and not self._in_code(word)):
            return "product", place, end
        return None

    def _in_code(self, word: _Word) -> bool:
        around = self._text[max(0, word.start - 1) : word.start] + self._text[word.end : word.end + 1]
        return any(char in "`(_[=<{/\\\"'+" for char in around)

    def _guessed_person(self, place: int, stop: int) -> Name | None:
        """Return two or three capitalised words that nothing is known of, where only a person can stand."""
        words = self._words
        if place != 0 or not 2 <= stop <= 3 or stop != len(words) or not all(word.capital for word in words):
            return None
        for word in words:
            strange = word.low in COMMON or word.low in PRODUCTS or word.low in NO_PRODUCT or word.low in ADJECTIVES
            if strange or len(word.low) < 3 or not word.titled or not word.low.replace("-", "").isalpha():
                return None
        if self._after in SPEECH or self._before in BEFORE_PERSON:
            return "person", 0, len(words)
        return None


def _begins_sentence(text: str, start: int) -> bool:
    before = text[max(0, start - 4) : start].rstrip(" \u00a0\t")
    return not before or before[-1] in _SENTENCE_MARKS
