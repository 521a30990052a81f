"""What is known by its form: addresses, URLs, handles, hashtags, dates and amounts in several languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from agent.models.builtin.rules.chinese import HAN
from agent.models.builtin.rules.words import listed

_L = "0-9A-Za-zÀ-ɏ_"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"


class Form(NamedTuple):
    """One find: its kind, where it stands, and its normalised name."""

    kind: str
    start: int
    end: int
    name: str


# Addresses are read outwards from their "@": a pattern that begins with a word would try every word of the text.
_LOCAL_PART = re.compile(rf"(?<![A-Za-z0-9_.+%-])(?![{_HAN}])[^\W_](?:(?:(?![{_HAN}])[\w.+%'-]){{0,63}}[\w+])?\Z")
_DOMAIN = re.compile(
    rf"@(?:(?![{_HAN}])[^\W_](?:(?:(?![{_HAN}])[\w-]){{0,62}}[^\W_])?\.)+(?:(?![{_HAN}])[^\W\d_]){{2,24}}(?![A-Za-z0-9_@])"
)
_URL_BODY = rf"[^\s<>\"“”'‘’`|\\^{{}}\u3000-\u303f\uff00-\uffef{_HAN}]"
_URL = re.compile(
    rf"(?:(?<![A-Za-z0-9])(?:https?|ftp)://|\bwww\.(?=[\w-]+\.))[\w\[]{_URL_BODY}*", re.IGNORECASE | re.ASCII
)
_TOP_DOMAIN_PATH = re.compile(r"\.(?:com|org|net|edu|gov|io|dev|app|de|es|eu|cn|uk|info)/", re.ASCII)
_BARE_URL = re.compile(
    rf"(?<![\w@./-])(?:[a-z0-9](?:[a-z0-9-]{{0,62}}[a-z0-9])?\.)+(?:com|org|net|edu|gov|io|dev|app|de|es|eu|cn|uk|info)/{_URL_BODY}*",
    re.ASCII,
)
_HANDLE = re.compile(rf"(?<![\w@./+-])@[A-Za-z_{_HAN}][\w]*(?:[.-]\w+)*(?![\w/(@])")
_HASHTAG = re.compile(rf"#\w*[{_HAN}]\w*#|(?<![\w#&/])#(?=\d*[^\W\d])[\w-]*\w")
_NO_HASHTAG = re.compile(
    r"#(?:[0-9a-f]{3}|[0-9a-f]{6}|[0-9a-f]{8}|include|define|undef|if|ifdef|ifndef|else|elif|endif|pragma|region)\Z",
    re.IGNORECASE,
)

_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "january jan januar jänner enero ene janvier",
            "february feb februar febrero février",
            "march mar märz marzo mars",
            "april apr abril abr avril",
            "may mai mayo",
            "june jun juni junio juin",
            "july jul juli julio juillet",
            "august aug agosto août",
            "september sept sep septiembre septembre",
            "october oct oktober okt octubre octobre",
            "november nov noviembre novembre",
            "december dec dezember dez diciembre dic décembre",
        ),
        start=1,
    )
    for name in names.split()
}
# Those that their language writes with a small letter.
_LOWER_CASE = listed(
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre"
    " janvier février mars avril mai juin juillet août septembre octobre novembre décembre"
)
_YEAR = r"(?:1[5-9]|20|21)\d\d"
# Dates are read outwards from their digits for the same reason: most of a text has none.
_DAY_BEFORE_MONTH = re.compile(
    rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.|º|°)?(?:[ \u00a0](?:de|of))?[ \u00a0](?P<month>[^\W\d_]{{3,10}})(?![\w-])"
    rf"(?:\.?,?(?:[ \u00a0](?:de|del|of))?[ \u00a0](?P<year>{_YEAR})\b(?![.,]\d))?"
)
_MONTH_BEFORE = re.compile(r"(?<![\w-])(?P<month>[^\W\d_]{3,10})\b\.?(?P<comma>,?)(?: (?P<of>de|del|of))?[ \u00a0]\Z")
_DAY_BEHIND = re.compile(
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b(?![.:/%-]?\d|,\d| ?(?:%|people|times|years|days|hours))"
    rf"(?:,? (?P<year>{_YEAR})\b)?"
)
_YEAR_BEHIND = re.compile(rf"(?P<year>{_YEAR})\b(?![.,]\d)")
_DIGITS = re.compile(rf"(?<![{_L}.,:/-])\d+")
_YEAR_FIRST = re.compile(
    rf"(?<![{_L}./-])(?P<year>{_YEAR})(?P<seam>[-/])(?P<month>\d{{1,2}})(?P=seam)(?P<day>\d{{1,2}})(?![\d/-]|\.\d)"
)
_YEAR_LAST = re.compile(
    rf"(?<![{_L}./-])(?P<first>\d{{1,2}})(?:\.[ ]?(?P<second>\d{{1,2}})\.[ ]?|/(?P<slashed>\d{{1,2}})/)"
    rf"(?P<year>{_YEAR})(?![{_L}/]|[.-]\d)"
)
_SHORT = re.compile(r"(?<![\w.])(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?![\d.])")
_BEFORE_SHORT = re.compile(r"\b(?:am|vom|zum|bis|dem|ab|den|seit) (?:(?:Mo|Di|Mi|Do|Fr|Sa|So)\.?,? )?\Z", re.IGNORECASE)
_CHINESE_DATE = re.compile(
    rf"(?:(?P<year>{_YEAR})[ ]?年[ ]?(?P<month>\d{{1,2}})[ ]?月(?:[ ]?(?P<day>\d{{1,2}})[ ]?[日号])?"
    r"|(?<!\d)(?P<bare>\d{1,2})月(?P<of>\d{1,2})[日号])"
)

_NUMBER = r"\d+(?:[.,'\u00a0\u202f]\d+)*"
_MANY = (
    r"(?:[ \u00a0]?(?:millones|million(?:s|en)?|milliarden?|billion(?:s|en)?|thousand|tausend|mil(?!\w)|mio\b\.?"
    r"|mrd\b\.?|bn|k\b|m\b))"
)
_CURRENCY = (
    r"(?:€|\$|£|¥|eur\b|usd\b|gbp\b|chf\b|jpy\b|cny\b|rmb\b|mxn\b|euros?\b|dollars?\b|pounds?\b|pesos?\b"
    r"|d[oó]lar(?:es)?\b|franken\b|cents?\b)"
)
_UNIT = (
    r"(?:%|％|percent\b|per cent\b|prozent\b|por ciento\b|°[ ]?[CF]\b|grad(?:os?)?\b|degrees?\b"
    r"|k?m/h\b|mph\b|[kcmµ]?m[²³23]?(?![\w/])|miles?\b|meters?\b|metres?\b|metros?\b|meter\b|kilometers?\b|kilometres?\b|kilómetros?\b|inch(?:es)?\b|ft\b"
    r"|[kmµ]?g\b|tons?\b|tonnes?\b|toneladas?\b|tonnen?\b|kilos?\b|lbs?\b|gramm\b|gramos?\b|grams?\b"
    r"|[mcd]?l\b|litres?\b|liters?\b|litros?\b|liter\b|[kmgt]i?b\b|[kmg]bps\b|[kmg]bit/s\b|[km]?wh?\b|[kmg]?hz\b|volts?\b|units\b|hectares?\b|ha\b|acres\b)"
)
_AMOUNT = re.compile(
    rf"[€$£¥₹][ \u00a0]?{_NUMBER}(?:{_MANY})?(?!\w)"
    rf"|(?<![\w.,/:-])(?:{_NUMBER}(?:{_MANY}(?:[ ](?:de|of))?)?[ \u00a0\u202f]?(?:{_CURRENCY}|{_UNIT}))",
    re.IGNORECASE,
)
_CHINESE_AMOUNT = re.compile(
    r"\d+(?:[.,]\d+)*[ ]?(?:[多余几])?[十百千]?[万亿]?[ ]?"
    r"(?:元|块钱|美元|欧元|英镑|日元|港币|人民币|公里|千米|平方公里|平方米|立方米|厘米|毫米|米|公斤|千克|毫克|克|吨|升|毫升|度|％|%)"
)

_MARKS = ".,;:!?…'\"”’»*_"
_DECORATOR = re.compile(r"[ \t]*@[\w.]+(?:\(.*)?$", re.MULTILINE)
_DIGIT = re.compile(r"\d")


def forms(text: str) -> Iterator[Form]:
    """Return what is known by its form, surest kinds first; what overlaps an earlier find is for the caller to drop."""
    at = "@" in text
    if at:
        yield from _emails(text)
    if "://" in text or "www." in text.lower():
        yield from _urls(text, _URL)
    if _TOP_DOMAIN_PATH.search(text) is not None:
        yield from _urls(text, _BARE_URL)
    if at:
        for found in _HANDLE.finditer(text):
            if _DECORATOR.match(text, text.rfind("\n", 0, found.start()) + 1) is None:
                yield Form("handle", *found.span(), found[0].casefold())
    if "#" in text:
        for found in _HASHTAG.finditer(text):
            if _NO_HASHTAG.match(found[0]) is None:
                yield Form("hashtag", *found.span(), found[0].casefold())
    if _DIGIT.search(text) is not None:
        yield from _dates(text)
        for found in _AMOUNT.finditer(text):
            yield Form("amount", *found.span(), " ".join(found[0].casefold().split()))
        if HAN.search(text) is not None:
            for found in _CHINESE_AMOUNT.finditer(text):
                yield Form("amount", *found.span(), " ".join(found[0].casefold().split()))


def _emails(text: str) -> Iterator[Form]:
    place = text.find("@")
    while place >= 0:
        local = _LOCAL_PART.search(text, max(0, place - 65), place)
        domain = _DOMAIN.match(text, place)
        if local is not None and domain is not None:
            yield Form("email", local.start(), domain.end(), text[local.start() : domain.end()].casefold())
        place = text.find("@", place + 1)


def _urls(text: str, pattern: re.Pattern[str]) -> Iterator[Form]:
    for found in pattern.finditer(text):
        end = _url_end(text, found.start(), found.end())
        yield Form("url", found.start(), end, text[found.start() : end].casefold())


def _url_end(text: str, start: int, end: int) -> int:
    """Return where a URL ends: the marks of the sentence around it and a bracket it did not open are not part of it."""
    while end > start:
        last = text[end - 1]
        opening = {")": "(", "]": "["}.get(last)
        alone = opening is not None and text.count(last, start, end) > text.count(opening, start, end)
        if last not in _MARKS and not alone:
            break
        end -= 1
    return end


def _dates(text: str) -> Iterator[Form]:
    for found in _YEAR_FIRST.finditer(text):
        yield from _date(found, found["year"], found["month"], found["day"])
    for found in _YEAR_LAST.finditer(text):
        first, second, slashed = found["first"], found["second"], found["slashed"]
        if second is not None:
            yield from _date(found, found["year"], second, first)
        elif int(slashed) > 12 or (int(first) <= 12 and first != slashed):
            # 04/13/2025 is a month first; 03/04/2025 may be either, and a guess would be a wrong date half the time.
            if int(slashed) > 12:
                yield from _date(found, found["year"], first, slashed)
            else:
                yield _as_written(found)
        else:
            yield from _date(found, found["year"], slashed, first)
    for found in _SHORT.finditer(text):
        near = text[max(0, found.start() - 12) : found.start()]
        if _exists("2000", found["month"], found["day"]) and _BEFORE_SHORT.search(near) is not None:
            yield _as_written(found)
    if "月" in text:
        yield from _chinese_dates(text)
    for digits in _DIGITS.finditer(text):
        yield from _named(text, digits)


def _chinese_dates(text: str) -> Iterator[Form]:
    for found in _CHINESE_DATE.finditer(text):
        if found["year"] is None:
            if _exists("2000", found["bare"], found["of"]):
                yield _as_written(found)
        elif found["day"] is None:
            yield from _month(found, found["year"], found["month"])
        else:
            yield from _date(found, found["year"], found["month"], found["day"])


def _named(text: str, digits: re.Match[str]) -> Iterator[Form]:
    """Return the date around some digits where a word beside them is a month."""
    start, end = digits.span()
    behind = _DAY_BEFORE_MONTH.match(text, start) if end - start < 3 else None
    month = _month_number(behind["month"]) if behind is not None else None
    if behind is not None and month is not None:
        if behind["year"] is not None:
            yield from _date(behind, behind["year"], month, behind["day"])
        elif _exists("2000", month, behind["day"]):
            yield _as_written(behind)
        return
    before = _MONTH_BEFORE.search(text, max(0, start - 18), start)
    month = _month_number(before["month"]) if before is not None else None
    if before is None or month is None:
        return
    year = _YEAR_BEHIND.match(text, start)
    if year is not None:
        yield Form("date", before.start(), year.end(), f"{year['year']}-{int(month):02d}")
        return
    day = _DAY_BEHIND.match(text, start)
    if day is None or before["comma"] or before["of"] or not _exists("2000", month, day["day"]):
        return
    whole = " ".join(text[before.start() : day.end()].casefold().split())
    if day["year"] is not None and _exists(day["year"], month, day["day"]):
        whole = f"{day['year']}-{int(month):02d}-{int(day['day']):02d}"
    yield Form("date", before.start(), day.end(), whole)


def _month_number(name: str) -> str | None:
    """Return the number of a month by its name; in English and German the name has a capital: not "may 5"."""
    low = name.lower()
    if low not in _MONTHS or (name == low and low not in _LOWER_CASE):
        return None
    return str(_MONTHS[low])


def _date(found: re.Match[str], year: str, month: str, day: str) -> Iterator[Form]:
    if _exists(year, month, day):
        yield Form("date", *found.span(), f"{year}-{int(month):02d}-{int(day):02d}")


def _month(found: re.Match[str], year: str, month: str) -> Iterator[Form]:
    if 1 <= int(month) <= 12:
        yield Form("date", *found.span(), f"{year}-{int(month):02d}")


def _as_written(found: re.Match[str]) -> Form:
    return Form("date", *found.span(), " ".join(found[0].casefold().split()))


def _exists(year: str, month: str, day: str) -> bool:
    try:
        date(int(year), int(month), int(day))
    except ValueError:
        return False
    return True
