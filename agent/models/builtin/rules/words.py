"""How the lists of words beside this module are written: one string, parts apart by white space or by a bar."""

from __future__ import annotations


def listed(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def phrases(text: str) -> frozenset[str]:
    """Return the phrases of a text, which stand apart by bars or line breaks."""
    return frozenset(" ".join(part.split()) for part in text.replace("\n", "|").split("|") if part.strip())
