"""What a text names and how much it matters, by rules: no model, no list of things seen elsewhere, no clock."""

from __future__ import annotations

from collections.abc import Iterator

from agent.models.builtin.rules.chinese import HAN, chinese_names
from agent.models.builtin.rules.cues import CAUSE, CHATTER, COMMITMENT, DEADLINE, DECISION
from agent.models.builtin.rules.forms import forms
from agent.models.builtin.rules.latin import latin_names
from agent.models.builtin.terms import words
from agent.models.protocol import Entity, Extraction


class BuiltinExtractor:
    """Entities and importance by rules. Blocks on nothing."""

    signature = "builtin:rules-1"

    def extract(self, text: str, *, title: str | None = None, author: str | None = None) -> Extraction:
        """Return the entities of a text in its order, and its importance with the signals that were there."""
        found = entities(text, author)
        importance, signals = weigh(text, found, title)
        return Extraction(found, importance, signals)


def entities(text: str, author: str | None = None) -> tuple[Entity, ...]:
    """Return what a text names, each thing once, where it stands first; no two overlap."""
    taken = bytearray(len(text))
    named: dict[tuple[str, str], Entity] = {}
    order: list[tuple[int, int, str, str]] = []
    for kind, start, end, name in _candidates(text, author):
        if end > start and taken.find(1, start, end) < 0:
            taken[start:end] = b"\x01" * (end - start)
            order.append((start, end, kind, name))
    for start, end, kind, name in sorted(order):
        key = (kind, name or " ".join(text[start:end].casefold().split()))
        known = named.get(key)
        if known is None:
            named[key] = Entity(kind, key[1], text[start:end], start)
        else:
            named[key] = Entity(kind, key[1], known.surface, known.start, known.mentions + 1)
    return tuple(named.values())


def _candidates(text: str, author: str | None) -> Iterator[tuple[str, int, int, str]]:
    """Return what may be named, surest first: (kind, start, end, normalised name or nothing)."""
    for form in forms(text):
        yield form.kind, form.start, form.end, form.name
    if author and len(author) > 2:
        start = text.find(author)
        while start >= 0:
            yield "person", start, start + len(author), ""
            start = text.find(author, start + len(author))
    if HAN.search(text) is not None:
        for kind, start, end in chinese_names(text):
            yield kind, start, end, ""
    for kind, start, end in latin_names(text):
        yield kind, start, end, ""


# How much each thing that a text may hold adds to its importance; what is not there is left out, not counted as half.
_WEIGHTS = {
    "decision": 0.22,
    "commitment": 0.12,
    "deadline": 0.12,
    "date": 0.10,
    "amount": 0.10,
    "cause": 0.08,
    "question": 0.05,
    "link": 0.05,
    "names": 0.12,
    "substance": 0.20,
}
_ADDRESSES = ("email", "url", "handle", "hashtag")


def weigh(text: str, found: tuple[Entity, ...], title: str | None) -> tuple[float, dict[str, float]]:
    """Return the importance of a text in 0 … 1 and its signals, each in 0 … 1, only those that are there."""
    lowered = text.lower()
    spoken = words(text)
    said, length = frozenset(spoken), len(spoken)
    signals: dict[str, float] = {}
    for name, cue in (("decision", DECISION), ("commitment", COMMITMENT), ("deadline", DEADLINE), ("cause", CAUSE)):
        if cue.is_in(said, lowered):
            signals[name] = 1.0
    kinds = [entity.kind for entity in found]
    names = sum(1 for kind in kinds if kind not in _ADDRESSES and kind not in ("date", "amount"))
    for name, many in (
        ("date", kinds.count("date")),
        ("amount", kinds.count("amount")),
        ("link", sum(map(kinds.count, _ADDRESSES))),
    ):
        if many:
            signals[name] = min(1.0, many / 2)
    if names:
        signals["names"] = min(1.0, names / max(2.0, length / 30))
    if "?" in text or "？" in text:
        signals["question"] = 1.0
    if length >= 8:
        signals["substance"] = min(1.0, length / 90)
    importance = 0.12 + sum(_WEIGHTS[name] * strength for name, strength in signals.items())
    if length < 16 and CHATTER.match(lowered) is not None:
        signals["chatter"] = 1.0
        importance *= 0.5
    return round(min(1.0, importance), 4), signals
