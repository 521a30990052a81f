"""What was forgotten is in no stored answer: of a packed call, of a summary of many, of a memory that is grown anew."""

from __future__ import annotations

import pytest

from agent.db import Connection
from agent.db.check import stray_rows
from agent.db.nodes import clear_summary, remove_chunk, remove_nodes, remove_stray_results, rename_in_results
from agent.db.wipe import wipe, wipe_summaries
from agent.models.results import WorkUnit, find_result, store_result_tx
from tests.worker.memory import add_chunk, add_item, add_summary


def nodes_of(connection: Connection) -> list[str]:
    with connection.write():
        item = add_item(connection)
        found = [add_chunk(connection, item, f"text {number}", order=number) for number in range(3)]
        add_summary(connection, "A summary.", "s1")
    return [*found, "s1"]


def unit(name: str, node: str, task: str = "summarise") -> WorkUnit:
    return WorkUnit.of(task, "template", "signature", name, node)


def store(connection: Connection, of: WorkUnit, nodes: list[str]) -> None:
    with connection.write(full=True):
        assert store_result_tx(connection, of, f"words of {of.input_hash[:4]}", 5, nodes)


def count(connection: Connection, table: str = "results") -> int:
    return int(connection.value(f"SELECT count(*) FROM mem_tree_{table}"))


@pytest.mark.parametrize("which", [0, 1, 2, 3])
@pytest.mark.parametrize("many", [False, True])
def test_an_answer_goes_with_any_node_that_it_was_made_from(connection: Connection, which: int, many: bool) -> None:
    nodes = nodes_of(connection)
    store(connection, unit("all", nodes[0]), nodes)
    others = [node for at, node in enumerate(nodes) if at != which]
    store(connection, unit("others", others[0]), others)
    with connection.write():
        if many:
            remove_nodes(connection, [nodes[which]] if which < 3 else [], [nodes[which]] if which == 3 else [])
        elif which < 3:
            assert remove_chunk(connection, nodes[which])
        else:
            assert clear_summary(connection, nodes[which])
    assert find_result(connection, unit("all", nodes[0])) is None
    assert find_result(connection, unit("others", others[0])) is not None
    assert count(connection, "result_inputs") == 3, "nothing is left of the first one"
    assert not [words for words in stray_rows(connection) if "answer" in words]


def test_of_a_packed_call_only_the_row_of_the_forgotten_chunk_goes(connection: Connection) -> None:
    nodes = nodes_of(connection)
    for node in nodes[:3]:
        store(connection, unit(node, node, "extract"), [node])
    with connection.write():
        remove_chunk(connection, nodes[1])
    assert [find_result(connection, unit(node, node, "extract")) is not None for node in nodes[:3]] == [
        True,
        False,
        True,
    ]


def test_all_that_was_ever_asked_about_an_input_goes_with_it(connection: Connection) -> None:
    nodes = nodes_of(connection)
    for task in ("summarise", "summarise-part", "extract"):
        store(connection, unit("same", nodes[0], task), [nodes[0]])
    with connection.write():
        remove_chunk(connection, nodes[0])
    assert count(connection) == 0


def test_a_renamed_node_keeps_its_answers_and_takes_them_along_when_it_goes(connection: Connection) -> None:
    nodes = nodes_of(connection)
    store(connection, unit("all", nodes[0]), nodes[:2])
    with connection.write():
        connection.run("UPDATE mem_tree_chunks SET chunk_id = 'new' WHERE chunk_id = ?", (nodes[0],))
        rename_in_results(connection, nodes[0], "new")
    assert find_result(connection, unit("all", nodes[0])) is not None
    assert not [words for words in stray_rows(connection) if "answer" in words]
    with connection.write():
        remove_chunk(connection, "new")
    assert count(connection) == count(connection, "result_inputs") == 0


@pytest.mark.parametrize("whole", [True, False])
def test_a_rebuild_keeps_what_was_paid_for_and_a_forgetting_takes_what_has_no_node(
    connection: Connection, whole: bool
) -> None:
    nodes = nodes_of(connection)
    store(connection, unit("chunk", nodes[0]), [nodes[0]])
    store(connection, unit("summary", "s1"), ["s1", nodes[1]])
    connection.run("INSERT INTO mem_tree_usage VALUES ('2026-01-01', 'p', 'm', 'k', 1, 0, 0, 5, 5, 9)")
    with connection.write(full=True):
        (wipe if whole else wipe_summaries)(connection)
    assert find_result(connection, unit("chunk", nodes[0])) is not None
    assert find_result(connection, unit("summary", "s1")) is not None
    assert count(connection, "usage") == 1
    with connection.write():
        remove_stray_results(connection)
    assert (find_result(connection, unit("chunk", nodes[0])) is None) is whole
    assert find_result(connection, unit("summary", "s1")) is None
    assert count(connection, "result_inputs") == (0 if whole else 1)


def test_a_doctor_finds_an_answer_that_escaped_a_forgetting(connection: Connection) -> None:
    nodes = nodes_of(connection)
    store(connection, unit("all", nodes[0]), nodes)
    connection.run("PRAGMA foreign_keys = OFF")
    connection.run("DELETE FROM mem_tree_chunks WHERE chunk_id = ?", (nodes[1],))
    assert [words for words in stray_rows(connection) if "answer" in words] == [
        f"a model's answer belongs to node {nodes[1]}, which is gone"
    ]
