"""Summaries beat the first sentences of equal length (lead-k) on planted facts, at every level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TypeVar

import pytest

from agent.models.builtin.structure import blocks, sentences
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryInput, SummaryRequest, budget_tokens
from agent.tokens import count_tokens
from tests.models.planted import Fact, corpus, share

SEEDS = (1, 2, 3)
WIDE = (6, 3, 1.5)  # children of a summary, levels, facts in a leaf
HIGH = (4, 4, 1.5)
SPARSE = (6, 3, 0.5)

T = TypeVar("T")
Lead = Callable[[Sequence[SummaryInput], int], str]


@dataclass(frozen=True)
class Measured:
    """Mean shares of the facts that are left, at one level."""

    summary: float
    leads: dict[str, float]


@cache
def split(text: str) -> list[str]:
    return [sentence for _, run in blocks(text) for line in run.split("\n") for sentence in sentences(line)]


def first_sentences(children: Sequence[SummaryInput], tokens: int) -> str:
    """The beginning of the group."""
    return _until(tokens, [sentence for child in children for sentence in split(child.text)])


def first_of_each(children: Sequence[SummaryInput], tokens: int) -> str:
    """The first sentence of every child, then the second of every child, and so on: the stronger form of a lead."""
    texts = [split(child.text) for child in children]
    ranks = range(max(map(len, texts)))
    return _until(tokens, [text[rank] for rank in ranks for text in texts if rank < len(text)])


def _until(tokens: int, parts: Sequence[str]) -> str:
    kept: list[str] = []
    used = 0
    for part in parts:
        used += count_tokens(part)
        if used > tokens:
            break
        kept.append(part)
    return "\n".join(kept)


LEADS: dict[str, Lead] = {"first": first_sentences, "first of each": first_of_each}


@cache
def measured(fanout: int, levels: int, facts_per_leaf: float) -> tuple[Measured, ...]:
    """Summarise made-up notes level by level; the leads are made of leads, of the same input, and of the leaves."""
    shares: list[list[float]] = [[] for _ in range(levels)]
    leads: list[dict[str, list[float]]] = [{} for _ in range(levels)]
    for seed in SEEDS:
        made = corpus(seed, fanout ** (levels - 1), facts_per_leaf=facts_per_leaf)
        groups = {name: [list(group) for group in made.groups] for name in ("summary", "leaves", *LEADS)}
        facts: list[list[Fact]] = [list(planted) for planted in made.facts]
        for level in range(levels):
            above: dict[str, list[SummaryInput]] = {name: [] for name in groups}
            for number, planted in enumerate(facts):
                children = tuple(groups["summary"][number])
                budget = budget_tokens(sum(child.tokens for child in children))
                summary = BuiltinSummariser().summarise(SummaryRequest(children, level + 1, "source", budget))
                assert summary.tokens <= budget
                if planted:
                    shares[level].append(share(planted, summary.text))
                above["summary"].append(SummaryInput("s", summary.text, summary.tokens, summary.title))
                for name, lead in LEADS.items():
                    text = lead(groups[name][number], summary.tokens)
                    above[name].append(SummaryInput(name, text, count_tokens(text)))
                    texts = {
                        "leads": text,
                        "the same input": lead(children, summary.tokens),
                        "the same input without headers": lead([_bare(each) for each in children], summary.tokens),
                        "the leaves": lead(groups["leaves"][number], summary.tokens),
                    }
                    for kind, told in texts.items() if planted else ():
                        leads[level].setdefault(f"{name}, of {kind}", []).append(share(planted, told))
            groups = {name: _grouped(nodes, fanout) for name, nodes in above.items() if nodes} | {
                "leaves": [list(chain(*each)) for each in _grouped(groups["leaves"], fanout)]
            }
            facts = [list(chain(*each)) for each in _grouped(facts, fanout)]
    return tuple(
        Measured(_mean(shares[level]), {name: _mean(each) for name, each in leads[level].items()})
        for level in range(levels)
    )


def _bare(node: SummaryInput) -> SummaryInput:
    """Return a summary without its headers: a lead that need not say when, who and where."""
    text = "\n".join(line for line in node.text.split("\n") if not line.startswith("—"))
    return SummaryInput(node.node_id, text, count_tokens(text))


def _grouped(nodes: list[T], fanout: int) -> list[list[T]]:
    return [nodes[start : start + fanout] for start in range(0, len(nodes), fanout)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize(("shape", "level"), [(WIDE, 1), (WIDE, 2), (WIDE, 3), (HIGH, 4)])
@pytest.mark.parametrize("lead", LEADS)
def test_summaries_keep_three_times_the_facts_that_leads_keep(
    shape: tuple[int, int, float], level: int, lead: str
) -> None:
    found = measured(*shape)[level - 1]
    assert found.summary > 3 * found.leads[f"{lead}, of leads"], found
    assert found.summary > 3 * found.leads[f"{lead}, of the leaves"], found


@pytest.mark.parametrize(
    ("shape", "level", "times"),
    [(WIDE, 1, 5.0), (WIDE, 2, 1.2), (WIDE, 3, 1.1), (HIGH, 3, 1.1), (HIGH, 4, 1.05), (SPARSE, 3, 1.25)],
)
@pytest.mark.parametrize("lead", LEADS)
def test_summaries_keep_more_facts_than_leads_of_the_same_input(
    shape: tuple[int, int, float], level: int, times: float, lead: str
) -> None:
    """On the third level almost every sentence that comes in is a fact of the usual length, unless facts are rare.

    What counts there is how many fit, and a lead without headers spends nothing on saying when: choosing the shortest
    of all its sentences, and nothing else, would keep a sixth more than it does.
    """
    found = measured(*shape)[level - 1]
    assert found.summary > times * found.leads[f"{lead}, of the same input without headers"], found
    assert found.summary > max(times, 1.15) * found.leads[f"{lead}, of the same input"], found


def test_most_facts_survive_the_first_level() -> None:
    assert measured(*WIDE)[0].summary > 0.6, measured(*WIDE)
