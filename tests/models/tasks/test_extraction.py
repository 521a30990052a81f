"""Doubtful chunks before a model: several in one call, each checked and stored by itself."""

from __future__ import annotations

import json

import pytest

from agent.errors import JobFailure, Postponed
from agent.models.builtin.entities import BuiltinExtractor
from agent.models.extracting import Extracted, ModelExtractor, ToExtract
from agent.models.providers.protocol import ChatAsk, Finish
from tests.models.tasks.scripted import BOX, MemoryCalls, Said, fences, obedient, one_after_another, overflow, said

TEXT = "Zora told Kim about the boat in Bern; write to kim@boats.example by 2026-05-04."


def chunk(number: int, text: str = TEXT, source: str = "mail") -> ToExtract:
    text = f"{text} Number {number}."
    return ToExtract(f"c{number}", source, text, BuiltinExtractor().extract(text), f"Mail {number}", None)


def extract(calls: MemoryCalls, *chunks: ToExtract) -> list[Extracted]:
    calls.calls_in_run = 0
    found = ModelExtractor(BOX, calls).extract_many(chunks)
    assert calls.calls_in_run <= 1
    return found


def to_the_end(calls: MemoryCalls, *chunks: ToExtract) -> tuple[dict[str, Extracted], int]:
    """Run until nothing waits, as rows that are put off are claimed again; return the results and the runs."""
    done: dict[str, Extracted] = {}
    for run in range(1, 60):
        left = [each for each in chunks if each.chunk_id not in done]
        for each, found in zip(left, extract(calls, *left), strict=True):
            if not found.waits:
                done[each.chunk_id] = found
        if len(done) == len(chunks):
            return done, run
    raise AssertionError("it never comes to an end")


def items(*each: object) -> str:
    return json.dumps({"items": list(each)})


def item(number: int, importance: object = 0.5, *names: str, kind: str = "person") -> dict[str, object]:
    return {
        "number": number,
        "importance": importance,
        "entities": [{"kind": kind, "name": name} for name in names],
    }


def names(found: Extracted) -> list[tuple[str, str]]:
    return [(each.kind, each.name) for each in found.extraction.entities]


def test_several_chunks_go_into_one_call_and_each_has_a_result_of_its_own() -> None:
    calls = MemoryCalls()
    found = extract(calls, *(chunk(number) for number in range(5)))
    assert len(calls.asks) == 1
    assert len(fences(calls.asks[0])) == 5
    assert len(calls.held) == 5
    assert sorted(calls.nodes.values()) == [(f"c{number}",) for number in range(5)]
    assert all(each.judged and not each.degraded for each in found)


def test_entities_are_those_known_by_form_and_the_models_that_stand_in_the_text() -> None:
    (found,) = extract(MemoryCalls(lambda ask: items(item(1, 0.4, "Zora", "kim", "Atlantis"))), chunk(1))
    assert names(found) == [
        ("person", "zora"),
        ("person", "kim"),
        ("email", "kim@boats.example"),
        ("date", "2026-05-04"),
    ]
    zora = found.extraction.entities[0]
    assert (zora.surface, zora.start, zora.mentions) == ("Zora", 0, 1)
    assert found.extraction.importance == 0.4
    assert found.extraction.signals["model"] == 0.4


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        ("no JSON at all", "no_json"),
        ('{"items": {}}', "shape"),
        (said('{"items": [{"number": 1, "impo', Finish.LENGTH), "cut"),
        (items(), "missing"),
        (items(item(2)), "missing"),
        (items(item(1), item(1)), "shape"),
        (items(item(1, 1.2)), "importance"),
        (items(item(1, True)), "importance"),
        (items(item(1, "0.5")), "importance"),
        (items(item(1, 0.5, "Zora", kind="spaceship")), "kind"),
        (items(item(1, 0.5, "Zora", "Atlantis", "Krypton")), "not_in_text"),
        (JobFailure.transient("bad_output"), "wrong_shape"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_asked_for_once_more_in_the_next_run(answer: Said, problem: str) -> None:
    calls = MemoryCalls(one_after_another(answer, items(item(1, 0.6, "Zora"))))
    done, took = to_the_end(calls, chunk(1))
    assert calls.refused == [problem]
    assert took == 2
    assert (done["c1"].judged, done["c1"].extraction.importance) == (True, 0.6)
    assert "Your last answer could not be used." in calls.asks[1].messages[1].text


def test_after_two_answers_in_vain_the_rules_stand_in_and_say_so() -> None:
    calls = MemoryCalls(lambda ask: "no")
    done, took = to_the_end(calls, chunk(1))
    assert took == 2
    assert done["c1"] == Extracted(chunk(1).first, degraded=True)
    assert extract(calls, chunk(1))[0].degraded
    assert len(calls.asks) == 2


def test_one_bad_item_is_asked_for_again_alone_and_takes_no_other_with_it() -> None:
    def second_is_bad(ask: ChatAsk) -> str:
        texts = fences(ask)
        return items(*(item(at, 7 if "Number 2." in text else 0.5) for at, text in enumerate(texts, 1)))

    calls = MemoryCalls(second_is_bad)
    found = extract(calls, chunk(1), chunk(2), chunk(3))
    assert [bool(each.waits) for each in found] == [False, True, False]
    assert (calls.refused, len(calls.held)) == (["importance"], 2)
    done, _ = to_the_end(calls, chunk(1), chunk(2), chunk(3))
    assert [done[f"c{number}"].degraded for number in (1, 2, 3)] == [False, True, False]
    assert [len(fences(ask)) for ask in calls.asks] == [3, 1]


def test_what_does_not_fit_into_the_call_waits_for_the_next_and_none_is_dropped() -> None:
    calls = MemoryCalls(context=2_048)
    chunks = [chunk(number, TEXT * 6) for number in range(30)]
    done, took = to_the_end(calls, *chunks)
    assert len(done) == 30
    assert all(each.judged for each in done.values())
    assert took == len(calls.asks) > 3
    assert sorted(text.rpartition("Number ")[2] for ask in calls.asks for text in fences(ask)) == sorted(
        f"{number}." for number in range(30)
    )


def test_one_sources_words_never_stand_beside_anothers() -> None:
    calls = MemoryCalls()
    to_the_end(calls, chunk(1), chunk(2, source="club"), chunk(3))
    assert calls.sources == [("mail",), ("club",)]


def test_what_was_answered_once_needs_no_call() -> None:
    calls = MemoryCalls()
    first = extract(calls, chunk(1), chunk(2))
    assert extract(calls, chunk(1), chunk(2)) == first
    assert len(calls.asks) == 1


@pytest.mark.parametrize("error", [Postponed(5, "paused"), JobFailure.transient("unreachable")])
def test_a_failed_call_is_the_matter_of_the_chunks_in_it_alone(error: Exception) -> None:
    calls = MemoryCalls()
    extract(calls, chunk(1))
    calls.says = lambda ask: error
    found = extract(calls, chunk(1), chunk(2), chunk(3, source="club"))
    assert found[0].judged
    assert found[1].failure is error
    assert found[2].waits
    assert calls.refused == []


def test_a_server_that_does_not_say_how_much_it_takes_fails_one_row_and_no_other() -> None:
    error = JobFailure.transient("unreachable")
    found = extract(MemoryCalls(context=error), chunk(1), chunk(2))
    assert [each.failure for each in found] == [error, None]
    assert found[1].waits


def test_a_model_whose_context_holds_nothing_is_told_so_in_words() -> None:
    (found,) = extract(MemoryCalls(context=300), chunk(1))
    assert isinstance(found.failure, JobFailure)
    assert "context_tokens" in found.failure.hint


def test_chunks_too_long_together_are_asked_about_one_by_one() -> None:
    calls = MemoryCalls(lambda ask: obedient(ask) if len(fences(ask)) == 1 else overflow())
    done, _ = to_the_end(calls, *(chunk(number) for number in range(3)))
    assert all(each.judged for each in done.values())
    assert [len(fences(ask)) for ask in calls.asks] == [3, 1, 1, 1]
    assert "could not be used" not in calls.asks[1].messages[1].text


def test_a_chunk_longer_than_the_whole_context_is_left_to_the_rules() -> None:
    calls = MemoryCalls(context=1_500)
    (found,) = extract(calls, chunk(1, "word " * 3_000))
    assert (found.judged, found.degraded, found.waits) == (False, False, "")
    assert calls.asks == []


def test_a_stored_answer_holds_what_was_checked_and_no_more() -> None:
    calls = MemoryCalls(lambda ask: items(item(1, 0.5, "Zora", "Kim", "Atlantis") | {"note": "Krypton"}))
    extract(calls, chunk(1))
    assert [json.loads(held) for held in calls.held.values()] == [
        {"importance": 0.5, "entities": [["person", "Zora"], ["person", "Kim"]]}
    ]
