"""Summaries by a model: what it is given, what is accepted, what happens when it is not, and what is too long."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from agent.errors import JobFailure, Postponed
from agent.models.builtin.summary import BuiltinSummariser
from agent.models.protocol import SummaryInput, SummaryRequest, SummaryText, budget_tokens
from agent.models.providers.protocol import ChatAsk, Finish
from agent.models.summarising import ModelSummariser
from agent.tokens import count_tokens
from tests.models.tasks.scripted import (
    BOX,
    MemoryCalls,
    as_summary,
    fences,
    obedient,
    one_after_another,
    overflow,
    said,
)

DAY = 86_400_000
FACTS = "Ada Moss ordered the pump for 4,200 EUR. Kim Roe asked whether Bern agrees. The contract ends in May 2027. "


def group(count: int = 6, tokens: int = 90, *, level: int = 1, text: str = FACTS) -> SummaryRequest:
    children = []
    for number in range(count):
        body = f"Note {number} on the well. " + (text * (1 + tokens // count_tokens(text)))
        children.append(
            SummaryInput(f"n{number}", body, count_tokens(body), f"Mail {number}", None, "Ada Moss", number * DAY)
        )
    total = sum(child.tokens for child in children)
    return SummaryRequest(tuple(children), level, "source", budget_tokens(total), ("mail",))


def one_run(calls: MemoryCalls, request: SummaryRequest) -> tuple[SummaryText | None, int]:
    try:
        return ModelSummariser(BOX, calls).summarise(request), 0
    except Postponed as later:
        return None, later.until_ms


def runs(calls: MemoryCalls, request: SummaryRequest, most: int = 60) -> tuple[SummaryText, int]:
    """Summarise as a job would, run after run; return the summary and how many runs it took."""
    for run in range(1, most + 1):
        calls.calls_in_run = 0
        made, until_ms = one_run(calls, request)
        assert calls.calls_in_run <= 1
        if made is not None:
            return made, run
        assert until_ms == calls.now_ms(), "the follow-up run comes at once"
    raise AssertionError("it never comes to an end")


def test_a_model_is_given_titles_dates_authors_and_whole_texts_in_order_between_delimiters() -> None:
    calls = MemoryCalls()
    request = group(3)
    made, _ = runs(calls, request)
    (ask,) = calls.asks
    (content,) = fences(ask)
    assert [line for line in content.splitlines() if line.startswith("[")] == [
        "[1] 1970-01-01 · Ada Moss · “Mail 0”",
        "[2] 1970-01-02 · Ada Moss · “Mail 1”",
        "[3] 1970-01-03 · Ada Moss · “Mail 2”",
    ]
    for child in request.children:
        assert child.text.strip() in content
    assert "Answer in English" in ask.messages[0].text
    assert calls.sources == [("mail",)]
    assert ask.prompt_tokens >= sum(count_tokens(message.text) for message in ask.messages)
    assert not made.degraded
    assert made.tokens == count_tokens(made.text) <= request.budget_tokens


def test_every_child_of_the_group_is_named_with_the_stored_answer() -> None:
    calls = MemoryCalls()
    runs(calls, group(5))
    assert list(calls.nodes.values()) == [("n0", "n1", "n2", "n3", "n4")]


def test_what_was_answered_once_is_never_asked_again() -> None:
    calls = MemoryCalls()
    first, _ = runs(calls, group())
    again, _ = runs(calls, group())
    assert again == first
    assert len(calls.asks) == 1


@pytest.mark.parametrize("change", ["text", "title", "author", "time_ms"])
def test_another_input_is_another_question(change: str) -> None:
    calls = MemoryCalls()
    request = group()
    runs(calls, request)
    value: object = 5 * DAY if change == "time_ms" else "Words that are new here. " * 12
    child = replace(request.children[2], **{change: value})  # type: ignore[arg-type]
    runs(calls, replace(request, children=(*request.children[:2], child, *request.children[3:])))
    assert len(calls.asks) == 2


def test_a_summary_in_another_language_is_asked_for_in_that_language() -> None:
    calls = MemoryCalls()
    text = (
        "Die Pumpe wird im Mai geliefert und der Vertrag ist noch nicht fertig. Wir haben das mit Ada Moss besprochen. "
    )
    runs(calls, group(text=text))
    assert "Answer in German" in calls.asks[0].messages[1].text


def test_secrets_are_masked_once_more_before_anything_is_sent() -> None:
    calls = MemoryCalls()
    key = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    runs(calls, group(text=FACTS + f"The key is {key} for now. "))
    assert key not in calls.asks[0].messages[1].text


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "empty"),
        (as_summary("   "), "empty"),
        ("I cannot do that.", "no_json"),
        ('{"summary": 3}', "shape"),
        (said('{"summary": "Ada Moss ord', Finish.LENGTH), "cut"),
        (as_summary(FACTS * 40), "too_long"),
        (as_summary("Ada Moss wrote to Zebulon Pike about the pump."), "unknown_name"),
        (as_summary("Ada Moss ordered the pump for 9,900 EUR."), "unknown_number"),
        (as_summary("The contract ends in May 2031."), "unknown_number"),
        (JobFailure.transient("bad_output"), "wrong_shape"),
    ],
)
def test_an_answer_that_breaks_a_rule_is_refused_by_its_name_and_asked_for_once_more(answer: str, problem: str) -> None:
    good = as_summary("Ada Moss ordered the pump for 4,200 EUR.")
    calls = MemoryCalls(one_after_another(answer, good))
    made, took = runs(calls, group())
    assert calls.refused == [problem]
    assert took == 2, "each call has a run and a permit of its own"
    assert (made.text, made.degraded) == ("Ada Moss ordered the pump for 4,200 EUR.", False)
    assert "Your last answer could not be used." not in calls.asks[0].messages[1].text
    assert "Your last answer could not be used." in calls.asks[1].messages[1].text


def test_after_two_answers_in_vain_the_built_in_summary_stands_in_and_is_marked() -> None:
    calls = MemoryCalls(lambda ask: as_summary("Zebulon Pike bought Lake Titicaca."))
    made, took = runs(calls, group())
    assert took == 2
    assert len(calls.asks) == 2
    assert made == replace(BuiltinSummariser().summarise(group()), degraded=True)
    calls.asks.clear()
    assert runs(calls, group())[0].degraded
    assert calls.asks == [], "while these answers count nobody pays for a third"
    calls.time_ms += 13 * 3_600_000
    calls.says = obedient
    assert not runs(calls, group())[0].degraded


def test_a_cut_answer_that_is_whole_json_counts() -> None:
    calls = MemoryCalls(lambda ask: said(as_summary("Ada Moss ordered the pump."), Finish.LENGTH))
    assert runs(calls, group())[0].text == "Ada Moss ordered the pump."


def test_a_summary_slightly_over_its_budget_ends_at_a_sentence() -> None:
    request = group()
    text = ""
    while count_tokens(text) <= request.budget_tokens:
        text = f"{text} Ada Moss ordered the pump.".strip()
    made, _ = runs(MemoryCalls(lambda ask: as_summary(text)), request)
    assert made.tokens <= request.budget_tokens
    assert made.text.endswith("pump.")
    assert not made.degraded


def test_a_failure_of_the_provider_is_not_an_answer_in_vain() -> None:
    calls = MemoryCalls(lambda ask: JobFailure.transient("unreachable"))
    with pytest.raises(JobFailure, match="unreachable"):
        ModelSummariser(BOX, calls).summarise(group())
    assert calls.refused == []


# What is too long for the model.


def long_group() -> SummaryRequest:
    return group(20, 500)


def test_an_input_too_long_is_read_in_parts_one_a_run_and_nothing_of_it_is_left_out() -> None:
    calls = MemoryCalls(context=2_048)
    request = long_group()
    made, took = runs(calls, request)
    assert took == len(calls.asks) > 5
    sent = "\n".join(content for ask in calls.asks for content in fences(ask))
    for child in request.children:
        for sentence in child.text.split(". "):
            assert sentence.strip().rstrip(".") in sent
    assert not made.degraded
    assert made.tokens <= request.budget_tokens
    assert len(calls.held) == len(calls.asks), "each part is a result of its own"


def test_one_child_longer_than_the_context_is_cut_at_sentences_and_read_to_its_end() -> None:
    words = [f"word{number}" for number in range(4_000)]
    text = ". ".join(" ".join(words[at : at + 10]) for at in range(0, 4_000, 10))
    child = SummaryInput("n0", text, count_tokens(text), "One")
    calls = MemoryCalls(context=2_048)
    request = SummaryRequest(
        (child, replace(child, node_id="n1", text="Short. ", tokens=2)), 1, "source", 400, ("mail",)
    )
    runs(calls, request)
    sent = "\n".join(content for ask in calls.asks for content in fences(ask))
    assert [word for word in words if word not in sent] == []


def test_a_crash_between_parts_repeats_no_part() -> None:
    calls = MemoryCalls(context=2_048)
    whole, _ = runs(calls, long_group())
    paid = len(calls.asks)
    # Another process, the same stored answers.
    again = MemoryCalls(context=2_048, held=dict(calls.held))
    assert runs(again, long_group())[0] == whole
    assert again.asks == []
    last = list(calls.held)[-1]
    third = MemoryCalls(context=2_048, held={key: value for key, value in calls.held.items() if key != last})
    assert runs(third, long_group())[0] == whole
    assert len(third.asks) == 1 < paid


def test_a_part_answered_in_vain_twice_makes_the_whole_summary_the_built_in_one() -> None:
    calls = MemoryCalls(lambda ask: "no", context=2_048)
    made, _ = runs(calls, long_group())
    assert made.degraded
    assert len(calls.asks) == 2


def test_a_model_that_counts_more_tokens_is_given_smaller_parts() -> None:
    limit = 900

    def narrow(ask: ChatAsk) -> str | Exception:
        return overflow() if ask.prompt_tokens > limit else obedient(ask)

    calls = MemoryCalls(narrow, context=4_096)
    made, _ = runs(calls, long_group())
    assert not made.degraded
    assert calls.refused == ["context_overflow"] * 2


def test_a_model_that_takes_nothing_at_all_fails_in_words_and_not_for_ever() -> None:
    calls = MemoryCalls(lambda ask: overflow(), context=4_096)
    with pytest.raises(JobFailure) as caught:
        runs(calls, long_group())
    assert caught.value.code == "context_overflow"
    assert caught.value.is_unrecoverable()
    assert "context_tokens" in caught.value.hint
    assert len(calls.asks) < 8


def test_an_answer_that_is_not_kept_burns_an_attempt_instead_of_asking_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = MemoryCalls(context=2_048)
    monkeypatch.setattr(MemoryCalls, "keep", lambda *_: None)
    with pytest.raises(JobFailure, match="not stored"):
        ModelSummariser(BOX, calls).summarise(long_group())


def test_stored_answers_hold_the_checked_text_and_nothing_else() -> None:
    calls = MemoryCalls(lambda ask: f"<think>{FACTS}</think> Sure: " + as_summary("Ada Moss ordered the pump."))
    runs(calls, group())
    assert [json.loads(held) for held in calls.held.values()] == [{"text": "Ada Moss ordered the pump."}]


@pytest.fixture
def signature() -> Callable[[], str]:
    return lambda: ModelSummariser(BOX, None).signature


def test_the_signature_names_provider_model_task_and_the_prompts(signature: Callable[[], str]) -> None:
    provider, first, second, task = signature().split(":")
    assert (provider, first, second) == ("ollama", "small", "1b")
    name, _, mark = task.partition("-")
    assert name == "summary"
    assert len(mark) == 8
