"""The windows that a process keeps: the nearest by the best window, and never older than the database."""

from __future__ import annotations

import numpy as np
import pytest

from agent.db import Connection, Database, connect
from agent.db.nodes import remove_chunk
from agent.recall import vectors
from agent.recall.filters import Filters
from agent.recall.vectors import BLOCK_ROWS, WindowIndex, nearest, window_index
from tests.recall.conftest import HashEmbedder, Memory

SIGNATURE = HashEmbedder().signature
DIMENSIONS = HashEmbedder.dimensions


def _nodes(connection: Connection) -> list[int]:
    index = window_index(connection, SIGNATURE, DIMENSIONS)
    return [] if index is None else sorted(index.nodes.tolist())


def test_a_node_is_as_near_as_its_best_window(connection: Connection) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 5, 1_500)
    matrix = rng.integers(-60, 60, (int(sizes.sum()), 32), dtype=np.int8)
    index = WindowIndex(np.arange(1, 1_501), np.cumsum(sizes) - sizes, matrix)
    assert len(matrix) > 2 * BLOCK_ROWS
    query = rng.integers(-60, 60, 32, dtype=np.int8)
    found = index.similarities(query)
    products = matrix.astype(np.int64) @ query.astype(np.int64) / 127**2
    ends = np.cumsum(sizes)
    wanted = [max(products[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
    assert np.allclose(found, wanted, atol=1e-5)
    assert matrix.dtype == np.int8


def test_equally_near_nodes_are_cut_by_number_not_by_place(connection: Connection) -> None:
    nodes = np.array([9, 3, 7, 1, 5])
    index = WindowIndex(nodes, np.arange(5), np.full((5, 4), 60, np.int8))
    found = nearest(connection, index, np.full(5, 0.5, np.float32), Filters(), 3)
    assert [node for node, _ in found] == [1, 3, 5]


def test_what_was_written_since_is_seen_by_every_connection(memory: Memory, database: Database) -> None:
    with_own = connect(database.path)
    try:
        assert window_index(with_own, SIGNATURE, DIMENSIONS) is None
        first = memory.chunk("one")
        for connection in (memory.connection, with_own):
            assert _nodes(connection) == [1]
        memory.chunk("two", item_key="2.md")
        memory.summary("both", [first])
        for connection in (with_own, memory.connection):
            assert _nodes(connection) == [-1, 1, 2]
        with memory.connection.write():
            remove_chunk(memory.connection, first)
        for connection in (with_own, memory.connection):
            assert _nodes(connection) == [-1, 2]
    finally:
        with_own.close()


def test_after_changes_each_node_still_has_its_own_windows(memory: Memory, connection: Connection) -> None:
    embedder = memory.embedder
    words = [f"word{at}" for at in range(12)]
    chunks = [memory.chunk(word, item_key=word) for word in words[:8]]
    _nodes(connection)
    with connection.write():
        for at in (0, 3, 7):
            remove_chunk(connection, chunks[at])
    for word in words[8:]:
        memory.chunk(word, item_key=word)
    index = window_index(connection, SIGNATURE, DIMENSIONS)
    assert index is not None
    numbers = dict(connection.all("SELECT text, seq FROM mem_tree_chunks"))
    assert sorted(numbers.values()) == sorted(index.nodes.tolist())
    for word, seq in numbers.items():
        found = nearest(connection, index, index.similarities(embedder.embed([word])[0]), Filters(), 1)
        assert found[0][0] == seq
        assert found[0][1] == pytest.approx(1, abs=0.03)


def test_only_what_came_since_is_read(memory: Memory, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(5):
        memory.chunk(f"text {at}", item_key=f"{at}")
    _nodes(connection)
    reads: list[str] = []
    read_all = vectors._read_all
    monkeypatch.setattr(vectors, "_read_all", lambda *given: (reads.append("all"), read_all(*given))[1])
    memory.chunk("one more", item_key="more")
    assert len(_nodes(connection)) == 6
    assert reads == []


def test_a_database_grown_again_in_its_place_is_read_again(memory: Memory, connection: Connection) -> None:
    memory.chunk("one")
    index = window_index(connection, SIGNATURE, DIMENSIONS)
    assert index is not None
    with connection.write():
        connection.run(
            "UPDATE mem_tree_vectors SET windows = ?", (memory.embedder.embed(["something else"]).tobytes(),)
        )
    again = window_index(connection, SIGNATURE, DIMENSIONS)
    assert again is not None
    assert not np.array_equal(index.matrix, again.matrix)


def test_windows_of_a_wrong_length_are_left_out(memory: Memory, connection: Connection) -> None:
    memory.chunk("one")
    memory.chunk("two", item_key="2.md")
    connection.run("UPDATE mem_tree_vectors SET windows = x'010203' WHERE node = 1")
    assert _nodes(connection) == [2]


def test_the_pages_of_a_large_memory_are_all_read(
    memory: Memory, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "READ_ROWS", 3)
    for at in range(9):
        memory.chunk(f"text {at}", item_key=f"{at}")
    assert _nodes(connection) == list(range(1, 10))
