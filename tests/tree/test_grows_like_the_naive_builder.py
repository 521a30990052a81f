"""Whatever the order of arrival, the finished trees are those of the naive builder."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.naive import builder
from tests.tree.agreement import assert_as_naive
from tests.tree.garden import Garden, body


def test_the_naive_builder_shares_no_code_with_the_trees() -> None:
    names = []
    for node in ast.walk(ast.parse(Path(builder.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    assert "agent.db" in names
    assert not [name for name in names if name.startswith(("agent.tree", "agent.ids"))]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 30, 150])
def test_a_stream_in_order(garden: Garden, count: int) -> None:
    for at in range(count):
        garden.mail("post", at, break_key=at // 5)
    garden.finish()
    assert_as_naive(garden)


@pytest.mark.parametrize("seed", range(3))
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
    assert_as_naive(garden)


def test_a_folder(garden: Garden) -> None:
    for at in range(40):
        garden.document("notes", f"d{at % 4}/n{at:02d}.md", [body(1000 * at + n) for n in range(at % 15)])
    garden.finish()
    assert_as_naive(garden)


def test_short_inputs_pass_through_whole(garden: Garden) -> None:
    for at in range(9):
        garden.mail("post", at, f"Line {at}.")
    garden.finish()
    assert_as_naive(garden)
    texts = [text for (text,) in garden.connection.all("SELECT text FROM mem_tree_summaries")]
    assert any("Line 0.\n\nLine 1." in text for text in texts)
    assert garden.summariser.requests == []
