"""What every finished garden is held to."""

from __future__ import annotations

from agent.tree.check import problems
from tests.naive.builder import grow_memory
from tests.tree.garden import Garden


def assert_as_naive(garden: Garden) -> None:
    """The summaries are those of the naive builder, text for text, and no invariant is broken."""
    naive = grow_memory(garden.connection, garden.summariser)
    assert garden.fingerprints() == naive.fingerprints()
    assert problems(garden.connection) == []
    roots = garden.connection.all("SELECT tree_id, root_id FROM mem_tree_trees WHERE root_id IS NOT NULL")
    assert dict(roots) == naive.roots
