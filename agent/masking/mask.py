"""Secrets are masked before text is stored or sent. Line counts never change, and the mask says what it was.

What is found, in ``agent/masking``: private keys, credentials with a form of their own, values that a name
announces, card and bank numbers with right check digits. What is not certain to be a secret by its form or its name
stays: a memory that loses words is no better than one that keeps a password.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.masking.assigned import find_assigned
from agent.masking.blocks import find_private_keys
from agent.masking.numbers import find_numbers
from agent.masking.shapes import find_shapes
from agent.masking.span import Span

MASK = "[masked: {}]"
_SHORT = 200  # characters of a part that is remembered while an item is masked


class Masked(NamedTuple):
    """A text without its secrets, and how many there were."""

    text: str
    secrets: int


def mask(text: str, label: str = MASK) -> Masked:
    """Return the text with secrets replaced by what kind they were, and how many; it has as many lines as before.

    ``label`` is what is put there; ``{}`` in it becomes the kind.
    """
    lowered = text.lower()
    spans = find_private_keys(text)
    spans += find_shapes(text, lowered)
    spans += find_assigned(text, lowered)
    spans += find_numbers(text, lowered)
    if not spans:
        return Masked(text, 0)
    pieces: list[str] = []
    at = 0
    joined = _joined(spans)
    for span in joined:
        pieces += (text[at : span.start], label.format(span.name), "\n" * text.count("\n", span.start, span.end))
        at = span.end
    pieces.append(text[at:])
    return Masked("".join(pieces), len(joined))


def mask_secrets(text: str) -> str:
    """Return the text with secrets replaced by what kind they were; it has as many lines as before."""
    return mask(text).text


class Masking:
    """Masks the parts of one item and counts what it masked; the same part again (a name, a subject) counts once."""

    def __init__(self) -> None:
        self.count = 0
        self._short: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Return the text with its secrets masked."""
        known = self._short.get(text)
        if known is not None:
            return known
        shown, count = mask(text)
        self.count += count
        if len(text) <= _SHORT:
            self._short[text] = shown
        return shown

    def of_optional(self, text: str | None) -> str | None:
        """Return the same of a text that may not be there."""
        return None if text is None else self.of(text)


def _joined(spans: list[Span]) -> list[Span]:
    """Return the spans in order, those that overlap made one under the name that was found first: the surest."""
    ranked = sorted(enumerate(spans), key=lambda pair: (pair[1].start, pair[0]))
    joined: list[tuple[int, Span]] = []
    for rank, span in ranked:
        if joined and span.start < joined[-1][1].end:
            before_rank, before = joined[-1]
            best, name = min((before_rank, before.name), (rank, span.name))
            joined[-1] = (best, Span(before.start, max(before.end, span.end), name))
        else:
            joined.append((rank, span))
    return [span for _, span in joined]
