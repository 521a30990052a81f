"""Secrets are masked before text is stored or sent: the obvious ones, by pattern. Line counts never change.

A full detector is a later thing; what this finds it is sure of. A rule runs only where one of its literal hints occurs,
so that text without secrets costs a few substring searches.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

MASK = "[masked: {}]"


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    hints: tuple[str, ...]  # in lower case; one of them must occur
    pattern: re.Pattern[str]
    group: int = 0  # what is replaced


_WHOLE = -2  # of a rule: all of it, where its group 1 is there
_KEY_NAME = r"(?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
# Without its last line only what looks like a key goes: what follows may be prose.
_KEY_BLOCK = re.compile(
    rf"-----BEGIN {_KEY_NAME}(?:(?:[^\n]*\n){{0,200}}?[^\n]*-----END {_KEY_NAME}"
    r"|(?:\s+[>|# \t]*[A-Za-z0-9+/=]{16,})*)"
)
_RULES = (
    _Rule("bearer token", ("bearer ",), re.compile(r"(?i)\bbearer[ \t]+([A-Za-z0-9._~+/\-]{16,}=*)"), 1),
    _Rule(
        "api key",
        ("sk-", "sk_live_", "rk_live_", "sk_test_"),
        re.compile(r"\b(?:sk-(?:ant-|proj-|or-v1-)?[A-Za-z0-9_\-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,})"),
    ),
    _Rule("access key", ("akia", "asia"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    _Rule(
        "token",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "npm_", "pypi-", "hf_"),
        re.compile(
            r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_\-]{20,}"
            r"|xox[abeoprs]-[A-Za-z0-9\-]{10,}|npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_\-]{50,}|hf_[A-Za-z0-9]{30,})"
        ),
    ),
    _Rule("api key", ("aiza",), re.compile(r"\bAIza[A-Za-z0-9_\-]{35}\b")),
    _Rule(
        "signed token",
        ("eyj",),
        # Not from each "-" of an endless run again: that takes the square of its length.
        re.compile(r"\beyJ[A-Za-z0-9_\-]{10,}+(?:(\.eyJ[A-Za-z0-9_\-]{10,}+\.[A-Za-z0-9_\-]{10,}))?"),
        _WHOLE,
    ),
    _Rule(
        "password in an address",
        ("://",),
        re.compile(r"\b[a-z][a-z0-9+.\-]{1,15}://[^\s:/@]{1,64}:([^\s:/@]{3,})@"),
        1,
    ),
    _Rule(
        "secret",
        ("passw", "passwd", "token", "secret", "api_key", "apikey", "api-key", "passphrase", "pwd"),
        re.compile(
            r"(?i)(?<![a-z0-9])(?:[a-z0-9_\-]{0,40}[_\-])?(?:password|passwd|passphrase|pwd|token|secret|api[_\-]?key)"
            r"[\"']?[ \t]*[=:][ \t]*(?:\"([^\"\n]{4,})\"|'([^'\n]{4,})'|([^\s\"'<>,;()\[\]{}]{6,}))"
        ),
        -1,
    ),
)
_CARD_HINT = re.compile(r"\d{4}[ \-]?\d{4}[ \-]?\d")
_CARD = re.compile(r"(?<![\d.\-])(?:\d[ \-]?){12,18}\d(?![\d\-])")
_PLAIN_WORD = re.compile(r"[A-Za-z]+[.!?]?\Z")


def mask_secrets(text: str) -> str:
    """Return the text with secrets replaced by what kind they were; it has as many lines as before."""
    lowered = text.lower()
    if "private key" in lowered:
        text = _KEY_BLOCK.sub(_mask_lines, text)
    for rule in _RULES:
        if any(hint in lowered for hint in rule.hints):
            text = rule.pattern.sub(_masker(rule), text)
    if _CARD_HINT.search(text) is not None:
        text = _CARD.sub(_mask_card, text)
    return text


def _mask_lines(match: re.Match[str]) -> str:
    return MASK.format("private key") + "\n" * match[0].count("\n")


def _masker(rule: _Rule) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        group = rule.group
        if group == _WHOLE:
            return match[0] if match[1] is None else MASK.format(rule.name)
        if group < 0:
            group = next(number for number in (1, 2, 3) if match[number] is not None)
            # "Password: forgotten" is prose. What is assigned with "=", or is not one plain word, is a secret.
            separator = match[0][: match.start(group) - match.start()]
            if group == 3 and "=" not in separator and _PLAIN_WORD.match(match[group]):
                return match[0]
        begin, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][:begin] + MASK.format(rule.name) + match[0][end:]

    return replace


def _mask_card(match: re.Match[str]) -> str:
    digits = [int(letter) for letter in match[0] if letter.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) < 2:
        return match[0]
    total = 0
    for place, digit in enumerate(reversed(digits)):
        total += digit if place % 2 == 0 else (digit * 2 - 9 if digit > 4 else digit * 2)
    return MASK.format("card number") if total % 10 == 0 else match[0]
