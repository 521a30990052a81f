"""Summaries beat the first sentences of equal length (lead-k) on planted facts, at every level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain

import pytest

from agent.models.builtin.structure import blocks, sentences
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryInput, SummaryRequest, budget_tokens
from agent.tokens import count_tokens
from tests.models.planted import Fact, corpus, share

FANOUT = 6
LEVELS = 3
SEEDS = (1, 2, 3)

Lead = Callable[[Sequence[SummaryInput], int], str]


@dataclass(frozen=True)
class Measured:
    """Mean shares of the facts that are left, at one level."""

    summary: float
    leads: dict[str, float]


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
def measured() -> tuple[Measured, ...]:
    """Summarise made-up notes level by level; at each level the leads are made of leads, and of summaries as well."""
    shares: list[list[float]] = [[] for _ in range(LEVELS)]
    leads: list[dict[str, list[float]]] = [{} for _ in range(LEVELS)]
    for seed in SEEDS:
        made = corpus(seed, FANOUT ** (LEVELS - 1))
        groups = {name: [list(group) for group in made.groups] for name in ("summary", *LEADS)}
        facts: list[list[Fact]] = [list(planted) for planted in made.facts]
        for level in range(LEVELS):
            above: dict[str, list[SummaryInput]] = {name: [] for name in groups}
            for number, planted in enumerate(facts):
                children = tuple(groups["summary"][number])
                budget = budget_tokens(sum(child.tokens for child in children))
                summary = BuiltinSummariser().summarise(SummaryRequest(children, level + 1, "source", budget))
                assert summary.tokens <= budget
                shares[level].append(share(planted, summary.text))
                above["summary"].append(SummaryInput("s", summary.text, summary.tokens, summary.title))
                for name, lead in LEADS.items():
                    text = lead(groups[name][number], summary.tokens)
                    above[name].append(SummaryInput(name, text, count_tokens(text)))
                    leads[level].setdefault(f"{name}, of leads", []).append(share(planted, text))
                    same = share(planted, lead(children, summary.tokens))
                    leads[level].setdefault(f"{name}, of the same input", []).append(same)
            groups = {name: _grouped(nodes) for name, nodes in above.items()}
            facts = [list(chain(*facts[start : start + FANOUT])) for start in range(0, len(facts), FANOUT)]
    return tuple(
        Measured(_mean(shares[level]), {name: _mean(each) for name, each in leads[level].items()})
        for level in range(LEVELS)
    )


def _grouped(nodes: list[SummaryInput]) -> list[list[SummaryInput]]:
    return [nodes[start : start + FANOUT] for start in range(0, len(nodes), FANOUT)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.parametrize("level", range(1, LEVELS + 1))
@pytest.mark.parametrize("lead", LEADS)
def test_summaries_keep_three_times_the_facts_that_leads_keep(level: int, lead: str) -> None:
    found = measured()[level - 1]
    assert found.summary > 3 * found.leads[f"{lead}, of leads"], measured()


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("lead", LEADS)
def test_summaries_keep_more_facts_than_leads_of_the_same_input(level: int, lead: str) -> None:
    """On the third level almost every sentence that comes in is a fact, and what counts is how many fit."""
    found = measured()[level - 1]
    assert found.summary > 1.15 * found.leads[f"{lead}, of the same input"], measured()


def test_most_facts_survive_the_first_level() -> None:
    assert measured()[0].summary > 0.6, measured()
