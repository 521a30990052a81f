"""Getting at an answer through what a model writes around it, and the schema it is held to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agent.models.answers import extract_schema, read_items, read_summary, summary_schema
from agent.models.language import answer_language, language_of
from agent.models.providers.protocol import Finish
from tests.models.tasks.scripted import said


@pytest.mark.parametrize(
    "text",
    [
        '{"summary": "yes"}',
        '  {"summary": "yes", "more": [1]}  ',
        '```json\n{"summary": "yes"}\n```',
        'Here it is:\n\n{"summary": "yes"}\nIs that good?',
        '<think>First {"summary": "no"}.</think>\n{"summary": "yes"}',
        'First {"summary": "no"}.</think>{"summary": "yes"}',
        '<THINKING>a</THINKING><think>{"summary":"no"}</think>```\n{"summary": "yes"}```',
        'An example is {"summary": "no"}. Mine: {"summary": "yes"}',
        '{"thought": {"summary": "no"}} {"summary": "yes"}',
        '{not json} {"summary": "yes"}',
        'Sure: {"summary": "yes"} <think>Or {"summary": "no"}?</think>',
    ],
)
def test_the_answer_is_found_whatever_stands_around_it(text: str) -> None:
    assert read_summary(said(text)) == ("yes", "")


def test_a_tag_inside_an_answer_is_part_of_it() -> None:
    assert read_summary(said('{"summary": "We close <think> with </think>."}')) == (
        "We close <think> with </think>.",
        "",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ('<think>{"summary": "no"}', "no_json"),
        ('["summary"]', "no_json"),
        ('{"summary": null}', "shape"),
        ('{"summary": {"text": "x"}}', "shape"),
        ("{" * 100_000, "no_json"),
        ("[" * 100_000 + '{"summary": "x"}', "ok"),
        ('{"summary": ' + "[" * 100_000, "no_json"),
    ],
)
def test_what_is_no_answer_is_none_and_nothing_breaks(text: str, problem: str) -> None:
    assert read_summary(said(text))[1] == ("" if problem == "ok" else problem)


def test_a_cut_answer_says_that_it_was_cut() -> None:
    assert read_summary(said('{"summary": "We', Finish.LENGTH)) == ("", "cut")
    assert read_items(said('{"items": [{"number": 1', Finish.LENGTH), 1) == ({}, "cut")


def test_numbers_nobody_asked_for_are_left_out() -> None:
    raw = [{"number": number, "importance": 0, "entities": []} for number in (0, 1, 2, 3, True, "1", None)]
    items, problem = read_items(said(json.dumps({"items": [*raw, 7, "x"]})), 2)
    assert (sorted(items), problem) == ([1, 2], "")


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-0.1", "1.01", "true", '"0.5"', "null", "[]"])
def test_an_importance_that_is_no_share_is_refused(value: str) -> None:
    items, _ = read_items(said(f'{{"items": [{{"number": 1, "importance": {value}, "entities": []}}]}}'), 1)
    assert items[1].problem == "importance"


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for each in node.values():
            yield from _objects(each)
    elif isinstance(node, list):
        for each in node:
            yield from _objects(each)


@pytest.mark.parametrize("schema", [summary_schema(), extract_schema()])
def test_a_schema_is_as_strict_modes_want_it(schema: dict[str, Any]) -> None:
    found = list(_objects(schema))
    assert found
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    text = json.dumps(schema)
    for word in ("$ref", "$defs", "minimum", "maximum", "default", "anyOf", '"title"'):
        assert word not in text


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("We met yesterday and the contract is not ready.", "English"),
        ("Wir haben den Vertrag besprochen, und er ist nicht fertig.", "German"),
        ("El contrato no está listo y los abogados lo miran.", "Spanish"),
        ("Le contrat n'est pas prêt et les avocats sont dans la salle.", "French"),
        ("今天我们开会讨论了预算，使用Python。", "Chinese"),
        ("今日は会議で予算について話しました。", "Japanese"),
        ("오늘 우리는 예산을 논의했습니다.", "Korean"),
        ("ok lol", ""),
        ("", ""),
        ("Мы вчера обсудили договор", ""),
        ("def main() -> None: return x[1:]", ""),
    ],
)
def test_the_language_of_a_text_or_none_where_it_is_not_sure(text: str, language: str) -> None:
    assert language_of(text) == language
    assert answer_language(text) == (language or "the language of the material")
