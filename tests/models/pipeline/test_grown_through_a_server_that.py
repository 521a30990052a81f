"""A whole memory through a model server that misbehaves: told in the right words, nothing lost, nothing paid twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from time import time
from typing import Any

import pytest

from tests.models.pipeline.growing import PROVIDERS, Growing
from tests.scripted import BEHAVIOURS, Behaviour, Serving, behave

GrowWith = Callable[..., Growing]
SHORT_MS = 20_000
ROWS = 5
"""Questions that this corpus asks a model: one about chunks, four for summaries."""


def for_each(*names: str, first: int = 1) -> pytest.MarkDecorator:
    """Each behaviour with each protocol; in the default run the ``first`` of them, each with one protocol in turn."""
    cases = []
    for at, name in enumerate(names):
        for turn, provider in enumerate(PROVIDERS):
            is_default = at < first and (at + len(names)) % len(PROVIDERS) == turn
            cases.append(pytest.param(provider, name, marks=() if is_default else pytest.mark.slow))
    return pytest.mark.parametrize(("provider", "name"), cases)


def assert_recovers(grown: Growing, server: Serving, hours: float = 0) -> None:
    """The server is well again: everything is grown, and no good answer was paid for twice."""
    server.use("ok")
    if hours:
        grown.turn(hours)
    else:
        grown.grow()
    grown.assert_whole()
    assert grown.paid_twice() == Counter()
    assert grown.hold() is None


# -- answers that are good, however they come


@for_each("think", "uncounted", "slow", "ok", "unopened_think", "fenced", first=3)
def test_writes_around_its_answers_or_slowly_is_understood_at_once(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(behave("slow", first_byte_s=0.1, between_s=0.02) if name == "slow" else name)
    grown = grow_with(provider)
    grown.grow()
    grown.assert_whole()
    assert len(server.calls("chat")) == ROWS
    calls, invalid, tokens = grown.usage()
    assert (calls, invalid) == (ROWS, 0)
    assert tokens > 1_000


@for_each("ok")
def test_is_well_leaves_a_memory_that_the_doctor_is_content_with(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow()
    grown.assert_doctor_is_content()
    grown.look()
    grown.turn(30)
    assert len(server.calls("chat")) == ROWS, "a second look at the same asks no model"


# -- servers that are out


@dataclass(frozen=True)
class Told:
    """What an owner reads, and how a row is marked."""

    code: str
    words: str
    hint: str = ""


OUT = {
    "cut": Told("unreachable", "broke off in the middle", "the log of the server"),
    "silent": Told("unreachable", "was silent for 0.3 s", "`read_seconds` in the profile"),
    "overloaded": Told("unreachable", "cannot answer just now", "tried again by itself"),
    "reset": Told("unreachable", "broke off in the middle", "the log of the server"),
    "truncated": Told("unreachable", "broke off in the middle", "the log of the server"),
    "error_500": Told("unreachable", "cannot answer just now", "tried again by itself"),
    "unavailable": Told("unreachable", "cannot answer just now", "tried again by itself"),
}


@for_each(*OUT, first=3)
def test_is_out_is_left_alone_after_five_calls_and_everything_is_grown_when_it_is_back(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow(SHORT_MS)
    told = OUT[name]
    assert len(server.calls("chat")) == 5
    hold = grown.hold()
    assert hold is not None
    assert (str(hold.code), hold.failures, hold.until_ms - grown.clock.now_ms()) == ("unreachable", 5, 30_000)
    assert told.words in hold.reason
    assert told.hint in hold.reason
    assert grown.failed() == []
    waiting = grown.waiting()
    assert {code for _, code, _, _ in waiting} == {told.code}
    assert all(told.words in said for _, _, said, _ in waiting)
    assert max(attempts for *_, attempts in waiting) == 1
    assert 0 in {attempts for *_, attempts in waiting}, "what only waited burnt no attempt"
    assert not any(grown.usage()), "nothing is paid for"
    assert_recovers(grown, server)


@for_each("ok")
def test_is_not_there_is_named_and_everything_is_grown_when_it_is_started(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider, context_tokens=8_192)
    server.go_away()
    grown.grow(SHORT_MS)
    hold = grown.hold()
    assert hold is not None
    assert hold.code == "unreachable"
    assert ("Ollama does not answer" if provider == "ollama" else "does not answer") in hold.reason
    assert ("ollama serve" if provider == "ollama" else "start the model server") in hold.reason
    assert grown.failed() == []
    server.come_back()
    assert_recovers(grown, server)


@for_each("rate_limited")
def test_asks_for_a_pause_gets_it_and_no_attempt_is_burnt(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    grown = grow_with(provider)
    for at in range(2):
        # In seconds, then as a date: of whole seconds, and some of it passes on the way.
        wait = "9" if at == 0 else formatdate(time() + 9, usegmt=True)
        server.queue(behave("rate_limited", headers={"Retry-After": wait}))
        grown.grow(5_000 if at == 0 else 13_000)
        hold = grown.hold()
        assert hold is not None
        assert hold.code == name
        waited_ms = hold.until_ms - grown.clock.now_ms() - at * 9_000
        assert 5_000 <= waited_ms <= 9_000
        assert "asks for a pause" in hold.reason
        assert len(server.calls("chat")) == at + 1, "nobody asks meanwhile"
        assert {(code, attempts) for _, code, _, attempts in grown.waiting()} == {(name, 0)}
    assert_recovers(grown, server)


# -- servers that refuse, for a reason that no retry mends

REFUSED = {
    "payment": Told("budget_exhausted", "the credit is used up", "top up the account"),
    "unauthorised": Told("auth_failed", "", "sapwood key set"),
    "forbidden": Told("auth_failed", "", "sapwood key set"),
    "no_model": Told("model_missing", "has no such model", ""),
}


@for_each(*REFUSED, first=2)
def test_refuses_for_good_is_asked_once_and_everything_is_grown_when_the_cause_is_mended(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow(SHORT_MS)
    told = REFUSED[name]
    assert len(server.calls("chat")) == 1, "one row asks, and says so for all"
    ((_, failure_class, code, error),) = grown.failed()
    assert (failure_class, code) == ("unrecoverable", told.code)
    assert told.words in error
    hold = grown.hold()
    assert hold is not None
    assert hold.code == told.code
    assert told.hint in hold.reason
    if name == "no_model" and provider == "ollama":
        assert "`ollama pull scripted-chat`" in hold.reason
    assert {(code, attempts) for _, code, _, attempts in grown.waiting()} == {(told.code, 0)}
    assert_recovers(grown, server)


@for_each("out_of_memory")
def test_has_not_enough_memory_is_waited_for(provider: str, name: str, grow_with: GrowWith, server: Serving) -> None:
    del name
    server.use("out_of_memory")
    grown = grow_with(provider)
    grown.grow(SHORT_MS)
    assert len(server.calls("chat")) == 1
    assert grown.failed() == []
    assert {(code, attempts) for _, code, _, attempts in grown.waiting()} == {("low_memory", 0)}
    hold = grown.hold()
    assert hold is not None
    assert "not enough memory for the model" in hold.reason
    assert "a smaller model" in hold.reason
    assert_recovers(grown, server)


# -- texts that are too long for it


@for_each("too_long_input")
def test_takes_no_text_at_all_is_told_so_and_asked_no_more(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow()
    failed = grown.failed()
    assert {(row[1], row[2]) for row in failed} == {("unrecoverable", "context_overflow")}
    assert all("too small" in row[3] for row in failed)
    asked = len(server.calls("chat"))
    assert asked <= 8 * ROWS
    grown.turn(1)
    assert len(server.calls("chat")) == asked


@for_each("small_context")
def test_takes_less_than_it_says_is_asked_in_smaller_parts(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(behave(name, context_limit=1_050))
    grown = grow_with(provider, max_output_tokens=512)
    grown.grow()
    assert any(call.behaviour == name for call in server.calls("chat"))
    grown.assert_whole()
    # A part is a call of its own: more calls than summaries, none of them for the same words.
    assert grown.usage()[0] > ROWS
    bodies = Counter(str(call.body) for call in server.calls("chat"))
    assert max(bodies.values()) == 1, "no question twice, answered or not"


# -- answers that are of no use

USELESS = ("invented", "length", "too_long", "empty", "prose", "importance", "wrong_keys")


@for_each(*USELESS, first=2)
def test_answers_badly_is_asked_once_more_then_the_rules_stand_in_and_it_is_made_again_later(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow()
    assert len(server.calls("chat")) == 2 * ROWS, "one repair each"
    repaired = ["could not be used" in str(call.body) for call in server.calls("chat")]
    assert repaired.count(True) == ROWS, "the second time it is told what was wrong"
    assert grown.failed() == []
    assert grown.degraded() == (4, 1)
    assert grown.models_own() == 0
    assert grown.usage()[:2] == (2 * ROWS, 2 * ROWS), "what was of no use is paid for, and counted so"
    texts = grown.connection.all("SELECT text FROM mem_tree_summaries")
    assert not any("Zebulon" in text for (text,) in texts)
    assert not grown.connection.all("SELECT 1 FROM mem_tree_entity_index WHERE entity LIKE '%zebulon%'")
    assert_recovers(grown, server, hours=25)
    assert len(server.calls("chat")) == 3 * ROWS


@for_each(*USELESS[1:4])
def test_answers_badly_once_is_mended_by_the_repair(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.queue(name)
    grown = grow_with(provider)
    grown.grow()
    grown.assert_whole()
    assert len(server.calls("chat")) == ROWS + 1
    assert grown.usage()[:2] == (ROWS + 1, 1)


@for_each("malformed", "list", "missing", "page", "null")
def test_is_no_model_server_is_called_one_and_everything_is_grown_when_it_is(
    provider: str, name: str, grow_with: GrowWith, server: Serving
) -> None:
    server.use(name)
    grown = grow_with(provider)
    grown.grow(SHORT_MS)
    assert len(server.calls("chat")) == 5
    assert grown.failed() == []
    hold = grown.hold()
    assert hold is not None
    assert "did not answer as a model server does" in hold.reason
    assert "check the `base_url` and the `provider`" in hold.reason
    assert_recovers(grown, server, hours=25)


# -- all of it, one after the other


@pytest.mark.slow
@pytest.mark.parametrize("provider", PROVIDERS)
def test_does_something_else_at_each_call_loses_nothing(provider: str, grow_with: GrowWith, server: Serving) -> None:
    left_out = {"slow_start", "slow_stream", "held", "too_long_input", "small_context", "silent"}
    ways: list[Behaviour | str] = [name for name in BEHAVIOURS if name not in left_out]
    server.queue(*ways)
    grown = grow_with(provider)
    for _ in range(6):
        grown.grow()
        grown.turn(25)
    asked: Any = {call.behaviour for call in server.calls("chat")}
    assert len(asked) > 10
    grown.assert_whole()
    assert grown.paid_twice() == Counter()
