"""What taking a node out of the memory costs."""

from __future__ import annotations

from agent.db import Connection
from agent.db.nodes import detach_node

EDGE = """
INSERT INTO mem_tree_edges
       (tree_seq, level, sort_key, node_id, node_kind, shape_id, leaf_id, tokens, first_break, last_break, last_key,
        parent_id)
VALUES (?, 0, x'01', ?, 'leaf', ?, ?, 1, 0, 0, x'01', '')
"""


def _steps_to_detach(connection: Connection, documents: int) -> int:
    """Return how many steps SQLite's machine takes, in hundreds, with so many documents of one chunk."""
    with connection.write():
        for table in ("mem_tree_edges", "mem_tree_trees"):
            connection.run(f"DELETE FROM {table}")
        for number in range(documents):
            connection.run(
                """
                INSERT INTO mem_tree_trees
                       (tree_seq, tree_id, kind, source_id, item_key, shape_version, root_id, root_kind, updated_at_ms)
                VALUES (?, ?, 'document', 'notes', ?, 1, ?, 'leaf', 0)
                """,
                (number + 1, f"document:notes:{number}@1", str(number), f"n{number}"),
            )
            connection.run(EDGE, (number + 1, *[f"n{number}"] * 3))
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.raw.set_progress_handler(count, 100)
    with connection.write():
        detach_node(connection, "n0")
    connection.raw.set_progress_handler(None, 0)
    assert connection.value("SELECT root_id FROM mem_tree_trees WHERE tree_seq = 1") is None
    assert connection.value("SELECT count(*) FROM mem_tree_edges") == documents - 1
    return steps


def test_a_node_is_taken_out_at_the_same_cost_however_many_documents_there_are(connection: Connection) -> None:
    few = _steps_to_detach(connection, 3)
    many = _steps_to_detach(connection, 3_000)
    assert many <= few + 1
