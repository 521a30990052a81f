"""Card numbers and international bank numbers: known beginnings and lengths, and check digits that are right."""

from __future__ import annotations

import re

from agent.masking.span import Span

CARD, IBAN = "card number", "IBAN"

_SEPARATORS = " -\u00a0\u202f\u2009"
# What every card and every bank number has somewhere: one scan spares the others in most texts.
_HINT = re.compile(rf"\d\d[{_SEPARATORS}]?[A-Z0-9]{{4}}")
_CARD_HINT = re.compile(rf"\d{{4}}[{_SEPARATORS}]?\d{{4}}")
# Not one row of a table of numbers: groups that go on in hexadecimal before it or behind it are no card.
_CARD = re.compile(
    rf"(?<![\w.\-/])(?<!\d{{3}}[{_SEPARATORS}])(?<![0-9A-F]{{4}}[{_SEPARATORS}])(?:\d{{4}}([{_SEPARATORS}]?)\d{{4}}\1\d{{4}}\1\d{{4}}(?:\1\d{{3}})?"
    rf"|3\d{{3}}([{_SEPARATORS}]?)\d{{6}}\2\d{{4,5}})(?![\w\-]|\.\d|[{_SEPARATORS}](?:\d{{3}}|[0-9A-F]{{4,5}}\b))"
)
_IBAN_HINT = re.compile(rf"[A-Z]{{2}}\d\d[{_SEPARATORS}]?[A-Z0-9]{{4}}")
_IBAN_SMALL = re.compile(rf"(?i)[a-z]{{2}}\d\d[{_SEPARATORS}]?[a-z0-9]{{4}}")
# Length by country, from the registry that SWIFT keeps.
_LENGTHS = {
    code: length
    for length, codes in {
        15: "NO",
        16: "BE",
        18: "DK FI FK FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU MN XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ DZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU YE",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
    for code in codes.split()
}


def find_numbers(text: str, lowered: str) -> list[Span]:
    """Return the card and bank numbers in a text; ``lowered`` is the same text in lower case."""
    found: list[Span] = []
    is_named = "iban" in lowered
    if not is_named and _HINT.search(text) is None:
        return found
    if _CARD_HINT.search(text) is not None:
        found.extend(
            Span(match.start(), match.end(), CARD)
            for match in _CARD.finditer(text)
            if _is_card(match[0], match[1] or "")
        )
    hint = _IBAN_SMALL if is_named else _IBAN_HINT
    end = 0
    for match in hint.finditer(text):
        begin = match.start()
        if begin < end or (begin and (text[begin - 1].isalnum())):
            continue
        stop = _iban_end(text, begin)
        if stop:
            found.append(Span(begin, stop, IBAN))
            end = stop
    return found


def _is_card(shown: str, separator: str) -> bool:
    digits = "".join(letter for letter in shown if letter.isdigit())
    return _has_known_beginning(digits, bool(separator)) and len(set(digits)) > 1 and is_luhn(digits)


def _has_known_beginning(digits: str, is_grouped: bool) -> bool:
    length, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    if length == 14:
        return two in (36, 38, 39) or 300 <= three <= 305
    if length == 15:
        return two in (34, 37)
    if length == 19:
        # Nineteen digits in one run are an identifier far more often than a card.
        return is_grouped and (digits[0] == "4" or two == 62 or four == 6011 or two == 65)
    return (
        digits[0] == "4"
        or 51 <= two <= 55
        or 2221 <= four <= 2720
        or four in (6011, 5018, 5020, 5038, 5893, 6304, 6759, 6761, 6762, 6763)
        or 644 <= three <= 659
        or two == 62
        or 3528 <= four <= 3589
    )


def is_luhn(digits: str) -> bool:
    """Return whether the last digit is the check digit that ISO/IEC 7812 asks for."""
    total = 0
    for place, letter in enumerate(reversed(digits)):
        digit = int(letter)
        total += digit if place % 2 == 0 else (digit * 2 - 9 if digit > 4 else digit * 2)
    return total % 10 == 0


def _iban_end(text: str, begin: int) -> int:
    length = _LENGTHS.get(text[begin : begin + 2].upper())
    if length is None:
        return 0
    letters: list[str] = []
    at, after_separator = begin, False
    while at < len(text) and len(letters) < length:
        letter = text[at]
        if letter.isascii() and letter.isalnum():
            letters.append(letter.upper())
            after_separator = False
        elif letter in _SEPARATORS and not after_separator:
            after_separator = True
        else:
            return 0
        at += 1
    if len(letters) < length or (at < len(text) and text[at].isalnum()):
        return 0
    turned = letters[4:] + letters[:4]
    return at if int("".join(str(int(letter, 36)) for letter in turned)) % 97 == 1 else 0
