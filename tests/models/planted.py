"""Made-up documents with facts planted in chatter, and what is left of the facts after summarising: a seeded measure.

The chatter is about the same things as the facts and has numbers, names and dates of its own, so that a summariser
that only counts digits or capitals keeps chatter. A third of the facts has no digit at all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from agent.models.protocol import SummaryInput
from agent.tokens import count_tokens

DAY_MS = 86_400_000
START_MS = 1_767_225_600_000  # 2026-01-01


def _list(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split("|"))


_PEOPLE = _list(
    """Ada Moss|Tobias Renk|Priya Nair|Omar Haddad|Ingrid Solheim|Bea Lund|Marcus Odell|Yusuf Demir|Carla Mont
    |Liam Achter"""
)
_FIRMS = _list(
    "Harrow Ltd|Quillstone GmbH|Northlight Press|Tallow & Wick Inc.|Meridian Trust|Fernhill Foundation|Alto Systems"
)
_TOWNS = _list("Leeds|Ghent|Osaka|Bristol|Tartu|Porto|Graz|Accra|Bergen|Lyon")
_THINGS = _list(
    """boiler|roof|garden wall|north gate|reading room|archive|print shop|ferry|orchard|workshop|library card system
    |kitchen|choir loft|loading dock|seed store|observatory|pottery kiln|bicycle shed|mooring|greenhouse|sound desk
    |lift|cellar|bridge"""
)
_MONTHS = _list("January|February|March|April|May|June|July|August|September|October|November|December")

_CHATTER = (
    "Thanks for the nice evening, it was fun.",
    "I walked past the {thing} again and it looked much the same as ever.",
    "Has anybody seen my umbrella, I think I left it near the {thing}.",
    "The weather was grey and wet, and nobody felt like doing much.",
    "{first} laughed so hard that the tea went everywhere.",
    "Sorry for the late answer, it has been one of those weeks.",
    "We waited about {n} minutes for the bus and then simply walked.",
    "Somebody should really say something nice about the {thing} one day.",
    "I had {n} mails this morning and answered none of them.",
    "It is always the same story with the {thing}, and with everything else.",
    "Do you remember how {first} used to sing on the way home?",
    "My neighbour has been painting the fence since {month}, slowly.",
    "The coffee at {town} station is still as bad as it was.",
    "There was a long talk about this and that, and then people went home.",
    "Good morning everybody, hope you are all well.",
    "I am not sure what to think about it, to be honest.",
    "A friend told me that the {thing} reminds her of her childhood.",
    "Nothing new here, only the usual things and the usual people.",
    "{first} said hello, and so did everyone at the {thing}.",
    "On Sunday I slept until ten and read half of a novel.",
    "The children played behind the {thing} for the whole afternoon.",
    "Well, we will see, as my grandmother liked to say.",
    "I keep forgetting where things are, which is a little funny.",
    "Somewhere a dog was barking, and then it stopped, and it was quiet.",
    "Page {n} of the book is the one with the picture I told you about.",
    "Maybe we could talk about the {thing} some other time, no hurry.",
)
_FACTS = (
    "We decided to replace the {thing} with the model from {firm}.",
    "The repair of the {thing} will cost {amount} EUR, payable to {firm}.",
    "{person} is responsible for the {thing} from {day} {month} 2026 on.",
    "The contract for the {thing} with {firm} ends on {day} {month} 2027.",
    "It was agreed that {person} signs for the {thing} in {town}.",
    "The {thing} was moved to {town} because the old building is unsafe.",
    "{firm} supplies the parts for the {thing}, and {person} is the contact.",
    "The committee rejected the plan to sell the {thing} to {firm}.",
    "The {thing} has a leak of {amount} litres a day, found by {person}.",
    "The permit for the {thing} expires on {year}-{mm:02d}-{day:02d}.",
    "{person} found that the alarm of the {thing} is wired to the wrong board.",
    "The key of the {thing} is kept by {person} in the office in {town}.",
)


@dataclass(frozen=True)
class Fact:
    """One planted sentence; it survives where the whole of it is still there."""

    sentence: str


@dataclass(frozen=True)
class Corpus:
    """Groups of leaves in order, and the facts planted in each group."""

    groups: tuple[tuple[SummaryInput, ...], ...]
    facts: tuple[tuple[Fact, ...], ...]


def corpus(seed: int, groups: int, leaves: int = 10, tokens: int = 350, facts_per_leaf: float = 1.5) -> Corpus:
    """Return made-up notes: each leaf of about so many tokens, facts at random places in it."""
    draw = random.Random(seed)
    made_groups, made_facts = [], []
    seen: set[str] = set()
    for group in range(groups):
        children, planted = [], []
        for leaf in range(leaves):
            many = int(facts_per_leaf) + (draw.random() < facts_per_leaf % 1)
            facts = [_fresh(draw, seen) for _ in range(many)]
            lines: list[str] = []
            while count_tokens(" ".join(lines + facts)) < tokens:
                lines.append(_filled(draw, draw.choice(_CHATTER)))
            for fact in facts:
                lines.insert(draw.randrange(len(lines) + 1), fact)
            text = "\n\n".join(" ".join(lines[start : start + 5]) for start in range(0, len(lines), 5))
            time_ms = START_MS + (group * leaves + leaf) * DAY_MS // 2
            children.append(
                SummaryInput(
                    node_id=f"{seed}-{group}-{leaf}",
                    text=text,
                    tokens=count_tokens(text),
                    title=f"Notes {group}",
                    author=draw.choice(_PEOPLE),
                    time_ms=time_ms,
                    last_time_ms=time_ms,
                )
            )
            planted += [Fact(fact) for fact in facts]
        made_groups.append(tuple(children))
        made_facts.append(tuple(planted))
    return Corpus(tuple(made_groups), tuple(made_facts))


def share(facts: Sequence[Fact], text: str) -> float:
    """Return which share of the facts is in a text, whole."""
    plain = " ".join(text.split())
    return sum(fact.sentence in plain for fact in facts) / len(facts)


def _fresh(draw: random.Random, seen: set[str]) -> str:
    while True:
        fact = _filled(draw, draw.choice(_FACTS))
        if fact not in seen:
            seen.add(fact)
            return fact


def _filled(draw: random.Random, form: str) -> str:
    person = draw.choice(_PEOPLE)
    return form.format(
        person=person,
        first=person.split()[0],
        firm=draw.choice(_FIRMS),
        town=draw.choice(_TOWNS),
        thing=draw.choice(_THINGS),
        month=draw.choice(_MONTHS),
        mm=draw.randrange(1, 13),
        day=draw.randrange(1, 29),
        year=draw.randrange(2026, 2030),
        amount=draw.randrange(100, 9900),
        n=draw.randrange(2, 60),
    )
