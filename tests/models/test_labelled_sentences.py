"""200 sentences in four languages, labelled by hand before the rules were written.

What the labels mean: a person is named without a title ("Dr. Priya Raman" is "Priya Raman"), an organisation with its
legal form, a street without its number, a product with the version beside it. Dates have at least a day and a month or
a month and a year; days of the week and single months are no dates. An amount has a currency, a unit or a percent sign;
times, counts of people and bare numbers are none.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from agent.models.builtin.entities import BuiltinExtractor

LANGUAGES = ("en", "de", "es", "zh")
NAMES = ("person", "organisation", "place", "product")
FORMS = ("email", "url", "date")
KINDS = (*NAMES, *FORMS, "amount", "handle", "hashtag")

Found = tuple[str, str]


@cache
def labelled(language: str) -> tuple[tuple[str, dict[str, object]], ...]:
    path = Path(__file__).with_name("labelled") / f"{language}.json"
    return tuple((each.pop("text"), each) for each in json.loads(path.read_text("utf-8")))


@cache
def counted() -> Counter[tuple[str, str, str]]:
    """Count (language, kind, right | wrong | missed) over all sentences; a name counts by kind and surface."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for language in LANGUAGES:
        for text, labels in labelled(language):
            expected = {(kind, surface) for kind in KINDS for surface in labels.get(kind, ())}  # type: ignore[attr-defined]
            found = {(entity.kind, entity.surface) for entity in BuiltinExtractor().extract(text).entities}
            for outcome, these in (
                ("right", expected & found),
                ("wrong", found - expected),
                ("missed", expected - found),
            ):
                counts.update((language, kind, outcome) for kind, _ in these)
    return counts


def precision(kinds: tuple[str, ...], languages: tuple[str, ...] = LANGUAGES) -> float:
    right, wrong = (_sum(kinds, languages, outcome) for outcome in ("right", "wrong"))
    return right / (right + wrong)


def recall(kinds: tuple[str, ...], languages: tuple[str, ...] = LANGUAGES) -> float:
    right, missed = (_sum(kinds, languages, outcome) for outcome in ("right", "missed"))
    return right / (right + missed)


def _sum(kinds: tuple[str, ...], languages: tuple[str, ...], outcome: str) -> int:
    return sum(counted()[language, kind, outcome] for language in languages for kind in kinds)


def test_there_are_fifty_labelled_sentences_in_each_language() -> None:
    for language in LANGUAGES:
        assert len(labelled(language)) == 50
        for text, labels in labelled(language):
            assert set(labels) <= set(KINDS), text
            for surfaces in labels.values():
                assert all(surface in text for surface in surfaces), text  # type: ignore[attr-defined]


def test_names_are_right_in_at_least_eight_of_ten_cases() -> None:
    assert precision(NAMES) >= 0.8, counted()


@pytest.mark.parametrize("language", LANGUAGES)
def test_names_are_right_in_each_language(language: str) -> None:
    assert precision(NAMES, (language,)) >= 0.8, counted()


@pytest.mark.parametrize("kind", FORMS)
def test_addresses_urls_and_dates_are_right_in_98_of_100_cases(kind: str) -> None:
    assert precision((kind,)) >= 0.98, counted()
    assert recall((kind,)) >= 0.9, counted()


@pytest.mark.parametrize("kind", NAMES)
def test_most_names_are_found(kind: str) -> None:
    assert recall((kind,)) >= 0.8, counted()


@pytest.mark.parametrize("kind", ["amount", "handle", "hashtag"])
def test_amounts_handles_and_hashtags_are_found(kind: str) -> None:
    assert precision((kind,)) >= 0.9, counted()
    assert recall((kind,)) >= 0.9, counted()


@pytest.mark.parametrize("language", LANGUAGES)
def test_complete_dates_are_named_as_iso(language: str) -> None:
    for text, labels in labelled(language):
        expected = labels.get("date", {})
        for entity in BuiltinExtractor().extract(text).entities:
            if entity.kind == "date":
                assert entity.name == expected.get(entity.surface), text  # type: ignore[attr-defined]
