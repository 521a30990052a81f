"""A stretch of text that is a secret."""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Where a secret stands, in characters, and what it is in words."""

    start: int
    end: int
    name: str
