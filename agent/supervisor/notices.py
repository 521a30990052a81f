"""Which notifications an owner gets, decided from what is the case. No window, no clock, no database.

What goes on is told once, when it has lasted for ten seconds, and not again before it was over and an hour has passed;
four an hour in all. What they say are our own words for a kind of trouble: nothing of what the memory holds.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

HOUR_MS = 3_600_000
MOST_IN_AN_HOUR = 4
SETTLED_MS = 10_000
"""What is over sooner is not worth a word: a start, a busy disk, a restart of a worker."""


class Subject(StrEnum):
    """What a notification is about; the most pressing first. Stored."""

    MEMORY = "memory"
    DAMAGED = "damaged"
    SETTINGS = "settings"
    WORKER = "worker"
    MODEL = "model"
    QUESTION = "question"
    FAILED = "failed"
    FIRST_MEMORY = "first_memory"


@dataclass(frozen=True)
class Notice:
    """What is shown: a title and a line."""

    subject: Subject
    title: str
    body: str


_SEE = "Open Sapwood, or see `sapwood status`."
_WORDS = {
    Subject.MEMORY: ("Sapwood cannot use its memory", f"Nothing is lost; it tries again by itself. {_SEE}"),
    Subject.DAMAGED: ("Sapwood's memory was damaged", f"It grows anew from your sources. {_SEE}"),
    Subject.SETTINGS: (
        "Sapwood's settings cannot be read",
        "The last good ones are in use. `sapwood config edit` mends them.",
    ),
    Subject.WORKER: ("Part of Sapwood ends again and again", f"The rest goes on, and it is tried slowly. {_SEE}"),
    Subject.MODEL: ("Sapwood's model waits for you", f"It wants a key, your consent, a limit or a model. {_SEE}"),
    Subject.QUESTION: (
        "Sapwood has a question",
        "Much of a source is gone, and kept until you answer. Open Sapwood, or `sapwood sources`.",
    ),
    Subject.FAILED: ("Some of Sapwood's work failed", "What helps: open Sapwood, or `sapwood jobs --status failed`."),
    Subject.FIRST_MEMORY: ("Your first memory has grown", "You can search it now: open Sapwood, or `sapwood search`."),
}


def notice(subject: Subject) -> Notice:
    """Return what is said of a subject."""
    return Notice(subject, *_WORDS[subject])


@dataclass(frozen=True)
class Seen:
    """What is the case in the memory: ``on`` holds what wants its owner.

    ``holds_any``: something was read into it. ``is_grown``: that, and nothing of it is still to be worked on.
    """

    on: frozenset[Subject] = frozenset()
    holds_any: bool = False
    is_grown: bool = False


class _First(StrEnum):
    """How far the first memory is. Stored."""

    WAITING = "waiting"
    TOLD = "told"


class Notices:
    """What was told. Times are UTC ms, handed in; a clock that was set back delays nothing."""

    def __init__(self) -> None:
        self._told: dict[Subject, int] = {}
        self._standing: set[Subject] = set()  # told, and not over since
        self._since: dict[Subject, int] = {}
        self._first: _First | None = None

    @property
    def stored(self) -> str:
        """What the next start has to know, as text."""
        return json.dumps(
            {
                "first": self._first,
                "standing": sorted(self._standing),
                "told": {str(k): v for k, v in self._told.items()},
            }
        )

    def load(self, stored: str | None) -> None:
        """Take in what an earlier start knew; a text of another version is as none."""
        try:
            held = json.loads(stored or "{}")
            known = {str(subject): subject for subject in Subject}
            told = {known[name]: int(at) for name, at in dict(held.get("told", {})).items() if name in known}
            standing = {known[name] for name in held.get("standing", ()) if name in known}
            first = _First(held["first"]) if held.get("first") else None
        except (ValueError, TypeError, AttributeError):
            return
        self._told = {**told, **self._told}
        self._standing |= standing
        self._first = self._first or first

    def look(self, on: Collection[Subject], now_ms: int, seen: Seen | None = None) -> tuple[Notice, ...]:
        """Return what to show now. ``seen`` is ``None`` while the memory cannot be looked at."""
        on = set(on)
        if seen is not None and self._is_first_grown(seen):
            on.add(Subject.FIRST_MEMORY)
        self._told = {subject: at for subject, at in self._told.items() if 0 <= now_ms - at < HOUR_MS}
        self._standing &= on
        self._since = {subject: min(self._since.get(subject, now_ms), now_ms) for subject in on}
        shown = []
        for subject in Subject:
            if subject not in on or subject in self._standing or now_ms - self._since[subject] < SETTLED_MS:
                continue
            if subject in self._told:
                self._standing.add(subject)  # it was over for a while, and its owner knows of it
            elif len(self._told) < MOST_IN_AN_HOUR:
                self._told[subject] = now_ms
                self._standing.add(subject)
                shown.append(notice(subject))
            if subject is Subject.FIRST_MEMORY and subject in self._standing:
                self._first = _First.TOLD
        return tuple(shown)

    @property
    def is_settling(self) -> bool:
        """Whether something goes on that was not told yet, so that another look may be worth it soon."""
        return bool(self._since.keys() - self._standing) and len(self._told) < MOST_IN_AN_HOUR

    def _is_first_grown(self, seen: Seen) -> bool:
        if self._first is None:
            # A memory that was there before anybody kept count of this is no first one.
            self._first = _First.TOLD if seen.holds_any else _First.WAITING
        return self._first is _First.WAITING and seen.is_grown
