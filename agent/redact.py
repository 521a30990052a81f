"""Masking what must not be seen: secrets, and what tells who the owner is.

One list of patterns for all who need it: the last error of a job, the logs, a bug report. Only things with a
recognisable form are found here; content itself never gets this far.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_Replace = str | Callable[[re.Match[str]], str]

SECRET = "[secret]"
EMAIL = "[e-mail]"
HOME = "~"

# Every pattern is linear in the length of the text, whatever the text is (bounded repeats, possessive ones, starts only
# where a run starts): masking runs over what providers, files and other people's messages contain.
# Order matters: what has a form of its own goes before the general ``name=value``.
_SECRETS: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----|\Z)", re.S
        ),
        SECRET,
    ),
    (re.compile(r"(?<![\w-])eyJ[\w-]{8,}+\.[\w-]{8,}+\.[\w-]*"), SECRET),
    (re.compile(r"\b(bearer|basic)\s{1,4}[\w.~+/=-]{6,}", re.I), r"\1 " + SECRET),
    (
        re.compile(
            r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}"
            r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
            r"|\bxox[abeprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\bhf_[A-Za-z0-9]{20,}"
            r"|\bya29\.[\w-]{20,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{40,}"
        ),
        SECRET,
    ),
    (
        re.compile(
            r"""(?ix)
            ( (?: password | passwd | passphrase | secret | token | api[_-]?key | access[_-]?key | private[_-]?key
                | authorization | credentials? | cookie ) ["']?
              \s{0,3} [=:] \s{0,3} )
            (?! \[secret\] | (?:bearer|basic)\s )
            ( "[^"\n]{0,500}" | '[^'\n]{0,500}' | [^\s,;&"'}\])]+ )
            """
        ),
        lambda match: match[1] + SECRET,
    ),
)
_PERSONAL: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{0,20}://[^\s'\"<>]*", re.I), lambda match: _bare_url(match[0])),
    (re.compile(r"(?<![\w.!#$%&'*+/=?^`{|}~-])[\w.!#$%&'*+/=?^`{|}~-]++@[\w-]++(?:\.[\w-]+)+"), EMAIL),
    (re.compile(r"(?<![\w/])/(?:home|Users)/[^/\s:'\"]+|(?<![\w/])/root(?=[/\s:'\"]|$)"), HOME),
    (re.compile(r"\b[A-Za-z]:(?:\\\\?|/)(?:Users|Documents and Settings)(?:\\\\?|/)[^\\/\s:'\"]+", re.I), HOME),
)
_CLOSERS = ".,;:!)]}"


def _bare_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    host = host.rpartition("@")[2]
    rest = f"{host}{slash}{path}"
    cut = min((at for at in (rest.find("?"), rest.find("#")) if at >= 0), default=-1)
    if cut < 0:
        return f"{scheme}{separator}{rest}"
    # Punctuation at the end is the sentence's, not the URL's.
    tail = rest[len(rest.rstrip(_CLOSERS)) :]
    return f"{scheme}{separator}{rest[:cut]}?[…]{tail}"


def mask_secrets(text: str) -> str:
    """Return the text with keys, tokens, passwords and private keys masked."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


def redact(text: str, *, home: str | None = None) -> str:
    """Return the text without secrets, e-mail addresses, home folders, and the users and queries of URLs.

    ``home`` is one more path to be shown as ``~`` (an owner whose home folder is somewhere unusual).
    """
    text = mask_secrets(text)
    if home and len(home) > 1:
        text = text.replace(home, HOME)
    for pattern, replacement in _PERSONAL:
        text = pattern.sub(replacement, text)
    return text
