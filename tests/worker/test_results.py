"""A crash never pays for a model call twice, and what was forgotten does not come back with an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agent.db import Connection
from agent.db.nodes import remove_chunk, remove_summary
from agent.models.results import WorkUnit, find_result, store_result_tx, store_results
from tests.worker.memory import add_chunk, add_item, add_summary


def chunk(connection: Connection, text: str = "We meet on Monday.") -> str:
    with connection.write():
        return add_chunk(connection, add_item(connection), text)


def unit(node_id: str, masked: str = "We meet on Monday.") -> WorkUnit:
    return WorkUnit.of("extract", "Name what this text names.", "ollama:x@1", masked, node_id)


def test_a_stored_answer_is_found_by_task_template_signature_and_input(connection: Connection) -> None:
    asked = unit(chunk(connection))
    assert find_result(connection, asked) is None
    assert store_results(connection, [(asked, '{"people": []}')], 5) == 1
    assert find_result(connection, asked) == '{"people": []}'
    for other in (
        replace(asked, task="summarise"),
        WorkUnit.of("extract", "Another template.", asked.signature, "We meet on Monday.", asked.node_id),
        replace(asked, signature="ollama:y@1"),
        unit(asked.node_id, "We meet on Tuesday."),
    ):
        assert find_result(connection, other) is None


def test_storing_twice_keeps_the_first_answer(connection: Connection) -> None:
    asked = unit(chunk(connection))
    store_results(connection, [(asked, "first")], 5)
    store_results(connection, [(asked, "second")], 6)
    assert find_result(connection, asked) == "first"


def test_an_answer_about_what_was_forgotten_meanwhile_is_not_stored(connection: Connection) -> None:
    node_id = chunk(connection)
    with connection.write():
        remove_chunk(connection, node_id)
    assert store_results(connection, [(unit(node_id), "what it said")], 5) == 0
    assert connection.value("SELECT count(*) FROM mem_tree_results") == 0


def test_forgetting_a_node_takes_its_answers_with_it(connection: Connection) -> None:
    node_id = chunk(connection)
    with connection.write():
        add_summary(connection, "A summary.", "s1")
    store_results(connection, [(unit(node_id), "one"), (unit("s1", "A summary."), "two")], 5)
    with connection.write():
        remove_chunk(connection, node_id)
        remove_summary(connection, "s1")
    assert connection.value("SELECT count(*) FROM mem_tree_results") == 0


def test_a_packed_call_stores_one_row_per_unit_and_waits_for_the_disk(connection: Connection) -> None:
    with connection.write():
        item = add_item(connection)
        nodes = [add_chunk(connection, item, f"text {number}", order=number) for number in range(3)]
    units = [unit(node, f"text {number}") for number, node in enumerate(nodes)]
    levels = []

    def answers() -> Iterator[tuple[WorkUnit, str]]:
        for each in units:
            levels.append(connection.value("PRAGMA synchronous"))
            yield each, each.node_id

    assert store_results(connection, answers(), 5) == 3
    assert levels == [2, 2, 2], "FULL"
    assert connection.value("SELECT count(*) FROM mem_tree_results") == 3
    assert [find_result(connection, each) for each in units] == nodes


def test_an_answer_is_stored_in_the_transaction_of_what_it_is_for_or_not_at_all(connection: Connection) -> None:
    asked = unit(chunk(connection))
    try:
        with connection.write(full=True):
            assert store_result_tx(connection, asked, "answer", 5)
            raise RuntimeError
    except RuntimeError:
        pass
    assert find_result(connection, asked) is None
