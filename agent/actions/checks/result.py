"""What a look says, and how many findings become one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

NAMED = 3
"""Findings of one check that are named; of the rest the number is said."""
COUNTED = 1_000
"""Further than this nobody counts: queries name no more rows either."""


@dataclass(frozen=True)
class Check:
    """One thing looked at. ``remedy`` says what to do where it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All of them; ``ok`` where each is."""

    ok: bool
    checks: tuple[Check, ...]


def summed(name: str, findings: Iterable[str], well: str, remedy: str) -> Check:
    """Return one check for any number of findings: the first by name, how many there are, what is well without any."""
    named: list[str] = []
    count = 0
    for text in findings:
        count += 1
        if len(named) < NAMED:
            named.append(text)
        if count >= COUNTED:
            break
    if not count:
        return Check(name, True, well)
    more = count - len(named)
    if more:
        named.append(f"and {more} {'or ' if count >= COUNTED else ''}more")
    return Check(name, False, "; ".join(named), remedy)


def guarded(name: str, look: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Yield what a look says; one that fails is a finding itself, whatever it was, and stops no other."""
    from agent.db import faults
    from agent.errors import SapwoodError

    try:
        yield from look()
    except Exception as error:
        if isinstance(error, SapwoodError):
            yield Check(name, False, str(error), error.hint or "please report this")
        elif faults.is_sqlite_corrupt(error):
            yield Check(name, False, f"cannot be read, the file is damaged: {error}", DAMAGED)
        elif faults.is_database_fault(error):
            yield Check(
                name, False, f"cannot be read now: {error}", "close other programs on the memory and look again"
            )
        elif isinstance(error, OSError):
            where = f"{error.filename}: " if error.filename else ""
            yield Check(name, False, f"{where}{error.strerror or error}", "make it yours and readable, then look again")
        else:
            yield Check(name, False, f"{type(error).__name__}: {error}", "please report this")


DAMAGED = "`sapwood rebuild` puts the damaged file aside and grows the memory again from its sources"


def size_words(size: float) -> str:
    """Return a number of bytes for people."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
