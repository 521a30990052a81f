"""Credentials that are known by their form alone: the keys of providers, signed tokens, what stands in a header.

A shape is tried only where its literal beginning occurs, and that is looked for in the long words alone: prose costs
one split. Each shape fails within a bounded number of steps or takes all that it looked at, so a text costs its length.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from agent.masking.span import Span

_SHORTEST = 20  # of a word that a shape may stand in
_W = r"[A-Za-z0-9_\-]"
_START = r"(?<![A-Za-z0-9_\-])"
_END = r"(?![A-Za-z0-9_\-])"


class _Shape(NamedTuple):
    name: str
    beginnings: tuple[str, ...]
    pattern: re.Pattern[str]  # matched where a beginning stands
    is_it: Callable[[str], bool] | None = None


def _is_random(word: str) -> bool:
    """Return whether a run is random letters and digits rather than words with hyphens between them."""
    body = word.rpartition("-")[2] if word.count("-") < 3 else word
    digits = sum(letter.isdigit() for letter in body)
    return digits >= 2 and any(letter.isalpha() for letter in body) and len(set(body)) >= 8


def _shape(name: str, beginnings: str, tail: str, is_it: Callable[[str], bool] | None = None) -> _Shape:
    words = tuple(beginnings.split())
    heads = "|".join(re.escape(word) for word in words)
    return _Shape(name, words, re.compile(f"{_START}(?:{heads}){tail}"), is_it)


_SHAPES = (
    _shape("Anthropic key", "sk-ant-", rf"{_W}{{20,}}+"),
    _shape("OpenAI key", "sk-", rf"{_W}{{20,}}+", _is_random),
    _shape("Google key", "AIza", rf"{_W}{{35}}(?!{_W})"),
    _shape("Google token", "ya29. GOCSPX-", r"[A-Za-z0-9_\-.]{20,}+"),
    _shape("AWS key", "AKIA ASIA ABIA ACCA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{30,}+"),
    _shape("GitHub token", "github_pat_", r"[A-Za-z0-9_]{30,}+"),
    _shape("GitLab token", "glpat- gldt- glrt- glptt- glcbt- glsoat-", r"[A-Za-z0-9_\-.]{18,}+"),
    _shape(
        "Slack token", "xoxa- xoxb- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xoxc- xoxd- xapp-", r"[A-Za-z0-9%.\-]{16,}+"
    ),
    _shape("Slack webhook", "hooks.slack.com/services/ hooks.slack.com/workflows/", r"[A-Za-z0-9/_\-]{20,}+"),
    _shape("Stripe key", "sk_live_ sk_test_ rk_live_ rk_test_", r"[A-Za-z0-9]{16,}+"),
    _shape("Stripe secret", "whsec_", r"[A-Za-z0-9+/=]{20,}+"),
    _shape("Twilio key", "SK", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("SendGrid key", "SG.", rf"{_W}{{16,32}}\.{_W}{{16,64}}{_END}"),
    _shape("npm token", "npm_", r"[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    _shape("PyPI token", "pypi-", rf"{_W}{{50,}}+"),
    _shape("Hugging Face token", "hf_ api_org_", r"[A-Za-z0-9]{30,}+"),
    _shape("DigitalOcean token", "dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}(?![A-Za-z0-9])"),
    _shape("Mailgun key", "key-", r"[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"[A-Fa-f0-9]{32}(?![A-Za-z0-9])"),
    _shape("Square token", "sq0atp- sq0csp-", rf"{_W}{{22,}}+"),
    _shape("Databricks token", "dapi", r"[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _shape("Notion token", "secret_ ntn_", r"[A-Za-z0-9]{40,}+"),
    _shape("Linear key", "lin_api_", r"[A-Za-z0-9]{30,}+"),
    _shape("Figma token", "figd_", rf"{_W}{{30,}}+"),
    _shape("Grafana token", "glsa_ glc_", r"[A-Za-z0-9_+/=]{30,}+"),
    _shape("Vault token", "hvs. hvb.", rf"{_W}{{20,}}+"),
    _shape("Docker token", "dckr_pat_", rf"{_W}{{20,}}+"),
    _shape("Postman key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}(?![A-Za-z0-9])"),
    _shape("Groq key", "gsk_", r"[A-Za-z0-9]{40,}+"),
    _shape("xAI key", "xai-", r"[A-Za-z0-9]{40,}+"),
    _shape("Replicate token", "r8_", r"[A-Za-z0-9]{30,}+"),
    _shape("Atlassian token", "ATATT3 ATCTT3 ATBB", r"[A-Za-z0-9_=\-]{24,}+"),
    _shape("RubyGems key", "rubygems_", r"[a-f0-9]{48}(?![A-Za-z0-9])"),
    _shape("Supabase key", "sbp_", r"[a-f0-9]{40}(?![A-Za-z0-9])"),
    _shape("age key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}+"),
    _shape("signed token", "eyJ", rf"{_W}{{8,}}+\.eyJ{_W}{{8,}}+\.{_W}{{8,}}+"),
    # The first part is a number in base64: it begins with the letters that digits begin with there.
    _shape("Discord token", "MT Mj Mz ND NT Nj Nz OD OT", rf"{_W}{{21,26}}\.{_W}{{6}}\.{_W}{{27,40}}{_END}"),
)
# What does not begin with a literal: the beginning here is only what is looked for, the pattern looks at both sides.
_BESIDE = (
    _Shape("Telegram token", (":AA",), re.compile(r"(?<=\d{8}):AA[A-Za-z0-9_\-]{32,33}(?![A-Za-z0-9_\-])")),
    _Shape("Discord webhook", ("/api/webhooks/",), re.compile(rf"/api/webhooks/\d{{17,20}}/({_W}{{60,}}+)")),
    _Shape(
        "Azure key",
        ("AccountKey=", "SharedAccessKey="),
        re.compile(r"(?:Account|SharedAccess)Key=([A-Za-z0-9+/]{40,}+=*)"),
    ),
    _Shape("Azure signature", ("sig=",), re.compile(r"(?<=[?&])sig=([A-Za-z0-9%+/]{40,}+=*)")),
    _Shape("Mailchimp key", ("-us",), re.compile(r"(?<=(?<![A-Za-z0-9])[0-9a-f]{32})-us\d{1,2}(?!\w)")),
)
_SHORT = 2  # letters: so short a beginning is any word's
_COMMON = frozenset(("key-", "secret_", "api_org_"))
_BEGINNINGS = [(beginning, shape) for shape in (*_SHAPES, *_BESIDE) for beginning in shape.beginnings]
_ADDRESS = _Shape(
    "password in an address",
    ("://",),
    re.compile(r"(?<=[A-Za-z0-9])://[^\s:/@\"'<>]{0,64}:(?!\$\{|\{\{|<|\*+@)([^\s/@\"'<>]{3,200})@(?=[\w\[])"),
)
_HEADER = re.compile(
    r"(?<![a-z])(bearer|basic|token|apikey|api-key)[ \t]{1,4}[\"']?([A-Za-z0-9._~+/\-]{8,}+=*)", re.IGNORECASE
)
_CURL = re.compile(r"(?:(?<=\s)-u|--user|--proxy-user)[ =]?(?:[\"'])?[\w.@+\-]{1,64}:(?!\$|\[masked)([^\s\"']{3,128})")


def telling_beginnings() -> list[str]:
    """Return the beginnings that hardly any word has, the longest first: a part of a key is known by them too."""
    words = {word for shape in _SHAPES for word in shape.beginnings if len(word) > _SHORT and word not in _COMMON}
    return sorted(words, key=lambda word: (-len(word), word))


def find_shapes(text: str, lowered: str) -> list[Span]:
    """Return the credentials in a text that have a form of their own."""
    found: list[Span] = []
    words = "\n".join([word for word in text.split() if len(word) >= _SHORTEST])
    if words:
        for beginning, shape in _BEGINNINGS:
            if beginning in words:
                _find(text, shape, beginning, found)
    if "://" in text:
        _find(text, _ADDRESS, "://", found)
    if "bearer " in lowered or "authorization" in lowered:
        found.extend(_in_headers(text))
    if "curl" in lowered or "--user" in lowered or "wget" in lowered:
        found.extend(Span(match.start(1), match.end(1), "password") for match in _CURL.finditer(text))
    return found


def _find(text: str, shape: _Shape, beginning: str, found: list[Span]) -> None:
    at = text.find(beginning)
    while at >= 0:
        match = shape.pattern.match(text, at)
        if match is None:
            at = text.find(beginning, at + len(beginning))
            continue
        if shape.is_it is None or shape.is_it(match[0]):
            start, end = match.span(1) if shape.pattern.groups else match.span()
            if shape.name == "Telegram token":
                while start and text[start - 1].isdigit() and match.start() - start < 12:
                    start -= 1
            elif shape.name == "Mailchimp key":
                start -= 32
            found.append(Span(start, end, shape.name))
        at = text.find(beginning, max(match.end(), at + len(beginning)))


def _in_headers(text: str) -> list[Span]:
    found = []
    for match in _HEADER.finditer(text):
        scheme, value = match[1].lower(), match[2]
        before = text[max(0, match.start() - 32) : match.start()].lower()
        in_header = "authorization" in before
        has_digit = any(letter.isdigit() for letter in value)
        is_mixed = has_digit or (not value.islower() and not value.istitle() and not value.isupper())
        if in_header or (scheme == "bearer" and len(value) >= 16 and is_mixed and has_digit):
            if in_header and not is_mixed and not value.endswith("="):
                continue  # "authorization: bearer authentication" is prose
            found.append(Span(match.start(2), match.end(2), f"{'basic' if scheme == 'basic' else 'bearer'} credential"))
    return found
