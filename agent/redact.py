"""Masking what must not be seen: secrets, and what tells who the owner is.

For all who need it: the last error of a job, the logs, a bug report. What a secret looks like stands in
``agent/masking`` alone, as for what is stored; but here a doubt is settled the other way. An error that loses a word
is none the worse for it, and providers quote keys cut short, so the beginning of one and a name before it are enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from agent.masking.mask import mask
from agent.masking.shapes import telling_beginnings

_Replace = str | Callable[[re.Match[str]], str]

SECRET = "[secret]"
EMAIL = "[e-mail]"
HOME = "~"

_KEY_BEGINNINGS = "|".join(re.escape(word) for word in telling_beginnings())
# Every pattern is linear in the length of the text, whatever the text is (bounded repeats, possessive ones, starts only
# where a run starts): masking runs over what providers, files and other people's messages contain.
_DOUBTFUL: tuple[tuple[re.Pattern[str], _Replace], ...] = (
    (re.compile(r"\b(bearer|basic)\s{1,4}[\w.~+/=-]{6,}", re.I), r"\1 " + SECRET),
    # A digit in it: "sk-learn-contrib" is no key.
    (
        re.compile(rf"(?<![\w-])(?:{_KEY_BEGINNINGS})(?=[A-Za-z_\-]{{0,40}}\d)[\w\-]{{10,}}+(?:\.[\w\-]++){{0,4}}"),
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
    text = mask(text, SECRET).text
    for pattern, replacement in _DOUBTFUL:
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
