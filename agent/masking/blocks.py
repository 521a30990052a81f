"""Private keys: PEM, OpenSSH, PGP and SSH2 blocks, also inside a JSON text or behind quotation marks, and PuTTY files.

One pass over the marks that begin and end a block, so that a text of nothing but beginnings costs its length.
"""

from __future__ import annotations

import re

from agent.masking.span import Span

NAME = "private key"
_MOST = 32 * 1024  # characters; a longer block is not a key
_MARK = re.compile(r"-{4,5} ?(BEGIN|END) (?:[A-Z0-9]{1,12} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
# Behind a beginning without its end only what looks like a key goes: what follows may be prose.
_BODY = re.compile(r"(?:(?:\s|\\[nr]|[>|#*])*+[A-Za-z0-9+/=]{16,}+)*+")
_PUTTY = re.compile(
    r"Private-Lines: \d{1,4}[ \t]*+((?:\r?\n[>|# \t]*+[A-Za-z0-9+/=]{4,}+)*+)(?:\r?\n[>|# \t]*+Private-MAC: \w++)?"
)


def find_private_keys(text: str) -> list[Span]:
    """Return the private keys in a text, whole blocks with their first and last line."""
    found: list[Span] = []
    if "PRIVATE KEY" in text:
        found.extend(_blocks(text))
    if "Private-Lines: " in text:
        found.extend(Span(match.start(), match.end(), NAME) for match in _PUTTY.finditer(text))
    return found


def _blocks(text: str) -> list[Span]:
    found: list[Span] = []
    begun: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[1] == "END":
            if begun is not None and mark.end() - begun.start() <= _MOST:
                found.append(Span(begun.start(), mark.end(), NAME))
            elif begun is not None:
                found.append(_unended(text, begun))
            begun = None
            continue
        if begun is not None:
            found.append(_unended(text, begun))
        begun = mark
    if begun is not None:
        found.append(_unended(text, begun))
    return found


def _unended(text: str, begun: re.Match[str]) -> Span:
    body = _BODY.match(text, begun.end())
    return Span(begun.start(), begun.end() if body is None else body.end(), NAME)
