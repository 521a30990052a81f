"""The check of the invariants finds what is wrong."""

from __future__ import annotations

import pytest

from agent.tree.check import problems
from tests.tree.garden import Garden, body


@pytest.fixture
def grown(garden: Garden) -> Garden:
    for at in range(60):
        garden.mail("post", at)
    for at in range(12):
        garden.document("notes", f"n{at}", [body(at * 40 + n) for n in range(9)])
    garden.finish()
    assert problems(garden.connection) == []
    return garden


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM mem_tree_edges WHERE level = 0 AND sort_key = (SELECT max(sort_key) FROM mem_tree_edges)",
        "UPDATE mem_tree_edges SET parent_id = 'x' WHERE level = 1 AND parent_id <> ''",
        "UPDATE mem_tree_edges SET leaf_id = 'x' WHERE level = 1",
        "UPDATE mem_tree_trees SET root_id = 'x' WHERE kind = 'source'",
        "UPDATE mem_tree_chunks SET lifecycle = 'buffered' WHERE seq = 3",
        "UPDATE mem_tree_chunks SET title = 'Another' WHERE seq = 3",
        "UPDATE mem_tree_summaries SET title = 'Another' WHERE level = 1",
        "UPDATE mem_tree_edges SET node_id = 'x' WHERE level = 0 AND sort_key ="
        " (SELECT min(sort_key) FROM mem_tree_edges WHERE level = 0)",
        "INSERT INTO mem_tree_summaries (summary_id, shape_id, tree_seq, source_id, level, sort_key, text, tokens,"
        " leaves, signature, created_at_ms) VALUES ('x', 'x', 1, 'post', 1, x'00', '', 0, 0, 's', 0)",
    ],
)
def test_damage_is_found(grown: Garden, damage: str) -> None:
    with grown.connection.write():
        grown.connection.run(damage)
    assert problems(grown.connection) != []


def test_a_node_that_no_table_holds_is_dropped_not_waited_for(grown: Garden) -> None:
    for at in range(60, 90):
        grown.mail("post", at)
    grown.run_appends()
    with grown.connection.write():
        grown.connection.run("DELETE FROM mem_tree_chunks WHERE lifecycle = 'buffered' AND item_key = 'mail-000061'")
    grown.finish()
    assert problems(grown.connection) == []


def test_more_findings_than_asked_for_are_counted(grown: Garden) -> None:
    with grown.connection.write():
        grown.connection.run("UPDATE mem_tree_edges SET tokens = tokens + 1")
    everything = problems(grown.connection, limit=10_000)
    some = problems(grown.connection, limit=5)
    assert some[:4] == everything[:4]
    assert len(some) == 5
    assert some[4] == f"and {len(everything) - 4} more"


@pytest.mark.parametrize("jobs", [1, 7, 40, 150])
def test_a_tree_in_the_middle_of_growth_is_well(garden: Garden, jobs: int) -> None:
    for at in range(60):
        garden.mail("post", at)
        garden.document("notes", f"n{at % 9}", [body(at * 40 + n) for n in range(9)])
    for _ in range(jobs):
        if garden.jobs:
            garden.run(next(iter(garden.jobs.values())))
    assert problems(garden.connection) == []
