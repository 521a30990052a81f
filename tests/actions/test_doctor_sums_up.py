"""Any number of findings becomes one line that names a few and counts the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from agent.actions.checks.result import COUNTED, NAMED, Check, guarded, summed
from agent.actions.doctor import doctor
from agent.db import Connection
from agent.errors import UsageFault
from agent.paths import Paths


def test_nothing_found_says_what_is_well() -> None:
    assert summed("reach", [], "each is reached", "mend it") == Check("reach", True, "each is reached")


def test_few_findings_are_all_named() -> None:
    found = summed("reach", ["a", "b"], "well", "mend it")
    assert found == Check("reach", False, "a; b", "mend it")


def test_of_many_the_first_are_named_and_the_rest_counted() -> None:
    found = summed("reach", [str(n) for n in range(NAMED + 7)], "well", "mend it")
    assert found.detail.split("; ") == [*map(str, range(NAMED)), "and 7 more"]


def test_a_table_in_ruins_is_not_counted_to_its_end() -> None:
    asked = count()
    found = summed("reach", (str(n) for n in asked), "well", "mend it")
    assert found.detail.endswith(f"and {COUNTED - NAMED} or more")
    assert next(asked) == COUNTED


def test_a_look_that_fails_is_a_finding_and_keeps_what_it_said_before() -> None:
    def look() -> Iterator[Check]:
        yield Check("first", True, "well")
        raise UsageFault("it went wrong", "here", "do that")

    first, second = guarded("look", look)
    assert first.ok
    assert (second.name, second.ok, second.remedy) == ("look", False, "do that")


def test_every_step_of_a_look_is_told_in_its_turn(paths: Paths, connection: Connection) -> None:
    told: list[tuple[int, int]] = []
    doctor(paths, deep=True, say=lambda name, step, steps: told.append((step, steps)))
    assert [step for step, _ in told] == list(range(1, len(told) + 1))
    assert {steps for _, steps in told} == {len(told)}
