"""Cutting what is too long for a model into parts that it can take, none of it left out.

Pure: the same pieces and the same room give the same parts, so that a part that was answered is found again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.models.builtin.structure import sentences
from agent.tokens import count_tokens


@dataclass(frozen=True)
class Piece:
    """A text under a line that says what it is; ``nodes`` are the ids of the nodes that its words come from."""

    head: str
    text: str
    nodes: tuple[str, ...]

    @property
    def written(self) -> str:
        """As it stands in a prompt."""
        return f"{self.head}\n{self.text}" if self.head else self.text

    @property
    def tokens(self) -> int:
        """Tokens of all of it."""
        return count_tokens(self.written)


def split(pieces: Sequence[Piece], room: int) -> list[list[Piece]]:
    """Return the pieces in order in as few parts as fit into ``room`` tokens each; a long piece is cut at a boundary.

    Raises ``ValueError`` where a line above a piece leaves no room for anything under it.
    """
    parts: list[list[Piece]] = []
    used = 0
    for small in (each for piece in pieces for each in _fitting(piece, room)):
        tokens = small.tokens
        if not parts or used + tokens > room:
            parts.append([])
            used = 0
        parts[-1].append(small)
        used += tokens
    return parts


def _fitting(piece: Piece, room: int) -> list[Piece]:
    if piece.tokens <= room:
        return [piece]
    left = room - count_tokens(piece.head)
    if left < 1:
        raise ValueError("no room")
    return [replace(piece, text=text) for text in cut(piece.text, left)]


def cut(text: str, limit: int) -> list[str]:
    """Return a text in pieces of at most ``limit`` tokens: at paragraphs, else lines, sentences, words, characters."""
    return _cut(text, limit, 0)


def _cut(text: str, limit: int, level: int) -> list[str]:
    if count_tokens(text) <= limit:
        return [text]
    if level == len(_SEAMS):
        return [text[start : start + limit] for start in range(0, len(text), limit)]
    seam, units = _SEAMS[level]
    found: list[str] = []
    held: list[str] = []
    used = 0
    for unit in units(text):
        tokens = count_tokens(unit)
        if used + tokens > limit and held:
            found.append(seam.join(held))
            held, used = [], 0
        if tokens > limit:
            found += _cut(unit, limit, level + 1)
        else:
            held.append(unit)
            used += tokens
    if held:
        found.append(seam.join(held))
    return found


def _paragraphs(text: str) -> list[str]:
    return [part for part in re.split(r"\n[^\S\n]*\n\s*", text) if part.strip()]


def _lines(text: str) -> list[str]:
    return [part for part in text.split("\n") if part.strip()]


_SEAMS: tuple[tuple[str, Callable[[str], list[str]]], ...] = (
    ("\n\n", _paragraphs),
    ("\n", _lines),
    (" ", sentences),
    (" ", str.split),
)
