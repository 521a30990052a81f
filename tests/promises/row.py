"""One promise and what proves it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One promise in our own words, the tests that fail where it is broken, and what of it is left for later."""

    promise: str
    tests: tuple[str, ...] = ()
    later: str = ""
