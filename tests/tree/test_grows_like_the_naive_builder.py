"""Whatever the order of arrival, the finished trees are those of the naive builder."""

from __future__ import annotations

import random

import pytest

from tests.naive.builder import grow_memory
from tests.tree.garden import Garden, body


def _agree(garden: Garden) -> None:
    from agent.tree.check import problems

    naive = grow_memory(garden.connection, garden.summariser)
    assert garden.fingerprints() == naive.fingerprints()
    assert problems(garden.connection) == []


@pytest.mark.parametrize("count", [0, 1, 2, 5, 30, 150])
def test_a_stream_in_order(garden: Garden, count: int) -> None:
    for at in range(count):
        garden.mail("post", at, break_key=at // 5)
    garden.finish()
    _agree(garden)


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_in_any_order_with_jobs_in_any_order(garden: Garden, seed: int) -> None:
    chance = random.Random(seed)
    order = list(range(120))
    chance.shuffle(order)
    for step, at in enumerate(order):
        garden.mail("post", at, break_key=at // 7)
        if step % 10 == 0:
            garden.scramble(chance)
    garden.scramble(chance)
    garden.finish()
    _agree(garden)


def test_a_folder(garden: Garden) -> None:
    for at in range(40):
        garden.document("notes", f"d{at % 4}/n{at:02d}.md", [body(1000 * at + n) for n in range(at % 15)])
    garden.finish()
    _agree(garden)
